/* kernels/emit/loops.c: loop nests.  Where a guard compares one loop variable with constants (the
 * border of a pad, the parts of a concat), the loop is cut there, so that no part asks again. */
#include "gen_int.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_COPIES = 12 };

void
nest_subst(struct gen *g, struct nest *n, axis_id a, ix_id by)
{
	ix_id *to = NEW_ARRAY(g->a, ix_id, a + 1);
	struct tx_subst s = {.to = to, .n = a + 1};

	for (axis_id k = 0; k < a; k++)
		to[k] = IX_NONE;
	to[a] = by;
	for (uint32_t k = 0; k < NEST_EX; k++)
		if (n->ex[k] != EX_NONE)
			n->ex[k] = ex_subst(g->tx, &s, n->ex[k]);
	for (uint32_t k = 0; k < COUNT_OF(n->ix); k++)
		if (n->ix[k] != IX_NONE)
			n->ix[k] = ix_subst(g->tx, &s, n->ix[k]);
}

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

/* ---- cuts ------------------------------------------------------------------------------------------ */
struct cuts {
	struct gen *g;
	axis_id a;
	int64_t lo, hi;
	int64_t at[NEST_CUTS];
	int n;
	bool full;
	uint8_t *seen;
};

static void
add_cut(struct cuts *c, int64_t v)
{
	int k = 0;

	if (v <= c->lo || v > c->hi)
		return;
	while (k < c->n && c->at[k] < v)
		k++;
	if (k < c->n && c->at[k] == v)
		return;
	if (c->n == NEST_CUTS - 1) {
		c->full = true;
		return;
	}
	memmove(&c->at[k + 1], &c->at[k], (size_t)(c->n - k) * sizeof(c->at[0]));
	c->at[k] = v;
	c->n++;
}

static int64_t
ceil_quotient(int64_t a, int64_t b)
{
	int64_t q = a / b;

	return q + (a % b != 0 && (a < 0) == (b < 0));
}

/* i = coef * a + base with no other axis? */
static bool
alone(const struct tx *x, ix_id i, axis_id a, int64_t *coef, int64_t *base)
{
	const struct ix *n = ix_get(x, i);

	*base = 0;
	*coef = 1;
	if (n->kind == IX_AXIS)
		return n->a == a;
	if (n->kind != IX_LIN || n->n_terms != 1)
		return false;
	*base = n->c;
	*coef = n->terms[0].coef;
	const struct ix *t = ix_get(x, n->terms[0].atom);

	return t->kind == IX_AXIS && t->a == a;
}

/* Where coef * a + rest >= bound becomes possible and where it becomes certain, rest in [lo, hi]. */
static void
cut_bound(struct cuts *c, int64_t coef, int64_t lo, int64_t hi, int64_t bound)
{
	int64_t possible, certain;

	if (coef > 0) {
		possible = ceil_quotient(bound - hi, coef);
		certain = ceil_quotient(bound - lo, coef);
	} else { /* true below */
		possible = -ceil_quotient(bound - hi, -coef) + 1;
		certain = -ceil_quotient(bound - lo, -coef) + 1;
	}
	/* A wide stretch of doubt is no border: leave it to the guard. */
	if (possible != certain && llabs(possible - certain) * 4 > c->hi - c->lo + 1)
		return;
	add_cut(c, possible);
	add_cut(c, certain);
}

static void
cut_guard(struct cuts *c, const struct ex *n)
{
	struct tx *x = c->g->tx;
	int64_t coef;

	if (!ix_coef(x, n->ix, c->a, &coef) || coef == 0)
		return;
	ix_id rest = ix_add(x, n->ix, ix_mulc(x, ix_axis(x, c->a), -coef));
	const struct ix *r = ix_get(x, rest);
	int64_t lo = r->lo, hi = r->hi;

	cut_bound(c, coef, lo, hi, n->lo);
	cut_bound(c, coef, lo, hi, n->hi);
}

