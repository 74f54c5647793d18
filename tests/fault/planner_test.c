/* What a planner and a device can do wrong, and what a job says about it.  This program is the
 * planner too: started by korchd with a name of a model, it plays the part that the name asks for.
 * threads: yes */
#include "as_planner.h"

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

/* ---- the parts it plays ------------------------------------------------------------- */
/* Asks for n measurements, collects all answers, tells them as the reason of its failure. */
static int
play_measure(struct pipe *p, struct arena *a, int n)
{
	struct m_spec_ask *specs = NEW_ARRAY(a, struct m_spec_ask, n);
	struct msg m = {.type = MSG_measure_ask};
	int good = 0, bad = 0;
	uint64_t fail = 0;
	struct str cause = STR("");
	struct err e = {0};

	for (int i = 0; i < n; i++) {
		specs[i].text = sample_spec(a, i + 1);
		specs[i].effort = 1;
	}
	m.measure_ask.threads = 1;
	m.measure_ask.precision = STR("f32");
	m.measure_ask.specs = specs;
	m.measure_ask.n_specs = (uint32_t)n;
	if (!pipe_send(p, &m, &e))
		return AS_PLANNER_MUTE;
	while (good + bad < n) {
		if (!as_planner_hear(p, a, MSG_cost_have, &m))
			return AS_PLANNER_MUTE;
		for (uint32_t i = 0; i < m.cost_have.n_costs; i++) {
			good += m.cost_have.costs[i].median_ns > 0;
			bad += m.cost_have.costs[i].fail != 0;
			if (m.cost_have.costs[i].fail) {
				fail = m.cost_have.costs[i].fail;
				cause = m.cost_have.costs[i].cause;
			}
		}
	}
	return as_planner_fail(p, ERR_FAILED,
	    str_of(arena_printf(
		a, "good=%d bad=%d fail=%s %.*s", good, bad, err_name(err_of_wire(fail)), STR_ARG(cause))));
}

/* Asks and asks, and reads no answer. */
static int
play_deaf(struct pipe *p, struct arena *a)
{
	struct m_spec_ask *specs = NEW_ARRAY(a, struct m_spec_ask, 1000);
	struct msg m = {.type = MSG_cost_ask};
	struct err e = {0};

	for (int i = 0; i < 1000; i++)
		specs[i].text = sample_spec(a, i + 1);
	m.cost_ask.threads = 1;
	m.cost_ask.precision = STR("f32");
	m.cost_ask.specs = specs;
	m.cost_ask.n_specs = 1000;
	while (pipe_send(p, &m, &e))
		;
	return AS_PLANNER_MUTE;
}

/* Sends what is no message, and waits to be ended. */
static int
play_babble(struct pipe *p, const uint8_t *said, size_t n, int times)
{
	while (times--)
		if (write(p->out, said, n) < 0)
			return AS_PLANNER_MUTE;
	return pause();
}

static int
play(struct pipe *p, struct arena *a, const struct m_plan_start *start)
{
	struct str part = start->model_name;
	static const uint8_t noise[64] = {16, 0, 0, 0, 0xc1};
	static const uint8_t huge[4] = {0xff, 0xff, 0xff, 0x7f};
	struct msg m = {.type = MSG_ok};
	struct err e = {0};

	if (str_is(part, "abort")) {
		fprintf(stderr, "first line\nthe matrix is upside down\n");
		abort();
	}
	if (str_is(part, "quiet"))
		return 0;
	if (str_is(part, "noise"))
		return play_babble(p, noise, sizeof(noise), 2);
	if (str_is(part, "huge"))
		return play_babble(p, huge, sizeof(huge), 1);
	if (str_is(part, "wrong"))
		return pipe_send(p, &m, &e) ? pause() : AS_PLANNER_MUTE;
	if (str_is(part, "hang"))
		return pause();
	if (str_is(part, "noplan")) {
		m.type = MSG_done;
		m.done.plan_path = STR("/nowhere/at/all");
		return pipe_send(p, &m, &e) ? 0 : AS_PLANNER_MUTE;
	}
	if (str_is(part, "deaf"))
		return play_deaf(p, a);
	if (str_starts(part, "measure"))
		return play_measure(p, a, 40);
	return as_planner_fail(p, ERR_MODEL, STR("node 'x': no such operator"));
}

