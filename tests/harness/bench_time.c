/* tests/harness/bench_time.c: see the header. */
#include "bench_time.h"
#include "../../kernels/device/dev.h"

#include <stdio.h>
#include <string.h>
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

/* item: the kernel, counted through all `times`; part: how many of its passes have been begun. */
static bool
next_pass(void *arg, struct pool_pass *at)
{
	const struct bench_turn *t = arg;
	const uint32_t n = t->n * (uint32_t)t->times;

	while (at->item < n && at->part == t->k[at->item % t->n].code.desc.n_passes) {
		at->part = 0;
		at->item++;
	}
	if (at->item == n)
		return false;
	at->n = t->k[at->item % t->n].code.desc.range[at->part++];
	return true;
}

static void
run_piece(void *arg, const struct pool_pass *at, uint32_t thread, int64_t lo, int64_t hi)
{
	const struct bench_turn *t = arg;
	const struct test_kernel *k = &t->k[at->item % t->n];

	k->pass[at->part - 1](k->buf, k->shared, t->local[thread], lo, hi);
}

double
bench_turn_us(struct pool *p, struct bench_turn *t)
{
	const struct pool_work work = {next_pass, run_piece, t};
	struct timespec a, b;

	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	pool_run(p, &work);
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / t->times;
}

struct pool *
bench_pool(const char *usage, const char *text, int *status)
{
	int64_t n = 2;
	struct err e = {0};
	struct pool *p;

	*status = 0;
	if (text && (!str_to_i64(str_of(text), &n) || n < 1 || n > BENCH_THREADS)) {
		fprintf(stderr, "usage: %s, 1 to %d threads\n", usage, BENCH_THREADS);
		*status = 2;
		return NULL;
	}
	if (pool_open((uint32_t)n, true, &p, &e))
		return p;
	fprintf(stderr, "%s\n", e.msg);
	*status = 1;
	return NULL;
}

bool
bench_takes(struct bench_choice *c, const char *name)
{
	bool taken = !c->part || strstr(name, c->part);

	c->n += taken;
	return taken;
}

int
bench_end(const char *program, const struct bench_choice *c, bool ok)
{
	if (c->n)
		return ok ? 0 : 1;
	fprintf(stderr, "%s: no case has '%s' in its name; without one all are timed\n", program, c->part);
	return 2;
}

int
bench_less(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}
