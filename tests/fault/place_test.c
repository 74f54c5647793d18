/* Whose devices a job gets: of all that fit what it asks for, those of one class, by the rule of
 * daemon/place.h. This program is the workers (peer.h), and the planner too: of a model named "hold" it is
 * silent until it is killed, of one named "tell" it fails with the class that it was told. threads: yes */
#include "as_planner.h"
#include "peer.h"

#include "../harness/sample.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
static const char A[] = "cpu:AMD-EPYC-9B14-avx512", B[] = "cpu:Intel-Xeon-Gold-6230-avx2";

/* ---- the planner -------------------------------------------------------------------- */
static int
hold_or_tell(struct pipe *p, struct arena *a, const struct m_plan_start *start)
{
	struct msg m;

	if (str_is(start->model_name, "tell"))
		return as_planner_fail(p, ERR_FAILED, start->env.class);
	(void)as_planner_hear(p, a, MSG_NONE, &m); /* nothing is that: to its end */
	return 0;
}

/* ---- the stage ---------------------------------------------------------------------- */
enum { PEERS = 4 };
struct stage {
	struct farm_proc f;
	struct client *c;
	struct peer peer[PEERS];
	uint32_t n_peers;
};

static void
join(struct stage *s, const char *class, bool is_remote)
{
	struct peer *p = &s->peer[s->n_peers++];
	char key[128];
	struct m_env env;
	struct msg welcome;
	struct err e = {0};

	(void)snprintf(key, sizeof(key), "of=%s", class);
	env = sample_env(class, key);
	peer_open(p, s->f.url);
	p->is_remote = is_remote;
	if (!peer_hello(p, "host", &env, NULL, 0, &welcome, &e))
		fail_msg("%s", e.msg);
}

static void
all_leave(struct stage *s)
{
	while (s->n_peers)
		peer_close(&s->peer[--s->n_peers]);
}

static void
up(struct stage *s, bool is_private)
{
	*s = (struct stage){0};
	farm_proc_init(&s->f, "");
	as_planner_use(&s->f);
	s->f.more[0] = "--max-planners";
	s->f.more[1] = "8";
	s->f.more[2] = is_private ? "--private" : NULL;
	farm_proc_daemon(&s->f, 0);
	s->c = farm_proc_client(&s->f, NULL, NULL);
}

static void
down(struct stage *s)
{
	all_leave(s);
	client_close(s->c);
	farm_proc_fini(&s->f);
}

static uint64_t
submit(struct stage *s, const char *model, const char *device)
{
	struct m_options o = {.device = str_of(device), .threads = 1, .fusion = STR("full")};
	char path[128];
	uint64_t job;
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/%s", s->f.dir, model);
	assert_true(
	    os_write_file(os_real(), path, (struct bytes){(const uint8_t *)model, strlen(model)}, &e));
	if (!client_submit(s->c, path, NULL, 0, &o, &job, &e))
		fail_msg("%s", e.msg);
	return job;
}

/* Waits until the job is in that state; the event that says so. */
static struct m_event
until(struct stage *s, struct arena *a, uint64_t job, const char *state)
{
	struct msg m;
	uint64_t seq = 0;
	struct err e = {0};

	for (;;) {
		if (!client_watch(s->c, a, job, seq, 20 * SECOND, &m, &e))
			fail_msg("%s", e.msg);
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			seq = m.job_events.events[i].seq;
			if (str_is(m.job_events.events[i].state, state))
				return m.job_events.events[i];
			if (strcmp(state, "waiting") == 0 && str_is(m.job_events.events[i].state, "planning"))
				fail_msg("it does not wait, it has devices of class %.*s",
				    STR_ARG(m.job_events.events[i].class));
		}
		if (m.job_events.is_final)
			fail_msg("job %llu ended before it was %s", (unsigned long long)job, state);
	}
}

static void
is_bound(struct stage *s, uint64_t job, const char *class)
{
	struct arena a = {0};
	struct m_event ev = until(s, &a, job, "planning");

	assert_string_equal(str_dup(&a, ev.class), class);
	arena_fini(&a);
}

