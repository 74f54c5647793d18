/* kernels/tir/prove.c: constant bounds of an index at a place in a program, by the loops around it and
 * the guards that hold there. */
#include "tx_int.h"
#include "verify_int.h"

enum { GUARD_STEPS = 3 };

/* Inclusive. */
struct span {
	int64_t lo, hi;
};

/* One question, and what has been bound for it: the same part is asked for by many rules. */
enum { QUERY_MEETS = 256 };
struct query {
	const struct tir_facts *f;
	struct tx *x;
	struct met met; /* of an index and steps: where in `span`, one more */
	struct span span[QUERY_MEETS];
	uint32_t n;
};

static struct span bound(struct query *q, ix_id i, uint32_t steps);

static void
narrow(struct span *s, int64_t lo, int64_t hi)
{
	s->lo = MAX_OF(s->lo, lo);
	s->hi = MIN_OF(s->hi, hi);
}

/* All axes eliminated: sees what cancels between loops and bounds that hang on them. */
static void
by_ranges(struct query *q, ix_id i, struct span *s)
{
	ix_id lo, hi;
	bool exact;

	ix_region(q->x, q->f->n_range, q->f->range, i, &lo, &hi, &exact);
	narrow(s, ix_get(q->x, lo)->lo, ix_get(q->x, hi)->hi);
}

static void
by_parts(struct query *q, ix_id i, uint32_t steps, struct span *s)
{
	const struct ix n = *ix_get(q->x, i);
	struct span a, b, sum = {n.c, n.c};

	switch (n.kind) {
	case IX_LIN:
		for (uint32_t k = 0; k < n.n_terms; k++) {
			int64_t c = n.terms[k].coef;

			a = bound(q, n.terms[k].atom, steps);
			sum.lo += c > 0 ? c * a.lo : c * a.hi;
			sum.hi += c > 0 ? c * a.hi : c * a.lo;
		}
		narrow(s, sum.lo, sum.hi);
		return;
	case IX_DIV:
	case IX_MOD:
		a = bound(q, n.a, steps);
		b = (struct span){floor_div(a.lo, n.c), floor_div(a.hi, n.c)};
		if (n.kind == IX_DIV)
			narrow(s, b.lo, b.hi);
		else if (b.lo == b.hi)
			narrow(s, a.lo - b.lo * n.c, a.hi - b.lo * n.c);
		return;
	case IX_MIN:
	case IX_MAX:
		a = bound(q, n.a, steps);
		b = bound(q, n.b, steps);
		if (n.kind == IX_MIN)
			narrow(s, MIN_OF(a.lo, b.lo), MIN_OF(a.hi, b.hi));
		else
			narrow(s, MAX_OF(a.lo, b.lo), MAX_OF(a.hi, b.hi));
		return;
	case IX_AXIS:
	case IX_VALUE:
		return;
	}
}

static int64_t
coef_of(const struct tx *x, ix_id i, ix_id atom)
{
	const struct ix *n = ix_get(x, i);

	if (i == atom)
		return 1;
	for (uint32_t k = 0; k < n->n_terms; k++)
		if (n->terms[k].atom == atom)
			return n->terms[k].coef;
	return 0;
}

/* times * i = m * guarded + rest, so that this atom of the guard is not in the rest; m == 0: it is not in i.
 */
static void
multiple_of(const struct tx *x, ix_id i, struct ix_term t, int64_t *times, int64_t *m)
{
	int64_t c = coef_of(x, i, t.atom), common = gcd(c, t.coef);

	*times = t.coef / common;
	*m = c / common;
	if (*times < 0) {
		*times = -*times;
		*m = -*m;
	}
}

static void
by_guard(
    struct query *q, const struct tir_guard *g, struct ix_term t, ix_id i, uint32_t steps, struct span *s)
{
	int64_t times, m, lo, hi;

	multiple_of(q->x, i, t, &times, &m);
	if (m == 0)
		return;
	ix_id rest = ix_add(q->x, ix_mulc(q->x, i, times), ix_mulc(q->x, g->i, -m));
	struct span r = bound(q, rest, steps - 1);

	lo = r.lo + m * (m > 0 ? g->lo : g->hi - 1);
	hi = r.hi + m * (m > 0 ? g->hi - 1 : g->lo);
	narrow(s, -floor_div(-lo, times), floor_div(hi, times));
}

