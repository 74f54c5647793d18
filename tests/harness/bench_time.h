/* tests/harness/bench_time.h: times of kernels in benches: by this thread's CPU clock, which other programs move
 * less than the wall's. */
#ifndef KORCH_TEST_BENCH_TIME_H
#define KORCH_TEST_BENCH_TIME_H

#include "kernel.h"

/* Microseconds that a turn of the n kernels takes, one after the other. */
double kernels_us(const struct test_kernel *k, uint32_t n, int turns);
/* For qsort of doubles. */
int bench_less(const void *a, const void *b);

#endif
