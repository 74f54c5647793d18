/* kernels/codegen/narrow.c: a loop that joins elements of a window leaves out those that a guard makes the
 * identity, by its bounds, so that it asks nothing:
 *
 *   for k in 0..13                                       for k in max(0, 6 - y)..min(13, 19 - y)
 *     for x in 0..13                                ->     for x in 0..13
 *       store %1[y, x] = max(%1[y, x],                       store %1[y, x] = max(%1[y, x], %0[y + k - 6, x])
 *           guard(0 <= y + k - 6 < 13, .., -inf))
 *
 * Where one store is all that loops do, what a guard asks of the innermost of its loops becomes that loop's
 * bounds, what it asks of none of them an if around.  Where there are several (narrow_rows: of a tile), what
 * all of them ask of the loop around: a window's rows, for which the rows of the image need not be cut then
 * (partition.c), and each piece of that would have had the whole tile as text. */
#include "codegen_int.h"

enum { MOST_GUARDS = 8 };

struct chain {
	st_id loop[TIR_DEPTH];
	uint32_t n;
	st_id store;
	struct tir_guard guard[MOST_GUARDS];
	uint32_t level[MOST_GUARDS]; /* the loop whose bounds it becomes; n: none of them */
	uint32_t n_guard;
	ex_id elem; /* what is joined where all guards hold */
	bool first; /* it is the first operand of the join */
};

/* Serial loops, each all of the other's body, around one store. */
static bool
find_chain(const struct tir *p, st_id i, struct chain *c)
{
	c->n = 0;
	for (; i < p->n_st && p->st[i].op == ST_for; i++) {
		if (p->st[i].bind != BIND_serial || (c->n && p->st[i].end != p->st[c->loop[0]].end))
			return false;
		c->loop[c->n++] = i;
	}
	c->store = i;
	return c->n && i < p->n_st && p->st[i].op == ST_store && p->st[c->loop[0]].end == i + 1;
}

static enum comb
comb_of(enum prim p)
{
	switch (p) {
	case PRIM_add:
		return COMB_sum;
	case PRIM_mul:
		return COMB_prod;
	case PRIM_max:
		return COMB_max;
	case PRIM_min:
		return COMB_min;
	default:
		return COMB_NONE;
	}
}

static bool
is_self(const struct tir *p, const struct st *s, ex_id e)
{
	const struct ex *n = ex_get(p->tx, e);

	return n->kind == EX_READ && n->tensor == s->ref && n->at == s->at;
}

/* The innermost loop of the chain that the guard asks something of, if bounds can say it; false: they cannot.
 */
static bool
find_level(const struct tir *p, const struct chain *c, ix_id i, uint32_t *level)
{
	int64_t coef;

	for (uint32_t k = c->n; k-- > 0;)
		if (ix_has(p->tx, i, p->st[c->loop[k]].axis)) {
			*level = k;
			return ix_coef(p->tx, i, p->st[c->loop[k]].axis, &coef);
		}
	*level = c->n;
	return true;
}

enum comb
joins(const struct tir *p, const struct st *s, bool *first)
{
	const struct ex v = *ex_get(p->tx, s->value);
	enum comb comb = v.kind == EX_MAP ? comb_of(v.prim) : COMB_NONE;

	if (comb == COMB_NONE || v.n_arg != 2)
		return COMB_NONE;
	*first = !is_self(p, s, v.arg[0]);
	return is_self(p, s, v.arg[*first ? 1 : 0]) ? comb : COMB_NONE;
}

/* Guards whose other arm changes nothing, as far as bounds can say them. */
static bool
find_guards(const struct tir *p, struct chain *c)
{
	const struct st *s = &p->st[c->store];
	const enum comb comb = joins(p, s, &c->first);

	if (comb == COMB_NONE)
		return false;
	c->elem = ex_get(p->tx, s->value)->arg[c->first ? 0 : 1];
	for (c->n_guard = 0; c->n_guard < MOST_GUARDS; c->n_guard++) {
		const struct ex e = *ex_get(p->tx, c->elem);

		if (e.kind != EX_GUARD || e.arg[1] != comb_identity(p->tx, comb, 0, e.type) ||
		    !find_level(p, c, e.ix, &c->level[c->n_guard]))
			break;
		c->guard[c->n_guard] = (struct tir_guard){e.ix, e.lo, e.hi};
		c->elem = e.arg[0];
	}
	return c->n_guard > 0;
}

