/* Kills korchd and its worker at counted seams (requests, answers, commits, planner's messages,
 * grants, results) again and again while a job runs: the job goes on, ends with the very plan of
 * an undisturbed run, no acknowledged measurement is lost and none is made twice.  Strangers that
 * die while hands are shaken come by.
 * KORCH_KILL_ROUNDS (50) and KORCH_KILL_SEED change the run.  threads: yes */
#include "farm_proc.h"

#include "../../schema/plan_file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sqlite3.h>

static const int64_t SECOND = 1000000000;

static long
env_number(const char *name, long otherwise)
{
	const char *v = getenv(name);

	return v && *v ? strtol(v, NULL, 10) : otherwise;
}

static void
make_model(const struct farm_proc *f, char path[128])
{
	char cmd[512];

	(void)snprintf(path, 128, "%s/candy_small/model.onnx", f->dir);
	(void)snprintf(cmd, sizeof(cmd),
	    "tar -xJf '%s/tests/models/small.tar.xz' -C '%s' --strip-components=1 small/candy_small",
	    KORCH_SOURCE_DIR, f->dir);
	if (system(cmd) != 0)
		fail_msg("tests/models/small.tar.xz does not unpack");
}

static struct m_options
options(void)
{
	return (struct m_options){.device = STR("fake"),
	    .threads = 1,
	    .budget_ns = 3600 * SECOND,
	    .tolerance = 1e-3,
	    .fusion = STR("full"),
	    .effort = 1,
	    .prove = true,
	    .unplaceable_ns = 300 * SECOND};
}

static uint64_t
submit(struct client *c, const char *model)
{
	struct m_options o = options();
	uint64_t job = 0;
	struct err e = {0};

	if (!client_submit(c, model, NULL, 0, &o, &job, &e))
		fail_msg("%s", e.msg);
	return job;
}

