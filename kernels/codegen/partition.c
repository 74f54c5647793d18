/* kernels/codegen/partition.c: a loop is cut where a guard over its axis changes its answer: a padded row
 *
 *   for x in 0..56: .. guard(0 <= x - 1 < 56, %0[x - 1], 0) ..
 *
 * is its first element and the rest, which asks nothing.  Cut points are where coef * axis + base crosses an
 * end of the guard; guards that hang on other loops too are left.  Outer loops first: their pieces are
 * copies, and the copies' inner loops are cut by what is left to ask there, so text grows by the sum of
 * borders in an inside, not by their product. */
#include "codegen_int.h"

#include <stdlib.h>

enum { MOST_PIECES = 5, MOST_CUTS = 64, MOST_STATEMENTS = 600 };

struct cuts {
	const struct tir *p;
	axis_id axis;
	int64_t from, to; /* of the loop */
	int64_t at[MOST_CUTS];
	uint32_t n;
};

static void
add_cut(struct cuts *c, int64_t v)
{
	if (v > c->from && v < c->to && c->n < MOST_CUTS)
		c->at[c->n++] = v;
}

static int64_t
ceil_div(int64_t a, int64_t c)
{
	return a / c + (a % c > 0);
}

/* Where lo <= coef * axis + base < hi begins and ends to hold. */
static void
guard_cuts(struct cuts *c, ix_id i, int64_t lo, int64_t hi)
{
	const struct ix n = *ix_get(c->p->tx, i);
	int64_t coef, base = n.kind == IX_LIN ? n.c : 0;

	if (n.lo >= lo && n.hi < hi)
		return;
	if (!(n.kind == IX_AXIS || (n.kind == IX_LIN && n.n_terms == 1)) ||
	    !ix_coef(c->p->tx, i, c->axis, &coef) || coef == 0)
		return;
	if (coef < 0) { /* -coef * axis - base in (-hi, -lo] */
		int64_t low = -hi + 1;

		hi = -lo + 1;
		lo = low;
		coef = -coef;
		base = -base;
	}
	add_cut(c, ceil_div(lo - base, coef));
	add_cut(c, ceil_div(hi - base, coef));
}

static void
ex_cuts(struct cuts *c, ex_id e)
{
	const struct ex *n = ex_get(c->p->tx, e);

	if (n->kind == EX_GUARD)
		guard_cuts(c, n->ix, n->lo, n->hi);
	for (uint32_t k = 0; k < n->n_arg; k++)
		ex_cuts(c, n->arg[k]);
}

static int
ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The cut points of all guards in the loop, each once; the ends are among them. */
static uint32_t
find_cuts(struct cuts *c, st_id loop)
{
	const struct tir *p = c->p;
	uint32_t n = 0;

	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];

		for (uint32_t k = 0; s->op == ST_if && k < s->n_guard; k++)
			guard_cuts(c, p->guard[s->guard0 + k].i, p->guard[s->guard0 + k].lo,
			    p->guard[s->guard0 + k].hi);
		if (st_has(s->op, 'X') && ex_get(p->tx, s->value)->size < MOST_STATEMENTS)
			ex_cuts(c, s->value);
	}
	qsort(c->at, c->n, sizeof(c->at[0]), ascending);
	for (uint32_t k = 0; k < c->n; k++)
		if (n == 0 || c->at[n - 1] != c->at[k])
			c->at[n++] = c->at[k];
	return c->n = n;
}

struct partition {
	bool changed;
};

/* May the loop's body stand there once for each piece? */
static bool
may_cut(const struct tir *p, st_id i, bool parallel, struct cuts *c)
{
	const struct st *s = &p->st[i];

	if (s->op != ST_for || (s->bind == BIND_parallel) != parallel ||
	    !ix_is_const(p->tx, s->from, &c->from) || !ix_is_const(p->tx, s->to, &c->to))
		return false;
	for (st_id k = i + 1; k < s->end; k++)
		if (p->st[k].op == ST_let)
			return false;
	c->p = p;
	c->axis = s->axis;
	return find_cuts(c, i) > 0 && c->n < MOST_PIECES && p->n_st + (s->end - i) * c->n < MOST_STATEMENTS;
}

/* A parallel loop is a pass's range and stays one loop: its pieces are ifs, once an iteration. */
static bool
cut_parallel(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct cuts c = {.n = 0};
	struct copying y;

	(void)self;
	if (!may_cut(p, i, true, &c))
		return false;
	copying_begin(&y, out, p, i);
	y.to[s->axis] = ix_axis(p->tx, tir_for(out, s->name, s->from, s->to, s->bind));
	for (uint32_t k = 0; k <= c.n; k++) {
		const struct tir_guard g = {
		    y.to[s->axis], k ? c.at[k - 1] : c.from, k < c.n ? c.at[k] : c.to};
		struct st test = {.op = ST_if};

		tir_guards(out, &test, 1, &g);
		tir_add(out, test);
		copy_fresh(&y, i + 1, s->end);
		tir_close(out);
	}
	tir_close(out);
	copying_end(&y);
	return true;
}

static bool
cut_loop(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct partition *q = self;
	struct cuts c = {.n = 0};
	struct copying y;

	if (q->changed || !may_cut(p, i, false, &c))
		return false;
	q->changed = true;
	copying_begin(&y, out, p, i);
	for (uint32_t k = 0; k <= c.n; k++) {
		int64_t from = k ? c.at[k - 1] : c.from, to = k < c.n ? c.at[k] : c.to;

		if (to - from > 1)
			y.to[s->axis] = ix_axis(p->tx,
			    tir_for(out, fresh_name(&y, s->name), ix_const(p->tx, from), ix_const(p->tx, to),
				s->bind));
		else
			y.to[s->axis] = ix_const(p->tx, from);
		copy_fresh(&y, i + 1, s->end);
		if (to - from > 1)
			tir_close(out);
	}
	copying_end(&y);
	return true;
}

void
codegen_partition(const struct tir *p, struct tir *out)
{
	struct partition q = {true};
	struct tir was;

	tir_rewrite(out, p, cut_parallel, NULL);
	was = *out;
	codegen_guards(&was, out); /* what those ifs answer is no cut of loops within */
	was = *out;
	for (int n = 0; n < MOST_STATEMENTS && q.changed; n++) {
		q.changed = false;
		tir_rewrite(out, &was, cut_loop, &q);
		was = *out;
	}
}
