/* tests/harness/bench_time.h: times of kernels in benches: by this thread's CPU clock, which other programs
 * move less than the wall's. */
#ifndef KORCH_TEST_BENCH_TIME_H
#define KORCH_TEST_BENCH_TIME_H

#include "kernel.h"

/* Microseconds that a turn of the n kernels takes, one after the other. */
double kernels_us(const struct test_kernel *k, uint32_t n, int turns);
/* Kernels one after the other on all threads of a pool, each with scratch of its own. */
enum { BENCH_THREADS = 16 };
struct pool;
struct bench_turn {
	const struct test_kernel *k;
	uint32_t n;
	int times;
	char *local[BENCH_THREADS]; /* as large as the largest kernel wants it */
};
/* Microseconds of the wall that one of its `times` takes. */
double bench_turn_us(struct pool *p, struct bench_turn *t);
/* A pool of as many threads as `text` says (NULL: 2), pinned; NULL: *status says how to leave, the reason was
 * said. */
struct pool *bench_pool(const char *usage, const char *text, int *status);
/* The cases that a bench was asked for: those with `part` in their names; NULL: all. */
struct bench_choice {
	const char *part;
	uint32_t n; /* taken */
};
bool bench_takes(struct bench_choice *c, const char *name);
/* Exit status: 0, 1: a case failed, 2: there is none of that name, which is said. */
int bench_end(const char *program, const struct bench_choice *c, bool ok);
/* For qsort of doubles. */
int bench_less(const void *a, const void *b);

#endif
