/* What a plan takes as a whole is learned from plans that were timed, starts from the sum, and knows its
 * error. */
#include "../../kernels/cost/whole.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROWS = 200, PER_MODEL = 4 };

static struct whole_plan
plan_of(uint32_t i)
{
	double sum = 1e5 * (1 + i % 7) * (1 + i % 3);

	return (struct whole_plan){sum, 5 + 3.0 * (i % 11), {sum * (i % 5), 0, sum}};
}

/* Each kernel costs 1.5 us that its own time does not have, and the models are off by so much more. */
static void
make_rows(struct whole_row rows[ROWS], double off)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		uint32_t model = i / PER_MODEL;

		rows[i].plan = plan_of(i);
		rows[i].model.b[0] = (uint8_t)model;
		rows[i].measured_ns =
		    (rows[i].plan.sum_ns + 1500 * rows[i].plan.kernels) * exp(model % 2 ? off : -off);
	}
}

static void
with_nothing_known_it_is_the_sum(void **state)
{
	struct whole_plan p = plan_of(3);
	struct whole_fit f;
	struct whole_time t;

	(void)state;
	whole_learn(NULL, 0, &f);
	t = whole_expect(&f, &p, 0);
	assert_int_equal(f.n, 0);
	assert_int_equal(t.ns, (int64_t)p.sum_ns);
	assert_true(t.low_ns < t.ns && t.ns < t.high_ns);
}

static void
what_each_kernel_costs_is_learned(void **state)
{
	struct whole_row rows[ROWS] = {0};
	struct whole_fit f;
	double sum_off = 0, off = 0;

	(void)state;
	make_rows(rows, 0);
	whole_learn(rows, ROWS, &f);
	assert_int_equal(f.n, ROWS);
	assert_int_equal(f.n_models, ROWS / PER_MODEL);
	for (uint32_t i = 0; i < ROWS; i++) {
		struct whole_time t = whole_expect(&f, &rows[i].plan, 0);

		sum_off += fabs(log(rows[i].measured_ns / rows[i].plan.sum_ns));
		off += fabs(log(rows[i].measured_ns / (double)t.ns));
	}
	assert_true(off < sum_off / 5);
	assert_true(f.sigma < 0.1);
}

/* One odd model says little of the others; equal rows give equal bits. */
static void
a_few_rows_move_it_a_little(void **state)
{
	struct whole_row rows[2] = {
	    {.plan = plan_of(1), .measured_ns = 2 * plan_of(1).sum_ns, .model = {{1}}},
	    {.plan = plan_of(2), .measured_ns = 0}};
	struct whole_plan p = plan_of(1);
	struct whole_fit f, same;
	struct whole_time t;

	(void)state;
	whole_learn(rows, 2, &f);
	whole_learn(rows, 2, &same);
	assert_memory_equal(f.w, same.w, sizeof(f.w));
	assert_int_equal(f.n, 1);
	t = whole_expect(&f, &p, 0);
	assert_true((double)t.ns > p.sum_ns && (double)t.ns < 2 * p.sum_ns);
	assert_true(f.sigma > 0.15);
}

/* Of models that are off by a fifth either way nine of ten lie within the interval, also where each has many
 * plans that agree among themselves: it is models that are left out. */
static void
the_error_is_that_of_models_left_out(void **state)
{
	struct whole_row rows[ROWS] = {0};
	struct whole_fit f;
	uint32_t within = 0;

	(void)state;
	make_rows(rows, 0.2);
	whole_learn(rows, ROWS, &f);
	assert_true(f.sigma > 0.18 && f.sigma < 0.3);
	for (uint32_t i = 0; i < ROWS; i++) {
		struct whole_time t = whole_expect(&f, &rows[i].plan, 0);

		within += rows[i].measured_ns >= (double)t.low_ns && rows[i].measured_ns <= (double)t.high_ns;
	}
	assert_true(within >= ROWS * 9 / 10);
}

/* Sums that hold guesses are wider, and nothing from outside makes a number that is none. */
static void
guesses_widen_and_extremes_are_bounded(void **state)
{
	struct whole_row rows[ROWS] = {0};
	struct whole_plan p = plan_of(5), odd = {1, 1e9, {1e18, 1e18, 1e18}};
	struct whole_fit f;
	struct whole_time sure, unsure, t;

	(void)state;
	make_rows(rows, 0.05);
	whole_learn(rows, ROWS, &f);
	sure = whole_expect(&f, &p, 0);
	unsure = whole_expect(&f, &p, 0.4);
	assert_int_equal(sure.ns, unsure.ns);
	assert_true(unsure.low_ns < sure.low_ns && unsure.high_ns > sure.high_ns);
	t = whole_expect(&f, &odd, 0);
	assert_true(t.ns >= 1 && t.ns <= 3 && t.low_ns >= 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(with_nothing_known_it_is_the_sum),
	    cmocka_unit_test(what_each_kernel_costs_is_learned),
	    cmocka_unit_test(a_few_rows_move_it_a_little),
	    cmocka_unit_test(the_error_is_that_of_models_left_out),
	    cmocka_unit_test(guesses_widen_and_extremes_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
