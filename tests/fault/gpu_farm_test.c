/* A farm of a CPU and three fake GPUs of two classes: a job for one class is measured by its devices
 * alone, its plan runs there, and a device of the other class refuses it.
 * memory: yes */
#include "farm_proc.h"
#include "gpu_rig.h"

#include "../../kernels/device/gpu.h"
#include "../../kernels/run/plan.h"
#include "../../schema/plan_file.h"
#include "../../worker/device.h"

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
enum { WORKERS = 4 };
static const int64_t SECOND = 1000000000;
static const atomic_bool never = false;

static void
run(const char *command)
{
	if (system(command) != 0)
		bug("%s", command);
}

/* Tasks done by the devices of a class. */
static uint64_t
done_by(struct farm_proc *f, const char *class, uint32_t *n_devices)
{
	struct client *c = farm_proc_client(f, NULL, NULL);
	struct arena a = {0};
	struct msg ask = {.type = MSG_worker_list}, m;
	struct err e = {0};
	uint64_t done = 0;

	*n_devices = 0;
	if (!client_call(c, &a, &ask, SECOND, &m, &e))
		bug("%s", e.msg);
	for (uint32_t i = 0; i < m.workers.n_workers; i++)
		if (str_is(m.workers.workers[i].class, class)) {
			++*n_devices;
			done += m.workers.workers[i].done;
		}
	arena_fini(&a);
	client_close(c);
	return done;
}

/* The exit status of korch-submit. */
static int
try_submit(
    struct farm_proc *f, const char *class, const char *precision, const char *budget, const char *plan)
{
	char model[128];
	pid_t pid;
	int status;

