/* tests/unit/launch_test.c: what launches say beyond a spec: a bound that is certain, and an order. */
#include "../../kernels/cost/launch.h"
#include "../../kernels/generate/generate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { SMS = 100 };
static const struct hw hw = {.call_ns = 1000, .n_threads = 1};
static const struct cost_parts flops = {.flop_ns = 10000, .byte_ns = 4000, .call_ns = 1000};
static const struct cost_parts bytes = {.flop_ns = 10, .byte_ns = 4000, .call_ns = 1000};

static struct cost_pass
pass(double blocks, uint32_t threads, uint32_t resident)
{
	return (struct cost_pass){
	    .blocks = blocks, .threads = threads, .resident = resident, .instructions = 100};
}

static struct cost_launch
one(const struct cost_parts *parts, double blocks, uint32_t threads, uint32_t resident)
{
	const struct cost_pass p = pass(blocks, threads, resident);

	return cost_launch(parts, &hw, SMS, &p, 1);
}

/* A quarter of the peak for each warp of a multiprocessor, up to four. */
static void
test_few_warps_reach_few_quarters(void **state)
{
	(void)state;
	assert_int_equal(one(&flops, 1000, 128, 8).bound_ns, 11000);
	assert_int_equal(one(&flops, SMS, 128, 8).bound_ns, 11000);
	assert_int_equal(one(&flops, SMS, 32, 8).bound_ns, 41000);
	assert_int_equal(one(&flops, SMS / 2, 128, 8).bound_ns, 21000);
	assert_int_equal(one(&flops, 1, 1024, 8).bound_ns, 10000 * 400 / 32 + 1000);
	assert_int_equal(
	    one(&bytes, 1, 1024, 8).bound_ns, 5000); /* bytes need no warps that we could count on */
}

/* How many blocks are resident is no part of the bound. */
static void
test_occupancy_is_no_bound(void **state)
{
	(void)state;
	for (uint32_t resident = 1; resident <= 32; resident++)
		assert_int_equal(one(&flops, 1000, 128, resident).bound_ns, 11000);
}

static void
test_each_pass_is_a_launch(void **state)
{
	const struct cost_pass p[3] = {pass(1, 32, 1), pass(1000, 256, 4), pass(1, 32, 1)};

	(void)state;
	/* all arithmetic may be in the pass with most warps */
	assert_int_equal(cost_launch(&flops, &hw, SMS, p, 3).bound_ns, 13000);
	assert_int_equal(cost_launch(&flops, &hw, SMS, p, 0).bound_ns, 11000);
}

static void
test_what_is_expected(void **state)
{
	const struct cost_pass joined[1] = {pass(800, 256, 8)},
			       apart[2] = {pass(800, 256, 8), pass(800, 256, 8)};

	(void)state;
	/* more resident warps, an even last round, more blocks than multiprocessors: each is better */
	assert_true(one(&bytes, 3200, 256, 8).expected_ns < one(&bytes, 3200, 256, 2).expected_ns);
	assert_true(one(&bytes, 800, 256, 8).expected_ns < one(&bytes, 801, 256, 8).expected_ns);
	assert_true(one(&bytes, 200, 256, 8).expected_ns < one(&bytes, 20, 256, 8).expected_ns);
	assert_true(cost_launch(&bytes, &hw, SMS, joined, 1).expected_ns <
	    cost_launch(&bytes, &hw, SMS, apart, 2).expected_ns);
}

/* Whatever the launch, the bound is not above what is expected, nor below the spec's own. */
static void
test_bounds_are_below_expectations(void **state)
{
	(void)state;
	for (int blocks = 1; blocks < 5000; blocks = blocks * 2 + 1)
		for (uint32_t threads = 32; threads <= 1024; threads *= 2)
			for (uint32_t resident = 0; resident <= 16; resident += 3) {
				struct cost_launch l = one(&flops, blocks, threads, resident);

				assert_true(l.bound_ns >= 11000);
				assert_true((double)l.bound_ns <= l.expected_ns);
			}
}

