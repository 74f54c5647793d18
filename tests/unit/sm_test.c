/* tests/unit/sm_test.c: what a multiprocessor holds, against rows that cuda_occupancy.h gave. */
#include "../../kernels/base/sm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* All of shared memory given to blocks, and a block may have as much as was asked for. */
static void
test_resident_blocks(void **state)
{
	static const struct {
		int sm;
		uint32_t threads, registers, shared, blocks; /* shared: without what the driver keeps */
	} rows[] = {
#include "sm_known.inc"
	};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
		const struct sm_block b = {rows[i].threads, rows[i].registers,
		    rows[i].shared + sm_limits_of(rows[i].sm)->reserved_bytes};
		const uint32_t got = sm_resident(rows[i].sm, &b);

		if (got != rows[i].blocks)
			fail_msg("sm_%d, %u threads of %u registers, %u bytes: %u blocks, not %u", rows[i].sm,
			    rows[i].threads, rows[i].registers, rows[i].shared, got, rows[i].blocks);
	}
}

static void
test_what_fits_on_none(void **state)
{
	const struct sm_block no_threads = {0, 16, 0}, many = {1056, 16, 0}, wide = {32, 256, 0};

	(void)state;
	assert_int_equal(sm_resident(80, &no_threads), 0);
	assert_int_equal(sm_resident(80, &many), 0);
	assert_int_equal(sm_resident(80, &wide), 0);
}

/* Between two rows the lower one counts, below all the first. */
static void
test_the_nearest_row_below(void **state)
{
	(void)state;
	assert_int_equal(sm_limits_of(88)->sm, 87);
	assert_int_equal(sm_limits_of(121)->sm, 120);
	assert_int_equal(sm_limits_of(60)->sm, 70);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_resident_blocks),
	    cmocka_unit_test(test_what_fits_on_none),
	    cmocka_unit_test(test_the_nearest_row_below),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
