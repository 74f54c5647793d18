/* tests/unit/pool_test.c: threads that do passes together: all of a pass once, and nothing of the next
 * before; a thread that is not there is not waited for, and one that loses its core is done without for a
 * while. threads: yes */
#include "../../kernels/base/fp.h"
#include "../../kernels/device/pool.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_RANGE = 600, PASSES = 3000 };

static void
slices_cover_everything_once(void **state)
{
	(void)state;
	for (int64_t n = 0; n < 40; n++)
		for (uint32_t t = 1; t < 9; t++) {
			int64_t at = 0, lo, hi;

			for (uint32_t i = 0; i < t; i++) {
				pool_slice(n, i, t, &lo, &hi);
				assert_int_equal(lo, at);
				assert_in_range(hi - lo, n / t, n / t + 1);
				at = hi;
			}
			assert_int_equal(at, n);
		}
}

/* ---- passes whose elements count how often they were done ---------------------------------------------- */
struct tally {
	struct rng rng;
	int64_t range;
	uint32_t left, n_threads;
	atomic_uint done[MAX_RANGE];
	atomic_uint of_thread[16], in_hand[16];
	uint32_t wrong;
	atomic_uint n_apart; /* shares that were computed otherwise than as wanted */
	atomic_bool is_slow; /* the caller stands still at each of its shares */
	void (*work)(struct tally *t, uint32_t thread); /* beside counting; NULL: nothing */
	void *arg;
};

/* Ends a pass: all of it was done once. */
static void
settle(struct tally *t)
{
	for (int64_t i = 0; i < t->range; i++)
		t->wrong += atomic_load_explicit(&t->done[i], memory_order_relaxed) != 1;
	for (int64_t i = 0; i < t->range; i++)
		atomic_store_explicit(&t->done[i], 0, memory_order_relaxed);
}

static bool
next_pass(void *arg, struct pool_pass *at)
{
	static const uint32_t below[] = {3, 40, MAX_RANGE};
	struct tally *t = arg;

	settle(t);
	t->range = 0;
	if (t->left == 0)
		return false;
	t->left--;
	at->item++;
	at->n = t->range = rng_below(&t->rng, below[rng_below(&t->rng, 3)]);
	return true;
}

static void
do_piece(void *arg, const struct pool_pass *at, uint32_t thread, int64_t lo, int64_t hi)
{
	struct tally *t = arg;

	if (thread >= t->n_threads || lo < 0 || lo >= hi || hi > t->range || at->n != t->range ||
	    atomic_fetch_add(&t->in_hand[thread], 1) != 0)
		abort(); /* not a test's failure: memory would be written over */
	for (int64_t i = lo; i < hi; i++)
		atomic_fetch_add_explicit(&t->done[i], 1, memory_order_relaxed);
	atomic_fetch_add(&t->of_thread[thread], 1);
	if (t->work)
		t->work(t, thread);
	if (thread == 0 && atomic_load(&t->is_slow))
		(void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	atomic_fetch_sub(&t->in_hand[thread], 1);
}

static void
run_passes(struct pool *p, struct tally *t, uint32_t n_passes)
{
	const struct pool_work w = {next_pass, do_piece, t};

	t->left = n_passes;
	t->n_threads = pool_threads(p);
	pool_run(p, &w);
	assert_int_equal(t->wrong, 0);
	assert_int_equal(t->left, 0);
}

/* Until thread 1 has had more than n shares.  The caller would be through with all of them before a thread is
 * awake whose core another program has. */
static void
run_until_it_helps(struct pool *p, struct tally *t, unsigned n)
{
	atomic_store(&t->is_slow, true);
	while (atomic_load(&t->of_thread[1]) == n)
		run_passes(p, t, 1);
	atomic_store(&t->is_slow, false);
}

static void
all_of_a_pass_is_done_before_the_next(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 8; n++) {
		struct tally *t = heap_alloc(sizeof(*t));
		struct pool *p;
		struct err e = {0};

		t->rng = (struct rng){n};
		assert_true(pool_open(n, n % 2 == 0, &p, &e));
		for (int run = 0; run < 20; run++)
			run_passes(p, t, PASSES / 20);
		run_passes(p, t, 0);
		pool_close(p);
		free(t);
	}
}

static void
note_control(struct tally *t, uint32_t thread)
{
	(void)thread;
	if (fp_control() != *(const uint64_t *)t->arg)
		atomic_fetch_add(&t->n_apart, 1);
}

/* Rounding and denormals are the caller's on every thread, and may differ from run to run. */
static void
threads_compute_as_their_caller(void **state)
{
	struct tally *t = heap_alloc(sizeof(*t));
	const uint64_t was = fp_control(), kind[] = {was, fp_without_denormals(was)};
	struct pool *p;
	struct err e = {0};

	(void)state;
	t->work = note_control;
	assert_true(pool_open(3, false, &p, &e));
	for (int run = 0; run < 60; run++) {
		t->arg = (void *)&kind[run % 2];
		fp_set_control(kind[run % 2]);
		run_passes(p, t, 20);
		if (run < 2)
			run_until_it_helps(p, t, atomic_load(&t->of_thread[1]));
		fp_set_control(was);
		assert_int_equal(atomic_load(&t->n_apart), 0);
	}
	pool_close(p);
	free(t);
}

