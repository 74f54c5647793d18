/* tests/prop/region_test.c: index expressions, their intervals and what is proved of them, against the
 * values that they take: random expressions over three nested axes, all axis values enumerated.  Axes begin
 * below, at and above zero; extents and offsets stand one below, at and above divisors.
 * KORCH_REGION_CASES=N tries N cases (default 6000), KORCH_REGION_SEED=N from there. */
#include "../../kernels/tir/tir.h"
#include "../harness/setting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N_AXES = 3, N_GUARDS = 2 };

static int64_t
floor_of(int64_t a, int64_t c)
{
	return a / c - (a % c < 0);
}

static int64_t
eval(const struct tx *x, ix_id i, const int64_t *axis)
{
	const struct ix n = *ix_get(x, i);
	int64_t v = n.c;

	switch (n.kind) {
	case IX_LIN:
		for (uint32_t k = 0; k < n.n_terms; k++)
			v += n.terms[k].coef * eval(x, n.terms[k].atom, axis);
		return v;
	case IX_AXIS:
		return axis[n.a];
	case IX_DIV:
		return floor_of(eval(x, n.a, axis), n.c);
	case IX_MOD:
		v = eval(x, n.a, axis);
		return v - floor_of(v, n.c) * n.c;
	case IX_MIN:
		return MIN_OF(eval(x, n.a, axis), eval(x, n.b, axis));
	case IX_MAX:
		return MAX_OF(eval(x, n.a, axis), eval(x, n.b, axis));
	case IX_VALUE:
		break;
	}
	fail_msg("an index of a kind that was not built");
	return 0;
}

/* The same computed as it was asked for, whatever the builders made of it. */
struct step {
	int op; /* of grow() */
	int64_t c;
	uint32_t axis;
};
enum { N_STEPS = 7 };
struct formula {
	struct step s[N_STEPS];
	uint32_t n;
	ix_id i;
};

static const int64_t divisor[] = {1, 2, 3, 4, 6, 8};

static int64_t
any_divisor(struct rng *r)
{
	return divisor[rng_below(r, COUNT_OF(divisor))];
}

/* One below, at or above a multiple of a divisor, or small. */
static int64_t
near_divisor(struct rng *r)
{
	return any_divisor(r) * rng_below(r, 3) + (int64_t)rng_below(r, 3) - 1;
}

static struct step
any_step(struct rng *r)
{
	struct step s = {.op = (int)rng_below(r, 8), .axis = rng_below(r, N_AXES)};

	s.c = s.op < 2 || s.op == 2 ? any_divisor(r) : near_divisor(r);
	if (s.op == 5 && rng_below(r, 2))
		s.c = -s.c;
	return s;
}

static ix_id
grow(struct tx *x, const struct step *s, ix_id i, const ix_id *axes)
{
	switch (s->op) {
	case 0:
		return ix_div(x, i, s->c);
	case 1:
		return ix_mod(x, i, s->c);
	case 2:
		return ix_mulc(x, i, s->c);
	case 3:
		return ix_addc(x, i, -s->c);
	case 4:
		return ix_min(x, i, ix_addc(x, axes[s->axis], s->c));
	case 5:
		return ix_add(x, i, ix_mulc(x, axes[s->axis], s->c));
	case 6:
		return ix_max(x, ix_mulc(x, axes[s->axis], 2), i);
	default:
		return ix_add(x, i, axes[s->axis]);
	}
}

static int64_t
meant(const struct formula *f, const int64_t *at)
{
	int64_t v = 0;

	for (uint32_t k = 0; k < f->n; k++) {
		const struct step *s = &f->s[k];
		int64_t a = at[s->axis];

		v = s->op == 0   ? floor_of(v, s->c)
		    : s->op == 1 ? v - floor_of(v, s->c) * s->c
		    : s->op == 2 ? v * s->c
		    : s->op == 3 ? v - s->c
		    : s->op == 4 ? MIN_OF(v, a + s->c)
		    : s->op == 5 ? v + a * s->c
		    : s->op == 6 ? MAX_OF(2 * a, v)
				 : v + a;
	}
	return v;
}

static void
any_formula(struct tx *x, struct rng *r, const ix_id *axes, struct formula *f)
{
	f->n = 1 + rng_below(r, N_STEPS);
	f->i = ix_const(x, 0);
	for (uint32_t k = 0; k < f->n; k++) {
		f->s[k] = any_step(r);
		f->i = grow(x, &f->s[k], f->i, axes);
	}
}

/* ---- nests: each axis from and to expressions over outer ones, never empty ---- */
struct nest {
	struct tx *x;
	struct tir_range r[N_AXES];
	ix_id axis[N_AXES];
	uint64_t seed;
};

