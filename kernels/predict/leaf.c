/* kernels/predict/leaf.c: amounts and forms of a leaf, from its loops and what they move. */
#include "leaf.h"

#include <math.h>

enum { LINE_BYTES = 64 };

static double
turns(const struct program_leaf *l, uint32_t from)
{
	double n = 1;

	for (uint32_t i = from; i < l->n_loops; i++)
		n *= l->loop[i].extent;
	return n;
}

/* Different bytes that the loops from number `from` on touch. */
static double
unique_bytes(const struct program_leaf *l, const struct leaf_access *x, uint32_t from)
{
	double n = x->times;

	for (uint32_t i = from; i < l->n_loops; i++)
		if (x->is_irregular || fabsf(x->stride[i]) > 0)
			n *= l->loop[i].extent;
	return fmin(n * x->element, x->whole);
}

static double
touched_bytes(const struct program_leaf *l, uint32_t from)
{
	double n = 0;

	for (uint32_t i = 0; i < l->n_accesses; i++)
		n += unique_bytes(l, &l->access[i], from);
	return n;
}

static double
operations(const struct program_leaf *l)
{
	return l->op[OP_CHEAP] + 4 * l->op[OP_SOME] + 16 * l->op[OP_DEAR] + 32 * l->op[OP_CALL] +
	    2 * l->op[OP_PRODUCT];
}

/* The innermost loop whose turns read the same again; n_loops: none. */
static uint32_t
reuse_loop(const struct program_leaf *l, const struct leaf_access *x)
{
	for (uint32_t i = l->n_loops; i-- > 0;)
		if (!x->is_irregular && l->loop[i].extent > 1 && !(fabsf(x->stride[i]) > 0))
			return i;
	return l->n_loops;
}

static double
reuse_bytes(const struct program_leaf *l, const struct leaf_access *x)
{
	uint32_t i = reuse_loop(l, x);

	return i < l->n_loops ? touched_bytes(l, i + 1) : 0;
}

/* Bytes that come again although more than a cache was touched in between. */
static double
far_bytes(const struct program_leaf *l, const struct leaf_access *x, double cache)
{
	uint32_t i = reuse_loop(l, x);
	double again;

	if (i == l->n_loops || touched_bytes(l, i + 1) <= cache)
		return 0;
	again = unique_bytes(l, x, i + 1) * turns(l, 0) / turns(l, i + 1);
	return fmax(again - unique_bytes(l, x, 0), 0);
}

/* Bytes of cache lines that the loops from number `from` on touch. */
static double
line_bytes(const struct program_leaf *l, const struct leaf_access *x, uint32_t from)
{
	double n = x->times, step = LINE_BYTES;

	for (uint32_t i = from; i < l->n_loops; i++) {
		double s = fabs((double)x->stride[i]) * x->element;

		if (!(l->loop[i].extent > 1) || !(x->is_irregular || s > 0))
			continue;
		n *= l->loop[i].extent;
		step = fmin(step, x->is_irregular ? LINE_BYTES : fmax(s, x->element));
	}
	return fmax(fmin(n * step, fmax(x->whole, unique_bytes(l, x, from))), LINE_BYTES);
}

/* The outermost loop whose turn's lines a cache holds: what is touched inside it again is there. */
static uint32_t
held_from(const struct program_leaf *l, double cache)
{
	uint32_t from = l->n_loops;

	while (from > 0) {
		double all = 0;

		for (uint32_t i = 0; i < l->n_accesses; i++)
			all += line_bytes(l, &l->access[i], from - 1);
		if (all > cache)
			break;
		from--;
	}
	return from;
}

/* Do turns of the loop go on within a line?  Then each line of it comes once. */
static bool
streams(const struct leaf_access *x, uint32_t loop)
{
	const double s = fabs((double)x->stride[loop]) * x->element;

	return !x->is_irregular && s > 0 && s < LINE_BYTES;
}

