/* kernels/emit/loops.c: loop nests. */
#include "gen_int.h"

struct nest
nest_of(const struct gen *g, const struct stage *s)
{
	struct nest n = {.s = s};

	(void)g;
	for (uint32_t k = 0; k < NEST_EX; k++)
		n.ex[k] = EX_NONE;
	n.ex[0] = s->body;
	n.ix[0] = s->out;
	n.ix[1] = IX_NONE;
	return n;
}

/* ---- loops ------------------------------------------------------------------------------------------ */
const char *
loop_from(struct gen *g, axis_id a)
{
	struct axis t = *tx_axis_get(g->tx, a);

	if (t.from == IX_NONE)
		return arena_printf(g->a, "%lld", (long long)t.lo);
	const char *from = gen_ix(g, t.from);

	return t.is_exact || ix_get(g->tx, t.from)->lo >= t.lo
	    ? from
	    : arena_printf(g->a, "k_most(%s, %lld)", from, (long long)t.lo);
}

const char *
loop_to(struct gen *g, axis_id a)
{
	struct axis t = *tx_axis_get(g->tx, a);

	if (t.limit == IX_NONE)
		return arena_printf(g->a, "%lld", (long long)t.hi + 1);
	const char *to = gen_ix(g, t.limit);

	return t.is_exact || ix_get(g->tx, t.limit)->hi <= t.hi + 1
	    ? to
	    : arena_printf(g->a, "k_least(%s, %lld)", to, (long long)t.hi + 1);
}

int64_t
loop_extent(const struct gen *g, axis_id a)
{
	const struct axis *t = tx_axis_get(g->tx, a);

	return t->from == IX_NONE && t->limit == IX_NONE ? t->hi - t->lo + 1 : -1;
}

static void
hoist_all(struct gen *g, const struct nest *n)
{
	for (uint32_t k = 0; k < NEST_EX; k++)
		if (n->ex[k] != EX_NONE)
			gen_hoist(g, n->ex[k]);
	for (uint32_t k = 0; k < COUNT_OF(n->ix); k++)
		if (n->ix[k] != IX_NONE)
			gen_hoist_ix(g, n->ix[k]);
}

void
gen_loops(struct gen *g, struct nest *n, uint32_t level, uint32_t end, nest_fn *then, void *self)
{
	hoist_all(g, n);
	if (level == end) {
		then(g, n, self);
		return;
	}
	const axis_id a = n->axis[level];
	struct nest m = *n;
	const char *name = arena_printf(g->a, "i%u", g->n_loop++), *from = loop_from(g, a);
	const char *to = loop_to(g, a);
	uint32_t mark = gen_mark(g);

	gen_open(g, "for (%s %s = %s; %s < %s; %s++)", g->index, name, from, name, to, name);
	gen_bind(g, a, name);
	gen_loops(g, &m, level + 1, end, then, self);
	gen_close(g);
	gen_bind(g, a, NULL);
	gen_forget(g, mark);
}

void
gen_par(struct gen *g, struct nest *n, nest_fn *then, void *self)
{
	int64_t extent[NEST_AXES], count = 1;
	uint32_t mark = gen_mark(g);

	if (!g->cuda->team) {
		gen_loops(g, n, 0, n->n, then, self);
		return;
	}
	for (uint32_t k = 0; k < n->n; k++) {
		extent[k] = loop_extent(g, n->axis[k]);
		count *= extent[k];
	}
	hoist_all(g, n);
	const char *t = arena_printf(g->a, "t%u", g->n_loop++);

	gen_open(g, "for (%s %s = K_TID; %s < %lld; %s += %d)", g->index, t, t, (long long)count, t,
	    g->cuda->threads);
	cuda_digits(g, n->axis, extent, n->n, t);
	then(g, n, self);
	gen_close(g);
	for (uint32_t k = 0; k < n->n; k++)
		gen_bind(g, n->axis[k], NULL);
	gen_forget(g, mark);
}
