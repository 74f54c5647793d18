/* kernels/fuse/tile_bounds.c: proves that no element outside a tensor is read or written.
 *
 * An index is a sum of coefficients times atoms; its range follows from the atoms' own ranges.  Where that
 * is too wide, facts help: the guards around the read, and the bounds of loops that depend on outer axes.
 * A fact is a sum too, known to lie in lo..hi; a multiple of it is taken from the index where that leaves
 * less:  56*y + x - 57 under 0 <= y-1 < 56 and 0 <= x-1 < 56 becomes 56*(0..55) + (0..55).
 *
 * No expression is made: the pool numbers its atoms in order of creation, and text must not depend on
 * whether somebody verified.  What lies behind too many guards counts as proved.  Not all that is right is
 * proved: of random graphs with clamped pads within concats some are not, of candidates of models all are
 * (bench-texts list counts). */
#include "tile.h"

enum {
	TERMS = 64,
	FACTS = 96,
	VISITS = 20000,
	DEPTH = 4,
	NESTED = 3,
	TRIES = 20000,
	MANY = 4096 /* expressions */
};

/* base + sum of coef * atom */
struct sum {
	uint32_t n;
	int64_t coef[TERMS], base;
	ix_id atom[TERMS];
};
struct fact {
	struct sum s;
	int64_t lo, hi; /* inclusive */
};
struct proof {
	const struct tile_prog *p;
	const struct stage *s;
	enum tile_form level;
	struct fact *fact;
	uint32_t n_facts, visits, tries, nested;
	struct err *e;
};

/* sum += k * i.  False: too many terms. */
static bool
sum_add(const struct tx *x, struct sum *s, ix_id i, int64_t k)
{
	const struct ix *n = ix_get(x, i);
	const struct ix_term one = {1, i}, *t = n->kind == IX_LIN ? n->terms : &one;
	uint32_t count = n->kind == IX_LIN ? n->n_terms : 1;

	s->base += n->kind == IX_LIN ? k * n->c : 0;
	for (uint32_t j = 0; j < count; j++) {
		uint32_t at = 0;

		while (at < s->n && s->atom[at] != t[j].atom)
			at++;
		if (at == TERMS)
			return false;
		if (at == s->n) {
			s->atom[s->n] = t[j].atom;
			s->coef[s->n++] = 0;
		}
		s->coef[at] += k * t[j].coef;
	}
	return true;
}

static int64_t
half(int64_t c)
{
	return c / 2 - (c % 2 < 0);
}

static void range_under(struct proof *v, ix_id i, int64_t *lo, int64_t *hi);

/* Of min(a, c - a) and max(a, c - a), as a reflecting pad has them, c / 2 is the end. */
static void
mirror_range(const struct tx *x, const struct ix *n, int64_t *lo, int64_t *hi)
{
	struct sum s = {0};

	if (!sum_add(x, &s, n->a, 1) || !sum_add(x, &s, n->b, 1))
		return;
	for (uint32_t j = 0; j < s.n; j++)
		if (s.coef[j])
			return;
	if (n->kind == IX_MIN)
		*hi = MIN_OF(*hi, half(s.base));
	else
		*lo = MAX_OF(*lo, half(s.base + 1));
}

/* An atom's range, by what is known of its operands where that says more than its node does. */
static void
atom_range(struct proof *v, ix_id i, int64_t *lo, int64_t *hi)
{
	const struct tx *x = v->p->tx;
	const struct ix *n = ix_get(x, i);
	int64_t l, h;

	*lo = n->lo;
	*hi = n->hi;
	if (n->kind == IX_MIN || n->kind == IX_MAX)
		mirror_range(x, n, lo, hi);
	if (n->kind != IX_DIV && n->kind != IX_MOD)
		return;
	if (v->nested == NESTED)
		return;
	v->nested++;
	range_under(v, n->a, &l, &h);
	v->nested--;
	if (n->kind == IX_DIV) {
		*lo = MAX_OF(*lo, floor_div(l, n->c));
		*hi = MIN_OF(*hi, floor_div(h, n->c));
	} else if (floor_div(l, n->c) == floor_div(h, n->c)) {
		*lo = MAX_OF(*lo, l - n->c * floor_div(l, n->c));
		*hi = MIN_OF(*hi, h - n->c * floor_div(l, n->c));
	}
}

