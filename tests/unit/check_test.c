/* tests/unit/check_test.c: the reference values that kernels are checked against: the quick
 * loops say what the interpreter says; inputs stay in range and repeat. */
#include "../../kernels/interp/interp.h"
#include "../../worker/measure_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
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

/* ---- checks of kernels that need much of what they read for one element ------------------------------- */
/* Convolutions in a row: 40,000 evaluations an element, so that few of a million are asked for. */
static const char field[] =
    "spec 1\n%0 = input f32[1,40,40,16]\n%1 = weight f32[1,1,16,96]\n"
    "%2 = weight f32[5,5,1,96]\n%3 = weight f32[1,1,96,16]\n"
    "%4 = conv %0 %1 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : "
    "f32[1,40,40,96]\n"
    "%5 = conv %4 %2 lo=[2,2] hi=[2,2] stride=[1,1] dilation=[1,1] ldil=[1,1] group=96 : "
    "f32[1,40,40,96]\n"
    "%6 = conv %5 %3 lo=[0,0] hi=[0,0] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : "
    "f32[1,40,40,16]\noutput %6\n";

struct oracle { /* a device whose kernel is the reference */
	const struct spec *spec;
	int64_t every; /* so many elements one is wrong; 0: none */
};

static void *
take(void *self, size_t n)
{
	(void)self;
	return heap_alloc(n);
}

static void
give_back(void *self, void *p, size_t n)
{
	(void)self;
	(void)n;
	free(p);
}

static bool
reserve(void *self, size_t shared_bytes, size_t local_bytes, struct err *e)
{
	(void)self;
	(void)shared_bytes;
	(void)local_bytes;
	(void)e;
	return true;
}

static void
run(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	const struct oracle *o = self;
	struct arena tmp = {0};
	const struct graph *g = &o->spec->g;
	const struct tensor *t = graph_tensor(g, g->outputs[0]);
	int64_t count = shape_count(&t->shape);
	void *out[1];
	struct err e = {0};

	(void)n;
	(void)ns;
	if (!reference_run(&tmp, g, (const void *const *)l->buf, NULL, out, &e))
		fail_msg("%s", e.msg);
	for (int64_t i = 3; o->every && i < count; i += o->every)
		elem_set(t->type, out[0], i, elem_get(t->type, out[0], i) + 0.5);
	memcpy(l->buf[g->n_inputs], out[0], (size_t)count * sizeof(float));
	arena_fini(&tmp);
}

static bool
is_found_right(int64_t every, double dense_ns, struct err *e)
{
	struct arena a = {0};
	struct spec s;
	struct oracle o = {&s, every};
	const struct dev d = {.self = &o,
	    .name = "oracle",
	    .n_threads = 1,
	    .reads_host = true,
	    .mem_new = take,
	    .mem_free = give_back,
	    .reserve = reserve,
	    .run = run};
	const struct dev_kernel k = {.n_bufs = 5};
	const struct kernel_code code = {0};
	const struct check_opts how = {.seed = 1, .max_full = 1000, .dense_ns = dense_ns};
	struct check *check = NULL;
	double error;
	bool ok;

	ok = spec_read(&a, str_of(field), &s, e) && check_open(&s, &how, &check, e) &&
	    check_kernel(check, &d, &k, &code, &error, e);
	check_close(check);
	arena_fini(&a);
	return ok;
}

static void
is_told_from_wrong(double dense_ns)
{
	struct err e = {0};

	if (!is_found_right(0, dense_ns, &e))
		fail_msg("%s", e.msg);
	assert_false(is_found_right(16, dense_ns, &e));
	assert_int_equal(e.code, ERR_WRONG);
	assert_false(is_found_right(7, dense_ns, &e));
	assert_int_equal(e.code, ERR_WRONG);
}

/* Fewer are looked at, in eights that share what they need: a channel that is wrong is among them still, and
 * so is what is wrong in a few places of every row. */
static void
dear_elements_are_checked_by_few(void **state)
{
	(void)state;
	is_told_from_wrong(1e12);
}

static void
cheap_references_are_made_in_full(void **state)
{
	struct err e = {0};

	(void)state;
	is_told_from_wrong(0);
	assert_false(is_found_right(25000, 0, &e)); /* one of 25,600 elements */
	assert_int_equal(e.code, ERR_WRONG);
}

/* One result has no elements, so none can be asked for. */
static void
empty_results_are_passed_over(void **state)
{
	static const char text[] = "%0 = input f32[0,64]\n%1 = input f32[64,64]\n"
				   "%2 = transpose %0 perm=[1,0]\n%3 = neg %1\noutput %2\noutput %3\n";
	const struct check_opts how = {.seed = 1, .max_full = 1000, .dense_ns = 1e12};
	struct check *check = NULL;
	struct arena a = {0};
	struct err e = {0};
	struct graph g;
	struct spec s;

	(void)state;
	assert_true(graph_read(&g, &a, str_of(text), &e));
	spec_of_graph(&a, &g, &s);
	if (!check_open(&s, &how, &check, &e))
		fail_msg("%s", e.msg);
	check_close(check);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quick_loops_agree_with_the_interpreter),
	    cmocka_unit_test(indices_stay_inside),
	    cmocka_unit_test(dear_elements_are_checked_by_few),
	    cmocka_unit_test(cheap_references_are_made_in_full),
	    cmocka_unit_test(empty_results_are_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
