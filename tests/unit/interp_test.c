/* Single elements, alternatives, and limits of the interpreter. */
#include "../../kernels/interp/interp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void
halves_survive_and_round_to_even(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 65536; h++) {
		float f = half_to_float((uint16_t)h);

		if (f == f)
			assert_int_equal(float_to_half(f), h);
		else
			assert_true(half_to_float(float_to_half(f)) != half_to_float(float_to_half(f)));
		f = bf16_to_float((uint16_t)h);
		if (f == f)
			assert_int_equal(float_to_bf16(f), h);
	}
	assert_int_equal(float_to_half(65504.0f), 0x7bff);
	assert_int_equal(float_to_half(65519.99f), 0x7bff);
	assert_int_equal(float_to_half(65520.0f), 0x7c00);
	assert_int_equal(float_to_half(0x1p-24f), 1);
	assert_int_equal(float_to_half(0x1p-25f), 0);   /* tie: to even */
	assert_int_equal(float_to_half(0x1.8p-24f), 2); /* tie: to even */
	assert_int_equal(float_to_half(0x1.000002p-25f), 1);
	assert_int_equal(float_to_half(1.0f + 0x1p-11f), 0x3c00);
	assert_int_equal(float_to_half(1.0f + 0x1.8p-10f), 0x3c02);
	assert_int_equal(float_to_half(-0.0f), 0x8000);
	assert_int_equal(float_to_bf16(1.0f + 0x1p-8f), 0x3f80);
	assert_int_equal(float_to_bf16(1.0f + 0x1.8p-7f), 0x3f82);
	assert_int_equal(float_to_bf16(INFINITY), 0x7f80);
}

static void
reals_become_integers_saturating(void **state)
{
	(void)state;
	assert_int_equal(real_to_int(DT_i8, 127.9), 127);
	assert_int_equal(real_to_int(DT_i8, 128), 127);
	assert_int_equal(real_to_int(DT_i8, -1e9), -128);
	assert_int_equal(real_to_int(DT_u8, -0.9), 0);
	assert_int_equal(real_to_int(DT_u8, 300), 255);
	assert_int_equal(real_to_int(DT_i64, 1e30), INT64_MAX);
	assert_int_equal(real_to_int(DT_i64, -1e30), INT64_MIN);
	assert_true((uint64_t)real_to_int(DT_u64, 1e30) == UINT64_MAX);
	assert_true((uint64_t)real_to_int(DT_u64, 0x1p63) == (uint64_t)1 << 63);
	assert_int_equal(real_to_int(DT_i32, NAN), 0);
	assert_int_equal(real_to_int(DT_bool, NAN), 1);
	assert_int_equal(real_to_int(DT_bool, 0.25), 1);
	assert_int_equal(real_to_int(DT_bool, -0.0), 0);
}

static void
read_graph(struct graph *g, struct arena *a, const char *text)
{
	struct graph raw;
	struct err e = {0};

	if (!graph_read(&raw, a, str_of(text), &e))
		fail_msg("%s", e.msg);
	graph_sort(g, a, &raw, NULL);
}

static void
a_picked_alternative_is_the_one_that_runs(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	float x = 2, *y;
	const void *in[] = {&x};
	void *out[1];
	uint32_t pick[3] = {NO_NODE, 1, NO_NODE};

	(void)state;
	read_graph(
	    &g, &a, "%0 = input f32[]\n%1 = neg %0\n%1 = recip %0 !precision\n%2 = abs %1\noutput %2\n");
	assert_true(interp_run(&a, &g, in, NULL, out, &e));
	y = out[0];
	assert_true(*y == 2);
	assert_true(interp_run(&a, &g, in, pick, out, &e));
	y = out[0];
	assert_true(*y == 0.5f);
	arena_fini(&a);
}

static void
outputs_may_be_inputs_constants_and_repeated(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	float x = 2;
	const void *in[] = {&x};
	void *out[4];

	(void)state;
	read_graph(&g, &a,
	    "%0 = input f32[]\n%1 = const f32[] 7\n%2 = neg %0\noutput %0\noutput %1\noutput %2\noutput "
	    "%2\n");
	assert_true(interp_run(&a, &g, in, NULL, out, &e));
	assert_true(*(float *)out[0] == 2 && *(float *)out[1] == 7 && *(float *)out[2] == -2 &&
	    *(float *)out[3] == -2);
	assert_ptr_not_equal(out[0], &x);
	arena_fini(&a);
}