/* What a guard, by one of its atoms, says of i. */
typedef void by_fn(
    struct query *q, const struct tir_guard *g, struct ix_term t, ix_id i, uint32_t steps, struct span *s);

static void
by_guards(struct query *q, by_fn *use, ix_id i, uint32_t steps, struct span *s)
{
	for (uint32_t k = 0; k < q->f->n_guard; k++) {
		const struct tir_guard *g = &q->f->guard[k];
		const struct ix n = *ix_get(q->x, g->i);

		if (g->lo >= g->hi)
			continue;
		if (n.n_terms == 0)
			use(q, g, (struct ix_term){1, g->i}, i, steps, s);
		for (uint32_t t = 0; t < n.n_terms; t++)
			use(q, g, n.terms[t], i, steps, s);
	}
}

/* c * (y div c) is y - y mod c: where y stands in the sum too, that cancels. */
static void
by_remainders(struct query *q, ix_id i, struct span *s)
{
	const struct ix n = *ix_get(q->x, i);

	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix a = *ix_get(q->x, n.terms[k].atom);
		int64_t e = n.terms[k].coef;
		ix_id other;

		if (a.kind != IX_DIV || e % a.c)
			continue;
		other = ix_add(q->x, i, ix_mulc(q->x, n.terms[k].atom, -e));
		other = ix_add(q->x, other, ix_mulc(q->x, a.a, e / a.c));
		other = ix_add(q->x, other, ix_mulc(q->x, ix_mod(q->x, a.a, a.c), -(e / a.c)));
		narrow(s, ix_get(q->x, other)->lo, ix_get(q->x, other)->hi);
	}
}

/* A digit of y that a guard speaks of: m = (y div d) mod n; n == 0: y div d. */
struct digit {
	ix_id y, m;
	int64_t d, n;
};

static bool
is_digit(const struct tx *x, ix_id atom, struct digit *out)
{
	const struct ix a = *ix_get(x, atom), b = *ix_get(x, a.kind == IX_MOD ? a.a : atom);

	if (a.kind != IX_MOD && a.kind != IX_DIV)
		return false;
	*out = (struct digit){.m = atom, .n = a.kind == IX_MOD ? a.c : 0};
	out->y = b.kind == IX_DIV ? b.a : a.a;
	out->d = b.kind == IX_DIV ? b.c : 1;
	return true;
}

/* How often y stands in i, and how much the digits above m are then at most; 0: it does not. */
static int64_t
times_of(struct query *q, ix_id i, const struct digit *g, uint32_t steps, ix_id *what, struct span *above)
{
	const struct ix n = *ix_get(q->x, i), y = *ix_get(q->x, g->y);
	const ix_id first = y.n_terms ? y.terms[0].atom : g->y;
	const int64_t in_y = y.n_terms ? y.terms[0].coef : 1, e = coef_of(q->x, i, first);

	*above = (struct span){0, 0};
	*what = g->y;
	if (e && e % in_y == 0) {
		struct span all = bound(q, g->y, steps - 1);

		if (g->n)
			*above =
			    (struct span){floor_div(all.lo, g->d * g->n), floor_div(all.hi, g->d * g->n)};
		return e / in_y;
	}
	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix a = *ix_get(q->x, n.terms[k].atom);

		if (a.kind != IX_MOD || a.a != g->y || g->n == 0 || a.c % (g->d * g->n))
			continue;
		*what = n.terms[k].atom;
		above->hi = a.c / (g->d * g->n) - 1;
		return n.terms[k].coef;
	}
	return 0;
}

/* y is (d*n) * above + d * m + y mod d, and a guard knows m: what fused loops (fuse) make of a border. */
static void
by_digit(
    struct query *q, const struct tir_guard *g, struct ix_term t, ix_id i, uint32_t steps, struct span *s)
{
	struct digit m;
	struct span above, r;
	ix_id what, other;
	int64_t e, by;

	if ((t.coef != 1 && t.coef != -1) || !is_digit(q->x, t.atom, &m))
		return;
	e = times_of(q, i, &m, steps, &what, &above);
	if (e == 0)
		return;
	by = e * m.d * t.coef; /* times the guard's index */
	other = ix_add(q->x, i, ix_mulc(q->x, what, -e));
	other = ix_add(q->x, other, ix_mulc(q->x, ix_mod(q->x, m.y, m.d), e));
	other = ix_add(q->x, other, ix_mulc(q->x, ix_add(q->x, g->i, ix_mulc(q->x, m.m, -t.coef)), -by));
	r = bound(q, other, steps - 1);
	e *= m.d * m.n;
	r.lo += (e > 0 ? e * above.lo : e * above.hi) + by * (by > 0 ? g->lo : g->hi - 1);
	r.hi += (e > 0 ? e * above.hi : e * above.lo) + by * (by > 0 ? g->hi - 1 : g->lo);
	narrow(s, r.lo, r.hi);
}