/* Bytes of lines that come from beyond a cache, over the whole call. */
static double
beyond_bytes(const struct program_leaf *l, double cache)
{
	const uint32_t from = held_from(l, cache);
	double all = 0;

	for (uint32_t i = 0; i < l->n_accesses; i++) {
		const uint32_t f = from - (from > 0 && streams(&l->access[i], from - 1));

		all += line_bytes(l, &l->access[i], f) * turns(l, 0) / turns(l, f);
	}
	return all;
}

static double
smallest_stride(const struct program_leaf *l, const struct leaf_access *x)
{
	double least = 0;

	for (uint32_t i = 0; i < l->n_loops; i++) {
		double s = fabs((double)x->stride[i]) * x->element;

		if (s > 0 && l->loop[i].extent > 1 && !(least > 0 && least < s))
			least = s;
	}
	return x->is_irregular ? LINE_BYTES : least;
}

static double
inner_stride(const struct program_leaf *l, const struct leaf_access *x)
{
	return l->n_loops ? fabs((double)x->stride[l->n_loops - 1]) * x->element : 0;
}

static void
add_moves(const struct program_leaf *l, const struct leaf_access *x, const struct target *t,
    double v[LEAF_FEATURES])
{
	double n = x->times * turns(l, 0), unique = unique_bytes(l, x, 0), step = inner_stride(l, x), all;
	bool is_outside = x->home == HOME_OPERAND || x->home == HOME_RESULT;

	if (x->writes)
		for (uint32_t i = 0; i < l->n_loops; i++)
			n /= l->loop[i].reduces ? l->loop[i].extent : 1;
	else if (l->n_loops && !(step > 0) && !x->is_irregular)
		n /= l->loop[l->n_loops - 1].extent;
	all = n * x->element;
	v[LEAF_moved] += all;
	v[LEAF_strided] += step > x->element ? all : 0;
	v[LEAF_spread] += step > x->element ? n * fmin(step, LINE_BYTES) : 0;
	v[LEAF_irregular] += x->is_irregular ? all : 0;
	v[LEAF_first] += is_outside ? unique : 0;
	v[LEAF_far] += far_bytes(l, x, (double)t->l2_bytes);
	v[LEAF_kept] += is_outside ? 0 : all;
	v[LEAF_lines] += unique * fmin(fmax(smallest_stride(l, x) / x->element, 1), LINE_BYTES / x->element);
	if (x->writes)
		v[LEAF_write_stride] = fmax(v[LEAF_write_stride], step);
	else
		v[LEAF_stride] = fmax(v[LEAF_stride], step);
}

static void
add_amounts(const struct program_leaf *l, const struct target *t, double v[LEAF_FEATURES])
{
	static const enum leaf_feature of[OP_COUNT] = {[OP_CHEAP] = LEAF_cheap,
	    [OP_SOME] = LEAF_some,
	    [OP_DEAR] = LEAF_dear,
	    [OP_CALL] = LEAF_calls,
	    [OP_GUARD] = LEAF_guards,
	    [OP_INDEX] = LEAF_index,
	    [OP_PRODUCT] = LEAF_products};
	double n = turns(l, 0);
	bool has_lanes = false;

	for (uint32_t i = 0; i < l->n_loops; i++)
		has_lanes |= l->loop[i].bind == BIND_VECTOR || (l->loop[i].reduces && !l->is_chain);
	v[LEAF_iterations] = n;
	v[LEAF_chained] = l->is_chain ? n : 0;
	v[LEAF_scalar] = has_lanes ? 0 : n;
	for (int i = 0; i < OP_COUNT; i++)
		v[of[i]] = n * l->op[i];
	v[LEAF_beyond_1] = beyond_bytes(l, (double)t->l1_bytes);
	v[LEAF_beyond_2] = beyond_bytes(l, (double)t->l2_bytes);
}