static void
sum_range(struct proof *v, const struct sum *s, int64_t *lo, int64_t *hi)
{
	*lo = *hi = s->base;
	for (uint32_t j = 0; j < s->n; j++) {
		int64_t l = 0, h = 0;

		if (s->coef[j])
			atom_range(v, s->atom[j], &l, &h);
		*lo += s->coef[j] * (s->coef[j] > 0 ? l : h);
		*hi += s->coef[j] * (s->coef[j] > 0 ? h : l);
	}
}

/* How often the fact fits into the sum: by its first atom that divides evenly; 0: it does not. */
static int64_t
fits(const struct sum *s, const struct fact *f)
{
	for (uint32_t j = 0; j < f->s.n; j++)
		for (uint32_t k = 0; k < s->n && f->s.coef[j]; k++)
			if (s->atom[k] == f->s.atom[j] && s->coef[k] && s->coef[k] % f->s.coef[j] == 0)
				return s->coef[k] / f->s.coef[j];
	return 0;
}

/* s - k * f, if that has room. */
static bool
without(const struct sum *s, const struct fact *f, int64_t k, struct sum *out)
{
	*out = *s;
	out->base -= k * f->s.base;
	for (uint32_t j = 0; j < f->s.n; j++) {
		uint32_t at = 0;

		while (at < out->n && out->atom[at] != f->s.atom[j])
			at++;
		if (at == TERMS)
			return false;
		if (at == out->n) {
			out->atom[out->n] = f->s.atom[j];
			out->coef[out->n++] = 0;
		}
		out->coef[at] -= k * f->s.coef[j];
	}
	return true;
}

/* The range of the index, narrowed by facts in their order (or from the last one back). */
static void
narrow(struct proof *v, ix_id i, bool back, int64_t *lo, int64_t *hi)
{
	struct sum s = {0}, rest;
	int64_t low = 0, high = 0, l, h, width; /* low..high: of the facts that were taken out */

	if (!sum_add(v->p->tx, &s, i, 1))
		return;
	sum_range(v, &s, &l, &h);
	width = h - l;
	*lo = MAX_OF(*lo, l);
	*hi = MIN_OF(*hi, h);
	for (uint32_t n = 0; n < v->n_facts; n++) {
		const struct fact *f = &v->fact[back ? v->n_facts - 1 - n : n];
		const int64_t k = fits(&s, f), from = k * (k > 0 ? f->lo : f->hi),
			      to = k * (k > 0 ? f->hi : f->lo);

		if (!k || !without(&s, f, k, &rest))
			continue;
		sum_range(v, &rest, &l, &h);
		l += low + from;
		h += high + to;
		if (h - l >= width)
			continue;
		width = h - l;
		*lo = MAX_OF(*lo, l);
		*hi = MIN_OF(*hi, h);
		low += from;
		high += to;
		s = rest;
	}
}

static void
range_under(struct proof *v, ix_id i, int64_t *lo, int64_t *hi)
{
	*lo = ix_get(v->p->tx, i)->lo;
	*hi = ix_get(v->p->tx, i)->hi;
	narrow(v, i, true, lo, hi);
	narrow(v, i, false, lo, hi);
}

/* What a fact says of one of its atoms alone, where that is news. */
static void
atom_fact(struct proof *v, const struct fact *f, uint32_t j)
{
	const struct fact one = {.s = {.n = 1, .coef = {1}, .atom = {f->s.atom[j]}}};
	struct sum rest = f->s;
	int64_t c = f->s.coef[j], lo, hi, low, high;

	rest.coef[j] = 0;
	sum_range(v, &rest, &lo, &hi);
	low = c > 0 ? -floor_div(-(f->lo - hi), c) : -floor_div(f->hi - lo, -c);
	high = c > 0 ? floor_div(f->hi - lo, c) : floor_div(-(f->lo - hi), -c);
	atom_range(v, f->s.atom[j], &lo, &hi);
	if ((low <= lo && high >= hi) || v->n_facts == FACTS)
		return;
	v->fact[v->n_facts] = one;
	v->fact[v->n_facts].lo = MAX_OF(lo, low);
	v->fact[v->n_facts++].hi = MIN_OF(hi, high);
}