static void find_cuts(struct cuts *c, ex_id e);

static void
find_cuts_ix(struct cuts *c, ix_id i)
{
	struct ix n = *ix_get(c->g->tx, i);

	switch (n.kind) {
	case IX_LIN:
		for (uint32_t k = 0; k < n.n_terms; k++)
			find_cuts_ix(c, n.terms[k].atom);
		return;
	case IX_VALUE:
		find_cuts(c, n.a);
		return;
	case IX_MIN:
	case IX_MAX: {
		int64_t coef, base;
		ix_id d = ix_add(c->g->tx, n.a, ix_mulc(c->g->tx, n.b, -1));
		if (alone(c->g->tx, d, c->a, &coef, &base))
			add_cut(c, coef > 0 ? ceil_quotient(-base, coef) : -ceil_quotient(-base, -coef) + 1);
		find_cuts_ix(c, n.a);
		find_cuts_ix(c, n.b);
		return;
	}
	case IX_MOD: {
		int64_t coef, base;
		if (alone(c->g->tx, n.a, c->a, &coef, &base) && coef == 1 && (c->hi - c->lo) < 3 * n.c)
			for (int64_t m = -1; m <= 1; m++)
				add_cut(c, (c->lo + base) / n.c * n.c + m * n.c - base);
		return;
	}
	default:
		return;
	}
}

static void
find_cuts(struct cuts *c, ex_id e)
{
	struct ex n = *ex_get(c->g->tx, e);

	if (c->seen[e])
		return;
	c->seen[e] = 1;
	if (n.kind == EX_GUARD)
		cut_guard(c, &n);
	if (n.kind == EX_READ || n.kind == EX_INDEX || n.kind == EX_GUARD)
		find_cuts_ix(c, n.ix);
	for (uint32_t k = 0; k < n.n_arg; k++)
		find_cuts(c, n.arg[k]);
}

/* All places where the loop over `a` could be cut; how many parts that makes. */
static int
possible_cuts(struct gen *g, const struct nest *n, axis_id a, struct cuts *c)
{
	const struct axis *t = tx_axis_get(g->tx, a);
	struct arena tmp = {0};
	uint32_t most = 0;

	*c = (struct cuts){.g = g, .a = a, .lo = t->lo, .hi = t->hi};
	for (uint32_t k = 0; k < NEST_EX; k++)
		if (n->ex[k] != EX_NONE)
			most = MAX_OF(most, n->ex[k]);
	c->seen = NEW_ARRAY(&tmp, uint8_t, most + 1);
	for (uint32_t k = 0; k < NEST_EX; k++)
		if (n->ex[k] != EX_NONE)
			find_cuts(c, n->ex[k]);
	arena_fini(&tmp);
	if (c->full)
		c->n = 0;
	return c->n + 1;
}

/* What the innermost loop asks is asked of every element: its parts come before those of the loops around it.
 */
static int
parts_inside(struct gen *g, const struct nest *n, axis_id a)
{
	axis_id last = n->n ? n->axis[n->n - 1] : a;
	struct cuts c;
	int parts = last == a ? 1 : possible_cuts(g, n, last, &c);

	return g->copies * parts <= MOST_COPIES ? parts : 1;
}

int
nest_cuts(struct gen *g, const struct nest *n, axis_id a, int64_t cut[NEST_CUTS + 1])
{
	struct cuts c;

	if (possible_cuts(g, n, a, &c) > 1 &&
	    (g->cuda || g->copies * (c.n + 1) * parts_inside(g, n, a) > MOST_COPIES))
		c.n = 0;
	cut[0] = c.lo;
	memcpy(&cut[1], c.at, sizeof(c.at[0]) * (size_t)c.n);
	cut[c.n + 1] = c.hi + 1;
	return c.n + 1;
}

