/* kernels/tir/ix.c: index expressions: hash-consed, in a normal form that cancels what reshapes,
 * transposes and slices do to each other.
 *
 * Invariants: a LIN has no LIN atom, no zero coefficient, atoms rise; every node's lo..hi encloses
 * its values; c * (x div c) + x mod c is never kept apart where both stand in one sum. */
#include "tx_int.h"

#include <string.h>

uint32_t
tx_n_ix(const struct tx *x)
{
	return x->n_ix;
}

const struct ix *
ix_get(const struct tx *x, ix_id i)
{
	if (i >= x->n_ix)
		bug("index expression %u of %u", i, x->n_ix);
	return &x->ix[i];
}

ix_id
ix_const(struct tx *x, int64_t v)
{
	ix_id *near = v >= 0 && v < TX_SMALL ? &x->small[v] : NULL;

	if (near && *near)
		return *near - 1;
	ix_id i = ix_intern(x, &(struct ix){.kind = IX_LIN, .c = v, .lo = v, .hi = v});

	if (near)
		*near = i + 1;
	return i;
}

ix_id
ix_axis(struct tx *x, axis_id a)
{
	const struct axis *ax = tx_axis_get(x, a);

	if (ax->lo == ax->hi)
		return ix_const(x, ax->lo);
	return ix_intern(x, &(struct ix){.kind = IX_AXIS, .a = a, .lo = ax->lo, .hi = ax->hi});
}

bool
ix_is_const(const struct tx *x, ix_id i, int64_t *v)
{
	const struct ix *n = ix_get(x, i);

	if (n->lo != n->hi)
		return false;
	if (v)
		*v = n->lo;
	return true;
}

bool
ix_is_axis(const struct tx *x, ix_id i, axis_id *a)
{
	const struct ix *n = ix_get(x, i);

	if (n->kind == IX_AXIS && a)
		*a = n->a;
	return n->kind == IX_AXIS;
}

/* ---- sums ------------------------------------------------------------------------------ */
/* A sum under construction; begins with lin_start(). */
struct lin {
	int64_t base;
	uint32_t n;
	struct ix_term t[IX_MAX_TERMS]; /* n of them; the rest holds nothing */
};

static void
lin_start(struct lin *l, int64_t base)
{
	l->base = base;
	l->n = 0;
}

static void
lin_term(struct lin *l, int64_t coef, ix_id atom)
{
	uint32_t k = 0;

	if (coef == 0)
		return;
	while (k < l->n && l->t[k].atom < atom)
		k++;
	if (k < l->n && l->t[k].atom == atom) {
		l->t[k].coef += coef;
		if (l->t[k].coef == 0) {
			l->n--;
			memmove(&l->t[k], &l->t[k + 1], (l->n - k) * sizeof(l->t[0]));
		}
		return;
	}
	if (l->n == IX_MAX_TERMS)
		bug("an index sum has more than %d terms", IX_MAX_TERMS);
	memmove(&l->t[k + 1], &l->t[k], (l->n - k) * sizeof(l->t[0]));
	l->t[k] = (struct ix_term){.coef = coef, .atom = atom};
	l->n++;
}

static void
lin_add(struct lin *l, const struct tx *x, ix_id i, int64_t coef)
{
	const struct ix *n = ix_get(x, i);

	if (n->kind != IX_LIN) {
		lin_term(l, coef, i);
		return;
	}
	l->base += coef * n->c;
	for (uint32_t k = 0; k < n->n_terms; k++)
		lin_term(l, coef * n->terms[k].coef, n->terms[k].atom);
}

static void
lin_of(struct lin *l, const struct tx *x, ix_id i)
{
	lin_start(l, 0);
	lin_add(l, x, i, 1);
}

static void
lin_range(const struct tx *x, const struct lin *l, int64_t *lo, int64_t *hi)
{
	*lo = *hi = l->base;
	for (uint32_t k = 0; k < l->n; k++) {
		const struct ix *a = ix_get(x, l->t[k].atom);
		int64_t c = l->t[k].coef;

		*lo += c > 0 ? c * a->lo : c * a->hi;
		*hi += c > 0 ? c * a->hi : c * a->lo;
	}
}

static ix_id
lin_intern(struct tx *x, const struct lin *l)
{
	if (l->n == 1 && l->base == 0 && l->t[0].coef == 1)
		return l->t[0].atom;
	struct ix n = {.kind = IX_LIN, .c = l->base, .terms = l->t, .n_terms = l->n};

	lin_range(x, l, &n.lo, &n.hi);
	if (n.lo == n.hi)
		return ix_const(x, n.lo);
	return ix_intern(x, &n);
}

