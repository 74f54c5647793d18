/* tests/unit/ix_test.c: index expressions mean what they were built from, however they were
 * simplified; and the simplifications that fast code rests on do happen. */
#include "../../kernels/tir/expr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N_AXES = 3 };

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
		*v = floor_of(*v, c);
		return ix_div(x, i, c);
	case 1:
		*v -= floor_of(*v, c) * c;
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

/* Quotient and remainder by the same number become one index again, though the divisor divides no
 * coefficient: (192*i + j) mod 128 must not become (64*i + j) mod 128. */
static void
test_digits_are_joined_again(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	ix_id i = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 6, IX_NONE));
	ix_id j = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 300, IX_NONE));
	ix_id v = ix_add(x, ix_mulc(x, i, 192), j);
	ix_id digits = ix_add(x, ix_mulc(x, ix_div(x, v, 128), 128), ix_mod(x, v, 128));

	(void)state;
	assert_int_equal(digits, v);
	arena_fini(&a);
}

/* Three digits of a number that is a sum itself, as a split makes it of loops that were fused: the quotient
 * in the middle one is a sum of its own, and that of the first one of the whole number. */
static void
test_digits_of_a_sum_are_joined_again(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	ix_id o = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 48, IX_NONE));
	ix_id i = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 127, IX_NONE));
	ix_id v = ix_add(x, ix_mulc(x, o, 128), i);
	ix_id digits = ix_add(x, ix_mulc(x, ix_div(x, v, 448), 448),
	    ix_add(x, ix_mulc(x, ix_mod(x, ix_div(x, v, 32), 14), 32), ix_mod(x, v, 32)));

	(void)state;
	assert_int_equal(digits, v);
	arena_fini(&a);
}

/* Equal tuples are one, whatever was made in between; a read with one index is a flat one. */
static void
test_tuples(void **state)
{
	struct arena a = {0};
	struct tx *x = tx_make(&a);
	ix_id i = ix_axis(x, tx_axis(x, AXIS_PAR, 0, 6, IX_NONE)), one = ix_addc(x, i, 1);
	ixv_id v = ixv_make(x, 2, (ix_id[]){i, one}), none = ixv_make(x, 0, NULL);

	(void)state;
	for (int64_t k = 0; k < 1000; k++)
		ixv_make(x, 2, (ix_id[]){ix_const(x, k), i});
	assert_int_equal(ixv_make(x, 2, (ix_id[]){i, one}), v);
	assert_int_not_equal(ixv_make(x, 2, (ix_id[]){one, i}), v);
	assert_int_equal(ixv_make(x, 0, NULL), none);
	assert_int_equal(ex_read(x, DT_f32, 3, i), ex_load(x, DT_f32, 3, ixv_make(x, 1, &i)));
	assert_int_equal(ex_get(x, ex_load(x, DT_f32, 3, v))->ix, IX_NONE);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_meaning),
	    cmocka_unit_test(test_resize_leaves_no_division),
	    cmocka_unit_test(test_digits_are_joined_again),
	    cmocka_unit_test(test_digits_of_a_sum_are_joined_again),
	    cmocka_unit_test(test_tuples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