static void
is_told(struct stage *s, const char *device, const char *class)
{
	struct arena a = {0};
	struct m_event ev = until(s, &a, submit(s, "tell", device), "failed");

	assert_string_equal(str_dup(&a, ev.reason), class);
	assert_string_equal(str_dup(&a, ev.class), class);
	arena_fini(&a);
}

/* ---- tests --------------------------------------------------------------------------- */
/* Two models of CPU: none of the hosts idles while there are jobs, and whoever joined last decides nothing.
 */
static void
each_gets_jobs(void **state)
{
	struct stage s;

	(void)state;
	up(&s, false);
	join(&s, A, false);
	join(&s, B, false);
	is_bound(&s, submit(&s, "hold", "cpu"), A); /* equal: by name */
	is_bound(&s, submit(&s, "hold", "cpu"), B); /* A's has a job */
	is_bound(&s, submit(&s, "hold", "cpu"), A);
	join(&s, B, false);
	join(&s, B, false); /* of B's three devices two are free, of A's one none */
	is_bound(&s, submit(&s, "hold", "cpu"), B);
	is_bound(&s, submit(&s, "hold", "cpu:*"), B);
	is_told(&s, "cpu", B);
	is_told(&s, "cpu:amd-*", A);
	is_told(&s, "cpu:*avx512", A);
	is_told(&s, A, A);
	is_told(&s, "*xeon*", B);
	down(&s);
}

/* A worker that calls its class as before: any CPU, and none of a pattern. */
static void
old_class(void **state)
{
	struct stage s;
	struct arena a = {0};
	struct m_event ev;

	(void)state;
	up(&s, false);
	join(&s, "cpu", false);
	is_told(&s, "cpu", "cpu");
	ev = until(&s, &a, submit(&s, "tell", "cpu:*"), "waiting");
	if (!strstr(str_dup(&a, ev.reason), "(there are: cpu)"))
		fail_msg("it waits: %.*s", STR_ARG(ev.reason));
	join(&s, A, false);
	is_told(&s, "cpu:*", A);
	arena_fini(&a);
	down(&s);
}

/* A job stays with its class: whoever comes back first after a restart does not get it. */
static void
restart(void **state)
{
	struct stage s;
	struct arena a = {0};
	uint64_t job;

	(void)state;
	up(&s, false);
	join(&s, B, false);
	job = submit(&s, "hold", "cpu");
	is_bound(&s, job, B);
	is_told(&s, "cpu", B); /* a job's number is told when it is on disk, and what was written before it */
	all_leave(&s);
	(void)farm_proc_kill(&s.f.daemon, SIGKILL);
	farm_proc_daemon(&s.f, 0);
	join(&s, A, false);
	is_told(&s, "cpu", A); /* there is room for older jobs too */
	(void)until(&s, &a, job, "waiting");
	join(&s, B, false);
	is_bound(&s, job, B);
	arena_fini(&a);
	down(&s);
}

/* A private daemon's job is for this host, whatever else has joined; where this host is another, it says so.
 */
static void
own_host(void **state)
{
	struct stage s;
	struct arena a = {0};
	struct m_event ev;

	(void)state;
	up(&s, true);
	join(&s, A, true);
	join(&s, A, true);
	join(&s, B, false);
	is_told(&s, "cpu", B);
	is_told(&s, A, A);
	ev = until(&s, &a, submit(&s, "tell", "cpu:*-sse42"), "failed");
	assert_int_equal(ev.code, err_wire(ERR_UNPLACEABLE));
	if (!strstr(str_dup(&a, ev.reason), B) || !strstr(str_dup(&a, ev.reason), "--device cpu,"))
		fail_msg("it says: %.*s", STR_ARG(ev.reason));
	arena_fini(&a);
	down(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_gets_jobs),
	    cmocka_unit_test(old_class),
	    cmocka_unit_test(restart),
	    cmocka_unit_test(own_host),
	};

	if (as_planner_is_it())
		return as_planner_run(hold_or_tell);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