/* What a fact says of those of its terms that c divides: their sum over c is a whole number. */
static void
multiples_fact(struct proof *v, const struct fact *f, int64_t c)
{
	struct fact g = {.s = {.n = 0}};
	struct sum rest = f->s;
	int64_t lo, hi;

	for (uint32_t j = 0; j < f->s.n; j++)
		if (f->s.coef[j] && f->s.coef[j] % c == 0) {
			g.s.atom[g.s.n] = f->s.atom[j];
			g.s.coef[g.s.n++] = f->s.coef[j] / c;
			rest.coef[j] = 0;
		}
	sum_range(v, &rest, &lo, &hi);
	g.lo = -floor_div(-(f->lo - hi), c);
	g.hi = floor_div(f->hi - lo, c);
	if (g.s.n > 1 && v->n_facts < FACTS)
		v->fact[v->n_facts++] = g;
}

static void
fact_note(struct proof *v, struct fact f)
{
	int64_t lo, hi;

	sum_range(v, &f.s, &lo, &hi);
	f.lo = MAX_OF(f.lo, lo);
	f.hi = MIN_OF(f.hi, hi);
	for (uint32_t j = 0; j < f.s.n && f.s.n > 1; j++)
		if (f.s.coef[j]) {
			atom_fact(v, &f, j);
			if (f.s.coef[j] > 1)
				multiples_fact(v, &f, f.s.coef[j]);
		}
	if (v->n_facts < FACTS)
		v->fact[v->n_facts++] = f;
}

/* The fact in quotients and remainders, where its axis has them in the program: a is c * (a div c) + a mod c.
 */
static void
fact_in_digits(struct proof *v, const struct fact *f)
{
	const struct tx *x = v->p->tx;

	for (ix_id d = 0; d < tx_n_ix(x); d++)
		for (uint32_t j = 0; j < f->s.n && ix_get(x, d)->kind == IX_DIV; j++) {
			const struct ix *n = ix_get(x, d);
			struct fact g = *f;
			ix_id m = 0;

			while (m < tx_n_ix(x) &&
			    (ix_get(x, m)->kind != IX_MOD || ix_get(x, m)->a != n->a ||
				ix_get(x, m)->c != n->c))
				m++;
			if (f->s.atom[j] != n->a || !f->s.coef[j] || m == tx_n_ix(x))
				continue;
			g.s.coef[j] = 0;
			if (sum_add(x, &g.s, d, f->s.coef[j] * n->c) && sum_add(x, &g.s, m, f->s.coef[j]))
				fact_note(v, g);
		}
}

/* lo <= k * i + m * other <= hi; IX_NONE: there is no other. */
static void
fact_add(struct proof *v, ix_id i, int64_t k, ix_id other, int64_t m, int64_t lo, int64_t hi)
{
	struct fact f = {.lo = lo, .hi = hi};

	if (!sum_add(v->p->tx, &f.s, i, k) || (other != IX_NONE && !sum_add(v->p->tx, &f.s, other, m)))
		return;
	if (tx_n_ix(v->p->tx) < MANY)
		fact_in_digits(v, &f);
	fact_note(v, f);
}

/* ---- what may be touched ------------------------------------------------------------------------- */
/* Elements of the tensor as this level's indices count them. */
static int64_t
elements(const struct tile_prog *p, uint32_t tensor, enum tile_form level)
{
	const struct tile_tensor *t = &p->tensors[tensor];

	return level == TILE_BOUND && t->at == AT_LOCAL ? t->n_local : t->count;
}

