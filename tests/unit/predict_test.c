/* The predictor finds what rows show and stays near what is usual without them. */
#include "../../kernels/cost/predict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void
without_rows_it_says_what_is_usual(void **state)
{
	struct predict p;
	double x[PREDICT_FEATURES] = {1, 2, 3};

	(void)state;
	predict_fit(NULL, 0, predict_usual_sigma, &p);
	assert_true(fabs(predict_ratio(&p, x, predict_usual, 0) - exp(0.4)) < 1e-9);
	assert_true(predict_ratio(&p, x, predict_usual, 1) < predict_ratio(&p, x, predict_usual, 0));
	assert_true(predict_ratio(&p, x, predict_usual, 100) > 0.01); /* however hopeful */
}

/* ln(measured / bound) = 0.2 + 0.5 [is linear] + 0.1 x[1] + noise of 0.05 */
static void
it_learns_a_line(void **state)
{
	struct predict_row rows[400] = {0};
	struct predict p;
	struct rng r = {7};
	double worst = 0;

	(void)state;
	for (int i = 0; i < 400; i++) {
		double *x = rows[i].x;

		x[0] = 1;
		x[1] = rng_unit(&r) * 6 - 3;
		x[4] = (double)rng_below(&r, 2);
		rows[i].left = 0.2 + 0.5 * x[4] + 0.1 * x[1] + 0.1 * (rng_unit(&r) - 0.5) - predict_usual;
	}
	predict_fit(rows, 400, predict_usual_sigma, &p);
	for (int i = 0; i < 400; i++) {
		const double *x = rows[i].x;
		double want = exp(0.2 + 0.5 * x[4] + 0.1 * x[1]);

		worst = fmax(worst, fabs(predict_ratio(&p, x, predict_usual, 0) / want - 1));
	}
	assert_true(worst < 0.05);
	assert_true(p.sigma < 0.15);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_rows_it_says_what_is_usual),
	    cmocka_unit_test(it_learns_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
