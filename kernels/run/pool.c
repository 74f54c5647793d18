/* kernels/run/pool.c: threads that run one function together.
 *
 * Invariants:
 *  1. `go` counts the runs; a worker runs fn once for each value it sees, and sees every one,
 *     because pool_run returns only after the barrier at the end of the run;
 *  2. `phase` counts the barriers; `arrived` is zero whenever a barrier is complete;
 *  3. a thread sleeps only in wait_change(), after it has counted itself in `sleepers`; who
 *     changes the word reads `sleepers` afterwards: with sequentially consistent atomics one of
 *     the two sees the other, so that no wake-up is lost. */
#include "dev.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About half a millisecond: a thread that waits for the slower half of a kernel stays awake, since waking it
 * takes 50 to 150 us where its core has gone idle (virtual machines above all); short beside a time slice.
 * Yielding instead hands the core to whoever else wants it for a whole slice: several times as slow. */
enum { SPINS = 20000, MAX_THREADS = 1024 };

struct word { /* a counter that threads wait on, alone in its cache line */
	_Alignas(64) atomic_uint value;
	atomic_uint sleepers;
};
struct pool {
	struct word go, phase;
	_Alignas(64) atomic_uint arrived;
	_Alignas(64) pool_fn *fn;
	void *arg;
	uint32_t n, spins;
	atomic_bool stop;
	pthread_t *threads; /* n - 1 */
	struct start *starts;
};
struct start {
	struct pool *pool;
	uint32_t thread;
	int core; /* -1: not pinned */
};

static void
pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void
futex(atomic_uint *at, int op, unsigned value)
{
	(void)syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void
wait_change(struct word *w, unsigned old, uint32_t spins)
{
	for (uint32_t i = 0; i < spins; i++) {
		if (atomic_load_explicit(&w->value, memory_order_acquire) != old)
			return;
		pause_cpu();
	}
	atomic_fetch_add(&w->sleepers, 1);
	while (atomic_load(&w->value) == old)
		futex(&w->value, FUTEX_WAIT, old);
	atomic_fetch_sub(&w->sleepers, 1);
}

static void
change(struct word *w)
{
	atomic_fetch_add(&w->value, 1);
	if (atomic_load(&w->sleepers))
		futex(&w->value, FUTEX_WAKE, INT_MAX);
}

void
pool_barrier(struct pool *p, uint32_t thread)
{
	unsigned phase;

	(void)thread;
	if (p->n == 1)
		return;
	phase = atomic_load_explicit(&p->phase.value, memory_order_relaxed);
	if (atomic_fetch_add(&p->arrived, 1) + 1 == p->n) {
		atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
		change(&p->phase);
	} else {
		wait_change(&p->phase, phase, p->spins);
	}
}

void
pool_slice(int64_t n, uint32_t thread, uint32_t n_threads, int64_t *lo, int64_t *hi)
{
	int64_t each = n / n_threads, more = n % n_threads;

	*lo = each * thread + MIN_OF((int64_t)thread, more);
	*hi = *lo + each + ((int64_t)thread < more);
}

static void
pin_to(int core)
{
	cpu_set_t set;

	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	/* Refused in some containers: then the scheduler decides, and timing is only noisier. */
	(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *
worker(void *arg)
{
	const struct start *s = arg;
	struct pool *p = s->pool;

	pin_to(s->core);
	for (unsigned seen = 0;; seen++) {
		wait_change(&p->go, seen, p->spins);
		if (atomic_load(&p->stop))
			return NULL;
		p->fn(p->arg, p, s->thread);
		pool_barrier(p, s->thread);
	}
}

void
pool_run(struct pool *p, pool_fn *fn, void *arg)
{
	if (p->n == 1) {
		fn(arg, p, 0);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	change(&p->go);
	fn(arg, p, 0);
	pool_barrier(p, 0);
}

/* The i-th core this process may use, wrapping round; -1 where the system does not say. */
static int
allowed_core(const cpu_set_t *set, uint32_t i)
{
	int count = CPU_COUNT(set);

	if (count <= 0)
		return -1;
	i %= (uint32_t)count;
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET((size_t)c, set) && i-- == 0)
			return c;
	return -1;
}

static bool
start_threads(struct pool *p, uint32_t *n_started, struct err *e)
{
	for (*n_started = 0; *n_started + 1 < p->n; (*n_started)++) {
		struct start *s = &p->starts[*n_started + 1];
		int rc = pthread_create(&p->threads[*n_started], NULL, worker, s);

		if (rc != 0)
			return err_set(e, ERR_HOST, "cannot start thread %u of %u: %s; ask for fewer threads",
			    *n_started + 1, p->n, strerror(rc));
	}
	return true;
}

static void
stop_threads(struct pool *p, uint32_t n_started)
{
	atomic_store(&p->stop, true);
	change(&p->go);
	for (uint32_t i = 0; i < n_started; i++)
		(void)pthread_join(p->threads[i], NULL);
	free(p->threads);
	free(p->starts);
	free(p);
}

bool
pool_open(uint32_t n_threads, bool pin, struct pool **out, struct err *e)
{
	cpu_set_t set;
	struct pool *p;
	uint32_t n_started;
	int n_cores;

	if (n_threads < 1 || n_threads > MAX_THREADS)
		return err_set(e, ERR_USAGE, "%u threads: from 1 to %d are possible", n_threads, MAX_THREADS);
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		CPU_ZERO(&set);
	n_cores = CPU_COUNT(&set);
	p = aligned_alloc(_Alignof(struct pool), sizeof(*p));
	if (!p)
		return err_set(e, ERR_MEMORY, "no memory for a pool of %u threads", n_threads);
	memset(p, 0, sizeof(*p));
	p->n = n_threads;
	/* Where threads outnumber cores, spinning only takes the core from who is waited for. */
	p->spins = n_cores > 0 && n_threads > (uint32_t)n_cores ? 0 : SPINS;
	p->threads = heap_alloc(n_threads * sizeof(*p->threads));
	p->starts = heap_alloc(n_threads * sizeof(*p->starts));
	for (uint32_t i = 0; i < n_threads; i++)
		p->starts[i] = (struct start){p, i, pin ? allowed_core(&set, i) : -1};
	if (!start_threads(p, &n_started, e)) {
		stop_threads(p, n_started);
		return false;
	}
	pin_to(p->starts[0].core);
	*out = p;
	return true;
}

void
pool_close(struct pool *p)
{
	if (p)
		stop_threads(p, p->n - 1);
}

uint32_t
pool_threads(const struct pool *p)
{
	return p->n;
}
