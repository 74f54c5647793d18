/* tests/unit/cubin_test.c: cubins that NVRTC made, whose figures its own log gave; damaged ones. */
#include "../../kernels/base/base.h"
#include "../../kernels/sass/cubin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bytes
read_cubin(struct arena *a, const char *name)
{
	struct bytes b;
	struct err e = {0};

	if (!os_read_file(os_real(), a,
		arena_printf(a, "%s/tests/fuzz/corpus/cubin/%s", KORCH_SOURCE_DIR, name), 1 << 20, &b, &e))
		fail_msg("%s", e.msg);
	return b;
}

/* What ptxas -v printed for each. */
static const struct known {
	const char *file;
	int sm;
	uint32_t registers, shared_bytes, max_threads, stored;
} known[] = {
#include "cubin_known.inc"
};

static void
test_figures_are_those_of_the_log(void **state)
{
	struct arena a = {0};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(known); i++) {
		const struct bytes b = read_cubin(&a, known[i].file);
		struct cubin c;
		struct err e = {0};

		if (!cubin_read(b, &c, &e))
			fail_msg("%s: %s", known[i].file, e.msg);
		assert_int_equal(c.sm, known[i].sm);
		assert_int_equal(c.n_kernels, 1);
		assert_string_equal(c.kernel[0].name, "k_p0"); /* of any length: it lies in the file */
		assert_true(
		    (const uint8_t *)c.kernel[0].name > b.p && (const uint8_t *)c.kernel[0].name < b.p + b.n);
		assert_int_equal(c.kernel[0].registers, known[i].registers);
		assert_int_equal(c.kernel[0].shared_bytes, known[i].shared_bytes);
		assert_int_equal(c.kernel[0].max_threads, known[i].max_threads);
		assert_int_equal(c.kernel[0].local_stored, known[i].stored);
		assert_true(c.kernel[0].n_instructions >= 8);
		assert_true(c.kernel[0].param_bytes == 40);
	}
	arena_fini(&a);
}

/* NVIDIA's cuda_occupancy.h gave these. */
static void
test_occupancy(void **state)
{
	static const struct {
		uint32_t registers, shared_bytes;
		int sm;
		uint32_t threads, blocks;
	} rows[] = {{80, 22784, 80, 128, 6}, {120, 22784, 70, 128, 4}, {80, 22784, 75, 128, 2},
	    {32, 32, 80, 256, 8}, {32, 0, 80, 1024, 2}, {80, 23808, 90, 128, 6}};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
		struct cubin_kernel k = {
		    .registers = rows[i].registers, .shared_bytes = rows[i].shared_bytes};

		assert_int_equal(cubin_occupancy(&k, rows[i].sm, rows[i].threads, 0), rows[i].blocks);
	}
}

static void
test_what_spills_or_does_not_fit_is_refused(void **state)
{
	struct cubin_kernel good = {.name = "k", .registers = 64, .shared_bytes = 32 << 10}, k = good;
	struct err e = {0};

	(void)state;
	assert_true(cubin_worth(&good, 80, 256, 0, &e));
	k.local_stored = 65;
	assert_false(cubin_worth(&k, 80, 256, 0, &e));
	assert_int_equal(e.code, ERR_INFEASIBLE);
	assert_non_null(strstr(e.msg, "spills"));
	assert_false(cubin_worth(&good, 75, 256, 40 << 10, &e));
	assert_non_null(strstr(e.msg, "does not fit"));
	k = good;
	k.registers = 128;
	assert_false(cubin_worth(&k, 80, 1024, 0, &e));
	k = good;
	k.max_threads = 128;
	assert_false(cubin_worth(&k, 80, 256, 0, &e));
}

/* Cut off anywhere, and with any byte changed: read or refused, never a crash. */
static void
test_damaged_files(void **state)
{
	struct arena a = {0};
	struct bytes b = read_cubin(&a, known[0].file);
	struct rng r = {7};
	struct cubin c;
	uint32_t refused = 0;

	(void)state;
	for (size_t n = 0; n < b.n; n++) {
		struct err e = {0};
		uint8_t *part = malloc(n + 1); /* its own block: a sanitizer sees its end */

		memcpy(part, b.p, n);
		if (!cubin_read((struct bytes){part, n}, &c, &e)) {
			assert_int_equal(e.code, ERR_FORMAT);
			refused++;
		}
		free(part);
	}
	assert_true(refused > b.n / 2);
	for (int turn = 0; turn < 20000; turn++) {
		struct err e = {0};
		uint8_t *bad = malloc(b.n);

		memcpy(bad, b.p, b.n);
		for (int k = 0; k < 4; k++)
			bad[rng_below(&r, (uint32_t)b.n)] = (uint8_t)rng_below(&r, 256);
		if (!cubin_read((struct bytes){bad, b.n}, &c, &e))
			assert_int_equal(e.code, ERR_FORMAT);
		free(bad);
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_figures_are_those_of_the_log),
	    cmocka_unit_test(test_occupancy),
	    cmocka_unit_test(test_what_spills_or_does_not_fit_is_refused),
	    cmocka_unit_test(test_damaged_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
