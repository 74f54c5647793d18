/* Which kernel with other extents speaks for one of a job's: its own layer at another resolution, and not one
 * of its structure that does about the same work.  And the order in which schedules are tried is the same
 * however many kernels it is made of at a time.  threads: yes */
#include "../../daemon/planner/expect.h"
#include "../../daemon/planner/order.h"
#include "../../daemon/planner/siblings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define CONV(IN, WEIGHT, OUT)                                                                                \
	"spec 1\n%0 = input f32[" IN "]\n%1 = weight f32[" WEIGHT "]\n%2 = conv %0 %1 lo=[0,0] hi=[0,0] "    \
	"stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[" OUT "]\noutput %2\n"
static const char *const job_kernel = CONV("1,30,30,32", "3,3,32,32", "1,28,28,32"),
			 *const own_layer = CONV("1,16,16,32", "3,3,32,32", "1,14,14,32"),
			 *const same_work = CONV("1,64,64,8", "9,9,8,3", "1,56,56,3");

/* A job of that kernel alone, of which nothing is known. */
static void
open_job(struct tune *t, struct arena *a)
{
	struct err e = {0};
	struct cost_parts parts;
	struct spec *s = NEW(a, struct spec);

	*t = (struct tune){.arena = a, .hw = hw_fastest};
	if (!spec_read(a, str_of(job_kernel), s, &e))
		fail_msg("%s", e.msg);
	t->front.cands.specs = s;
	t->front.cands.n_specs = 1;
	t->cost = NEW(a, struct spec_cost);
	t->cost[0].heat = STR("");
	t->cost[0].state = LAZY_OPEN;
	t->cost[0].work_ns = cost_work_ns(s, &t->hw, STR(""), &parts);
	t->cost[0].bound_ns = 1;
	expect_spec(t, 0, &parts, expect_leaves(t, 1));
}

/* It took `times` what its work takes, by that schedule, and half as much again by another one. */
static struct m_sibling
measured(struct tune *t, const char *text, const char *schedule, double times)
{
	struct m_tried *tried = NEW_ARRAY(t->arena, struct m_tried, 2);
	struct spec s;
	struct err e = {0};
	int64_t ns;

	if (!spec_read(t->arena, str_of(text), &s, &e))
		fail_msg("%s", e.msg);
	ns = (int64_t)(times * (double)cost_work_ns(&s, &t->hw, STR(""), NULL));
	tried[0] = (struct m_tried){.schedule = str_of(schedule), .median_ns = ns};
	tried[1] = (struct m_tried){.schedule = STR("split=0"), .median_ns = ns * 3 / 2};
	return (struct m_sibling){.spec = str_of(text),
	    .heat = STR(""),
	    .schedule = str_of(schedule),
	    .median_ns = ns,
	    .tried = tried,
	    .n_tried = 2};
}

static void
own_layer_speaks(void **state)
{
	struct arena a = {0};
	struct tune t;
	double alone, with;

	(void)state;
	for (int order = 0; order < 2; order++) {
		struct m_sibling m[2];

		open_job(&t, &a);
		alone = (double)expect_ns(&t, &t.cost[0], 0);
		m[order] = measured(&t, own_layer, "wino=4", 1.1);
		m[1 - order] = measured(&t, same_work, "block=28", 4);
		siblings_take(&t, m, 2);
		assert_true(str_is(t.cost[0].sibling, "wino=4"));
		assert_int_equal(t.cost[0].n_tried, 2);
		with = (double)expect_ns(&t, &t.cost[0], 0) / (double)t.cost[0].work_ns;
		assert_true(with < alone / (double)t.cost[0].work_ns && with < 1.3);
		assert_true(t.cost[0].sigma > 0.1 && t.cost[0].sigma < 0.2);
	}
	arena_fini(&a);
}

/* Where there is nothing nearer, the other one is better than nothing, and less is believed of it. */
static void
others_are_heard_less(void **state)
{
	struct arena a = {0};
	struct tune t;
	struct m_sibling m;
	double alone;

	(void)state;
	open_job(&t, &a);
	alone = (double)expect_ns(&t, &t.cost[0], 0);
	m = measured(&t, same_work, "block=28", 4);
	siblings_take(&t, &m, 1);
	assert_true(str_is(t.cost[0].sibling, "block=28"));
	assert_true((double)expect_ns(&t, &t.cost[0], 0) < 1.2 * alone);
	assert_true(t.cost[0].sigma > 0.4);
	arena_fini(&a);
}

enum { N = 8 };

/* Layers of 9 to 16 rows, all of which were fastest by the same schedule at another resolution. */
static void
open_layers(struct tune *t, struct arena *a)
{
	struct spec *specs = NEW_ARRAY(a, struct spec, N);
	struct err e = {0};

	*t = (struct tune){.arena = a, .hw = hw_fastest, .target = *target_of_isa(ISA_avx2), .effort = 4};
	t->cost = NEW_ARRAY(a, struct spec_cost, N);
	t->front.cands.specs = specs;
	t->front.cands.n_specs = N;
	for (int i = 0; i < N; i++) {
		const char *text = arena_printf(a,
		    "spec 1\n%%0 = input f32[1,%d,9,16]\n%%1 = weight f32[3,3,16,16]\n%%2 = conv %%0 %%1 "
		    "lo=[1,1] "
		    "hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,%d,9,16]\noutput %%2\n",
		    9 + i, 9 + i);

		if (!spec_read(a, str_of(text), &specs[i], &e))
			fail_msg("%s", e.msg);
		t->cost[i] =
		    (struct spec_cost){.heat = STR(""), .state = LAZY_OPEN, .sibling = STR("mr=6 nv=2")};
	}
}

static void
orders_are_made_side_by_side(void **state)
{
	struct arena a = {0};
	struct tune one, all;
	uint32_t specs[N];

	(void)state;
	open_layers(&one, &a);
	open_layers(&all, &a);
	for (uint32_t i = 0; i < N; i++)
		specs[i] = i;
	orders_make(&all, specs, N);
	orders_make(&all, specs, N); /* they are made */
	for (uint32_t i = 0; i < N; i++) {
		const struct order *x = order_of(&one, i), *y = all.cost[i].order;

		assert_non_null(y);
		assert_true(y->n > 1);
		assert_int_equal(x->n, y->n);
		assert_int_equal(x->n_first, y->n_first);
		for (uint32_t k = 0; k < x->n; k++)
			assert_true(str_eq(x->schedule[k], y->schedule[k]));
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(own_layer_speaks),
	    cmocka_unit_test(others_are_heard_less), cmocka_unit_test(orders_are_made_side_by_side)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