/* lo <= L < hi bounds (L + s) div c, too, which may have come apart: (128*o + l + 1) div 16 is
 * 8*o + (l + 1) div 16. */
static void
by_quotients(
    struct query *q, const struct tir_guard *g, struct ix_term t, ix_id i, uint32_t steps, struct span *s)
{
	const struct ix n = *ix_get(q->x, i);

	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix a = *ix_get(q->x, n.terms[k].atom);

		if (a.kind != IX_DIV || coef_of(q->x, a.a, t.atom) != t.coef)
			continue;
		const int64_t shift = ix_base(q->x, a.a) - ix_base(q->x, g->i);
		const ix_id quot = ix_div(q->x, ix_addc(q->x, g->i, shift), a.c);
		const struct tir_guard d = {
		    quot, floor_div(g->lo + shift, a.c), floor_div(g->hi - 1 + shift, a.c) + 1};
		const int64_t c = coef_of(q->x, quot, n.terms[k].atom);

		if (c)
			by_guard(q, &d, (struct ix_term){c, n.terms[k].atom}, i, steps, s);
	}
}

static by_fn *const guard_rules[] = {by_guard, by_digit, by_quotients};

/* By one rule after the other; each narrows, and none takes anything back. */
static struct span
bound_new(struct query *q, ix_id i, uint32_t steps)
{
	struct span s;

	if (steps == 0) {
		s = (struct span){ix_get(q->x, i)->lo, ix_get(q->x, i)->hi};
		by_ranges(q, i, &s);
		by_remainders(q, i, &s);
		return s;
	}
	s = bound(q, i, 0);
	for (size_t k = 0; k < COUNT_OF(guard_rules); k++)
		by_guards(q, guard_rules[k], i, steps, &s);
	by_parts(q, i, steps, &s);
	return s;
}

static struct span
bound(struct query *q, ix_id i, uint32_t steps)
{
	const struct ix *n = ix_get(q->x, i);
	const uint32_t key = i * (GUARD_STEPS + 1) + steps;
	struct span s = {n->lo, n->hi};

	if (s.lo == s.hi)
		return s;
	if (*met_at(&q->met, key))
		return q->span[*met_at(&q->met, key) - 1];
	s = bound_new(q, i, steps);
	if (q->n < QUERY_MEETS) {
		q->span[q->n++] = s;
		*met_at(&q->met, key) = q->n;
	}
	return s;
}

static void
query_begin(struct query *q, const struct tir_facts *f)
{
	q->f = f;
	q->x = f->x;
	q->n = 0;
	met_begin(&q->met);
}

void
facts_bound(const struct tir_facts *f, ix_id i, int64_t *lo, int64_t *hi)
{
	struct span s = {INT64_MAX, INT64_MIN};
	struct query q;

	if (!f->never) {
		query_begin(&q, f);
		s = bound(&q, i, GUARD_STEPS);
		met_end(&q.met);
	}
	*lo = s.lo;
	*hi = s.hi;
}

static bool
is_enough(struct span s, struct span enough)
{
	return s.lo >= enough.lo && s.hi <= enough.hi;
}

/* As far as rules are needed for it. */
static struct span
bound_until(struct query *q, ix_id i, struct span enough)
{
	struct span s = bound(q, i, 0);

	for (size_t k = 0; k < COUNT_OF(guard_rules) && !is_enough(s, enough); k++)
		by_guards(q, guard_rules[k], i, GUARD_STEPS, &s);
	if (!is_enough(s, enough))
		by_parts(q, i, GUARD_STEPS, &s);
	return s;
}

bool
facts_hold(const struct tir_facts *f, ix_id i, int64_t lo, int64_t hi)
{
	const struct ix *n = ix_get(f->x, i);
	const struct span enough = {lo, hi - 1};
	struct span s = {n->lo, n->hi};
	struct query q;

	if (f->never || is_enough(s, enough))
		return true;
	if (s.lo == s.hi)
		return false;
	query_begin(&q, f);
	s = bound_until(&q, i, enough);
	met_end(&q.met);
	return is_enough(s, enough);
}

