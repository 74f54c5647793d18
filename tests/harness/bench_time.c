/* tests/harness/bench_time.c: see the header. */
#include "bench_time.h"

#include <time.h>

static double
now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

double
kernels_us(const struct test_kernel *k, uint32_t n, int turns)
{
	double t = now_us();

	for (int i = 0; i < turns; i++)
		for (uint32_t j = 0; j < n; j++)
			kernel_run(&k[j], 1);
	return (now_us() - t) / turns;
}

int
bench_less(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}