/* ---- the tests ---------------------------------------------------------------------- */
static void
up(struct farm_proc *f, const char *device)
{
	farm_proc_init(f, device);
	f->more[0] = "--planner-memory"; /* and what waits for one is a part of that */
	f->more[1] = "256";
	as_planner_use(f);
	farm_proc_daemon(f, 0);
	if (device[0])
		farm_proc_worker(f, 0);
}

static uint64_t
submit(const struct farm_proc *f, struct client *c, const char *part, int64_t unplaceable_ns)
{
	struct m_options o = {
	    .device = STR("fake"), .threads = 1, .fusion = STR("full"), .unplaceable_ns = unplaceable_ns};
	char path[128];
	uint64_t job = 0;
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, part);
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)part, strlen(part)}, &e));
	if (!client_submit(c, path, NULL, 0, &o, &job, &e))
		fail_msg("%s", e.msg);
	return job;
}

/* Waits for the end; the last event's reason in `a`. */
static struct str
end_of(struct client *c, struct arena *a, uint64_t job, enum err_code *code, const char *until_state)
{
	uint64_t seq = 0;
	struct msg m;
	struct err e = {0};

	for (;;) {
		struct m_event *last;

		if (!client_watch(c, a, job, seq, 20 * SECOND, &m, &e))
			fail_msg("%s", e.msg);
		if (m.job_events.n_events == 0)
			continue;
		last = &m.job_events.events[m.job_events.n_events - 1];
		seq = last->seq;
		*code = err_of_wire(last->code);
		if (m.job_events.is_final || (until_state && str_is(last->state, until_state)))
			return last->reason;
	}
}

static void
bad_planners(void **state)
{
	static const struct {
		const char *part;
		enum err_code code;
		const char *words;
	} row[] = {
	    {"abort", ERR_CRASH, "the matrix is upside down"},
	    {"quiet", ERR_FAILED, "left with status 0 before it was done"},
	    {"noise", ERR_PROTO, "a broken message"},
	    {"huge", ERR_PROTO, "over the limit"},
	    {"wrong", ERR_PROTO, "the planner sent ok, which it may not"},
	    {"noplan", ERR_PROTO, "a file that it has not written: /nowhere/at/all"},
	    {"deaf", ERR_FAILED, "did not read what it had asked for"},
	    {"model", ERR_MODEL, "node 'x': no such operator"},
	};
	struct farm_proc f;
	struct client *c;
	struct arena a = {0};

	(void)state;
	up(&f, "fake:seed=1");
	c = farm_proc_client(&f, NULL, NULL);
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		enum err_code code;
		struct str why = end_of(c, &a, submit(&f, c, row[i].part, 0), &code, NULL);

		if (code != row[i].code || !strstr(str_dup(&a, why), row[i].words))
			fail_msg("%s: %s: %.*s", row[i].part, err_name(code), STR_ARG(why));
	}
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

