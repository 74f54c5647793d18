/* tests/unit/check_test.c: the reference values that kernels are checked against: the quick
 * loops say what the interpreter says; inputs stay in range and repeat. */
#include "../../kernels/interp/interp.h"
#include "../../worker/measure_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *const specs[] = {
    "spec 1\n%0 = input f32[2,7,5,6]\n%1 = input f32[3,2,3,8]\n"
    "%2 = conv %0 %1 stride=[2,1] dilation=[1,2] ldil=[1,1] lo=[1,1] hi=[1,0] group=2 : f32[2,4,4,8]\noutput "
    "%2\n",
    "spec 1\n%0 = input f32[1,5,4]\n%1 = input f32[3,4,3]\n"
    "%2 = conv %0 %1 stride=[1] dilation=[1] ldil=[2] lo=[2] hi=[1] group=1 : f32[1,10,3]\noutput %2\n",
    "spec 1\n%0 = input f32[3,4,7]\n%1 = input f32[3,7,5]\n%2 = matmul %0 %1 : f32[3,4,5]\n%3 = relu %2 : "
    "f32[3,4,5]\n"
    "output %3\n",
    "spec 1\n%0 = input f32[4,6]\n%1 = sum %0 axes=[1] : f32[4,1]\noutput %1\n",
};

static void
quick_loops_agree_with_the_interpreter(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(specs); i++) {
		struct arena a = {0};
		struct graph g;
		struct spec s;
		void **in, *have[1], *want[1];
		struct err e = {0};
		size_t n;

		if (!graph_read(&g, &a, (struct str){specs[i] + 7, strlen(specs[i]) - 7}, &e))
			fail_msg("%zu: %s", i, e.msg);
		s = (struct spec){.g = g};
		in = make_operands(&a, &s);
		fill_operands(&s, SET_NORMAL, 5, in);
		if (!interp_run(&a, &g, (const void *const *)in, NULL, want, &e) ||
		    !reference_run(&a, &g, (const void *const *)in, NULL, have, &e))
			fail_msg("%zu: %s", i, e.msg);
		assert_true(shape_bytes(&graph_tensor(&g, g.outputs[0])->shape, DT_f32, &n));
		for (size_t k = 0; k < n / 4; k++) {
			double h = elem_get(DT_f32, have[0], (int64_t)k),
			       w = elem_get(DT_f32, want[0], (int64_t)k);

			assert_true(h - w < 1e-6 && w - h < 1e-6);
		}
		arena_fini(&a);
	}
}

static void
indices_stay_inside(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct spec s;
	struct err e = {0};
	void **in, **again;

	(void)state;
	assert_true(graph_read(&g, &a,
	    STR("%0 = input f32[5,3]\n%1 = input i64[40]\n%2 = gather %0 %1 axis=0\noutput %2\n"), &e));
	s = (struct spec){.g = g};
	in = make_operands(&a, &s);
	again = make_operands(&a, &s);
	fill_operands(&s, SET_LARGE, 9, in);
	fill_operands(&s, SET_LARGE, 9, again);
	for (int64_t i = 0; i < 40; i++)
		assert_in_range(elem_get_int(DT_i64, in[1], i), 0, 4);
	assert_memory_equal(in[0], again[0], 60);
	fill_operands(&s, SET_NEGATIVE, 9, in);
	for (int64_t i = 0; i < 15; i++)
		assert_true(elem_get(DT_f32, in[0], i) < 0);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quick_loops_agree_with_the_interpreter),
	    cmocka_unit_test(indices_stay_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
