/* tests/harness/agree.c: how far results may be from the interpreter's. */
#include "agree.h"
#include "../prop/random_graph.h"

#include <math.h>

/* How far sums may drift: float32, reassociated, cancelling. */
static double
allowed(enum dtype t)
{
	return t == DT_f16 ? 4e-3 : t == DT_bf16 ? 3e-2 : t == DT_f64 ? 1e-9 : 2e-5;
}

/* Does a step function (floor, a comparison) turn a last bit into a whole step? */
static bool
is_jumpy(const struct graph *g)
{
	static const enum prim jumps[] = {PRIM_floor, PRIM_ceil, PRIM_round, PRIM_sign, PRIM_lt, PRIM_le, PRIM_eq, PRIM_cast};

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < COUNT_OF(jumps); k++)
			if (g->nodes[i].prim == jumps[k])
				return true;
	return false;
}

/* values_distance() for every float type. */
static double
distance(const struct tensor *t, const void *have, const void *want)
{
	int64_t n = shape_count(&t->shape);
	double most = 1e-2, worst = 0;

	if (!dtype_is_float(t->type))
		return values_distance(t->type, &t->shape, have, want, most);
	for (int64_t i = 0; i < n; i++) {
		double h = elem_get(t->type, have, i), w = elem_get(t->type, want, i);

		if ((isnan(h) && isnan(w)) || h == w)
			continue;
		if (!isfinite(h) || !isfinite(w))
			return (double)INFINITY;
		most = fmax(most, fabs(w));
		worst = fmax(worst, fabs(h - w));
	}
	return worst / most;
}

/* Elements that differ by more than a step function behind a sum explains: one in 64. */
static bool
mostly_equal(const struct tensor *t, const void *have, const void *want, double by)
{
	int64_t n = shape_count(&t->shape), off = 0;
	double top = 0;

	for (int64_t i = 0; i < n; i++)
		top = fmax(top, fabs(elem_get(t->type, want, i)));
	for (int64_t i = 0; i < n; i++)
		off += !(fabs(elem_get(t->type, have, i) - elem_get(t->type, want, i)) <= by * allowed(t->type) * fmax(top, 1e-2));
	return off <= 1 + n / 64;
}

/* A sine of a large sum, or the root of one that cancels, turns its last bits into first ones. */
static double
amplified(const struct graph *g)
{
	static const enum prim waves[] = {PRIM_sin, PRIM_cos, PRIM_tan}, poles[] = {PRIM_sqrt, PRIM_log, PRIM_div, PRIM_recip};
	double by = 1;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		for (uint32_t k = 0; k < COUNT_OF(waves); k++)
			by = g->nodes[i].prim == waves[k] ? fmax(by, 200) : by;
		for (uint32_t k = 0; k < COUNT_OF(poles); k++)
			by = g->nodes[i].prim == poles[k] ? fmax(by, 50) : by;
	}
	return by;
}

bool
agrees(const struct graph *g, uint32_t i, const void *have, const void *want, double by, double *d)
{
	const struct tensor *t = graph_tensor(g, g->outputs[i]);
	double most = allowed(t->type) * by;

	*d = distance(t, have, want) / amplified(g);
	if (*d > most && is_jumpy(g) && mostly_equal(t, have, want, by))
		*d = 0;
	return *d <= most;
}
