/* tests/unit/interval_test.c: intervals hold for kernels of a model that is none of those they were made
 * from. */
#include "../../kernels/predict/interval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MODELS = 12, EACH = 40, ALL = MODELS * EACH, TRIALS = 60 };

/* About normal, of deviation 1. */
static double
noise(struct rng *r)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += rng_below(r, 1000) / 1000.0;
	return sum - 6;
}

static void
draw(struct rng *r, double apart, uint32_t model, struct residual *out)
{
	const double shift = apart * noise(r);

	for (uint32_t i = 0; i < EACH; i++)
		out[i] = (struct residual){.off = shift + noise(r), .model = model};
}

/* Of kernels of one more model, how many lie between 5 and 95 %; models are so far apart. */
static double
share_inside(double apart, bool knows_models)
{
	struct rng r = {11};
	uint32_t inside = 0;

	for (int t = 0; t < TRIALS; t++) {
		struct residual all[ALL], next[EACH];
		struct interval v;

		for (uint32_t m = 0; m < MODELS; m++)
			draw(&r, apart, knows_models ? m : 0, all + m * EACH);
		draw(&r, apart, 0, next);
		interval_fit(all, ALL, &v);
		for (int i = 0; i < EACH; i++)
			inside += next[i].off >= (double)v.off[0][LEVEL_05] &&
			    next[i].off <= (double)v.off[0][LEVEL_95];
	}
	return (double)inside / (TRIALS * EACH);
}

static void
the_next_model_is_covered(void **state)
{
	(void)state;
	/* alike: nothing is to be added */
	assert_true(fabs(share_inside(0, true) - 0.9) < 0.02);
	assert_true(share_inside(0, true) - share_inside(0, false) < 0.01);
	/* apart: as if it were one sample, too few */
	assert_true(share_inside(1.5, false) < 0.875);
	assert_true(fabs(share_inside(1.5, true) - 0.9) < 0.03);
}

static void
few_say_little(void **state)
{
	struct residual r[3] = {{.off = 1}, {.off = -1, .model = 1}, {.off = 0.5, .model = 2}};
	struct interval v;

	(void)state;
	interval_fit(r, 3, &v);
	assert_true((double)v.off[0][LEVEL_95] > 2 && (double)v.off[0][LEVEL_05] < -2);
	interval_fit(r, 0, &v);
	assert_true((double)v.off[0][LEVEL_95] > 2 && (double)v.off[0][LEVEL_05] < -2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_next_model_is_covered), cmocka_unit_test(few_say_little)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