/* One look at the job; true when it has ended, as it must: done. */
static bool
has_ended(struct client *c, uint64_t job, uint64_t *seq)
{
	struct arena a = {0};
	struct msg m;
	struct err e = {0};
	bool ended;

	if (!client_watch(c, &a, job, *seq, SECOND / 5, &m, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < m.job_events.n_events; i++) {
		assert_true(m.job_events.events[i].seq > *seq);
		*seq = m.job_events.events[i].seq;
		if (str_is(m.job_events.events[i].state, "failed"))
			fail_msg("the job failed: %.*s", STR_ARG(m.job_events.events[i].reason));
	}
	ended = m.job_events.is_final;
	arena_fini(&a);
	return ended;
}

static void
load_plan(struct client *c, struct arena *a, uint64_t job, const struct farm_proc *f, struct plan *p)
{
	char path[128];
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/plan.korch", f->dir);
	if (!client_fetch(c, job, path, &e) || !plan_load(a, path, p, NULL, &e))
		fail_msg("%s", e.msg);
}

static void
same_plan(const struct plan *a, const struct plan *b)
{
	assert_true(a->proved && b->proved);
	assert_int_equal(a->latency_ns, b->latency_ns);
	assert_int_equal(a->n_kernels, b->n_kernels);
	assert_int_equal(a->n_steps, b->n_steps);
	for (uint32_t i = 0; i < a->n_kernels; i++) {
		assert_true(str_eq(a->kernels[i].spec, b->kernels[i].spec));
		assert_true(str_eq(a->kernels[i].schedule, b->kernels[i].schedule));
		assert_int_equal(a->kernels[i].cost_ns, b->kernels[i].cost_ns);
	}
	for (uint32_t i = 0; i < a->n_steps; i++)
		assert_int_equal(a->steps[i].kernel, b->steps[i].kernel);
}

static int64_t
ask_db(const struct farm_proc *f, const char *sql)
{
	char path[96];
	sqlite3 *db;
	sqlite3_stmt *s;
	int64_t v;

	(void)snprintf(path, sizeof(path), "%s/data/korch.db", f->dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	v = sqlite3_column_int64(s, 0);
	assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return v;
}

/* What an honest worker says counts; but for what came after its lease had ended. */
static void
is_believed(const struct farm_proc *f)
{
	assert_int_equal(
	    ask_db(f,
		"SELECT count(*) FROM evidence WHERE why NOT LIKE 'no lease of this device%' AND "
		"why NOT LIKE '%has come before'"),
	    0);
}

static void
undisturbed(struct arena *a, struct plan *p, int64_t *n_rows)
{
	struct farm_proc f;
	struct client *c;
	char model[128];
	uint64_t job, seq = 0;

	farm_proc_init(&f, "fake:seed=5");
	make_model(&f, model);
	farm_proc_daemon(&f, 0);
	farm_proc_worker(&f, 0);
	c = farm_proc_client(&f, NULL, NULL);
	job = submit(c, model);
	while (!has_ended(c, job, &seq))
		;
	load_plan(c, a, job, &f, p);
	client_close(c);
	is_believed(&f);
	*n_rows = ask_db(&f, "SELECT count(*) FROM measurement");
	farm_proc_fini(&f);
}

struct killing {
	struct farm_proc *f;
	struct rng rng;
	long kills, rounds;
	bool daemon_is_doomed, worker_is_doomed; /* will die at a seam */
};

static void
raise_daemon(struct killing *k)
{
	k->daemon_is_doomed = k->kills < k->rounds;
	farm_proc_daemon(k->f, k->daemon_is_doomed ? 1 + (long)rng_below(&k->rng, 160) : 0);
}

static void
raise_worker(struct killing *k)
{
	k->worker_is_doomed = k->kills < k->rounds;
	farm_proc_worker(k->f, k->worker_is_doomed ? 1 + (long)rng_below(&k->rng, 40) : 0);
}

/* Who has a seam to die at may meet it while he leaves: another takes his place. */
static void
reprieve(struct killing *k)
{
	if (k->daemon_is_doomed) {
		(void)farm_proc_kill(&k->f->daemon, SIGKILL);
		raise_daemon(k);
	}
	if (k->worker_is_doomed) {
		(void)farm_proc_kill(&k->f->worker, SIGKILL);
		raise_worker(k);
	}
	farm_proc_await(&k->f->worker_ready);
}

/* Starts again whatever has died; counts the deaths.  Polled while the client waits. */
static bool
revive(void *self)
{
	struct killing *k = self;
	int status;

	if (rng_below(&k->rng, 16) == 0)
		farm_proc_rude(k->f);
	if (farm_proc_ended(&k->f->daemon, &status)) {
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			fail_msg("korchd ended by itself with status %d", status);
		k->kills++;
		raise_daemon(k);
	}
	if (farm_proc_ended(&k->f->worker, &status)) {
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			fail_msg("korch-worker ended by itself with status %d", status);
		k->kills++;
		raise_worker(k);
	}
	return false;
}

static void
rounds(void **state)
{
	struct killing k = {.rounds = env_number("KORCH_KILL_ROUNDS", 50),
	    .rng = {(uint64_t)env_number("KORCH_KILL_SEED", 20)}};
	struct arena a = {0};
	struct plan want, have;
	struct farm_proc f;
	struct client *c;
	char model[128];
	uint64_t job, seq = 0;
	int64_t rows, pooled;
	int n_jobs = 0;

	(void)state;
	print_message("seed %llu, %ld rounds\n", (unsigned long long)k.rng.s, k.rounds);
	undisturbed(&a, &want, &rows);
	farm_proc_init(&f, "fake:seed=5");
	make_model(&f, model);
	farm_proc_daemon(&f, 0);
	k.f = &f;
	c = farm_proc_client(&f, revive, &k);
	job = submit(c, model);
	(void)farm_proc_kill(&f.daemon, SIGKILL); /* acknowledged: it must be there afterwards */
	raise_daemon(&k);
	raise_worker(&k);
	for (;;) {
		(void)revive(&k);
		if (!has_ended(c, job, &seq))
			continue;
		load_plan(c, &a, job, &f, &have);
		same_plan(&want, &have);
		n_jobs++;
		if (k.kills >= k.rounds)
			break;
		job = submit(c, model); /* from the warm store, killed all the same */
		seq = 0;
	}
	print_message("%ld kills, %d jobs\n", k.kills, n_jobs);
	client_close(c);
	reprieve(&k);
	assert_int_equal(farm_proc_kill(&f.worker, SIGTERM), 0);
	assert_int_equal(farm_proc_kill(&f.daemon, SIGTERM), 0);
	/* a result that was sent twice is one sample; a task done twice would be pooled */
	pooled = ask_db(&f, "SELECT ifnull((SELECT value FROM counter WHERE name = 'pooled'), 0)");
	print_message("%lld rows (%lld undisturbed), %lld pooled\n",
	    (long long)ask_db(&f, "SELECT count(*) FROM measurement"), (long long)rows, (long long)pooled);
	assert_int_equal(pooled, 0);
	is_believed(&f);
	assert_int_equal(
	    ask_db(&f, "SELECT count(*) FROM (SELECT spec FROM measurement EXCEPT SELECT hash FROM spec)"),
	    0);
	assert_int_equal(
	    ask_db(&f, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
	farm_proc_fini(&f);
	arena_fini(&a);
}

/* The client dies: its job does not. */
static void
client_killed(void **state)
{
	struct farm_proc f;
	struct client *c;
	struct arena a = {0};
	struct plan p;
	char model[128], out[128];
	uint64_t job = 0, seq = 0;
	pid_t pid;

	(void)state;
	farm_proc_init(&f, "fake:seed=5,slow=5");
	make_model(&f, model);
	(void)snprintf(out, sizeof(out), "%s/never.korch", f.dir);
	farm_proc_daemon(&f, 0);
	farm_proc_worker(&f, 0);
	c = farm_proc_client(&f, NULL, NULL);
	pid = farm_proc_start(&f, "korch-submit", model, "-o", out, "--daemon", f.url, "--device", "fake",
	    "--threads", "1", "--effort", "1", "--budget", "2", NULL);
	while (job == 0) {
		struct msg ask = {.type = MSG_job_list}, m;
		struct err e = {0};
		int status;
		bool has_left =
		    farm_proc_ended(&pid, &status); /* asked first: it may be done before we look */

		ask.job_list.all = true;
		assert_true(client_call(c, &a, &ask, SECOND, &m, &e));
		if (m.jobs.n_jobs)
			job = m.jobs.jobs[0].id;
		else if (has_left)
			fail_msg("korch-submit left with wait status %d", status);
	}
	(void)farm_proc_kill(&pid, SIGKILL);
	while (!has_ended(c, job, &seq))
		;
	load_plan(c, &a, job, &f, &p);
	assert_true(p.n_steps > 0);
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(client_killed), cmocka_unit_test(rounds)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
