/* tests/unit/resident_test.c: what a plan takes in memory while it runs: a library packs each constant once,
 * however many layers read it, and what it has packed does not stay as the plan has it.  Skipped where the
 * program is built without a library.  label: cpu memory: yes */
#include "../../schema/plan_file.h"
#include "../harness/library_plan.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static const struct library_shape twelve = {.n_layers = 12, .n_weights = 3, .rows = 32, .width = 2304};
static const size_t mib = 1 << 20;

/* In a process of its own: what korch-run has at most would else count this one's. */
static void
write_plan(const char *path)
{
	pid_t pid = fork();
	int status = -1;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct arena a = {0};
		struct plan_host h = {0};
		struct plan p;
		struct err e = {0};
		bool ok = library_plan(&a, &twelve, &p, &e) && plan_save(path, &p, &h, &e);

		if (!ok)
			(void)fprintf(stderr, "%s\n", e.msg);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Bytes that the program had in memory at most. */
static size_t
peak_of_run(const char *path)
{
	static char program[] = KORCH_BINARY_DIR "/bin/korch-run", repeat[] = "--repeat", few[] = "2",
		    threads[] = "--threads", one[] = "1", quiet[] = "--quiet", json[] = "--json",
		    trust[] = "--trust", any[] = "any";
	char *argv[] = {
	    program, (char *)(uintptr_t)path, repeat, few, threads, one, quiet, json, trust, any, NULL};
	struct rusage use;
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
	assert_int_equal(wait4(pid, &status, 0, &use), pid);
	assert_int_equal(status, 0);
	return (size_t)use.ru_maxrss * 1024;
}

static void
shared_weights_are_packed_once(void **state)
{
	const size_t weights = twelve.n_weights * (size_t)(twelve.width * twelve.width) * sizeof(float),
		     work = 2 * (size_t)(twelve.rows * twelve.width) * sizeof(float);
	char path[] = "/tmp/korch-resident-XXXXXX";
	size_t most = weights / 2 * 3 + work / 2 * 3 + 40 * mib, peak;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	(void)close(fd);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* the sanitizers' own memory is many times the program's */
#endif
	if (!dev_cpu_library(LIBRARY_onednn))
		skip();
	write_plan(path);
	peak = peak_of_run(path);
	(void)unlink(path);
	printf("%zu MiB of weights, %zu MiB of work: %zu MiB at most, %zu allowed\n", weights / mib,
	    work / mib, peak / mib, most / mib);
	assert_true(peak <= most);
}

/* Three weights, which four of the launches each read; two kernels that want one form. */
static void
what_is_packed_is_counted_once(void **state)
{
	static const struct library_shape few = {.n_layers = 12, .n_weights = 3, .rows = 32, .width = 512};
	const size_t weights = few.n_weights * (size_t)(few.width * few.width) * sizeof(float);
	struct arena a = {0};
	struct plan_memory m;
	struct plan p;
	struct err e = {0};

	(void)state;
	if (!dev_cpu_library(LIBRARY_onednn))
		skip();
	if (!library_plan(&a, &few, &p, &e) || !plan_memory(&p, &m, &e))
		fail_msg("%s", e.msg);
	if (m.packed_bytes == 0) { /* on some CPUs it takes weights as they lie */
		arena_fini(&a);
		skip();
	}
	assert_in_range(m.packed_bytes, weights, weights / 8 * 9);
	assert_in_range(m.unread_bytes, weights - 2 * 4096, weights);
	/* a copy of a weight reads it in each run */
	p.n_copies = 1;
	p.copies = NEW_ARRAY(&a, struct plan_copy, 1);
	p.copies[0] = (struct plan_copy){p.n_places - 1, 1};
	assert_true(plan_memory(&p, &m, &e));
	assert_in_range(m.unread_bytes, weights / 3 * 2 - 2 * 4096, weights / 3 * 2);
	p.n_copies = 0;
	/* a library that is not here is said, whatever this program was built with */
	p.kernels[1].schedule = STR("lib=onednn-1.4.0");
	assert_false(plan_memory(&p, &m, &e));
	assert_int_equal(e.code, ERR_HOST);
	arena_fini(&a);
}

/* What runs compute does not hang on whose constants they were. */
static void
a_plan_that_is_taken_computes_the_same(void **state)
{
	static const struct library_shape some = {.n_layers = 5, .n_weights = 2, .rows = 16, .width = 256};
	enum { N = 16 * 256 };
	static float x[N], want[N], have[N];
	const void *in[] = {x};
	void *out[] = {want};
	struct arena a = {0};
	struct plan_exec *exec;
	struct plan p;
	struct dev d;
	struct err e = {0};

	(void)state;
	if (!dev_cpu_library(LIBRARY_onednn))
		skip();
	for (int i = 0; i < N; i++)
		x[i] = (float)(i % 17) - 8;
	assert_true(library_plan(&a, &some, &p, &e) && dev_cpu_open(2, false, &d, &e));
	assert_true(plan_exec_open(&d, &p, &exec, &e));
	plan_exec_run(exec, in, out, NULL);
	plan_exec_close(exec);
	assert_true(plan_exec_take(&d, &p, &exec, &e));
	out[0] = have;
	for (int i = 0; i < 3; i++) {
		memset(have, 0, sizeof(have));
		plan_exec_run(exec, in, out, NULL);
		assert_memory_equal(have, want, sizeof(want));
	}
	plan_exec_close(exec);
	d.close(d.self);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shared_weights_are_packed_once),
	    cmocka_unit_test(what_is_packed_is_counted_once),
	    cmocka_unit_test(a_plan_that_is_taken_computes_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