static void
any_nest(struct nest *n, struct rng *r)
{
	struct tx *x = n->x;

	for (uint32_t k = 0; k < N_AXES; k++) {
		int64_t c = any_divisor(r), extent = near_divisor(r);
		ix_id from = ix_const(x, near_divisor(r) - 4), to;

		if (k > 0 && rng_below(r, 2)) { /* a tile of an outer axis, its end cut off */
			from = ix_mulc(x, n->axis[k - 1], c);
			to = ix_addc(x, from, c);
			if (rng_below(r, 2))
				to = ix_max(
				    x, ix_addc(x, from, 1), ix_min(x, to, ix_const(x, near_divisor(r))));
		} else {
			to = ix_addc(x, from, MAX_OF(extent, 1));
		}
		n->r[k].from = from;
		n->r[k].to = to;
		n->r[k].axis = tx_axis(x, AXIS_OUTER, ix_get(x, from)->lo, ix_get(x, to)->hi - 1, IX_NONE);
		n->axis[k] = ix_axis(x, n->r[k].axis);
	}
}

/* Calls fn for every point of axes first .. N_AXES-1; what stands before in `at` stays. */
typedef void point_fn(void *self, const int64_t *at);
static void
each_point(const struct nest *n, uint32_t first, int64_t *at, point_fn *fn, void *self)
{
	if (first == N_AXES) {
		fn(self, at);
		return;
	}
	int64_t to = eval(n->x, n->r[first].to, at);

	for (int64_t v = eval(n->x, n->r[first].from, at); v < to; v++) {
		at[n->r[first].axis] = v;
		each_point(n, first + 1, at, fn, self);
	}
}

/* ---- 1. meaning and range ---- */
struct meaning {
	const struct nest *n;
	const struct formula *f;
};

static void
check_meaning(void *self, const int64_t *at)
{
	const struct meaning *m = self;
	const struct ix *i = ix_get(m->n->x, m->f->i);
	int64_t want = meant(m->f, at), have = eval(m->n->x, m->f->i, at);

	if (want != have || want < i->lo || want > i->hi)
		fail_msg("seed %llu: wanted %lld, got %lld of %lld .. %lld", (unsigned long long)m->n->seed,
		    (long long)want, (long long)have, (long long)i->lo, (long long)i->hi);
}

/* ---- 2. regions ---- */
struct region {
	const struct nest *n;
	ix_id i, lo, hi;
	uint32_t from; /* axes from there on are eliminated */
	bool exact;
	int64_t least, most;
	uint64_t n_exact;
};

static void
widen(void *self, const int64_t *at)
{
	struct region *g = self;
	int64_t v = eval(g->n->x, g->i, at);

	g->least = MIN_OF(g->least, v);
	g->most = MAX_OF(g->most, v);
}

/* At one point of the outer axes. */
static void
check_region(struct region *g, int64_t *at)
{
	g->least = INT64_MAX;
	g->most = INT64_MIN;
	each_point(g->n, g->from, at, widen, g);
	int64_t lo = eval(g->n->x, g->lo, at), hi = eval(g->n->x, g->hi, at);

	if (lo > g->least || hi < g->most)
		fail_msg("seed %llu: %lld .. %lld is not in the region %lld .. %lld",
		    (unsigned long long)g->n->seed, (long long)g->least, (long long)g->most, (long long)lo,
		    (long long)hi);
	if (g->exact && (lo != g->least || hi != g->most))
		fail_msg("seed %llu: the region %lld .. %lld is not exact: %lld .. %lld",
		    (unsigned long long)g->n->seed, (long long)lo, (long long)hi, (long long)g->least,
		    (long long)g->most);
	g->n_exact += g->exact;
}

static void
each_outer(struct region *g, uint32_t k, int64_t *at)
{
	if (k == g->from || k == N_AXES) {
		check_region(g, at);
		return;
	}
	int64_t to = eval(g->n->x, g->n->r[k].to, at);

	for (int64_t v = eval(g->n->x, g->n->r[k].from, at); v < to; v++) {
		at[g->n->r[k].axis] = v;
		each_outer(g, k + 1, at);
	}
}

/* ---- 3. facts ---- */
struct proof {
	const struct nest *n;
	struct tir_guard guard[N_GUARDS];
	bool yes[N_GUARDS];
	ix_id i;
	int64_t lo, hi;
};

static void
check_bound(void *self, const int64_t *at)
{
	const struct proof *p = self;
	int64_t v = eval(p->n->x, p->i, at);

	for (uint32_t k = 0; k < N_GUARDS; k++) {
		int64_t g = eval(p->n->x, p->guard[k].i, at);

		if ((g >= p->guard[k].lo && g < p->guard[k].hi) != p->yes[k])
			return;
	}
	if (v < p->lo || v > p->hi)
		fail_msg("seed %llu: %lld is not in %lld .. %lld, as was proved",
		    (unsigned long long)p->n->seed, (long long)v, (long long)p->lo, (long long)p->hi);
}

