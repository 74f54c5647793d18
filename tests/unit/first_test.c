/* In which order a kernel's schedules are tried: the fastest by prediction, then what may gain most beside
 * it. */
#include "../../kernels/predict/first.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 4 };

static void
assert_order(uint32_t n, const char *const *schedule, const double *ns, const uint32_t *want)
{
	struct str s[MOST];
	uint32_t order[MOST];

	for (uint32_t i = 0; i < n; i++)
		s[i] = str_of(schedule[i]);
	predict_first(s, ns, n, order);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(order[i], want[i]);
}

static void
another_form_stands_second_where_it_is_near(void **state)
{
	static const char *const list[] = {"", "block=8", "lib=onednn-2.6.3", "block=16"};

	(void)state;
	assert_order(4, list, (double[]){100, 101, 103, 102}, (uint32_t[]){0, 2, 1, 3});
	assert_order(4, list, (double[]){100, 101, 150, 102}, (uint32_t[]){0, 1, 3, 2});
	assert_order(4, list, (double[]){100, 101, 99, 102}, (uint32_t[]){2, 0, 1, 3});
}

static void
of_one_form_the_faster_comes_first(void **state)
{
	static const char *const list[] = {"block=8", "block=16", "", "mr=4"};

	(void)state;
	assert_order(4, list, (double[]){300, 200, 400, 100}, (uint32_t[]){3, 1, 0, 2});
	assert_order(4, list, (double[]){100, 100, 100, 100}, (uint32_t[]){0, 1, 2, 3});
	assert_order(0, list, NULL, NULL);
}

/* A knob that says no is the form that has it not. */
static void
forms_are_by_what_is_said(void **state)
{
	(void)state;
	assert_true(predict_are_alike(STR("trace=1"), STR("wino=0 trace=1")));
	assert_true(predict_are_alike(STR("block=8 trace=1"), STR("mr=6 nv=2 trace=1")));
	assert_false(predict_are_alike(STR("wino=4 trace=1"), STR("lib=onednn-2.6.3")));
	assert_true(predict_are_alike(STR("wino=4 trace=1"), STR("block=24 wino=2 trace=1")));
	assert_false(predict_are_alike(STR("wino=4 trace=1"), STR("trace=1")));
}

static void
what_lies_far_above_gains_nothing(void **state)
{
	(void)state;
	assert_true(predict_gain(100, 200, 0.1) < 1e-6);
	assert_true(fabs(predict_gain(100, 50, 0) - 50) < 1e-9);
	assert_true(predict_gain(100, 110, 0.3) > predict_gain(100, 110, 0.1));
	assert_true(predict_gain(0, 50, 0.1) <= 0 && predict_gain(-5, 50, 0.1) <= 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(another_form_stands_second_where_it_is_near),
	    cmocka_unit_test(of_one_form_the_faster_comes_first),
	    cmocka_unit_test(forms_are_by_what_is_said),
	    cmocka_unit_test(what_lies_far_above_gains_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
