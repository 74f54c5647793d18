/* What somebody sees who asks for a GPU: its names, several by one command, a device that can measure
 * nothing. memory: yes threads: yes */
#include "farm_proc.h"
#include "gpu_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define A100 "cuda:Fake-A100-SXM4-40GB"
#define V100 "cuda:Fake-Tesla-V100-SXM2-16GB"

static void
run(const char *command)
{
	if (system(command) != 0)
		bug("%s", command);
}

static void
open_farm(struct farm_proc *f)
{
	char cmd[256];

	farm_proc_init(f, "");
	(void)snprintf(cmd, sizeof(cmd), "tar -xJf %s/tests/models/small.tar.xz -C %s small/candy_small",
	    KORCH_SOURCE_DIR, f->dir);
	run(cmd);
}

/* korch-submit's exit status; `where` is --daemon or --data, and its value. */
static int
submit(const struct farm_proc *f, const char *where, const char *value, const char *device)
{
	char model[128], plan[96];
	pid_t pid;
	int status;

	(void)snprintf(model, sizeof(model), "%s/small/candy_small/model.onnx", f->dir);
	(void)snprintf(plan, sizeof(plan), "%s/plan.korch", f->dir);
	pid = farm_proc_start(f, "korch-submit", where, value, "--device", device, "--effort", "1",
	    "--budget", "20", "--unplaceable-timeout", strcmp(where, "--data") == 0 ? "60" : "1", "-o", plan,
	    model, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What korch-submit said last has these words. */
static void
said(const struct farm_proc *f, const char *words)
{
	char cmd[384];

	(void)snprintf(cmd, sizeof(cmd),
	    "grep '^korch-submit: ' %s/korch-submit.log | tail -n 1 | grep -q -- '%s' || { tail %s/*.log "
	    ">&2; false; }",
	    f->dir, words, f->dir);
	run(cmd);
}

/* What all programs said goes to the report where it is another status. */
static void
ends_with(const struct farm_proc *f, int status, int want)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "tail -n 40 %s/*.log >&2", f->dir);
	if (status != want)
		run(cmd);
	assert_int_equal(status, want);
}

static uint32_t
n_workers(const struct farm_proc *f, const char *class)
{
	char cmd[256];
	FILE *p;
	uint32_t n = 0;

	(void)snprintf(cmd, sizeof(cmd), "%s/bin/korch-jobs workers --daemon %s 2>/dev/null | grep -c ' %s '",
	    KORCH_BINARY_DIR, f->url, class);
	p = popen(cmd, "r");
	if (!p || fscanf(p, "%u", &n) != 1)
		bug("%s", cmd);
	(void)pclose(p);
	return n;
}

/* A device that is throttled all the time: the job says so by its words, its status and its plan, and the
 * next one on a device in order measures. */
static void
throttled_all_the_time(void **state)
{
	static const char *const devices[] = {
	    "cuda-fake:gpu=a100,seed=4,throttle=1000000", "cuda-fake:gpu=a100,seed=4"};
	static const int ends[] = {8, 0};
	struct farm_proc f;
	char plan[96], cmd[256];

	(void)state;
	open_farm(&f);
	(void)snprintf(plan, sizeof(plan), "%s/plan.korch", f.dir);
	farm_proc_daemon(&f, 0);
	for (int i = 0; i < 2; i++) {
		int ready;
		pid_t worker = farm_proc_another(&f, devices[i], 0, &ready);

		farm_proc_await(&ready);
		ends_with(&f, submit(&f, "--daemon", f.url, A100), ends[i]);
		if (i == 0)
			said(&f, "nothing could be measured.*throttled: thermal");
		(void)snprintf(cmd, sizeof(cmd),
		    "%s/bin/korch-plan show %s | grep -c 'throttled: thermal' | grep -qx %d",
		    KORCH_BINARY_DIR, plan, i == 0);
		run(cmd);
		assert_int_equal(farm_proc_kill(&worker, SIGTERM), 0);
	}
	farm_proc_fini(&f);
}

/* All GPUs of a host by one command: as many workers, which leave together. */
static void
all_of_a_host(void **state)
{
	struct farm_proc f;
	pid_t worker;
	int ready;

	(void)state;
	farm_proc_init(&f, "");
	farm_proc_daemon(&f, 0);
	worker = farm_proc_another(&f, "cuda-fake:all,gpu=v100,n=3,seed=2", 0, &ready);
	farm_proc_await(&ready);
	while (n_workers(&f, V100) < 3) /* the first one's line has come */
		assert_false(farm_proc_ended(&worker, NULL));
	assert_int_equal(n_workers(&f, A100), 0);
	assert_int_equal(farm_proc_kill(&worker, SIGTERM), 0);
	assert_int_equal(n_workers(&f, V100), 0);
	farm_proc_fini(&f);
}

/* A job is for a class; a worker's names for a device are this machine's, for a daemon of one's own. */
static void
names(void **state)
{
	struct farm_proc f;
	char data[96];

	(void)state;
	open_farm(&f);
	farm_proc_daemon(&f, 0);
	assert_int_equal(submit(&f, "--daemon", f.url, "cuda:0"), 2);
	said(&f, "worker.s name for it");
	assert_int_equal(submit(&f, "--daemon", f.url, "cuda:NVIDIA-H200"), 5);
	said(&f, "--device cuda:all");
	(void)snprintf(data, sizeof(data), "%s/private", f.dir);
	assert_int_equal(submit(&f, "--data", data, "cuda-fake:gpu=a100,n=0"), 78);
	said(&f, "the driver sees no device");
	assert_int_equal(submit(&f, "--data", data, "cuda-fake:gpu=a100,n=2,dev=1"), 0);
	farm_proc_fini(&f);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(all_of_a_host),
	    cmocka_unit_test(throttled_all_the_time)};
	struct rig_home home;

	return rig_enter(&home, argc > 1 ? argv[1] : NULL)
	    ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL))
	    : 1;
}
