/* tests/unit/clock_test.c: whole plans at another clock than calibration's.  What their references and their
 * kernels say together puts their times right; what is not known leaves them as they are. */
#include "../../kernels/base/clock_ratio.h"
#include "../../kernels/run/plan.h"
#include "../../worker/measure_int.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bool
is_near(double have, double want)
{
	return fabs(have - want) < 1e-9;
}

static void
a_time_is_put_right(void **state)
{
	(void)state;
	assert_int_equal(calibrated_ns(1000, 0.8), 800);
	assert_int_equal(calibrated_ns(1000, 1.25), 1250);
	assert_int_equal(calibrated_ns(3, 0.5), 2); /* to the nearest */
	assert_int_equal(calibrated_ns(1000, 0), 1000);
	assert_int_equal(calibrated_ns(0, 0.8), 0);
	assert_int_equal(calibrated_ns(INT64_MAX / 2, 1e6), INT64_MAX / 2); /* no time is longer than that */
	assert_true(is_other_clock(0.98) && is_other_clock(1.02) && is_other_clock(0.5));
	assert_false(
	    is_other_clock(0.981) || is_other_clock(1.019) || is_other_clock(1) || is_other_clock(0));
}

/* 600 beside the compute reference, 300 beside the streaming one, 100 beside none. */
static void
kernels_count_by_their_shares(void **state)
{
	const double ns[REF_COUNT + 1] = {[REF_COMPUTE] = 600, [REF_STREAM] = 300, [REF_COUNT] = 100};
	const double slow[REF_COUNT] = {[REF_COMPUTE] = 0.8, [REF_STREAM] = 0.6};
	const double same[REF_COUNT] = {1, 1}, half[REF_COUNT] = {1, 0}, none[REF_COUNT] = {0};
	const double nothing[REF_COUNT + 1] = {0}, by_clock[REF_COUNT + 1] = {[REF_COUNT] = 5};

	(void)state;
	assert_true(is_near(clock_of_sum(ns, slow), 1000 / (750.0 + 500 + 100)));
	assert_true(is_near(clock_of_sum(ns, same), 1));
	assert_true(is_near(clock_of_sum(by_clock, slow), 1));
	assert_true(is_near(clock_of_sum(ns, half), 0) && is_near(clock_of_sum(ns, none), 0));
	assert_true(is_near(clock_of_sum(nothing, slow), 0));
}

/* ---- references of a device that tells what they take --------------------------------------- */
struct teller {
	const struct dev_kernel *compute;
	int64_t compute_ns, stream_ns;
	uint32_t n; /* calls */
};

/* The first calls of a turn are slow: what ran before has swept the caches. */
static void
run(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns)
{
	struct teller *t = self;
	int64_t one = l->kernel == t->compute ? t->compute_ns : t->stream_ns;

	if (t->n++ % 5 < 2)
		one *= 3;
	for (uint32_t i = 0; i <= n; i++)
		ns[i] = one * i;
}

static const char product[] = "spec 1\n%0 = input f32[64,64]\n%1 = weight f32[64,64]\n"
			      "%2 = matmul %0 %1 : f32[64,64]\noutput %2\n";
static const char map[] = "spec 1\n%0 = input f32[1000]\n%1 = relu %0 : f32[1000]\noutput %1\n";

static struct plan_kernel
kernel(const char *spec, int64_t ns)
{
	return (struct plan_kernel){.spec = str_of(spec), .schedule = STR("x=1"), .cost_ns = ns};
}

/* A product of 600 us, a map of 150 us that runs twice, a product of 5 ms that no reference was beside, and a
 * view. */
static void
a_race_at_another_clock(void **state)
{
	struct arena a = {0};
	struct teller t = {.compute_ns = 25000, .stream_ns = 40000};
	struct dev d = {.self = &t, .run = run};
	struct refs refs = {.dev = &d};
	const struct calibration cal = {
	    .hw = {.level_bytes = {32768, 524288, 1 << 24}}, .ref_ns = {20000, 20000}};
	struct plan_kernel kernels[] = {
	    kernel(product, 600000), kernel(map, 150000), kernel(product, 5000000), kernel(map, 1)};
	struct plan_step steps[] = {
	    {.kernel = 0}, {.kernel = 1}, {.kernel = 1}, {.kernel = 2}, {.kernel = 3}};
	struct plan p = {.kernels = kernels, .n_kernels = 4, .steps = steps, .n_steps = 5};
	struct plan_clock c;
	double ratio[REF_COUNT];

	(void)state;
	kernels[3].schedule = STR(PLAN_VIEW);
	t.compute = &refs.kernel[REF_COMPUTE];
	clock_open(&a, &refs, &cal, &c);
	clock_ratios(&c, ratio);
	assert_true(is_near(ratio[REF_COMPUTE], 0)); /* no turn yet */
	for (int i = 0; i < 3; i++)
		clock_turn(&c);
	clock_ratios(&c, ratio);
	assert_true(is_near(ratio[REF_COMPUTE], 0.8) && is_near(ratio[REF_STREAM], 0.5));
	assert_true(is_near(clock_of_plan(&c, &p, ratio), 5900.0 / (750 + 600 + 5000)));
	p.n_steps = 3;
	assert_true(is_near(clock_of_plan(&c, &p, ratio), 900.0 / (750 + 600)));
	kernels[1].spec = STR("nonsense");
	assert_true(is_near(clock_of_plan(&c, &p, ratio), 0));
	arena_fini(&a);
}

/* No references, or none that were frozen. */
static void
a_clock_that_nobody_knows(void **state)
{
	struct arena a = {0};
	struct refs refs = {0};
	const struct calibration none = {.ref_ns = {20000, 0}}, cal = {.ref_ns = {20000, 20000}};
	struct plan_clock c;
	double ratio[REF_COUNT];

	(void)state;
	for (int i = 0; i < 2; i++) {
		clock_open(&a, i ? NULL : &refs, i ? &cal : &none, &c);
		clock_turn(&c);
		clock_ratios(&c, ratio);
		assert_true(is_near(ratio[REF_COMPUTE], 0) && is_near(ratio[REF_STREAM], 0));
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_time_is_put_right),
	    cmocka_unit_test(kernels_count_by_their_shares), cmocka_unit_test(a_race_at_another_clock),
	    cmocka_unit_test(a_clock_that_nobody_knows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