	(void)snprintf(model, sizeof(model), "%s/small/candy_small/model.onnx", f->dir);
	pid = farm_proc_start(f, "korch-submit", "--daemon", f->url, "--device", class, "--precision",
	    precision, "--effort", "1", "--budget", budget, "-o", plan, model, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
submit(struct farm_proc *f, const char *class, const char *precision, const char *budget, const char *plan)
{
	int status = try_submit(f, class, precision, budget, plan);

	if (status != 0) {
		char cmd[160];

		(void)snprintf(cmd, sizeof(cmd), "tail -n 20 %s/*.log >&2", f->dir);
		run(cmd);
		fail_msg("korch-submit for %s left with status %d", class, status);
	}
}

/* A device of the class times the plan, or says why not. */
static bool
times_plan(const char *device, const char *plan, struct m_timing *t, struct err *e)
{
	struct arena a = {0};
	struct device_conf conf = {.compiler = "", .quiet = true, .cancel = &never};
	struct device d;
	bool ok;

	if (!device_open(&a, str_of(device), &conf, &d, e))
		bug("%s", e->msg);
	ok = d.time_plans(d.self, &a, &plan, 1, 1, 0, t, e);
	d.close(d.self);
	arena_fini(&a);
	return ok;
}

/* Do the plan's limits say so?  */
static bool
has_words(const char *path, const char *words)
{
	struct arena a = {0};
	struct plan_host host;
	struct plan plan;
	struct err e = {0};
	bool has;

	if (!plan_load(&a, path, &plan, &host, &e))
		bug("%s", e.msg);
	has = memmem(plan.limits.p, plan.limits.n, words, strlen(words)) != NULL;
	arena_fini(&a);
	return has;
}

/* korch-plan show tells on how many streams a GPU's plan may run. */
static void
shows_streams(struct farm_proc *f, const char *plan)
{
	char cmd[1024];

	(void)snprintf(cmd, sizeof(cmd),
	    "%s/bin/korch-plan show %s >%s/shown && grep -q '^streams ' %s/shown && "
	    "%s/bin/korch-plan show --json %s | grep -q "
	    "'\"streams\":{\"asked\":4,\"side\":[1-4],\"waits\":[0-9]'",
	    KORCH_BINARY_DIR, plan, f->dir, f->dir, KORCH_BINARY_DIR, plan);
	run(cmd);
}

/* korch-run on a host without a driver: 78, as for a worker. */
static void
runs_nowhere(struct farm_proc *f, const char *plan)
{
	struct gpu g;
	pid_t pid;
	int status;

	gpu_open(&g);
	if (g.has[GPU_CUDA]) {
		gpu_close(&g);
		return;
	}
	pid = farm_proc_start(f, "korch-run", plan, "--trust", "any", NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 78);
}

static void
two_classes(void **state)
{
	static const char *const devices[WORKERS] = {
	    "cpu", "cuda-fake:gpu=v100,seed=1", "cuda-fake:gpu=v100,seed=1", "cuda-fake:gpu=a100,seed=1"};
	pid_t worker[WORKERS];
	int ready[WORKERS];
	struct farm_proc f;
	char plan[4][96], cmd[256];
	struct m_timing t;
	uint64_t by_a;
	uint32_t n;
	struct err e = {0};

	(void)state;
	farm_proc_init(&f, "");
	(void)snprintf(
	    cmd, sizeof(cmd), "tar -xJf %s/tests/models/small.tar.xz -C %s", KORCH_SOURCE_DIR, f.dir);
	run(cmd);
	for (int i = 0; i < 4; i++)
		(void)snprintf(plan[i], sizeof(plan[i]), "%s/plan%d.korch", f.dir, i);
	farm_proc_daemon(&f, 0);
	for (int i = 0; i < WORKERS; i++)
		worker[i] = farm_proc_another(&f, devices[i], 0, &ready[i]);
	for (int i = 0; i < WORKERS; i++) /* all are there before anybody is counted */
		farm_proc_await(&ready[i]);
	submit(&f, A100, "f32", "600", plan[0]);
	by_a = done_by(&f, A100, &n);
	assert_int_equal(n, 1);
	assert_true(by_a > 10);
	assert_int_equal(done_by(&f, V100, &n), 0);
	assert_int_equal(done_by(&f, "cpu", &n), 0);
	submit(&f, V100, "f32", "600", plan[1]);
	assert_int_equal(done_by(&f, A100, &n), by_a);
	assert_true(done_by(&f, V100, &n) > 10);
	assert_int_equal(n, 2);
	assert_int_equal(done_by(&f, "cpu", &n), 0);
	/* each plan on its own class, and on the other */
	assert_true(times_plan(devices[3], plan[0], &t, &e));
	assert_true(t.median_ns > 0);
	assert_true(times_plan(devices[1], plan[1], &t, &e));
	/* a whole plan's runs count as a kernel's samples do */
	assert_false(times_plan("cuda-fake:gpu=a100,seed=1,throttle=1000000", plan[0], &t, &e));
	assert_int_equal(e.code, ERR_THROTTLED);
	assert_false(times_plan("cuda-fake:gpu=a100,seed=1,foreign=1000000", plan[0], &t, &e));
	assert_int_equal(e.code, ERR_BUSY);
	assert_false(times_plan(devices[1], plan[0], &t, &e));
	assert_int_equal(e.code, ERR_DEVICE);
	if (!strstr(e.msg, "sm_80"))
		fail_msg("%s", e.msg);
	runs_nowhere(&f, plan[0]);
	shows_streams(&f, plan[0]);
	/* tensor cores: a plan of its own that says so; not on what has none, and not on a CPU */
	submit(&f, A100, "tf32", "10", plan[2]);
	assert_int_equal(has_words(plan[0], "products in tf32"), 0);
	assert_int_equal(has_words(plan[2], "products in tf32"), 1);
	assert_true(done_by(&f, A100, &n) > by_a);
	assert_true(times_plan(devices[3], plan[2], &t, &e));
	assert_int_equal(try_submit(&f, V100, "bf16", "10", plan[3]), 2);
	assert_int_equal(try_submit(&f, "cpu", "tf32", "10", plan[3]), 2);
	assert_int_equal(try_submit(&f, A100, "f8", "10", plan[3]), 2);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(farm_proc_kill(&worker[i], SIGTERM), 0);
	farm_proc_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(two_classes)};
	struct rig_home home;

	return rig_enter(&home, NULL) ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL)) : 1;
}