static void
impossible_numbers_are_refused(void **state)
{
	struct pool *p;
	struct err e = {0};

	(void)state;
	assert_false(pool_open(0, false, &p, &e));
	assert_int_equal(e.code, ERR_USAGE);
	e = (struct err){0};
	assert_false(pool_open(POOL_MAX_THREADS + 1, false, &p, &e));
	assert_int_equal(e.code, ERR_USAGE);
}

/* Whoever opened a pool of pinned threads was pinned too, and is free again when it is closed. */
static void
a_closed_pool_pins_nobody(void **state)
{
	cpu_set_t before, after;
	struct pool *p;
	struct err e = {0};

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_true(pool_open(2, true, &p, &e));
	pool_close(p);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
}

/* ---- a thread that is not there --------------------------------------------------------------------------
 */
static sem_t is_stuck, let_go;

static void
get_stuck(int signal)
{
	(void)signal;
	(void)sem_post(&is_stuck);
	while (sem_wait(&let_go) != 0)
		;
}

struct who {
	pthread_t other;
	atomic_bool is_known;
};

static void
note_other(struct tally *t, uint32_t thread)
{
	struct who *w = t->arg;

	if (thread == 0 || atomic_load(&w->is_known))
		return;
	w->other = pthread_self();
	atomic_store(&w->is_known, true);
}

/* Held by a signal while it has no share in hand: all runs end without it. */
static void
who_is_not_there_is_not_waited_for(void **state)
{
	struct tally *t = heap_alloc(sizeof(*t));
	struct who who = {0};
	struct pool *p;
	struct err e = {0};
	unsigned before;

	(void)state;
	assert_int_equal(sem_init(&is_stuck, 0, 0), 0);
	assert_int_equal(sem_init(&let_go, 0, 0), 0);
	(void)signal(SIGUSR1, get_stuck);
	assert_true(pool_open(2, false, &p, &e));
	t->work = note_other;
	t->arg = &who;
	run_until_it_helps(p, t, 0);
	while (!atomic_load(&who.is_known))
		;
	assert_int_equal(pthread_kill(who.other, SIGUSR1), 0);
	while (sem_wait(&is_stuck) != 0)
		;
	before = atomic_load(&t->of_thread[1]);
	for (int i = 0; i < 20; i++)
		run_passes(p, t, 100);
	assert_int_equal(atomic_load(&t->of_thread[1]), before);
	(void)sem_post(&let_go);
	run_until_it_helps(p, t, before); /* it is back */
	pool_close(p);
	free(t);
}

/* ---- a thread that loses its core ------------------------------------------------------------------------
 */
/* Stands still with a share in hand, as one does that another program has taken the core from. */
static void
lose_core(struct tally *t, uint32_t thread)
{
	const atomic_bool *is_on = t->arg;

	if (thread != 0 && atomic_load(is_on))
		(void)nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

/* Where threads outnumber cores, nobody stays awake to see what another does. */
static struct pool *
open_two(void)
{
	struct pool *p;
	struct err e = {0};
	cpu_set_t cores;

	if (sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) < 2)
		skip();
	assert_true(pool_open(2, false, &p, &e));
	while (pool_wanted(p) != 2) { /* another program has had a core already */
		pool_close(p);
		assert_true(pool_open(2, false, &p, &e));
	}
	return p;
}

/* Few are lost without being seen: who waits may stand still itself. */
static void
who_loses_its_core_is_not_wanted_for_a_while(void **state)
{
	struct tally *t = heap_alloc(sizeof(*t));
	atomic_bool is_on = true;
	struct pool *p = open_two();
	unsigned n;

	(void)state;
	t->work = lose_core;
	t->arg = &is_on;
	while (pool_wanted(p) == 2)
		run_passes(p, t, 4);
	atomic_store(&is_on, false);
	n = atomic_load(&t->of_thread[1]);
	run_until_it_helps(p, t, n); /* it comes back: only who is wanted takes shares */
	pool_close(p);
	free(t);
}

/* Neither asleep nor unwanted; tried again, as another program may have one's core meanwhile. */
static void
all_are_there_when_they_are_called(void **state)
{
	enum { TRIES = 1000 };
	struct tally *t = heap_alloc(sizeof(*t));
	atomic_bool is_on = true;
	struct pool *p = open_two();
	struct err e = {0};
	int n;

	(void)state;
	t->work = lose_core;
	t->arg = &is_on;
	for (n = 0; n < TRIES; n++) {
		while (pool_wanted(p) == 2)
			run_passes(p, t, 4);
		pool_want_all(p);
		if (pool_wanted(p) == 2)
			break;
	}
	assert_true(n < TRIES);
	for (n = 0; n < TRIES; n++) {
		(void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* they sleep */
		if (pool_gather(p))
			break;
	}
	assert_true(n < TRIES);
	pool_close(p);
	assert_true(pool_open(1, false, &p, &e));
	assert_true(pool_gather(p)); /* nobody to call */
	pool_close(p);
	free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(slices_cover_everything_once),
	    cmocka_unit_test(all_of_a_pass_is_done_before_the_next),
	    cmocka_unit_test(threads_compute_as_their_caller),
	    cmocka_unit_test(impossible_numbers_are_refused),
	    cmocka_unit_test(a_closed_pool_pins_nobody),
	    cmocka_unit_test(who_is_not_there_is_not_waited_for),
	    cmocka_unit_test(who_loses_its_core_is_not_wanted_for_a_while),
	    cmocka_unit_test(all_are_there_when_they_are_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
