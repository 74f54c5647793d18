/* tests/prop/linear_test.c: linear anchors with random producers and consumers against the
 * interpreter: matmul and convolution of every kind (batched, strided, dilated, transposed,
 * grouped, depthwise, cropped), shapes with tails and ones, run-time and constant factors,
 * random schedules; compiled in batches, ranges run whole and in pieces.  The same of 3x3
 * convolutions in Winograd's form, and of few rows with large weights.
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

static bool
has_tiles(const struct test_kernel *k)
{
	return strstr(k->code.text.p, "k_v8 r") || strstr(k->code.text.p, "k_v4 r");
}

/* A weight that is mapped for Winograd's form. */
static bool
has_maps(const struct test_kernel *k)
{
	return k->code.desc.n_packs > 0 && k->code.desc.packs[0].n_maps > 0;
}

/* Choices of the loop program's rules (kernels/schedule/choice.def). */
static const char *const schedules[] = {"", "", "", "mr=4 nv=1", "mr=3 nv=3", "block=3", "block=1 mr=7",
    "block=5 mr=5 nv=4", "mr=2 nv=2", "block=7 mr=1 nv=1", "field=1", "block=3 mr=3 field=3", "mr=2 field=4",
    "mr=2 nv=1", "mr=12 nv=1"};
static const char *const wino_schedules[] = {"wino=4", "wino=4", "wino=2", "block=4 wino=4",
    "block=24 wino=4", "block=1 wino=4", "mr=4 nv=1 wino=2", "block=5 mr=3 wino=2"};

static const struct kind {
	bool (*spec)(struct arena *a, struct rng *r, struct spec *out);
	const char *const *schedule;
	uint32_t n;
	bool (*is_meant)(const struct test_kernel *k);
} any = {random_linear, schedules, COUNT_OF(schedules), has_tiles},
  wino = {random_winograd, wino_schedules, COUNT_OF(wino_schedules), has_maps},
  columns = {random_columns, schedules, COUNT_OF(schedules), has_tiles};

/* Counts the kernels that are what is meant. */
static void
round_of(uint64_t seed, const struct kind *kind, uint32_t *n_meant)
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
		*n_meant += kind->is_meant(&k[n]);
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
	uint32_t n_meant = 0;

	for (uint64_t i = 0; i < n; i++)
		round_of(seed + i, kind, &n_meant);
	printf("%u of %llu kernels %s\n", n_meant, (unsigned long long)n * BATCH, what);
	assert_true(n_meant * 2 > n * BATCH);
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
	run(&columns, 3, "with large weights in register tiles");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_anchors),
	    cmocka_unit_test(test_random_winograd), cmocka_unit_test(test_random_columns)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