/* [from, to) where the guard over the axis holds too. */
static void
narrow_by(struct tx *x, struct tir_guard g, axis_id a, const struct tx_subst *sub, ix_id *from, ix_id *to)
{
	int64_t c = 0;
	ix_id rest, least, limit;

	if (!ix_coef(x, g.i, a, &c) || c == 0)
		bug("a guard over no loop");
	rest = ix_subst(x, sub, ix_add(x, g.i, ix_mulc(x, ix_axis(x, a), -c)));
	if (c > 0) { /* from where c * a >= lo - rest, to where c * a >= hi - rest */
		rest = ix_mulc(x, rest, -1);
		least = ix_div(x, ix_addc(x, rest, g.lo + c - 1), c);
		limit = ix_div(x, ix_addc(x, rest, g.hi + c - 1), c);
	} else { /* behind where -c * a <= rest - hi, to where -c * a <= rest - lo ends */
		least = ix_addc(x, ix_div(x, ix_addc(x, rest, -g.hi), -c), 1);
		limit = ix_addc(x, ix_div(x, ix_addc(x, rest, -g.lo), -c), 1);
	}
	*from = ix_max(x, *from, least);
	*to = ix_min(x, *to, limit);
}

/* false: the loop never runs. */
static bool
add_loop(struct copying *y, const struct chain *c, uint32_t k)
{
	struct tx *x = y->p->tx;
	struct tx_subst sub = {.to = y->to, .n = y->n_to};
	const struct st *l = &y->p->st[c->loop[k]];
	ix_id from = ix_subst(x, &sub, l->from), to = ix_subst(x, &sub, l->to);

	for (uint32_t q = 0; q < c->n_guard; q++)
		if (c->level[q] == k)
			narrow_by(x, c->guard[q], l->axis, &sub, &from, &to);
	if (ix_get(x, from)->lo >= ix_get(x, to)->hi)
		return false;
	y->to[l->axis] = ix_axis(x, tir_for(y->out, l->name, from, to, l->bind));
	return true;
}

static void
add_if(struct copying *y, const struct chain *c)
{
	struct tir_guard g[MOST_GUARDS];
	struct st test = {.op = ST_if};
	uint32_t n = 0;

	for (uint32_t q = 0; q < c->n_guard; q++)
		if (c->level[q] == c->n)
			g[n++] = c->guard[q];
	if (n == 0)
		return;
	tir_guards(y->out, &test, n, g);
	tir_add(y->out, test);
}

static void
add_join(struct copying *y, const struct chain *c)
{
	struct tx_subst sub = {.to = y->to, .n = y->n_to};
	struct st s = y->p->st[c->store];
	struct ex v = *ex_get(y->p->tx, s.value);

	v.arg[c->first ? 0 : 1] = c->elem;
	s.value = ex_subst(y->p->tx, &sub, ex_map(y->p->tx, v.prim, v.type, v.n_arg, v.arg));
	s.at = ixv_subst(y->p->tx, &sub, s.at);
	tir_add(y->out, s);
}

/* ---- several stores ---------------------------------------------------------------------------------------
 */
/* The store's guard over the axis, whose other arm changes nothing; false: it has none. */
static bool
find_guard_over(const struct tir *p, const struct st *s, axis_id a, struct tir_guard *out)
{
	bool first;
	const enum comb comb = joins(p, s, &first);
	ex_id e = comb == COMB_NONE ? 0 : ex_get(p->tx, s->value)->arg[first ? 0 : 1];
	int64_t coef;

	while (comb != COMB_NONE) {
		const struct ex g = *ex_get(p->tx, e);

		if (g.kind != EX_GUARD || g.arg[1] != comb_identity(p->tx, comb, 0, g.type))
			return false;
		*out = (struct tir_guard){g.ix, g.lo, g.hi};
		if (ix_has(p->tx, g.ix, a))
			return ix_coef(p->tx, g.ix, a, &coef) && coef != 0;
		e = g.arg[0];
	}
	return false;
}