static bool
has_coef(const struct lin *l, int64_t coef)
{
	for (uint32_t k = 0; k < l->n; k++)
		if (l->t[k].coef == coef)
			return true;
	return false;
}

/* floor((r + z div d) / c) with the inner quotient multiplied out, floor((d*r + z) / (d*c)): what it is where
 * z was divided as a whole; y div c where there is no such quotient in y. */
static ix_id
quotient_of_whole(struct tx *x, ix_id y, int64_t c)
{
	const struct ix n = *ix_get(x, y);
	struct lin whole;

	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix_term t = n.terms[k];
		const struct ix q = *ix_get(x, t.atom);

		if (q.kind != IX_DIV || t.coef != 1)
			continue;
		lin_start(&whole, 0);
		lin_add(&whole, x, y, q.c);
		lin_term(&whole, -q.c, t.atom);
		lin_add(&whole, x, q.a, 1);
		return ix_div(x, lin_intern(x, &whole), q.c * c);
	}
	return ix_div(x, y, c);
}

/* k*c * (y div c) + k * (y mod c) = k * y.  Returns whether it replaced something. */
static bool
lin_rejoin(struct tx *x, struct lin *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		struct ix m = *ix_get(x, l->t[i].atom);
		if (m.kind != IX_MOD || !has_coef(l, l->t[i].coef * m.c))
			continue;
		ix_id quot = ix_div(x, m.a, m.c), whole = quotient_of_whole(x, m.a, m.c);
		int64_t coef = l->t[i].coef;
		for (uint32_t j = 0; j < l->n; j++) {
			const ix_id found = l->t[j].atom;

			if ((found != quot && found != whole) || l->t[j].coef != coef * m.c)
				continue;
			lin_term(l, -coef, l->t[i].atom);
			lin_term(l, -coef * m.c, found);
			lin_add(l, x, m.a, coef);
			return true;
		}
	}
	return false;
}

static ix_id
lin_make(struct tx *x, struct lin *l)
{
	while (lin_rejoin(x, l))
		;
	return lin_intern(x, l);
}

ix_id
ix_add(struct tx *x, ix_id a, ix_id b)
{
	struct lin l;

	lin_of(&l, x, a);
	lin_add(&l, x, b, 1);
	return lin_make(x, &l);
}

ix_id
ix_sum(struct tx *x, int64_t base, const struct ix_term *t, uint32_t n)
{
	struct lin l;

	lin_start(&l, base);
	for (uint32_t k = 0; k < n; k++)
		lin_add(&l, x, t[k].atom, t[k].coef);
	return lin_make(x, &l);
}

ix_id
ix_addc(struct tx *x, ix_id a, int64_t c)
{
	struct lin l;

	lin_of(&l, x, a);
	l.base += c;
	return lin_make(x, &l);
}

int64_t
ix_base(const struct tx *x, ix_id i)
{
	const struct ix *n = ix_get(x, i);

	return n->kind == IX_LIN ? n->c : 0;
}

ix_id
ix_mulc(struct tx *x, ix_id a, int64_t c)
{
	struct lin l;

	lin_start(&l, 0);
	lin_add(&l, x, a, c);
	return lin_make(x, &l);
}

/* ---- floor division ---------------------------------------------------------------------- */
/* i = c * quot + rest, with as much as possible in quot and rest's base in [0, c). */
static void
split_multiples(const struct lin *l, int64_t c, struct lin *quot, struct lin *rest)
{
	lin_start(quot, floor_div(l->base, c));
	lin_start(rest, l->base - quot->base * c);
	for (uint32_t k = 0; k < l->n; k++) {
		int64_t f = l->t[k].coef, q = floor_div(f, c);

		if (f % c == 0)
			lin_term(quot, q, l->t[k].atom);
		else
			lin_term(rest, f, l->t[k].atom);
	}
}

/* Terms whose coefficients g divides, and the rest of the base, against what is left over. */
static void
split_by(const struct lin *l, int64_t g, struct lin *big, struct lin *small)
{
	lin_start(big, floor_div(l->base, g));
	lin_start(small, l->base - big->base * g);
	for (uint32_t k = 0; k < l->n; k++) {
		if (l->t[k].coef % g == 0)
			lin_term(big, l->t[k].coef / g, l->t[k].atom);
		else
			lin_term(small, l->t[k].coef, l->t[k].atom);
	}
}