/* Machine code's floor is a bound, its price what is expected; without either all is as before. */
static void
test_machine_code(void **state)
{
	struct cost_pass p[2] = {pass(800, 256, 8), pass(800, 256, 8)};
	const struct cost_launch plain = cost_launch(&flops, &hw, SMS, p, 2);
	struct cost_launch l;

	(void)state;
	assert_false(plain.is_priced);
	assert_true(plain.plain_ns == plain.expected_ns);
	p[0].floor_ns = 30000;
	p[0].expected_ns = 50000;
	l = cost_launch(&flops, &hw, SMS, p, 2);
	assert_int_equal(l.bound_ns, 32000);
	assert_false(l.is_priced); /* the second has its share of what launches say */
	assert_true(l.plain_ns == plain.plain_ns);
	assert_true(fabs(l.expected_ns - (50000 + (plain.plain_ns - 2000) / 2 + 2000)) <= 1e-6);
	p[1].expected_ns = 7000;
	p[1].floor_ns = 4000;
	l = cost_launch(&flops, &hw, SMS, p, 2);
	assert_true(l.is_priced);
	assert_int_equal(l.bound_ns, 36000);
	assert_true(fabs(l.expected_ns - (59000)) <= 1e-6);
	/* nothing is expected below a bound: neither the spec's nor the code's */
	p[0].expected_ns = p[1].expected_ns = 1;
	l = cost_launch(&flops, &hw, SMS, p, 2);
	assert_true((double)l.bound_ns <= l.expected_ns);
	p[0].floor_ns = p[1].floor_ns = 0;
	l = cost_launch(&flops, &hw, SMS, p, 2);
	assert_int_equal(l.bound_ns, plain.bound_ns);
	assert_true((double)l.bound_ns <= l.expected_ns);
}

/* Tiles of one product of 4096 on an A100, the better one first by what facts of their machine code say:
 * blocks a multiprocessor as registers allow. */
static const struct tiles {
	enum precision precision;
	double flop_ns; /* at the peak */
	const char *better, *worse;
	uint32_t resident[2];
} tiles[] = {
    {PRECISION_F32, 7050000, "tm=2 tn=2", "tm=1 tn=2", {3, 6}}, /* fewer loads for a product */
    {PRECISION_F16, 441000, "", "exact=1", {1, 2}},
};

static double
expected(const char *schedule, const struct tiles *row, uint32_t resident)
{
	static const char product[] =
	    "%0 = input f32[4096,4096]\n%1 = weight f32[4096,4096]\n%2 = matmul %0 %1\noutput %2\n";
	const struct cost_parts parts = {.flop_ns = row->flop_ns, .byte_ns = 130000, .call_ns = 1000};
	struct arena a = {0};
	struct target t = target_cuda;
	struct kernel_code *k = NEW(&a, struct kernel_code);
	struct graph *g = NEW(&a, struct graph);
	struct spec s;
	struct err e;
	struct cost_pass p;
	double ns;

	t.sm = 80;
	t.precision = row->precision;
	assert_true(graph_read(g, &a, str_of(product), &e));
	spec_of_graph(&a, g, &s);
	assert_true(generate_kernel(&a, &s, str_of(schedule), &t, "k", k, &e));
	assert_int_equal(k->desc.n_passes, 1);
	p = pass((double)k->desc.range[0], 256, resident);
	p.tile_ns = cost_tile_ns(k->work[0].slots * 8 * p.blocks, k->work[0].bytes * p.blocks, 108, 1410);
	ns = cost_launch(&parts, &hw, 108, &p, 1).expected_ns;
	printf("%s '%s': %.0f instructions, tiles %.0f us, expected %.0f us\n",
	    precision_name(row->precision), schedule, k->work[0].slots, p.tile_ns / 1e3, ns / 1e3);
	arena_fini(&a);
	return ns;
}

static void
test_small_tiles_load_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(tiles); i++) {
		const double better = expected(tiles[i].better, &tiles[i], tiles[i].resident[0]),
			     worse = expected(tiles[i].worse, &tiles[i], tiles[i].resident[1]);

		if (!(better < worse))
			fail_msg("%s: '%s' comes behind '%s'", precision_name(tiles[i].precision),
			    tiles[i].better, tiles[i].worse);
	}
	/* no tile, no clock: as launches alone say */
	assert_true(cost_tile_ns(0, 0, 100, 1000) == 0 && cost_tile_ns(1e9, 1e9, 100, 0) == 0);
	/* one instruction a clock in each of four quarters; 64 bytes a clock */
	assert_true(fabs(cost_tile_ns(400e6, 0, 100, 1000) - 1e6) < 1 &&
	    fabs(cost_tile_ns(0, 6400e6, 100, 1000) - 1e6) < 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_few_warps_reach_few_quarters),
	    cmocka_unit_test(test_occupancy_is_no_bound),
	    cmocka_unit_test(test_each_pass_is_a_launch),
	    cmocka_unit_test(test_what_is_expected),
	    cmocka_unit_test(test_bounds_are_below_expectations),
	    cmocka_unit_test(test_machine_code),
	    cmocka_unit_test(test_small_tiles_load_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
