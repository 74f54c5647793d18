/* worker/inputs.c: values for a spec's operands: seeded, so that a measurement is of the same
 * numbers everywhere, and such that indices stay inside what they index. */
#include "measure_int.h"

#include <math.h>
#include <string.h>

/* Long tensors repeat their first PERIOD elements: a prime, so that no tile or row sees the same
 * values again at the same place. */
enum { LARGE = 16, SMALL_INTS = 8, PERIOD = 65521 };

/* Extent that a node's index operand counts in; 0 for nodes without one. */
static int64_t
indexed_extent(const struct graph *g, const struct node *n)
{
	const struct shape *x = n->n_in ? &graph_tensor(g, n->in[0])->shape : NULL;
	int64_t least = INT64_MAX;

	switch (n->prim) {
	case PRIM_gather:
	case PRIM_gather_elements:
	case PRIM_scatter_elements:
		return x->dim[at_get(&n->at, ATTR_axis)];
	case PRIM_gather_nd:
	case PRIM_scatter_nd:
		for (int d = 0; d < x->rank; d++)
			least = MIN_OF(least, x->dim[d]);
		return x->rank ? least : 1;
	default:
		return 0;
	}
}

/* Integers of a spec that indexes stay below the smallest indexed extent. */
static int64_t
int_limit(const struct graph *g)
{
	int64_t limit = SMALL_INTS;
	bool is_indexing = false;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int64_t n = indexed_extent(g, &g->nodes[i]);

		if (n > 0)
			limit = is_indexing ? MIN_OF(limit, n) : n;
		is_indexing = is_indexing || n > 0;
	}
	return MAX_OF(limit, (int64_t)1);
}

static bool
has_index(const struct graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (indexed_extent(g, &g->nodes[i]) > 0)
			return true;
	return false;
}

static double
special_value(struct rng *r, double otherwise)
{
	const double v[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, -1e-42, 3e38, 6e-8};
	uint32_t i = rng_below(r, 2 * (uint32_t)COUNT_OF(v));

	return i < COUNT_OF(v) ? v[i] : otherwise;
}

/* Element `i` of the first PERIOD ones. */
static double
real_value(struct rng *r, enum input_set set, double scale, int64_t i)
{
	double v = rng_normal(r);

	if (fabs(v) < 1e-3)
		v = v < 0 ? -1e-3 : 1e-3; /* products stay clear of denormals */
	v *= scale;
	switch (set) {
	case SET_ZEROS:
		return 0;
	case SET_LARGE:
		return LARGE * v;
	case SET_NEGATIVE:
		return -fabs(v);
	case SET_POSITIVE:
		return fabs(v);
	case SET_EQUAL:
		return scale;
	case SET_RAMP:
		return scale * ((double)i / 1024 - 1);
	case SET_SPECIAL:
		return special_value(r, v);
	default:
		return v;
	}
}

/* Weights get the size that trained ones have, so that sums stay near one and an exponential
 * behind them in range. */
static double
scale_of(const struct tensor *t)
{
	int64_t n = shape_count(&t->shape), last = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;

	if (t->role != ROLE_WEIGHT || t->shape.rank < 2 || last == 0 || n / last < 4)
		return 1;
	return 1 / sqrt((double)(n / last));
}

static void
fill(const struct graph *g, const struct tensor *t, enum input_set set, struct rng *r, void *to)
{
	int64_t count = shape_count(&t->shape), n = MIN_OF(count, (int64_t)PERIOD), limit = int_limit(g);
	size_t size = dtype_size(t->type);
	bool is_signed = dtype_is_signed(t->type) && !has_index(g);
	double scale = scale_of(t);

	for (int64_t i = 0; i < n; i++) {
		if (dtype_is_float(t->type))
			elem_set(t->type, to, i, real_value(r, set, scale, i));
		else if (t->type == DT_bool)
			elem_set_int(t->type, to, i, set != SET_ZEROS && rng_below(r, 2));
		else
			elem_set_int(t->type, to, i,
			    set == SET_ZEROS
				? 0
				: (int64_t)rng_below(r, (uint32_t)MIN_OF(limit, (int64_t)UINT32_MAX)) -
				    (is_signed ? limit / 2 : 0));
	}
	for (int64_t i = n; i < count; i += n)
		memcpy((char *)to + (size_t)i * size, to, (size_t)MIN_OF(n, count - i) * size);
}

void
fill_operands(const struct spec *s, enum input_set set, uint64_t seed, void *const *operands)
{
	const struct graph *g = &s->g;

	for (uint32_t i = 0; i < g->n_inputs; i++) {
		struct rng r = {mix64(seed * 1000003 + i * 8 + (uint64_t)set)};

		fill(g, graph_tensor(g, g->inputs[i]), set, &r, operands[i]);
	}
}

void **
make_operands(struct arena *a, const struct spec *s)
{
	const struct graph *g = &s->g;
	void **p = NEW_ARRAY(a, void *, g->n_inputs);

	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct tensor *t = graph_tensor(g, g->inputs[i]);
		size_t n;
		char *q;

		if (!shape_bytes(&t->shape, t->type, &n))
			bug("a spec with an operand that does not fit");
		q = arena_alloc(a, n + PLAN_ALIGN);
		p[i] = q + (-(uintptr_t)q % PLAN_ALIGN);
	}
	return p;
}

void
fill_plan_input(const struct plan_io *io, void *to, uint64_t seed)
{
	struct rng r = {seed};
	int64_t n = shape_count(&io->shape);

	for (int64_t i = 0; i < n; i++) {
		double v = rng_normal(&r);

		elem_set(
		    io->type, to, i, dtype_is_float(io->type) ? (v * v < 1e-6 ? 1e-3 : v) : rng_below(&r, 2));
	}
}