/* Is what g does not divide, and the rest of the base, from 0 to g - 1? */
static bool
fits_below(const struct tx *x, const struct lin *l, int64_t g)
{
	int64_t lo = l->base - floor_div(l->base, g) * g, hi = lo;

	for (uint32_t k = 0; k < l->n; k++) {
		const struct ix *a = ix_get(x, l->t[k].atom);
		int64_t c = l->t[k].coef;

		if (c % g == 0)
			continue;
		lo += c > 0 ? c * a->lo : c * a->hi;
		hi += c > 0 ? c * a->hi : c * a->lo;
	}
	return lo >= 0 && hi < g;
}

/* l = g * big + small with g | c, g > 1 and 0 <= small < g for the largest such g; then
 *   floor(l / c) = floor(big / (c/g))     l mod c = g * (big mod (c/g)) + small
 * g == 1 where there is none. */
static int64_t
split_factor(const struct tx *x, const struct lin *l, int64_t c, struct lin *big, struct lin *small)
{
	int64_t best = 1;

	for (uint32_t k = 0; k < l->n; k++) {
		int64_t g = gcd(c, l->t[k].coef);

		/* A factor common to several terms is a divisor of one of these: try it as well. */
		for (uint32_t m = k; m < l->n; m++) {
			int64_t d = gcd(g, l->t[m].coef);

			if (d > best && fits_below(x, l, d))
				best = d;
		}
	}
	if (best > 1)
		split_by(l, best, big, small);
	return best;
}

/* An atom for floor(rest / c) where nothing simpler was found. */
static ix_id
div_atom(struct tx *x, ix_id rest, int64_t c)
{
	struct ix n = *ix_get(x, rest);

	if (n.kind == IX_DIV)
		return ix_div(x, n.a, n.c * c);
	if (n.kind == IX_MOD && n.c % c == 0)
		return ix_mod(x, ix_div(x, n.a, c), n.c / c);
	return ix_intern(x,
	    &(struct ix){
		.kind = IX_DIV, .a = rest, .c = c, .lo = floor_div(n.lo, c), .hi = floor_div(n.hi, c)});
}

ix_id
ix_div(struct tx *x, ix_id i, int64_t c)
{
	struct lin l, quot, rest;
	int64_t lo, hi;

	if (c == 1)
		return i;
	if (c <= 0)
		bug("index divided by %lld", (long long)c);
	lin_of(&l, x, i);
	split_multiples(&l, c, &quot, &rest);
	lin_range(x, &rest, &lo, &hi);
	if (floor_div(lo, c) == floor_div(hi, c)) {
		quot.base += floor_div(lo, c);
		return lin_make(x, &quot);
	}
	struct lin big, small;
	int64_t g = split_factor(x, &rest, c, &big, &small);

	if (g > 1) {
		ix_id s = lin_make(x, &big);
		ix_id d = ix_div(x, s, c / g);

		lin_add(&quot, x, d, 1);
		return lin_make(x, &quot);
	}
	ix_id r = lin_make(x, &rest);

	lin_add(&quot, x, div_atom(x, r, c), 1);
	return lin_make(x, &quot);
}

static ix_id
mod_atom(struct tx *x, ix_id rest, int64_t c)
{
	struct ix n = *ix_get(x, rest);

	if (n.kind == IX_MOD && n.c % c == 0)
		return ix_mod(x, n.a, c);
	return ix_intern(x, &(struct ix){.kind = IX_MOD, .a = rest, .c = c, .lo = 0, .hi = c - 1});
}

ix_id
ix_mod(struct tx *x, ix_id i, int64_t c)
{
	struct lin l, quot, rest;
	int64_t lo, hi;

	if (c <= 0)
		bug("index modulo %lld", (long long)c);
	if (c == 1)
		return ix_const(x, 0);
	lin_of(&l, x, i);
	split_multiples(&l, c, &quot, &rest);
	lin_range(x, &rest, &lo, &hi);
	if (floor_div(lo, c) == floor_div(hi, c)) {
		rest.base -= floor_div(lo, c) * c;
		return lin_make(x, &rest);
	}
	struct lin big, small;
	int64_t g = split_factor(x, &rest, c, &big, &small);

	if (g > 1) {
		ix_id s = lin_make(x, &big);
		ix_id m = ix_mod(x, s, c / g);

		lin_add(&small, x, m, g);
		return lin_make(x, &small);
	}
	ix_id r = lin_make(x, &rest);

	return mod_atom(x, r, c);
}

/* ---- the rest ------------------------------------------------------------------------------ */
/* Half of a + b where that is constant: the smaller of the two is not above it, the larger not below, as of
 * the way there and the way back of a reflection. */
