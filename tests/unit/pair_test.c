/* tests/unit/pair_test.c: is one kernel faster than another?  The interval of a session of pairs holds the
 * true ratio as often as it says, whatever the noise; equal kernels are hardly ever a gain; what is too
 * little says nothing. */
#include "../../worker/measure_int.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { SESSIONS = 4000, MOST = 200 };

static void
order_statistics(void **state)
{
	double v[] = {1.0, .95, .9, .94, .93, .96, .91, .97, .92, .98};
	struct pair_stats p;

	(void)state;
	/* of ten values P(at most 1 below the median) = 1.1 %, of 2: 5.5 % */
	assert_true(pair_judge(v, COUNT_OF(v), &p));
	assert_int_equal(p.n, 10);
	assert_true(fabs(p.low - .91) < 1e-12 && fabs(p.high - .98) < 1e-12);
	assert_true(fabs(p.ratio - .945) < 1e-12);
	assert_true(pair_is_gain(&p));
}

/* 2 * 2^-5 is 6 %: five are too few for 95 %, six are not. */
static void
too_few(void **state)
{
	double v[] = {.5, .5, .5, .5, .5, .5};
	struct pair_stats p;

	(void)state;
	for (uint32_t n = 0; n <= 5; n++) {
		assert_false(pair_judge(v, n, &p));
		assert_false(pair_is_gain(&p));
	}
	assert_true(pair_judge(v, 6, &p));
	assert_true(pair_is_gain(&p));
}

static void
no_gain_at_the_edge(void **state)
{
	double v[32];
	struct pair_stats p;

	(void)state;
	for (int i = 0; i < 32; i++)
		v[i] = i < 11 ? 1 : .9; /* nine may be left out at either end */
	assert_true(pair_judge(v, 32, &p));
	assert_true(p.ratio < 1);
	assert_true(p.high == 1);
	assert_false(pair_is_gain(&p));
}

/* Now and then a sample is disturbed, always in the same direction. */
static double
sample(struct rng *r, double true_ns)
{
	double ns = true_ns * (1 + 0.01 * rng_normal(r));

	return rng_below(r, 20) == 0 ? ns * (1 + rng_unit(r)) : ns;
}

/* One pair, A B B A, on a device that becomes slower all the time. */
static double
pair(struct rng *r, double ratio, double *clock)
{
	double ns[4], drift = 1e-3;

	for (int i = 0; i < 4; i++) {
		ns[i] = sample(r, 1000 * (i == 1 || i == 2 ? ratio : 1)) * *clock;
		*clock *= 1 + drift;
	}
	return (ns[1] + ns[2]) / (ns[0] + ns[3]);
}

/* How often the interval holds the true ratio, and how often it says "faster". */
static void
play(double ratio, uint32_t n, double *holds, double *gains)
{
	struct rng r = {42};
	uint32_t n_holds = 0, n_gains = 0;

	for (int s = 0; s < SESSIONS; s++) {
		double v[MOST], clock = 1;
		struct pair_stats p;

		for (uint32_t i = 0; i < n; i++)
			v[i] = pair(&r, ratio, &clock);
		assert_true(pair_judge(v, n, &p));
		assert_true(p.low <= p.ratio && p.ratio <= p.high);
		n_holds += p.low <= ratio && ratio <= p.high;
		n_gains += pair_is_gain(&p);
	}
	*holds = (double)n_holds / SESSIONS;
	*gains = (double)n_gains / SESSIONS;
}

static void
coverage(void **state)
{
	static const uint32_t sizes[] = {8, 32, 96, 200};
	double holds, gains;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		play(1, sizes[i], &holds, &gains);
		if (holds < 0.94 || gains > 0.03)
			fail_msg("%u pairs of equal kernels: the interval holds %.3f, a gain %.3f", sizes[i],
			    holds, gains);
		play(0.97, sizes[i], &holds, &gains);
		if (holds < 0.94)
			fail_msg("%u pairs at 0.97: the interval holds %.3f", sizes[i], holds);
	}
	play(0.97, 96, &holds, &gains);
	assert_true(gains > 0.99);
}

/* More than a thousand: the same by the normal law. */
static void
many(void **state)
{
	enum { N = 4000 };
	double *v = calloc(N, sizeof(*v)), clock = 1;
	struct rng r = {7};
	struct pair_stats p;

	(void)state;
	for (int i = 0; i < N; i++)
		v[i] = pair(&r, 0.995, &clock);
	assert_true(pair_judge(v, N, &p));
	assert_true(pair_is_gain(&p));
	assert_true(p.high - p.low < 0.002);
	free(v);
}

static struct pair_stats
about(double median, double either_way)
{
	return (struct pair_stats){
	    .ratio = median, .low = median - either_way, .high = median + either_way, .n = 100};
}

/* Whole plans are told apart when the others are clearly slower, or all are known as well as anybody needs;
 * what is near and not yet known goes on, and so does what nothing is known of. */
static void
told_apart(void **state)
{
	struct pair_stats x[3] = {about(100, .4), about(110, 2), about(150, 20)};

	(void)state;
	assert_true(pair_is_told(x, 3));
	x[1] = about(102, 1);
	assert_false(pair_is_told(x, 3));
	x[0] = about(100, .1);
	assert_true(pair_is_told(x, 3));
	x[1] = about(100.3, .15);
	assert_true(pair_is_told(x, 3)); /* as fast, for all that matters */
	x[2].n = 0;
	assert_false(pair_is_told(x, 3));
	assert_true(pair_is_told(x, 1) && pair_is_told(x, 0));
	x[0] = about(100, 3);
	assert_false(pair_is_told(x, 1)); /* what is alone is to be known, too */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(order_statistics), cmocka_unit_test(too_few),
	    cmocka_unit_test(no_gain_at_the_edge), cmocka_unit_test(coverage), cmocka_unit_test(many),
	    cmocka_unit_test(told_apart)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