static void
any_proof(const struct nest *n, struct rng *r, struct proof *p)
{
	struct tir_facts f = {.x = n->x, .n_range = N_AXES};
	struct formula q;

	for (uint32_t k = 0; k < N_AXES; k++)
		f.range[k] = n->r[k];
	for (uint32_t k = 0; k < N_GUARDS; k++) {
		any_formula(n->x, r, n->axis, &q);
		p->guard[k] = (struct tir_guard){q.i, near_divisor(r) - 4, near_divisor(r) + 4};
		p->yes[k] = rng_below(r, 3) > 0;
		facts_add(&f, p->guard[k], p->yes[k]);
	}
	any_formula(n->x, r, n->axis, &q);
	p->i = q.i;
	if (rng_below(r, 2)) /* near a guard, so that it says something */
		p->i =
		    ix_add(n->x, ix_mulc(n->x, p->guard[0].i, any_divisor(r)), n->axis[rng_below(r, N_AXES)]);
	facts_bound(&f, p->i, &p->lo, &p->hi);
}

static void
test_enumerated(void **state)
{
	uint64_t n = setting("KORCH_REGION_CASES", 6000), seed = setting("KORCH_REGION_SEED", 1), exact = 0;

	(void)state;
	for (uint64_t s = seed; s < seed + n; s++) {
		struct arena a = {0};
		struct nest nest = {.x = tx_make(&a), .seed = s};
		struct rng r = {s};
		struct formula f;
		struct proof p = {.n = &nest};
		int64_t at[N_AXES] = {0};

		any_nest(&nest, &r);
		any_formula(nest.x, &r, nest.axis, &f);
		each_point(&nest, 0, at, check_meaning, &(struct meaning){&nest, &f});
		for (uint32_t from = 0; from < N_AXES; from++) {
			struct region g = {.n = &nest, .i = f.i, .from = from};

			ix_region(nest.x, N_AXES - from, nest.r + from, f.i, &g.lo, &g.hi, &g.exact);
			each_outer(&g, 0, at);
			exact += g.n_exact > 0;
		}
		any_proof(&nest, &r, &p);
		p.n = &nest;
		each_point(&nest, 0, at, check_bound, &p);
		arena_fini(&a);
	}
	print_message(
	    "%llu of %llu regions are exact\n", (unsigned long long)exact, (unsigned long long)(3 * n));
	assert_true(exact > n);
}

/* ---- what the schedules rest on is found ---- */
static void
test_window_of_a_tile(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	ix_id o = ix_axis(x, tx_axis(x, AXIS_OUTER, 0, 13, IX_NONE));
	axis_id y = tx_axis(x, AXIS_OUTER, 0, 55, IX_NONE), k = tx_axis(x, AXIS_OUTER, 0, 2, IX_NONE);
	struct tir_range r[] = {
	    {y, ix_mulc(x, o, 4), ix_addc(x, ix_mulc(x, o, 4), 4)}, {k, ix_const(x, 0), ix_const(x, 3)}};
	ix_id i = ix_add(x, ix_axis(x, y), ix_axis(x, k)), lo, hi;
	bool exact;

	(void)state;
	ix_region(x, 2, r, i, &lo, &hi, &exact);
	assert_true(exact);
	assert_int_equal(lo, ix_mulc(x, o, 4));
	assert_int_equal(hi, ix_addc(x, ix_mulc(x, o, 4), 5)); /* six rows, not four times three */
	arena_fini(&a);
}

static void
test_cut_tail(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	axis_id o = tx_axis(x, AXIS_OUTER, 0, 8, IX_NONE), y = tx_axis(x, AXIS_OUTER, 0, 32, IX_NONE);
	ix_id start = ix_mulc(x, ix_axis(x, o), 4);
	struct tir_range r[] = {{o, ix_const(x, 0), ix_const(x, 9)},
	    {y, start, ix_min(x, ix_addc(x, start, 4), ix_const(x, 33))}};
	ix_id lo, hi;
	bool exact;

	(void)state;
	ix_region(x, 2, r, ix_add(x, ix_axis(x, y), ix_mulc(x, start, -1)), &lo, &hi, &exact);
	assert_int_equal(lo, ix_const(x, 0));
	assert_int_equal(hi, ix_const(x, 3)); /* the minimum and the start cancel */
	arena_fini(&a);
}

static void
test_guard_with_a_factor(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	axis_id o = tx_axis(x, AXIS_OUTER, 0, 8, IX_NONE), y = tx_axis(x, AXIS_OUTER, 0, 3, IX_NONE);
	ix_id k = ix_add(x, ix_mulc(x, ix_axis(x, o), 4), ix_axis(x, y));
	struct tir_facts f = {.x = x, .n_range = 2};
	int64_t lo, hi;

	(void)state;
	f.range[0] = (struct tir_range){o, ix_const(x, 0), ix_const(x, 9)};
	f.range[1] = (struct tir_range){y, ix_const(x, 0), ix_const(x, 4)};
	facts_add(&f, (struct tir_guard){k, 0, 33}, true);
	facts_bound(&f, ix_addc(x, ix_mulc(x, k, 2), 1), &lo, &hi);
	assert_int_equal(hi, 65);
	facts_bound(&f, ix_div(x, k, 3), &lo, &hi);
	assert_int_equal(hi, 10);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_enumerated),
	    cmocka_unit_test(test_window_of_a_tile),
	    cmocka_unit_test(test_cut_tail),
	    cmocka_unit_test(test_guard_with_a_factor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