static bool
half_sum(struct tx *x, ix_id a, ix_id b, int64_t *down, int64_t *up)
{
	int64_t sum;

	if (!ix_is_const(x, ix_add(x, a, b), &sum))
		return false;
	*down = floor_div(sum, 2);
	*up = -floor_div(-sum, 2);
	return true;
}

ix_id
ix_min(struct tx *x, ix_id a, ix_id b)
{
	struct ix p = *ix_get(x, a), q = *ix_get(x, b);

	if (p.hi <= q.lo)
		return a;
	if (q.hi <= p.lo)
		return b;
	int64_t hi = MIN_OF(p.hi, q.hi), down, up;

	if (half_sum(x, a, b, &down, &up))
		hi = MIN_OF(hi, down);
	return ix_intern(x,
	    &(struct ix){
		.kind = IX_MIN, .a = MIN_OF(a, b), .b = MAX_OF(a, b), .lo = MIN_OF(p.lo, q.lo), .hi = hi});
}

ix_id
ix_max(struct tx *x, ix_id a, ix_id b)
{
	struct ix p = *ix_get(x, a), q = *ix_get(x, b);

	if (p.lo >= q.hi)
		return a;
	if (q.lo >= p.hi)
		return b;
	int64_t lo = MAX_OF(p.lo, q.lo), down, up;

	if (half_sum(x, a, b, &down, &up))
		lo = MAX_OF(lo, up);
	return ix_intern(x,
	    &(struct ix){
		.kind = IX_MAX, .a = MIN_OF(a, b), .b = MAX_OF(a, b), .lo = lo, .hi = MAX_OF(p.hi, q.hi)});
}

ix_id
ix_value(struct tx *x, ex_id e, int64_t lo, int64_t hi)
{
	return ix_intern(x, &(struct ix){.kind = IX_VALUE, .a = e, .lo = lo, .hi = hi});
}

bool
ix_has(const struct tx *x, ix_id i, axis_id a)
{
	const struct ix *n = ix_get(x, i);

	if (!(n->axes & axis_bit(a)))
		return false;
	switch (n->kind) {
	case IX_AXIS:
		return n->a == a;
	case IX_LIN:
		for (uint32_t k = 0; k < n->n_terms; k++)
			if (ix_has(x, n->terms[k].atom, a))
				return true;
		return false;
	case IX_DIV:
	case IX_MOD:
		return ix_has(x, n->a, a);
	case IX_MIN:
	case IX_MAX:
		return ix_has(x, n->a, a) || ix_has(x, n->b, a);
	case IX_VALUE:
		return ex_has(x, n->a, a);
	}
	return false;
}

bool
ix_coef(const struct tx *x, ix_id i, axis_id a, int64_t *coef)
{
	const struct ix *n = ix_get(x, i);

	*coef = 0;
	if (n->kind == IX_AXIS) {
		*coef = n->a == a;
		return true;
	}
	if (n->kind != IX_LIN)
		return !ix_has(x, i, a);
	for (uint32_t k = 0; k < n->n_terms; k++) {
		const struct ix *t = ix_get(x, n->terms[k].atom);

		if (t->kind == IX_AXIS && t->a == a)
			*coef = n->terms[k].coef;
		else if (t->kind != IX_AXIS && ix_has(x, n->terms[k].atom, a))
			return false;
	}
	return true;
}

int64_t
ix_eval(const struct tx *x, ix_id i, const int64_t *axis, ix_value_fn *fn, void *self)
{
	const struct ix n = *ix_get(x, i);
	int64_t v = n.c, w;

	switch (n.kind) {
	case IX_LIN:
		for (uint32_t k = 0; k < n.n_terms; k++)
			v += n.terms[k].coef * ix_eval(x, n.terms[k].atom, axis, fn, self);
		return v;
	case IX_AXIS:
		return axis[n.a];
	case IX_DIV:
		return floor_div(ix_eval(x, n.a, axis, fn, self), n.c);
	case IX_MOD:
		v = ix_eval(x, n.a, axis, fn, self);
		return v - floor_div(v, n.c) * n.c;
	case IX_MIN:
	case IX_MAX:
		v = ix_eval(x, n.a, axis, fn, self);
		w = ix_eval(x, n.b, axis, fn, self);
		return n.kind == IX_MIN ? MIN_OF(v, w) : MAX_OF(v, w);
	case IX_VALUE: /* the caller of ix_value has clamped it */
		v = fn(self, n.a);
		return MIN_OF(MAX_OF(v, n.lo), n.hi);
	}
	return 0;
}