/* Do all stores in the loop ask the same of it, and of no loop inside? */
static bool
find_shared(const struct tir *p, st_id loop, struct tir_guard *out)
{
	uint32_t n = 0;

	if (p->st[loop].op != ST_for || p->st[loop].bind != BIND_serial)
		return false;
	for (st_id i = loop + 1; i < p->st[loop].end; i++) {
		const struct st *s = &p->st[i];
		struct tir_guard g;

		if (s->op == ST_for || s->op == ST_if || (s->op == ST_store && is_self(p, s, s->value)))
			continue;
		if (s->op != ST_store || !find_guard_over(p, s, p->st[loop].axis, &g) ||
		    (n > 0 && (g.i != out->i || g.lo != out->lo || g.hi != out->hi)))
			return false;
		*out = g;
		n++;
	}
	for (st_id i = loop + 1; i < p->st[loop].end && n > 1; i++)
		if (p->st[i].op == ST_for && ix_has(p->tx, out->i, p->st[i].axis))
			return false;
	return n > 1;
}

/* The element that is joined, without the guard. */
static ex_id
without(struct tx *x, ex_id e, const struct tir_guard *g)
{
	const struct ex n = *ex_get(x, e);

	if (n.kind != EX_GUARD)
		return e;
	if (n.ix == g->i && n.lo == g->lo && n.hi == g->hi)
		return n.arg[0];
	return ex_guard(x, n.ix, n.lo, n.hi, without(x, n.arg[0], g), n.arg[1]);
}

static void
drop_guard(struct tir *out, struct st *s, const struct tir_guard *g)
{
	struct ex v = *ex_get(out->tx, s->value);

	if (v.kind != EX_MAP)
		return; /* nothing is joined */
	for (uint32_t k = 0; k < v.n_arg; k++)
		v.arg[k] = without(out->tx, v.arg[k], g);
	s->value = ex_map(out->tx, v.prim, v.type, v.n_arg, v.arg);
}

static bool
narrow_shared(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct chain c = {.loop = {i}, .n = 1, .n_guard = 1};
	struct tx_subst sub;
	struct copying y;
	st_id from = out->n_st;
	bool runs;

	(void)self;
	if (!find_shared(p, i, &c.guard[0]))
		return false;
	copying_begin(&y, out, p, i);
	runs = add_loop(&y, &c, 0);
	if (runs) {
		sub = (struct tx_subst){.to = y.to, .n = y.n_to};
		copy_fresh(&y, i + 1, p->st[i].end);
		tir_close(out);
		c.guard[0].i = ix_subst(p->tx, &sub, c.guard[0].i);
		for (; from < out->n_st; from++)
			if (out->st[from].op == ST_store)
				drop_guard(out, &out->st[from], &c.guard[0]);
	}
	copying_end(&y);
	return runs;
}

static bool
narrow(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct chain c;
	struct tir before = *out;
	struct copying y;
	bool runs = true;

	(void)self;
	if (!find_chain(p, i, &c) || !find_guards(p, &c))
		return false;
	copying_begin(&y, out, p, i);
	add_if(&y, &c);
	for (uint32_t k = 0; k < c.n && runs; k++)
		runs = add_loop(&y, &c, k);
	if (runs) {
		add_join(&y, &c);
		while (out->n_open > before.n_open)
			tir_close(out);
	} else {
		*out = before;
	}
	copying_end(&y);
	return runs;
}

/* What a guard said of a read its loop's bounds say too; where several meet in one index that is not always
 * proved, now or when it has one dimension. */
static bool
is_proved(const struct tir *p)
{
	struct err why = {0};
	struct tir flat;

	codegen_flatten(p, &flat);
	return tir_proved(p, &why) && tir_proved(&flat, &why);
}

struct narrowing {
	tir_fn *rule;
	bool changed;
};

static bool
by_rule(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct narrowing *n = self;
	const bool did = n->rule(NULL, out, p, i);

	n->changed |= did;
	return did;
}

static void
narrow_by_rule(const struct tir *p, struct tir *out, tir_fn *rule)
{
	struct narrowing n = {.rule = rule};

	tir_rewrite(out, p, by_rule, &n);
	if (n.changed && !is_proved(out))
		tir_rewrite(out, p, NULL, NULL);
}

void
codegen_narrow(const struct tir *p, struct tir *out)
{
	narrow_by_rule(p, out, narrow);
}

void
codegen_narrow_rows(const struct tir *p, struct tir *out)
{
	narrow_by_rule(p, out, narrow_shared);
}
