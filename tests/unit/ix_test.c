/* tests/unit/ix_test.c: index expressions mean what they were built from, however they were
 * simplified; and the simplifications that fast code rests on do happen. */
#include "../../kernels/tir/expr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N_AXES = 3 };

static int64_t
floor_div(int64_t a, int64_t c)
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
		return floor_div(eval(x, n.a, axis), n.c);
	case IX_MOD:
		v = eval(x, n.a, axis);
		return v - floor_div(v, n.c) * n.c;
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

/* Divisors and factors as reshapes, windows and repeats make them. */
static const int64_t factor[] = {1, 2, 3, 4, 7, 8, 14, 16, 28, 56, 112, 448};

static int64_t
any_factor(struct rng *r)
{
	return factor[rng_below(r, COUNT_OF(factor))];
}

/* One step on both: the expression, and its value at a point computed as it was asked for. */
static ix_id
grow(struct rng *r, struct tx *x, ix_id i, const ix_id *axes, const int64_t *at, int64_t *v)
{
	uint32_t a = rng_below(r, N_AXES);
	int64_t c = any_factor(r);

	switch (rng_below(r, 5)) {
	case 0:
		*v = floor_div(*v, c);
		return ix_div(x, i, c);
	case 1:
		*v -= floor_div(*v, c) * c;
		return ix_mod(x, i, c);
	case 2:
		*v *= c;
		return ix_mulc(x, i, c);
	case 3:
		*v += c - 20;
		return ix_addc(x, i, c - 20);
	default:
		*v += c * at[a];
		return ix_add(x, i, ix_mulc(x, axes[a], c));
	}
}

static void
test_meaning(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20000; seed++) {
		struct arena a = {0};
		struct tx *x = tx_make(&a);
		struct rng r = {seed};
		int64_t at[N_AXES], v = 0;
		ix_id axes[N_AXES], i = ix_const(x, 0);

		for (uint32_t k = 0; k < N_AXES; k++) {
			int64_t extent = any_factor(&r) + rng_below(&r, 3);

			axes[k] = ix_axis(x, tx_axis(x, AXIS_PAR, 0, extent - 1, IX_NONE));
			at[k] = rng_below(&r, (uint32_t)extent);
		}
		for (uint32_t k = 1 + rng_below(&r, 8); k > 0; k--) {
			i = grow(&r, x, i, axes, at, &v);
			assert_true(ix_get(x, i)->lo <= v && v <= ix_get(x, i)->hi);
		}
		if (eval(x, i, at) != v)
			fail_msg("seed %llu: wanted %lld, got %lld", (unsigned long long)seed, (long long)v,
			    (long long)eval(x, i, at));
		arena_fini(&a);
	}
}

/* A nearest resize by two, read through a window: channel c of 16, position y*28 + x: the channel
 * must leave the division, or no loop over channels becomes vector code. */
static void
test_resize_leaves_no_division(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	ix_id c = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 15, IX_NONE));
	ix_id y = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 55, IX_NONE));
	ix_id z = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 55, IX_NONE));
	ix_id flat = ix_add(x, ix_add(x, ix_mulc(x, y, 896), ix_mulc(x, z, 16)), c);

	(void)state;
	assert_int_equal(ix_div(x, flat, 1792), ix_div(x, y, 2));
	assert_int_equal(ix_mod(x, ix_div(x, flat, 1792), 28), ix_div(x, y, 2));
	assert_int_equal(ix_mod(x, flat, 16), c);
	assert_int_equal(ix_mod(x, flat, 896), ix_add(x, ix_mulc(x, z, 16), c));
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_meaning),
	    cmocka_unit_test(test_resize_leaves_no_division),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