struct nest
nest_part(struct gen *g, const struct nest *n, axis_id a, int64_t lo, int64_t hi, axis_id *part)
{
	struct axis t = *tx_axis_get(g->tx, a);
	struct nest m = *n;

	if (lo == t.lo && hi == t.hi + 1) {
		*part = a;
		return m;
	}
	t.lo = lo;
	t.hi = hi - 1;
	t.is_exact = t.from == IX_NONE && t.limit == IX_NONE;
	*part = tx_axis_like(g->tx, &t);
	if (t.lo == t.hi && t.is_exact)
		nest_subst(g, &m, a, ix_const(g->tx, t.lo));
	else
		nest_subst(g, &m, a, ix_axis(g->tx, *part));
	for (uint32_t k = 0; k < m.n; k++)
		if (m.axis[k] == a)
			m.axis[k] = *part;
	return m;
}

void
gen_independent(struct gen *g, uint32_t tensor)
{
	if (g->p->tensors[tensor].shares)
		gen_line(g, "K_INDEPENDENT");
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
	int64_t cut[NEST_CUTS + 1];

	hoist_all(g, n);
	if (level == end) {
		then(g, n, self);
		return;
	}
	axis_id a = n->axis[level];
	int parts = nest_cuts(g, n, a, cut), copies = g->copies;

	g->copies *= parts;
	for (int k = 0; k < parts; k++) {
		axis_id part;
		struct nest m = nest_part(g, n, a, cut[k], cut[k + 1], &part);
		const char *name = arena_printf(g->a, "i%u", g->n_loop++), *from = loop_from(g, part);
		const char *to = loop_to(g, part);
		uint32_t mark = gen_mark(g);

		if (n->independent && level + 1 == end)
			gen_independent(g, n->s->tensor);
		gen_open(g, "for (%s %s = %s; %s < %s; %s++)", g->index, name, from, name, to, name);
		gen_bind(g, part, name);
		gen_loops(g, &m, level + 1, end, then, self);
		gen_close(g);
		gen_bind(g, part, NULL);
		gen_forget(g, mark);
	}
	g->copies = copies;
}

void
gen_par(struct gen *g, struct nest *n, nest_fn *then, void *self)
{
	int64_t extent[NEST_AXES], count = 1;
	uint32_t mark = gen_mark(g);

	if (!g->cuda || !g->cuda->team) {
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

/* The k-th outer axis, then the next ones. */
static void
outer_part(struct gen *g, struct nest *n, uint32_t u, nest_fn *then, void *self)
{
	const struct tile_pass *tp = &g->p->pass[n->s->pass];
	int64_t cut[NEST_CUTS + 1];

	if (n->s->at_call || u == tp->n_outer) {
		then(g, n, self);
		return;
	}
	axis_id a = tp->outer[u].id;
	int parts = !g->cuda && loop_extent(g, a) > 1 ? nest_cuts(g, n, a, cut) : 1, copies = g->copies;

	if (parts == 1) {
		outer_part(g, n, u + 1, then, self);
		return;
	}
	g->copies *= parts;
	for (int k = 0; k < parts; k++) {
		axis_id part;
		struct nest m = nest_part(g, n, a, cut[k], cut[k + 1], &part);
		uint32_t mark = gen_mark(g);

		if (k)
			g->depth--;
		if (k + 1 < parts)
			gen_open(g, k ? "} else if (%s < %lld)" : "if (%s < %lld)", g->axis_name[a],
			    (long long)cut[k + 1]);
		else
			gen_open(g, "} else");
		gen_bind(g, part, g->axis_name[a]);
		outer_part(g, &m, u + 1, then, self);
		gen_bind(g, part, NULL);
		gen_forget(g, mark);
	}
	gen_close(g);
	g->copies = copies;
}

void
gen_outer_parts(struct gen *g, struct nest *n, nest_fn *then, void *self)
{
	outer_part(g, n, 0, then, self);
}
