/* tests/unit/evict_test.c: bytes that are put out of the caches keep their values and are read slowly again.
 */
#include "../../kernels/base/base.h"
#include "../../kernels/base/host.h"
#include "../../kernels/device/evict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TURNS = 61, WORDS = 1 << 15 }; /* 256 KiB: more than most first caches, less than any last one */

static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* By an odd step, which no core reads ahead of. */
static int64_t
read_ns(const uint64_t *p, uint64_t *sum)
{
	const struct os *os = os_real();
	int64_t from = os->mono_ns(os->self);

	for (uint32_t i = 0, at = 0; i < WORDS / 8; i++, at = (at + 8 * 1237) % WORDS)
		*sum += p[at];
	return os->mono_ns(os->self) - from;
}

static void
values_stay_and_come_from_afar(void **state)
{
	uint64_t *p = aligned_alloc(4096, WORDS * sizeof(*p)), sum = 0, is = 0;
	int64_t far[TURNS], near[TURNS];

	(void)state;
	if (!evict_is_here())
		skip();
	assert_non_null(p);
	for (uint32_t i = 0; i < WORDS; i++)
		p[i] = (uint64_t)i * 0x9e3779b97f4a7c15u;
	(void)read_ns(p, &is);
	for (int i = 0; i < TURNS; i++) {
		evict(p, WORDS * sizeof(*p));
		far[i] = read_ns(p, &sum);
		near[i] = read_ns(p, &sum);
	}
	assert_true(sum == is * 2 * TURNS);
	for (uint32_t i = 0; i < WORDS; i++)
		assert_true(p[i] == (uint64_t)i * 0x9e3779b97f4a7c15u);
	qsort(far, TURNS, sizeof(*far), by_value);
	qsort(near, TURNS, sizeof(*near), by_value);
	if (far[TURNS / 2] < near[TURNS / 2] * 3 / 2)
		fail_msg("from memory %lld ns, from a cache %lld", (long long)far[TURNS / 2],
		    (long long)near[TURNS / 2]);
	free(p);
}

/* A byte at a line's end, and none at all. */
static void
few_bytes(void **state)
{
	char line[256] = "values";

	(void)state;
	if (!evict_is_here())
		skip();
	evict(line, 0);
	evict(line + 63, 2);
	assert_string_equal(line, "values");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values_stay_and_come_from_afar), cmocka_unit_test(few_bytes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