/* Is low..high + s within 0 .. n - 1 once up to `depth` facts are taken out, in any order?  For the few
 * indices for which no one order will do. */
static bool
search(struct proof *v, const struct sum *s, int64_t low, int64_t high, int depth, int64_t n)
{
	struct sum rest;
	int64_t lo, hi;

	sum_range(v, s, &lo, &hi);
	if (lo + low >= 0 && hi + high < n)
		return true;
	for (uint32_t i = 0; i < v->n_facts && depth > 0 && v->tries < TRIES; i++) {
		const struct fact *f = &v->fact[i];
		const int64_t k = fits(s, f);

		if (!k || !without(s, f, k, &rest))
			continue;
		v->tries++;
		if (search(v, &rest, low + k * (k > 0 ? f->lo : f->hi), high + k * (k > 0 ? f->hi : f->lo),
			depth - 1, n))
			return true;
	}
	return false;
}

/* The same with an atom taken apart as some quotient in the program does it: a = c * (a div c) + 0..c-1. */
static bool
search_in_digits(struct proof *v, const struct sum *s, int64_t n)
{
	const struct tx *x = v->p->tx;

	for (ix_id d = 0; d < tx_n_ix(x) && tx_n_ix(x) < MANY; d++)
		for (uint32_t j = 0; j < s->n && ix_get(x, d)->kind == IX_DIV; j++) {
			const int64_t k = s->coef[j], rest = k * (ix_get(x, d)->c - 1);
			struct sum t = *s;

			if (s->atom[j] != ix_get(x, d)->a || !k)
				continue;
			t.coef[j] = 0;
			if (sum_add(x, &t, d, k * ix_get(x, d)->c) &&
			    search(v, &t, MIN_OF(rest, (int64_t)0), MAX_OF(rest, (int64_t)0), DEPTH, n))
				return true;
		}
	return false;
}

static bool
is_found(struct proof *v, ix_id i, int64_t n)
{
	struct sum s = {0};

	v->tries = 0;
	return sum_add(v->p->tx, &s, i, 1) && (search(v, &s, 0, 0, DEPTH, n) || search_in_digits(v, &s, n));
}

static bool
inside(struct proof *v, ix_id i, uint32_t tensor, const char *what)
{
	int64_t n = elements(v->p, tensor, v->level), lo, hi;

	range_under(v, i, &lo, &hi);
	if ((lo >= 0 && hi < n) || is_found(v, i, n))
		return true;
	return err_set(v->e, ERR_WRONG, "bounds: stage of t%u %s elements %lld..%lld of t%u, which has %lld",
	    v->s->tensor, what, (long long)lo, (long long)hi, tensor, (long long)n);
}

static bool walk(struct proof *v, ex_id e);

/* Indices hold values of expressions, whose reads are bounded likewise. */
static bool
walk_index(struct proof *v, ix_id i)
{
	const struct ix *n = ix_get(v->p->tx, i);

	switch (n->kind) {
	case IX_AXIS:
		return true;
	case IX_DIV:
	case IX_MOD:
		return walk_index(v, n->a);
	case IX_MIN:
	case IX_MAX:
		return walk_index(v, n->a) && walk_index(v, n->b);
	case IX_VALUE:
		return walk(v, n->a);
	case IX_LIN:
		for (uint32_t k = 0; k < n->n_terms; k++)
			if (!walk_index(v, n->terms[k].atom))
				return false;
		return true;
	}
	return true;
}

/* lo <= i <= hi; what a remainder says of its operand too, where that stays in one period. */
static void
index_fact(struct proof *v, ix_id i, int64_t lo, int64_t hi)
{
	const struct ix *n = ix_get(v->p->tx, i);
	int64_t from, to;

	fact_add(v, i, 1, IX_NONE, 0, lo, hi);
	if (n->kind != IX_MOD)
		return;
	range_under(v, n->a, &from, &to);
	if (floor_div(from, n->c) == floor_div(to, n->c))
		fact_add(v, n->a, 1, IX_NONE, 0, lo + n->c * floor_div(from, n->c),
		    hi + n->c * floor_div(from, n->c));
}

