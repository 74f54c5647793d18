/* kernels/device/pool.h: threads that do a list of passes together.  A pass is cut in shares; whoever is free
 * takes the next, so that no thread is waited for but one that has a share in hand. */
#ifndef KORCH_POOL_H
#define KORCH_POOL_H

#include "../base/base.h"

enum { POOL_MAX_THREADS = 1024 };

struct pool_pass {
	int64_t n;           /* it is over [0, n) */
	uint32_t item, part; /* the work's own: which one it is */
};
/* Passes, one after the other.  Which thread does which piece differs from run to run, and so do the pieces'
 * ends: results must not depend on either. */
struct pool_work {
	/* From the pass before (the first time: zeros) to the one that comes next; false: that was the last.
	 * By one thread at a time, once all that was before is done and seen. */
	bool (*next)(void *arg, struct pool_pass *at);
	/* [lo, hi) of the pass.  No two threads that are at work have the same number. */
	void (*piece)(void *arg, const struct pool_pass *at, uint32_t thread, int64_t lo, int64_t hi);
	void *arg;
};

/* n threads, of which the caller of pool_run is number 0.  No allocation and no lock on the way; a waiting
 * thread spins, then yields, then sleeps in the kernel. */
struct pool;
bool pool_open(uint32_t n_threads, bool pin, struct pool **out, struct err *e) MUST_CHECK;
void pool_close(struct pool *p);
uint32_t pool_threads(const struct pool *p);
/* Returns when the last pass is done.  One caller at a time. */
void pool_run(struct pool *p, const struct pool_work *w);
/* How many threads are wanted now: fewer than there are while other programs want their cores. */
uint32_t pool_wanted(const struct pool *p);
/* All of them again, at once.  Between two runs. */
void pool_want_all(struct pool *p);
/* The same, and all are awake when it returns: who slept would begin the next run late.  False: one of them
 * got no core within a millisecond. */
bool pool_gather(struct pool *p);
/* Part i of n that [0, count) is cut in: parts differ by at most one. */
void pool_slice(int64_t count, uint32_t i, uint32_t n, int64_t *lo, int64_t *hi);

#endif
