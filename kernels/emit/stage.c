/* kernels/emit/stage.c: the loop nests of stages: maps; reductions by partial sums in lanes. */
#include "gen_int.h"

#include <string.h>

enum { LONG_SUM = 512 };

static void
axes_by_stride(struct gen *g, const struct stage *s, struct nest *n, int last)
{
	int64_t key[NEST_AXES];

	n->n = 0;
	for (uint32_t k = 0; k < s->n_par; k++) {
		uint32_t j = n->n;
		int64_t coef;

		if ((int)k == last)
			continue;
		if (!ix_coef(g->tx, s->out, s->axis[k].id, &coef))
			coef = 0;
		for (; j > 0 && key[j - 1] < coef; j--) {
			key[j] = key[j - 1];
			n->axis[j] = n->axis[j - 1];
		}
		key[j] = coef;
		n->axis[j] = s->axis[k].id;
		n->n++;
	}
	if (last >= 0)
		n->axis[n->n++] = s->axis[last].id;
}

/* ---- maps ------------------------------------------------------------------------------------------- */
static void
map_inside(struct gen *g, struct nest *n, void *self)
{
	(void)self;
	gen_store(g, n->s->tensor, n->ix[0], gen_ex(g, n->ex[0]));
}

static void
gen_map(struct gen *g, const struct stage *s)
{
	struct nest n = nest_of(g, s);
	bool is_red;

	axes_by_stride(g, s, &n, stage_vector_axis(g->p, s, &is_red));
	gen_par(g, &n, map_inside, NULL);
}

/* ---- reductions --------------------------------------------------------------------------------------- */
struct reduction {
	const struct stage *s;
	enum prim join;
	enum dtype acc;
	const char *name; /* of the accumulators */
	int vector;       /* place of the vector axis in s->axis, -1 */
	axis_id lane_axis;
	int64_t lanes;
};

const char *
gen_identity(struct gen *g, enum prim join, enum dtype t)
{
	struct ex c = {.kind = EX_CONST, .type = t};
	int bits = (int)dtype_size(t) * 8;
	int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
	bool high = join == PRIM_min;

	if (join == PRIM_add || join == PRIM_mul) {
		c.real = join == PRIM_mul;
		c.whole = join == PRIM_mul;
		return gen_const(g, &c);
	}
	if (dtype_is_float(t))
		c.real = high ? __builtin_inf() : -__builtin_inf();
	else if (t == DT_bool)
		c.whole = high;
	else if (dtype_is_signed(t))
		c.whole = high ? top : -top - 1;
	else
		c.whole = !high ? 0 : bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
	return gen_const(g, &c);
}

const char *
gen_cast(struct gen *g, enum dtype from, enum dtype to, const char *v)
{
	return from == to ? v : gen_map_text(g, PRIM_cast, to, from, from, &v);
}

static void
accumulate(struct gen *g, const struct reduction *r, ex_id e, const char *at)
{
	const char *v = gen_cast(g, ex_get(g->tx, e)->type, r->acc, gen_ex(g, e));
	const char *cell = arena_printf(g->a, "%s[%s]", r->name, at), *arg[2] = {cell, v};

	gen_line(g, "%s = %s;", cell, gen_map_text(g, r->join, r->acc, r->acc, r->acc, arg));
}

static int64_t
depth_of(const struct stage *s)
{
	int64_t d = 1;

	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		d *= s->axis[k].extent;
	return d;
}

/* ---- along memory: lane l joins elements l, l + lanes, ... ------------------------------------------------
 */
static void
lane_steps(struct gen *g, struct nest *n, struct reduction *r, const char *base, const char *count)
{
	const char *l = arena_printf(g->a, "n%u", g->n_loop++), *i = arena_printf(g->a, "i%u", g->n_loop++);
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (%s %s = 0; %s < %s; %s++)", g->index, l, l, count, l);
	gen_line(g, "const %s %s = %s + %s;", g->index, i, base, l);
	gen_bind(g, r->lane_axis, i);
	accumulate(g, r, n->ex[0], l);
	gen_bind(g, r->lane_axis, NULL);
	gen_close(g);
	gen_forget(g, mark);
}

static void
lanes_over(struct gen *g, struct nest *n, struct reduction *r)
{
	int64_t lo = tx_axis_get(g->tx, r->lane_axis)->lo, hi = tx_axis_get(g->tx, r->lane_axis)->hi + 1;
	int64_t whole = (hi - lo) / r->lanes * r->lanes;

	if (whole == r->lanes) {
		lane_steps(g, n, r, arena_printf(g->a, "%lld", (long long)lo),
		    arena_printf(g->a, "%lld", (long long)r->lanes));
	} else if (whole) {
		const char *k = arena_printf(g->a, "k%u", g->n_loop++);
		gen_open(g, "for (%s %s = %lld; %s < %lld; %s += %lld)", g->index, k, (long long)lo, k,
		    (long long)(lo + whole), k, (long long)r->lanes);
		lane_steps(g, n, r, k, arena_printf(g->a, "%lld", (long long)r->lanes));
		gen_close(g);
	}
	if (lo + whole < hi)
		lane_steps(g, n, r, arena_printf(g->a, "%lld", (long long)(lo + whole)),
		    arena_printf(g->a, "%lld", (long long)(hi - lo - whole)));
}