static void
cancel(void **state)
{
	struct farm_proc f;
	struct client *c;
	struct arena a = {0};
	enum err_code code;
	struct err e = {0};
	uint64_t job;

	(void)state;
	up(&f, "fake:seed=1");
	c = farm_proc_client(&f, NULL, NULL);
	job = submit(&f, c, "hang", 0);
	(void)end_of(c, &a, job, &code, "planning");
	assert_true(client_cancel(c, job, &e));
	(void)end_of(c, &a, job, &code, NULL);
	assert_int_equal(code, ERR_CANCELLED);
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

static void
nobody(void **state)
{
	struct farm_proc f;
	struct client *c;
	struct arena a = {0};
	enum err_code code;
	struct str why;
	uint64_t job;

	(void)state;
	up(&f, "");
	c = farm_proc_client(&f, NULL, NULL);
	job = submit(&f, c, "model", 0);
	why = end_of(c, &a, job, &code, "waiting"); /* said at once ... */
	assert_true(str_is(why, "no connected worker is of device class 'fake'"));
	f.device = "fake:seed=1";
	farm_proc_worker(&f, 0); /* ... and over when one comes */
	(void)end_of(c, &a, job, &code, NULL);
	assert_int_equal(code, ERR_MODEL);
	assert_int_equal(farm_proc_kill(&f.worker, SIGTERM), 0);
	why = end_of(c, &a, submit(&f, c, "model", SECOND), &code, NULL);
	assert_int_equal(code, ERR_UNPLACEABLE);
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

/* Each fault that a device can have, as the planner hears of it. */
static void
device_faults(void **state)
{
	static const struct {
		const char *device, *words;
	} row[] = {
	    {"fake:seed=1", "good=40 bad=0 fail=NONE"},
	    {"fake:seed=1,compile=1000000", "good=0 bad=40 fail=COMPILE"},
	    {"fake:seed=1,wrong=1000000", "good=0 bad=40 fail=WRONG"},
	    {"fake:seed=1,crash=1000000", "good=0 bad=40 fail=CRASH"},
	    {"fake:seed=1,hang=1000000", "good=0 bad=40 fail=TIMEOUT"},
	    {"fake:seed=1,launch=1000000", "good=0 bad=40 fail=LAUNCH"},
	    {"fake:seed=1,lost=60000", "good=40 bad=0 fail=NONE"}, /* tried again, to the end */
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct farm_proc f;
		struct client *c;
		struct arena a = {0};
		enum err_code code;
		struct str why;

		up(&f, row[i].device);
		c = farm_proc_client(&f, NULL, NULL);
		for (int again = 0; again < 2; again++) { /* the second time from the store */
			why = end_of(c, &a, submit(&f, c, again ? "measure2" : "measure1", 0), &code, NULL);
			if (!str_starts(why, row[i].words))
				fail_msg("%s: %.*s", row[i].device, STR_ARG(why));
		}
		client_close(c);
		farm_proc_fini(&f);
		arena_fini(&a);
	}
}

/* Two jobs that want the same at the same time: measured once, told to both. */
static void
merged(void **state)
{
	struct farm_proc f;
	struct client *c;
	struct arena a = {0};
	enum err_code code;
	struct msg ask = {.type = MSG_cache_stats}, m;
	struct err e = {0};
	uint64_t one, two;

	(void)state;
	up(&f, "fake:seed=1,slow=20");
	c = farm_proc_client(&f, NULL, NULL);
	one = submit(&f, c, "measure1", 0);
	two = submit(&f, c, "measure2", 0);
	assert_true(str_starts(end_of(c, &a, one, &code, NULL), "good=40 bad=0"));
	assert_true(str_starts(end_of(c, &a, two, &code, NULL), "good=40 bad=0"));
	assert_true(client_call(c, &a, &ask, SECOND, &m, &e));
	for (uint32_t i = 0; i < m.counts.n_counts; i++) {
		if (str_is(m.counts.counts[i].name, "stored"))
			assert_int_equal(m.counts.counts[i].value, 40);
		if (str_is(m.counts.counts[i].name, "pooled"))
			assert_int_equal(m.counts.counts[i].value, 0);
	}
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

/* A worker's upload under a session that ended with its daemon: the link's fault, so that the task is
 * done again: any other class would be final. */
static void
session_lost(void **state)
{
	struct farm_proc f;
	struct client_conf conf = {.is_worker = true, .session = 12345};
	struct client *c;
	struct err e = {0};

	(void)state;
	up(&f, "");
	conf.url = f.url;
	assert_false(client_open(&c, &conf, &e));
	assert_int_equal(e.code, ERR_LINKLOST);
	farm_proc_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_planners),
	    cmocka_unit_test(cancel),
	    cmocka_unit_test(nobody),
	    cmocka_unit_test(device_faults),
	    cmocka_unit_test(merged),
	    cmocka_unit_test(session_lost),
	};

	if (as_planner_is_it())
		return as_planner_run(play);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
