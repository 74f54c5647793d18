/* A GPU's measuring child is kept from batch to batch, and never in anybody's way: the lock is free while it
 * idles, it goes when another worker wants the GPU, when nobody asks for it, when it fails or grows. memory:
 * yes threads: yes */
#include "../../worker/gpu_keep.h"
#include "gpu_rig.h"

#include <setjmp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct lock_conf conf;
static const int64_t FOR_EVER = (int64_t)3600 * 1000000000;

static void
open_keep(struct gpu_keep *k)
{
	const struct measure_opts o = {.device = "cuda:0", .fake = "gpu=a100,seed=31", .n_threads = 1};

	gpu_keep_init(k, &o, &conf, "FAKE:31");
	k->patience_ns = FOR_EVER;
}

static void
take(struct gpu_keep *k)
{
	struct err e = {0};

	if (!gpu_keep_take(k, &e))
		fail_msg("%s", e.msg);
	assert_non_null(k->child);
}

/* Is a child there that idles?  Seen as its watcher sees it. */
static bool
idles(struct gpu_keep *k)
{
	bool is_there;

	(void)pthread_mutex_lock(&k->mutex);
	is_there = k->is_idle && k->child;
	(void)pthread_mutex_unlock(&k->mutex);
	return is_there;
}

static void
serves_again(void **state)
{
	struct gpu_keep k;
	struct host_lock other;
	pid_t first;

	(void)state;
	open_keep(&k);
	take(&k);
	first = measure_pid(k.child);
	for (int i = 0; i < 3; i++) {
		gpu_keep_leave(&k, true);
		assert_true(idles(&k));
		/* the lock is anybody's meanwhile */
		host_lock_init(&other, &conf, NULL, "gpu-FAKE:31");
		assert_true(host_lock_try(&other));
		host_lock_leave(&other);
		take(&k);
		assert_int_equal(measure_pid(k.child), first);
		assert_false(host_lock_try(&other)); /* but not while it is used */
	}
	gpu_keep_leave(&k, false);
	assert_null(k.child);
	take(&k);
	assert_int_not_equal(measure_pid(k.child), first);
	gpu_keep_leave(&k, true);
	gpu_keep_close(&k);
}

/* What idles is ended before another context comes: never two on a GPU. */
static void
makes_room(void **state)
{
	struct gpu_keep a, b;

	(void)state;
	open_keep(&a);
	open_keep(&b);
	for (int i = 0; i < 3; i++) {
		take(&a);
		gpu_keep_leave(&a, true);
		take(&b);
		assert_false(idles(&a));
		assert_null(a.child);
		gpu_keep_leave(&b, true);
		assert_true(idles(&b));
	}
	gpu_keep_close(&a);
	gpu_keep_close(&b);
}

struct rival {
	struct gpu_keep k;
	bool ok;
};

static void *
use(void *arg)
{
	struct rival *r = arg;
	struct err e = {0};

	r->ok = true;
	for (int i = 0; i < 6 && r->ok; i++) {
		r->ok = gpu_keep_take(&r->k, &e) && r->k.child;
		gpu_keep_leave(&r->k, true);
	}
	return NULL;
}

/* Each wants it again and again while the other one has it, idle or not: nobody waits for ever. */
static void
takes_turns(void **state)
{
	struct rival r[3];
	pthread_t thread[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		open_keep(&r[i].k);
		assert_int_equal(pthread_create(&thread[i], NULL, use, &r[i]), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(r[i].ok);
		gpu_keep_close(&r[i].k);
	}
}

/* One that is ended from outside while it idles costs nothing; one that nobody asks for goes by itself. */
static void
goes_by_itself(void **state)
{
	struct gpu_keep k;
	struct host_lock context;
	pid_t first;

	(void)state;
	open_keep(&k);
	take(&k);
	first = measure_pid(k.child);
	gpu_keep_leave(&k, true);
	assert_int_equal(kill(-first, SIGKILL), 0);
	take(&k);
	assert_int_not_equal(measure_pid(k.child), first);
	k.patience_ns = 1;
	gpu_keep_leave(&k, true);
	while (idles(&k))
		(void)sched_yield();
	host_lock_init(&context, &conf, NULL, "gpu-FAKE:31-context");
	assert_true(host_lock_try(&context));
	host_lock_leave(&context);
	take(&k);
	gpu_keep_close(&k);
}

static void
is_renewed(void **state)
{
	struct gpu_keep k;
	pid_t first;

	(void)state;
	open_keep(&k);
	take(&k);
	first = measure_pid(k.child);
	k.n_batches = KEEP_BATCHES - 2;
	gpu_keep_leave(&k, true);
	take(&k);
	assert_int_equal(measure_pid(k.child), first);
	gpu_keep_leave(&k, true); /* the last of them */
	assert_null(k.child);
	take(&k);
	gpu_keep_leave(&k, true);
	assert_true(idles(&k));
	k.most_growth_bytes = 0;
	k.first_bytes = 1;
	take(&k);
	gpu_keep_leave(&k, true);
	assert_null(k.child);
	gpu_keep_close(&k);
}

/* ---- through a worker's device ------------------------------------------------------------------- */
static void
children(struct arena *a, struct str *out, int *n)
{
	struct bytes b = {0};
	struct err e = {0};
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
	assert_true(os_read_file(os_real(), a, path, 4096, &b, &e));
	*out = (struct str){(const char *)b.p, b.n};
	*n = 0;
	for (size_t i = 0; i < b.n; i++)
		*n += b.p[i] == ' ';
}

/* A batch that is good is followed by the next in the same child; one with a kernel that kills, or lies,
 * leaves none behind. */
static void
batches_share_it(void **state)
{
	static const struct {
		const char *device;
		bool is_kept;
	} rows[] = {{"cuda-fake:gpu=a100,seed=32", true}, {"cuda-fake:gpu=a100,seed=32,wrong=1000000", false},
	    {"cuda-fake:gpu=a100,seed=32,illegal=1000000", false}};
	int n_kept = 0;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct str before, after;
		struct rig r;
		struct err e = {0};
		int n, n_after;

		assert_true(rig_open(&r, rows[i].device, &e));
		rig_measure(&r, 1);
		children(&r.a, &before, &n);
		n_kept = i == 0 ? n : n_kept; /* compilers, and the one that idles */
		rig_measure(&r, 1);
		children(&r.a, &after, &n_after);
		if (n != n_kept - !rows[i].is_kept || n_after != n ||
		    (rows[i].is_kept && !str_eq(before, after)))
			fail_msg("%s: children %.*s and then %.*s", rows[i].device, STR_ARG(before),
			    STR_ARG(after));
		assert_int_equal(rig_n_good(&r), rows[i].is_kept ? RIG_N : 0);
		rig_close(&r);
	}
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(serves_again),
	    cmocka_unit_test(makes_room),
	    cmocka_unit_test(takes_turns),
	    cmocka_unit_test(goes_by_itself),
	    cmocka_unit_test(is_renewed),
	    cmocka_unit_test(batches_share_it),
	};
	struct rig_home home;

	return rig_enter(&home, argc > 1 ? argv[1] : NULL)
	    ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL))
	    : 1;
}
