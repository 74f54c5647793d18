/* tests/prop/linear_test.c: linear anchors with random producers and consumers against the
 * interpreter: matmul and convolution of every kind (batched, strided, dilated, transposed,
 * grouped, depthwise, cropped), shapes with tails and ones, run-time and constant factors,
 * random schedules; compiled in batches, ranges run whole and in pieces.  The same of 3x3
 * convolutions in Winograd's form, and of ranges over blocks of columns.
 * KORCH_LINEAR_ROUNDS=N batches (default 6), KORCH_LINEAR_SEED=N from there.
 * label: cpu */
#include "../harness/setting.h"
#include "random_linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 48 };

static const char *const schedules[] = {"", "", "", "mr=4 nv=1", "mr=3 nv=3 panel=1", "block=3",
    "block=1 panel=1", "block=5 mr=5 nv=4", "inline_flops=0", "mr=2 nv=2 panel=0 ahead=0",
    "block=7 mr=1 nv=1", "field=1", "block=3 mr=3 field=3", "mr=2 field=4", "mr=2 nv=1 kc=4", "mr=3 kc=9",
    "block=5 mr=4 panel=1 kc=2", "online=8", "block=2 online=3"};

static const char *const wino_schedules[] = {"wino=4", "wino=4", "wino=2", "block=4 wino=4",
    "block=8 wino=4 tiles=5", "block=3 wino=4 tiles=1", "mr=4 nv=1 wino=2 tiles=3",
    "block=5 mr=3 nv=3 wino=2", "inline_flops=0 wino=4", "block=6 mr=5 nv=4 wino=4 tiles=7 wide=2",
    "mr=1 wino=4 tiles=2", "nv=1 wino=4 wide=2", "block=4 nv=1 wino=2 tiles=4 wide=3",
    "block=2 unroll_red=0 wino=2", "wino=4 trace=1", "wino=2 trace=1", "wino=4 trace=1"};

static const char *const column_schedules[] = {"columns=16", "columns=32", "columns=100",
    "block=3 columns=16", "mr=3 nv=1 columns=40", "panel=1 columns=16", "inline_flops=0 columns=32",
    "unroll_red=0 mr=2 kc=4 columns=16", "field=3 columns=16", "split=8 nv=3 columns=64"};

static const struct kind {
	bool (*spec)(struct arena *a, struct rng *r, struct spec *out);
	const char *const *schedule;
	uint32_t n;
	const char *mark; /* in the text of kernels that are what is meant */
} any = {random_linear, schedules, COUNT_OF(schedules), "kt_h"},
  wino = {random_winograd, wino_schedules, COUNT_OF(wino_schedules), "kt_out_"},
  columns = {random_columns, column_schedules, COUNT_OF(column_schedules), "kt_h"};

/* Counts the kernels whose text has the kind's mark. */
static void
round_of(uint64_t seed, const struct kind *kind, uint32_t *n_marked)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {seed};
	struct test_kernel *k = NEW_ARRAY(&a, struct test_kernel, BATCH);
	const struct target *t = kernel_target(seed);
	uint32_t n = 0;

	while (n < BATCH) {
		struct spec s;

		if (!kind->spec(&a, &r, &s))
			continue;
		struct str schedule = str_of(kind->schedule[rng_below(&r, kind->n)]);

		if (!kernel_make(&a, &s, schedule, t, n, &r, &k[n], &e)) {
			if (e.code == ERR_INFEASIBLE)
				continue;
			fail_msg("seed %llu: %s\n%.*s", (unsigned long long)seed, e.msg, STR_ARG(s.text));
		}
		*n_marked += strstr(k[n].code.text.p, kind->mark) != NULL;
		n++;
	}
	if (!kernel_compile(&a, k, n, t, &e))
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t parts = 1; parts < 4; parts += 2)
			if (!kernel_check(&a, &k[i], parts, 2e-4, &e))
				fail_msg("seed %llu kernel %u, %u parts, schedule \"%.*s\": %s\n%.*s\n%.*s",
				    (unsigned long long)seed, i, parts, STR_ARG(k[i].schedule), e.msg,
				    STR_ARG(k[i].spec.text), STR_ARG(k[i].code.text));
	arena_fini(&a);
}

/* More than half of the kernels must be what is meant. */
static void
run(const struct kind *kind, uint64_t rounds, const char *what)
{
	uint64_t n = setting("KORCH_LINEAR_ROUNDS", rounds), seed = setting("KORCH_LINEAR_SEED", 1);
	uint32_t n_marked = 0;

	for (uint64_t i = 0; i < n; i++)
		round_of(seed + i, kind, &n_marked);
	printf("%u of %llu kernels %s\n", n_marked, (unsigned long long)n * BATCH, what);
	assert_true(n_marked * 2 > n * BATCH);
}

static void
test_random_anchors(void **state)
{
	(void)state;
	run(&any, 6, "with register tiles");
}

static void
test_random_winograd(void **state)
{
	(void)state;
	run(&wino, 3, "in Winograd's form");
}

static void
test_random_columns(void **state)
{
	(void)state;
	run(&columns, 3, "in blocks of columns with register tiles");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_anchors),
	    cmocka_unit_test(test_random_winograd), cmocka_unit_test(test_random_columns)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