/* lo <= i div c + d < hi is c*(lo - d) <= i < c*(hi - d). */
struct tir_guard
guard_undivided(const struct tx *x, struct tir_guard g)
{
	for (;;) {
		const struct ix *n = ix_get(x, g.i);
		const int64_t most = (int64_t)1 << 30;

		if (n->kind == IX_LIN && n->n_terms == 1 && n->terms[0].coef == 1) {
			g = (struct tir_guard){n->terms[0].atom, g.lo - n->c, g.hi - n->c};
			continue;
		}
		if (n->kind != IX_DIV || n->c > most || g.lo < -most || g.lo > most || g.hi < -most ||
		    g.hi > most)
			return g;
		g = (struct tir_guard){n->a, g.lo * n->c, g.hi * n->c};
	}
}

void
facts_add(struct tir_facts *f, struct tir_guard g, bool yes)
{
	int64_t lo, hi;

	if (f->n_guard == COUNT_OF(f->guard))
		return;
	g = guard_undivided(f->x, g);
	facts_bound(f, g.i, &lo, &hi);
	if (yes)
		f->never |= lo >= g.hi || hi < g.lo;
	if (!yes) {
		f->never |= lo >= g.lo && hi < g.hi; /* it always holds */
		if (lo >= g.lo && g.hi <= hi)        /* not below, so above */
			g = (struct tir_guard){g.i, g.hi, hi + 1};
		else if (hi < g.hi && lo < g.lo)
			g = (struct tir_guard){g.i, lo, g.lo};
		else
			return;
	}
	f->guard[f->n_guard++] = g;
}

static void
range_add(struct tir_facts *f, struct tir_range r)
{
	if (f->n_range == COUNT_OF(f->range))
		bug("more than %zu axes around a statement", COUNT_OF(f->range));
	f->range[f->n_range++] = r;
}

/* Each side of a bound that is a min or max holds by itself: as a guard, which other guards go with. */
static void
add_sides(struct tir_facts *f, ix_id axis, ix_id bound, bool upper)
{
	const struct ix n = *ix_get(f->x, bound);
	const ix_id d = ix_add(f->x, axis, ix_mulc(f->x, bound, -1));
	const int64_t lo = ix_get(f->x, d)->lo, hi = ix_get(f->x, d)->hi;

	if (n.kind == (upper ? IX_MIN : IX_MAX)) {
		add_sides(f, axis, n.a, upper);
		add_sides(f, axis, n.b, upper);
	} else if (!ix_is_const(f->x, bound, NULL)) {
		facts_add(f, (struct tir_guard){d, upper ? lo : 0, upper ? 0 : hi + 1}, true);
	}
}

static void
add_loop(struct tir_facts *f, const struct st *s)
{
	range_add(f, (struct tir_range){s->axis, s->from, s->to});
	if (ix_get(f->x, s->from)->kind == IX_MAX)
		add_sides(f, ix_axis(f->x, s->axis), s->from, false);
	if (ix_get(f->x, s->to)->kind == IX_MIN)
		add_sides(f, ix_axis(f->x, s->axis), s->to, true);
}

void
facts_add_statement(struct tir_facts *f, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];

	if (s->op == ST_index)
		range_add(f, (struct tir_range){s->axis, s->from, ix_addc(p->tx, s->from, 1)});
	if (s->op == ST_for)
		add_loop(f, s);
	for (uint32_t k = 0; k < s->n_guard; k++)
		facts_add(f, p->guard[s->guard0 + k], true);
}

void
tir_facts_at(const struct tir *p, st_id at, struct tir_facts *f)
{
	*f = (struct tir_facts){.x = p->tx};
	for (st_id i = 0; i <= at && i < p->n_st;) {
		const struct st *s = &p->st[i];
		const bool is_around = i < at && at < s->end;

		if (is_around || (i < at && s->op == ST_index) ||
		    (i == at && !st_info[s->op].body && s->op != ST_index))
			facts_add_statement(f, p, i);
		i = at < s->end ? i + 1 : s->end;
	}
}

bool
tir_prove(const struct tir *p, st_id at, ix_id i, int64_t lo, int64_t hi)
{
	struct tir_facts f;

	tir_facts_at(p, at, &f);
	return facts_hold(&f, i, lo, hi);
}