static void
lanes_inside(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;

	r->lane_axis = r->s->axis[r->vector].id;
	lanes_over(g, n, r);
}

/* Halves fold onto each other: the same order whatever the compiler does. */
static void
fold_lanes(struct gen *g, const struct reduction *r)
{
	if (r->acc == DT_f32 && r->lanes >= 8 && r->lanes <= 64) {
		gen_line(g, "%s[0] = k_fold_%s_f32(%s, %lld);", r->name, prim_info[r->join].name, r->name,
		    (long long)r->lanes);
		return;
	}
	for (int64_t h = r->lanes / 2; h >= 1; h /= 2) {
		const char *l = arena_printf(g->a, "n%u", g->n_loop++);
		const char *arg[2] = {arena_printf(g->a, "%s[%s]", r->name, l),
		    arena_printf(g->a, "%s[%s + %lld]", r->name, l, (long long)h)};

		gen_open(g, "for (%s %s = 0; %s < %lld; %s++)", g->index, l, l, (long long)h, l);
		gen_line(g, "%s = %s;", arg[0], gen_map_text(g, r->join, r->acc, r->acc, r->acc, arg));
		gen_close(g);
	}
}

static void
declare_accumulators(struct gen *g, const struct reduction *r)
{
	const char *l = arena_printf(g->a, "n%u", g->n_loop++);

	gen_line(g, "%s %s[%lld];", gen_type(g, r->acc), r->name, (long long)r->lanes);
	gen_open(g, "for (%s %s = 0; %s < %lld; %s++)", g->index, l, l, (long long)r->lanes, l);
	gen_line(g, "%s[%s] = %s;", r->name, l, gen_identity(g, r->join, r->acc));
	gen_close(g);
}

static void
along_inside(struct gen *g, struct nest *n, void *self)
{
	struct reduction *r = self;
	const struct stage *s = r->s;
	struct nest m = *n;
	enum dtype t = g->p->tensors[s->tensor].type;
	uint32_t mark = gen_mark(g);

	r->name = arena_printf(g->a, "acc%u", g->n_loop++);
	declare_accumulators(g, r);
	m.n = 0;
	for (uint32_t k = s->n_par; k < s->n_par + s->n_red; k++)
		if ((int)k != r->vector)
			m.axis[m.n++] = s->axis[k].id;
	gen_loops(g, &m, 0, m.n, lanes_inside, r);
	fold_lanes(g, r);
	gen_store(g, s->tensor, n->ix[0], gen_cast(g, r->acc, t, arena_printf(g->a, "%s[0]", r->name)));
	gen_forget(g, mark);
}

static void
along_loops(struct gen *g, struct nest *n, void *self)
{
	gen_par(g, n, along_inside, self);
}

static bool
is_long_sum(const struct stage *s, enum prim join, int64_t depth)
{
	return s->acc == DT_f32 && join == PRIM_add && depth > LONG_SUM;
}

void
gen_reduce(struct gen *g, const struct stage *s)
{
	struct reduction r = {
	    .s = s, .join = reduce_joiner(s->prim), .acc = s->acc, .vector = (int)(s->n_par + s->n_red) - 1};
	struct nest n = nest_of(g, s);

	if (cuda_reduce(g, s))
		return;
	r.lanes = stage_lanes(g->p, s, s->axis[r.vector].extent);
	if (is_long_sum(s, r.join, depth_of(s) / r.lanes))
		r.acc = DT_f64;
	axes_by_stride(g, s, &n, -1);
	along_loops(g, &n, &r);
}

void
gen_stage(struct gen *g, const struct stage *s)
{
	static void (*const by_kind[])(struct gen *, const struct stage *) = {[STAGE_MAP] = gen_map,
	    [STAGE_REDUCE] = gen_reduce,
	    [STAGE_ARG] = gen_arg,
	    [STAGE_LINEAR] = gen_reduce,
	    [STAGE_SCAN] = gen_scan,
	    [STAGE_TOPK] = gen_topk,
	    [STAGE_SCATTER] = gen_scatter};

	uint32_t mark = gen_mark(g);

	gen_open(g, "%s", "");
	by_kind[s->kind](g, s);
	gen_close(g);
	gen_forget(g, mark);
}