static void
add_loops(const struct program_leaf *l, double v[LEAF_FEATURES])
{
	bool has_lanes = false;

	v[LEAF_loops] = l->n_loops;
	v[LEAF_parallel] = v[LEAF_vector] = v[LEAF_unrolled] = v[LEAF_reduced] = 1;
	for (uint32_t i = 0; i < l->n_loops; i++) {
		const struct leaf_loop *x = &l->loop[i];

		v[LEAF_parallel] *= x->bind == BIND_PARALLEL ? x->extent : 1;
		v[LEAF_vector] *= x->bind == BIND_VECTOR ? x->extent : 1;
		v[LEAF_unrolled] *= x->bind == BIND_UNROLLED ? x->extent : 1;
		v[LEAF_reduced] *= x->reduces ? x->extent : 1;
		has_lanes |= x->bind == BIND_VECTOR;
	}
	v[LEAF_innermost] = l->n_loops ? l->loop[l->n_loops - 1].extent : 1;
	v[LEAF_reduces_lanes] = v[LEAF_reduced] > 1 && !has_lanes && !l->is_chain;
}

/* What the micro-kernel does, whatever the nest around it looks like: it walks its factors by pointers, and
 * each is loaded once for the tile's rows, once for its columns. */
static void
add_tile(const struct program_leaf *l, const struct target *t, double v[LEAF_FEATURES])
{
	double columns = l->tile.vectors * t->simd_bytes / 4;

	v[LEAF_issued] = v[LEAF_products] * l->tile.waste;
	v[LEAF_moved] = v[LEAF_issued] * 4 * (1 / fmax(l->tile.rows, 1) + 1 / fmax(columns, 1));
	v[LEAF_index] = v[LEAF_strided] = v[LEAF_irregular] = v[LEAF_spread] = 0;
	v[LEAF_beyond_1] = v[LEAF_beyond_2] = v[LEAF_first] + v[LEAF_far];
	v[LEAF_tile_rows] = l->tile.rows;
	v[LEAF_tile_vectors] = l->tile.vectors;
	v[LEAF_tile_depth] = l->tile.depth;
	v[LEAF_tile_waste] = l->tile.waste;
}

static void
add_largest_read(const struct program_leaf *l, double v[LEAF_FEATURES])
{
	const struct leaf_access *most = NULL;

	for (uint32_t i = 0; i < l->n_accesses; i++) {
		const struct leaf_access *x = &l->access[i];

		if (!x->writes && (!most || unique_bytes(l, x, 0) > unique_bytes(l, most, 0)))
			most = x;
	}
	v[LEAF_reuse] = most ? reuse_bytes(l, most) : 0;
	v[LEAF_unique] = most ? unique_bytes(l, most, 0) : 0;
}

static void
add_curve(const struct program_leaf *l, double v[LEAF_FEATURES])
{
	enum { CUTS = 5 };

	for (uint32_t k = 0; k < CUTS; k++) {
		uint32_t from = l->n_loops - l->n_loops * (k + 1) / CUTS;

		v[LEAF_intensity_1 + k] = operations(l) * turns(l, from) / fmax(touched_bytes(l, from), 1);
	}
}

void
leaf_features(const struct program_leaf *l, const struct target *t, struct sample_leaf *out)
{
	double v[LEAF_FEATURES] = {0};

	v[LEAF_is_map] = l->kind == LEAF_MAP;
	v[LEAF_is_reduce] = l->kind == LEAF_REDUCE;
	v[LEAF_is_linear] = l->kind == LEAF_LINEAR;
	v[LEAF_is_tiled] = l->is_tiled;
	v[LEAF_at_call] = l->at_call;
	v[LEAF_pass] = l->pass;
	v[LEAF_accesses] = l->n_accesses;
	add_amounts(l, t, v);
	add_loops(l, v);
	for (uint32_t i = 0; i < l->n_accesses; i++)
		add_moves(l, &l->access[i], t, v);
	if (l->is_tiled)
		add_tile(l, t, v);
	add_largest_read(l, v);
	add_curve(l, v);
	for (int i = 0; i < LEAF_FEATURES; i++)
		out->x[i] = (float)log1p(fmin(v[i], 1e30));
}

double
leaf_weight(const struct sample_leaf *l)
{
	const float *x = l->x;

	return 2 * expm1((double)x[LEAF_products]) + expm1((double)x[LEAF_cheap]) +
	    4 * expm1((double)x[LEAF_some]) + 16 * expm1((double)x[LEAF_dear]) +
	    32 * expm1((double)x[LEAF_calls]) + expm1((double)x[LEAF_moved]);
}