static void
weights_without_data_are_an_error(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	void *out[1];
	double v;
	int64_t at = 0;

	(void)state;
	read_graph(&g, &a, "%0 = weight f32[2]\n%1 = neg %0\noutput %1\n");
	assert_false(interp_run(&a, &g, NULL, NULL, out, &e));
	assert_int_equal(e.code, ERR_MODEL);
	assert_false(interp_sample(&a, &g, NULL, g.outputs[0], &at, 1, 100, NULL, &v, &e));
	arena_fini(&a);
}

static void
samples_stop_at_their_limit(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	static float x[4096];
	const void *in[] = {x};
	double v;
	int64_t at = 0;

	(void)state;
	read_graph(&g, &a, "%0 = input f32[4096]\n%1 = exp %0\n%2 = sum %1 axes=[0]\noutput %2\n");
	assert_false(interp_sample(&a, &g, in, g.outputs[0], &at, 1, 1000, NULL, &v, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_true(interp_sample(&a, &g, in, g.outputs[0], &at, 1, 10000, NULL, &v, &e));
	assert_true(v == 4096);
	arena_fini(&a);
}

/* exp's operand, and the sum's, are an evaluation each. */
static void
cones_are_counted(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	static float x[4096];
	const void *in[] = {x};
	uint64_t n;

	(void)state;
	read_graph(&g, &a, "%0 = input f32[8,512]\n%1 = exp %0\n%2 = sum %1 axes=[1]\noutput %2\n");
	assert_true(interp_cone(&g, in, g.outputs[0], 3, 10000, &n, &e));
	assert_int_equal(n, 1024);
	assert_false(interp_cone(&g, in, g.outputs[0], 3, 1000, &n, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(n, 1000);
	arena_fini(&a);
}

/* 2^-24 added to 1 is lost in float, not in double: 4,096 of them make 2^-12. */
static void
float_sums_are_kept_in_double(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	float x[4097];
	const void *in[] = {x};
	void *out[1];

	(void)state;
	x[0] = 1;
	for (int i = 1; i < 4097; i++)
		x[i] = 0x1p-24f;
	read_graph(&g, &a, "%0 = input f32[4097]\n%1 = sum %0 axes=[0]\noutput %1\n");
	assert_true(interp_run(&a, &g, in, NULL, out, &e));
	assert_true(*(float *)out[0] == 1 + 0x1p-12f);
	arena_fini(&a);
}

/* A chain deeper than any kernel is an error, not a crash. */
static void
deep_chains_do_not_overflow_the_stack(void **state)
{
	struct arena a = {0};
	struct graph g;
	struct err e = {0};
	struct shape s = shape_make(0, NULL);
	tensor_id t;
	float x = 1;
	const void *in[] = {&x};
	double v;
	int64_t at = 0;

	(void)state;
	graph_init(&g, &a);
	t = graph_input(&g, DT_f32, &s, NULL);
	for (int i = 0; i < 100000; i++)
		assert_true(graph_add(&g, PRIM_neg, &t, 1, NULL, NO_NODE, &t, &e));
	graph_output(&g, t, NULL);
	assert_false(interp_sample(&a, &g, in, t, &at, 1, 1 << 30, NULL, &v, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(halves_survive_and_round_to_even),
	    cmocka_unit_test(reals_become_integers_saturating),
	    cmocka_unit_test(a_picked_alternative_is_the_one_that_runs),
	    cmocka_unit_test(outputs_may_be_inputs_constants_and_repeated),
	    cmocka_unit_test(weights_without_data_are_an_error),
	    cmocka_unit_test(samples_stop_at_their_limit),
	    cmocka_unit_test(cones_are_counted),
	    cmocka_unit_test(float_sums_are_kept_in_double),
	    cmocka_unit_test(deep_chains_do_not_overflow_the_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
