/* tests/unit/cpu_memory_test.c: large blocks of the CPU that are kept when they are freed: zeros again, no
 * more of them than was said, and given back where the system has none. */
#include "../../kernels/device/cpu_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static const size_t mib = (size_t)1 << 20;

static void
what_is_kept_comes_again_as_zeros(void **state)
{
	struct cpu_memory m = {.most = 64 * mib};
	char *p = cpu_memory_new(&m, 9 * mib + 5), *q;

	(void)state;
	assert_non_null(p);
	memset(p, 7, 9 * mib + 5);
	cpu_memory_free(&m, p, 9 * mib + 5);
	assert_int_equal(m.n_kept, 1);
	q = cpu_memory_new(&m, 9 * mib + 100); /* near enough */
	assert_ptr_equal(p, q);
	assert_int_equal(m.n_kept, 0);
	for (size_t i = 0; i < 9 * mib + 100; i += 99)
		assert_int_equal(q[i], 0);
	cpu_memory_free(&m, q, 9 * mib + 100);
	cpu_memory_close(&m);
	assert_int_equal(m.kept_bytes, 0);
}

static void
no_more_is_kept_than_was_said(void **state)
{
	struct cpu_memory m = {.most = 20 * mib}, none = {0};
	void *p[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_non_null(p[i] = cpu_memory_new(&m, 8 * mib - 64));
	for (int i = 0; i < 3; i++)
		cpu_memory_free(&m, p[i], 8 * mib - 64);
	assert_int_equal(m.n_kept, 2);
	assert_true(m.kept_bytes <= m.most && m.kept[0].p == p[1]);
	p[0] = cpu_memory_new(&m, 40 * mib);
	cpu_memory_free(&m, p[0], 40 * mib);
	assert_int_equal(m.n_kept, 2);
	cpu_memory_close(&m);
	p[0] = cpu_memory_new(&none, 8 * mib);
	p[1] = cpu_memory_new(&none, 100);
	cpu_memory_free(&none, p[0], 8 * mib);
	cpu_memory_free(&none, p[1], 100);
	assert_int_equal(none.n_kept, 0);
	assert_null(cpu_memory_new(&none, SIZE_MAX - 8));
	assert_null(cpu_memory_new(&m, SIZE_MAX - 4096));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void
what_is_kept_makes_room(void **state)
{
	struct cpu_memory m = {.most = 512 * mib};
	struct rlimit before, now;
	void *p = cpu_memory_new(&m, 300 * mib), *q;

	(void)state;
	assert_non_null(p);
	cpu_memory_free(&m, p, 300 * mib);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	now = before;
	now.rlim_cur = 500 * mib; /* with 300 of them kept there are no 400 left */
	assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
	q = cpu_memory_new(&m, 400 * mib);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_non_null(q);
	assert_int_equal(m.n_kept, 0);
	cpu_memory_free(&m, q, 400 * mib);
	cpu_memory_close(&m);
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_comes_again_as_zeros),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(what_is_kept_makes_room),
#endif
		cmocka_unit_test(no_more_is_kept_than_was_said)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