/* In the arm where it holds; in the other one the index lies above or below, where it cannot do both. */
static void
guard_fact(struct proof *v, const struct ex *guard, bool holds)
{
	int64_t lo, hi;

	range_under(v, guard->ix, &lo, &hi);
	if (holds)
		index_fact(v, guard->ix, guard->lo, guard->hi - 1);
	else if (lo >= guard->lo)
		index_fact(v, guard->ix, guard->hi, INT32_MAX);
	else if (hi < guard->hi)
		index_fact(v, guard->ix, INT32_MIN, guard->lo - 1);
}

static bool
walk(struct proof *v, ex_id e)
{
	const struct ex *n = ex_get(v->p->tx, e);
	const uint32_t facts = v->n_facts;

	if (++v->visits > VISITS)
		return true;
	if (n->kind == EX_READ && !inside(v, n->ix, n->tensor, "reads"))
		return false;
	if ((n->kind == EX_READ || n->kind == EX_GUARD || n->kind == EX_INDEX) && !walk_index(v, n->ix))
		return false;
	for (uint32_t k = 0; k < n->n_arg; k++) {
		if (n->kind == EX_GUARD)
			guard_fact(v, n, k == 0);
		bool ok = walk(v, n->arg[k]);

		v->n_facts = facts;
		if (!ok)
			return false;
	}
	return true;
}

/* The atom of an axis; IX_NONE: nobody uses it. */
static ix_id
atom_of(const struct tx *x, axis_id a)
{
	for (ix_id i = 0; i < tx_n_ix(x); i++)
		if (ix_get(x, i)->kind == IX_AXIS && ix_get(x, i)->a == a)
			return i;
	return IX_NONE;
}

/* limit - from, at most. */
static int64_t
most_between(struct proof *v, const struct axis *t)
{
	struct sum s = {0};
	int64_t lo = 0, hi = INT32_MAX;

	if (sum_add(v->p->tx, &s, t->limit, 1) && sum_add(v->p->tx, &s, t->from, -1))
		sum_range(v, &s, &lo, &hi);
	return hi;
}

/* A loop over a block: from <= axis < limit. */
static void
loop_facts(struct proof *v, const struct stage_axis *a)
{
	const struct tx *x = v->p->tx;
	const struct axis *t = tx_axis_get(x, a->id);
	const ix_id i = atom_of(x, a->id);

	if (i == IX_NONE)
		return;
	if (t->from != IX_NONE)
		fact_add(v, i, 1, t->from, -1, 0, t->limit == IX_NONE ? INT32_MAX : most_between(v, t) - 1);
	else if (t->limit != IX_NONE)
		fact_add(v, i, 1, t->limit, -1, INT32_MIN, -1);
}

static bool
stage_bounds(const struct tile_prog *p, uint32_t i, enum tile_form level, struct err *e)
{
	struct arena tmp = {0};
	const struct stage *s = &p->stages[i];
	struct proof v = {
	    .p = p, .s = s, .level = level, .e = e, .fact = NEW_ARRAY(&tmp, struct fact, FACTS)};
	const ex_id all[] = {s->body, s->a, s->b, s->init};
	bool ok = true;

	for (uint32_t k = 0; k < s->n_par + s->n_red; k++)
		loop_facts(&v, &s->axis[k]);
	for (uint32_t k = 0; k < COUNT_OF(all) && ok; k++)
		ok = all[k] == EX_NONE || walk(&v, all[k]);
	if (ok && level == TILE_BOUND && s->out != IX_NONE)
		ok = inside(&v, s->out, s->tensor, "writes");
	if (ok && s->target != IX_NONE)
		ok = walk_index(&v, s->target);
	arena_fini(&tmp);
	return ok;
}

bool
tile_bounds(const struct tile_prog *p, enum tile_form level, struct err *e)
{
	for (uint32_t i = 0; i < p->n_stages; i++)
		if (!stage_bounds(p, i, level, e))
			return false;
	return true;
}
