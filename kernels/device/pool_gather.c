/* kernels/device/pool_gather.c: all threads of a pool awake, by passes of nothing that each of them has a
 * share of. */
#include "pool.h"

#include <stdatomic.h>

static const int64_t most_ns = 1000000;

struct roll {
	atomic_uint n_there;
	atomic_bool is_there[POOL_MAX_THREADS];
	uint32_t n;
	int64_t until_ns;
};

static int64_t
now_ns(void)
{
	const struct os *os = os_real();

	return os->mono_ns(os->self);
}

static bool
call_again(void *arg, struct pool_pass *at)
{
	struct roll *r = arg;

	at->n = r->n;
	return atomic_load_explicit(&r->n_there, memory_order_relaxed) < r->n && now_ns() < r->until_ns;
}

static void
answer(void *arg, const struct pool_pass *at, uint32_t thread, int64_t lo, int64_t hi)
{
	struct roll *r = arg;

	(void)at;
	(void)lo;
	(void)hi;
	if (!atomic_exchange_explicit(&r->is_there[thread], true, memory_order_relaxed))
		atomic_fetch_add_explicit(&r->n_there, 1, memory_order_relaxed);
}

bool
pool_gather(struct pool *p)
{
	struct roll r = {.n = pool_threads(p), .until_ns = now_ns() + most_ns};
	const struct pool_work work = {call_again, answer, &r};

	if (r.n == 1)
		return true;
	pool_want_all(p);
	pool_run(p, &work);
	return atomic_load(&r.n_there) == r.n;
}
