/* Orders of machine instructions as a worker reports them: what it was not asked for, and what is no gain, is
 * refused, logged and costs it as other lies do; what is honest stands in the store beside its base, for
 * every job to come, and after a kill -9.  This program is the worker (peer.h), and the planner too: it
 * measures a kernel, has it perturbed, and tells what it was told. threads: yes */
#include "as_planner.h"
#include "peer.h"

#include "../harness/sample.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
enum { FLOOR = 100, BOUND = 1000, HONEST = 2000 };
#define MOVES "0123456789abcdef:k_p0.m40>37"

/* ---- the planner ------------------------------------------------------------------------- */
static bool
measure(struct pipe *p, struct arena *a, struct str text, struct err *e)
{
	struct m_spec_ask spec = {.text = text, .effort = 1, .bound = {BOUND, FLOOR, 0}};
	struct msg m, ask = {.type = MSG_measure_ask};

	ask.measure_ask =
	    (struct m_measure_ask){.threads = 1, .precision = STR("f32"), .specs = &spec, .n_specs = 1};
	return pipe_send(p, &ask, e) && as_planner_hear(p, a, MSG_cost_have, &m);
}

/* Has a plan of that kernel built, and says what came of it. */
static int
build(struct pipe *p, struct arena *a, struct str spec, struct str schedule)
{
	struct m_kernel kernel = {.spec = spec, .schedule = schedule, .symbol = STR("k0")};
	struct msg m, ask = {.type = MSG_build_ask};
	struct err e = {0};

	ask.build_ask =
	    (struct m_build_ask){.threads = 1, .precision = STR("f32"), .kernels = &kernel, .n_kernels = 1};
	if (!pipe_send(p, &ask, &e) || !as_planner_hear(p, a, MSG_build_have, &m))
		return AS_PLANNER_MUTE;
	return as_planner_fail(p, ERR_FAILED,
	    str_of(arena_printf(
		a, "fail=%llu %.*s", (unsigned long long)m.build_have.fail, STR_ARG(m.build_have.cause))));
}

/* The model's name is the spec's number, and seconds: has it measured, then perturbed, and says what came of
 * it; with "build" behind them it has what won built. */
static int
perturb(struct pipe *p, struct arena *a, const struct m_plan_start *start)
{
	struct str words = start->model_name, number = str_cut(&words, ' '), rest = str_cut(&words, ' ');
	struct m_kernel kernel = {.schedule = STR("s"), .symbol = STR("")};
	struct m_bound bound = {BOUND, FLOOR, 0};
	struct msg m, ask = {.type = MSG_perturb_ask};
	const struct m_perturb_have *have = &m.perturb_have;
	int64_t n = 0, seconds = 0;
	struct err e = {0};

	if (!str_to_i64(number, &n) || !str_to_i64(rest, &seconds))
		return AS_PLANNER_MUTE;
	kernel.spec = sample_spec(a, (int)n + 1);
	ask.perturb_ask = (struct m_perturb_ask){.threads = 1,
	    .precision = STR("f32"),
	    .kernels = &kernel,
	    .n_kernels = 1,
	    .bounds = &bound,
	    .n_bounds = 1,
	    .each_ns = SECOND,
	    .asked_ns = seconds * SECOND};
	if (!measure(p, a, kernel.spec, &e) || !pipe_send(p, &ask, &e) ||
	    !as_planner_hear(p, a, MSG_perturb_have, &m))
		return AS_PLANNER_MUTE;
	if (str_is(words, "build"))
		return build(p, a, kernel.spec, have->cost.schedule);
	return as_planner_fail(p, ERR_FAILED,
	    have->fail ? str_of(arena_printf(a, "fail=%llu", (unsigned long long)have->fail))
		       : str_of(arena_printf(a, "%.4f '%.*s' %lld '%.*s' of %llu%s", have->perturbed.ratio,
			     STR_ARG(have->perturbed.schedule), (long long)have->cost.median_ns,
			     STR_ARG(have->cost.schedule), (unsigned long long)have->perturbed.compared,
			     have->is_cached ? ", known" : "")));
}

/* ---- the stage --------------------------------------------------------------------------- */
struct stage {
	struct farm_proc f;
	struct client *c;
	struct peer p;
	struct m_env env;
	uint64_t job;
};

static void
enter(struct stage *s)
{
	struct msg welcome;
	struct err e = {0};

	peer_open(&s->p, s->f.url);
	s->env = sample_env("fake", "device=liar");
	if (!peer_hello(&s->p, "liar", &s->env, NULL, 0, &welcome, &e))
		fail_msg("%s", e.msg);
}

static void
up(struct stage *s)
{
	*s = (struct stage){0};
	farm_proc_init(&s->f, "");
	as_planner_use(&s->f);
	farm_proc_daemon(&s->f, 0);
	s->c = farm_proc_client(&s->f, NULL, NULL);
	enter(s);
}

static void
down(struct stage *s)
{
	peer_close(&s->p);
	client_close(s->c);
	farm_proc_fini(&s->f);
}

static void
submit(struct stage *s, const char *name)
{
	struct m_options o = {.device = STR("fake"), .threads = 1, .fusion = STR("full")};
	char path[128];
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/%s", s->f.dir, name);
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)name, strlen(name)}, &e));
	if (!client_submit(s->c, path, NULL, 0, &o, &s->job, &e))
		fail_msg("%s", e.msg);
}

/* What the planner said at its end. */
static void
ends_with(struct stage *s, const char *words)
{
	struct arena a = {0};
	struct msg m;
	struct str last = {0};
	uint64_t seq = 0;
	struct err e = {0};

	do {
		if (!client_watch(s->c, &a, s->job, seq, 20 * SECOND, &m, &e))
			fail_msg("%s", e.msg);
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			seq = m.job_events.events[i].seq;
			last = m.job_events.events[i].reason;
		}
	} while (!m.job_events.is_final);
	assert_string_equal(str_dup(&a, str_trim(last)), words);
	arena_fini(&a);
}

static struct m_task
lease(struct peer *p, enum task_kind kind)
{
	struct msg m, got;

	do {
		m = (struct msg){.type = MSG_lease};
		m.lease.max = 1;
		m.lease.wait_ns = 20 * SECOND;
		m.lease.class = STR("fake");
		peer_want(p, &m, MSG_grant, &got);
	} while (got.grant.n_tasks == 0);
	assert_int_equal(got.grant.tasks[0].kind, kind);
	return got.grant.tasks[0];
}

static struct m_row
row_of(const char *schedule, int64_t ns)
{
	return (struct m_row){.schedule = str_of(schedule),
	    .median_ns = ns,
	    .p10_ns = ns - 1,
	    .p90_ns = ns + 1,
	    .min_ns = ns - 1,
	    .samples = 20,
	    .clock_ratio = 1,
	    .cause = STR(""),
	    .stop = STR("converged"),
	    .state = STR("")};
}

static uint64_t
tell(struct peer *p, struct m_outcome *o, const char **why)
{
	struct msg m = {.type = MSG_result}, got;

	m.result.outcomes = o;
	m.result.n_outcomes = 1;
	m.result.class = STR("fake");
	peer_want(p, &m, MSG_ok, &got);
	*why = str_dup(&p->a, got.ok.text);
	return got.ok.value;
}

static void
is_taken(struct peer *p, struct m_outcome o)
{
	const char *why;

	if (tell(p, &o, &why))
		fail_msg("an honest result was refused: %s", why);
}

static void
is_refused(struct peer *p, struct m_outcome o, const char *words)
{
	const char *why;

	if (tell(p, &o, &why) != 1)
		fail_msg("taken, where it should say: %s", words);
	if (!strstr(why, words))
		fail_msg("wanted \"%s\", it says: %s", words, why);
}

static void
answer_measure(struct peer *p)
{
	struct m_task t = lease(p, TASK_MEASURE);
	struct m_outcome o = task_outcome(&t);
	struct m_row row = row_of("s", HONEST);

	o.rows = &row;
	o.n_rows = 1;
	is_taken(p, o);
}

/* The base at 2100 ns in this session, the moves at 0.95 of it; one order crashed. */
static struct m_outcome
honest(struct peer *p, const struct m_task *t, struct str spec, int64_t asked_ns)
{
	struct m_outcome o = task_outcome(t);

	o.spec = hash_bytes(spec.p, spec.n);
	o.rows = NEW_ARRAY(&p->a, struct m_row, 3);
	o.n_rows = 3;
	o.rows[0] = row_of("s", 2100);
	o.rows[1] = row_of("s sip=" MOVES, 1995);
	o.rows[2] = (struct m_row){.schedule = STR("s sip=" MOVES ".s3=2"),
	    .fail = (uint64_t)err_wire(ERR_CRASH),
	    .cause = STR("it fell"),
	    .stop = STR(""),
	    .state = STR("")};
	o.perturbed = (struct m_perturbed){.spec = o.spec,
	    .base = STR("s"),
	    .schedule = STR("s sip=" MOVES),
	    .precision = STR(""),
	    .worker = STR(""),
	    .ratio = .95,
	    .low = .94,
	    .high = .96,
	    .pairs = 96,
	    .compared = 10000000,
	    .tried = 2,
	    .failed = 1,
	    .n_moves = 1,
	    .asked_ns = asked_ns};
	return o;
}

/* ---- lies ---------------------------------------------------------------------------------- */
static void
other_spec(struct m_outcome *o)
{
	o->perturbed.spec.b[0] ^= 1;
}
static void
other_base(struct m_outcome *o)
{
	o->perturbed.base = STR("t");
	o->perturbed.schedule = STR("t sip=" MOVES);
}
static void
moves_of_another(struct m_outcome *o)
{
	o->perturbed.schedule = o->rows[1].schedule = STR("t sip=" MOVES);
}
static void
row_of_another(struct m_outcome *o)
{
	o->rows[2].schedule = STR("t sip=" MOVES);
}
static void
no_moves_at_all(struct m_outcome *o)
{
	o->perturbed.schedule = STR("s");
}
static void
blank_in_moves(struct m_outcome *o)
{
	o->perturbed.schedule = o->rows[1].schedule = STR("s sip=0123456789abcdef:k_p0.\x01");
}
static void
never_timed(struct m_outcome *o)
{
	o->perturbed.schedule = STR("s sip=" MOVES ".s5=1");
}
static void
the_crashed_one(struct m_outcome *o)
{
	o->perturbed.schedule = o->rows[2].schedule;
}
static void
no_gain(struct m_outcome *o)
{
	o->perturbed.high = 1;
}
static void
nan_gain(struct m_outcome *o)
{
	o->perturbed.ratio = (double)NAN;
}
static void
interval_inside_out(struct m_outcome *o)
{
	o->perturbed.low = .96;
	o->perturbed.high = .94;
}
static void
no_pairs(struct m_outcome *o)
{
	o->perturbed.pairs = 0;
}
static void
nothing_compared(struct m_outcome *o)
{
	o->perturbed.compared = 0;
}
static void
more_failed_than_tried(struct m_outcome *o)
{
	o->perturbed.failed = 3;
}
static void
other_seconds(struct m_outcome *o)
{
	o->perturbed.asked_ns += 1;
}
static void
below_the_floor(struct m_outcome *o)
{
	o->rows[1] = row_of("s sip=" MOVES, FLOOR - 1);
}
static void
negative_time(struct m_outcome *o)
{
	o->rows[0].min_ns = -1;
}
static void
a_measurement(struct m_outcome *o)
{
	o->kind = TASK_MEASURE;
}
static void
other_request(struct m_outcome *o)
{
	o->payload.b[0] ^= 1;
}

static const struct {
	const char *name;
	void (*twist)(struct m_outcome *o);
	const char *words;
} lie[] = {
    {"another spec", other_spec, "another kernel than the one that was asked for"},
    {"another base", other_base, "another kernel than the one that was asked for"},
    {"moves of another schedule", moves_of_another, "another kernel than the one that was asked for"},
    {"a row of another schedule", row_of_another, "another kernel than the one that was asked for"},
    {"no moves", no_moves_at_all, "another kernel than the one that was asked for"},
    {"moves that are no text", blank_in_moves, "another kernel than the one that was asked for"},
    {"moves that were never timed", never_timed, "none of those that it timed"},
    {"moves that crashed", the_crashed_one, "none of those that it timed"},
    {"an interval with 1 in it", no_gain, "that is none"},
    {"NaN", nan_gain, "that is none"},
    {"an interval inside out", interval_inside_out, "that is none"},
    {"no pairs", no_pairs, "without a pair"},
    {"nothing compared", nothing_compared, "without a pair"},
    {"more failed than tried", more_failed_than_tried, "out of range"},
    {"other seconds", other_seconds, "another kernel than the one that was asked for"},
    {"below the floor", below_the_floor, "no device there is"},
    {"a negative time", negative_time, "least is"},
    {"a measurement", a_measurement, "of another task"},
    {"another request", other_request, "is not here"},
};

static void
is_evidence(struct stage *s, const char *words)
{
	struct msg ask = {.type = MSG_cache_evidence}, m;
	struct arena a = {0};
	struct err e = {0};

	ask.cache_evidence.max = 1;
	if (!client_call(s->c, &a, &ask, SECOND, &m, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(m.evidence_have.n_list, 1);
	if (!strstr(str_dup(&a, m.evidence_have.list[0].why), words))
		fail_msg("the newest evidence is: %.*s", STR_ARG(m.evidence_have.list[0].why));
	arena_fini(&a);
}

/* 2000 ns as measured first, at the ratio that pairs showed; in the session itself 1995 ns. */
#define FOUND "0.9500 's sip=" MOVES "' 1995 's sip=" MOVES "' of 10000000"

static void
lies(void **state)
{
	struct stage s;

	(void)state;
	up(&s);
	for (size_t i = 0; i < COUNT_OF(lie); i++) {
		struct str spec = sample_spec(&s.p.a, (int)i + 1);
		struct m_outcome o;
		struct m_task t;
		char name[32];

		(void)snprintf(name, sizeof(name), "%zu 5", i);
		submit(&s, name);
		answer_measure(&s.p);
		t = lease(&s.p, TASK_PERTURB);
		o = honest(&s.p, &t, spec, 5 * SECOND);
		lie[i].twist(&o);
		is_refused(&s.p, o, lie[i].words);
		is_evidence(&s, lie[i].words);
		/* it costs what a lie costs: the lease is gone, the task is given again */
		t = lease(&s.p, TASK_PERTURB);
		is_taken(&s.p, honest(&s.p, &t, spec, 5 * SECOND));
		ends_with(&s, FOUND);
	}
	down(&s);
}

/* What was found is found again: without a task, by a job that gives as much time or less, after a kill -9.
 */
static void
found_again(void **state)
{
	struct stage s;
	struct str spec;
	struct m_task t;
	struct m_outcome o;

	(void)state;
	up(&s);
	spec = sample_spec(&s.p.a, 1);
	submit(&s, "0 5");
	answer_measure(&s.p);
	t = lease(&s.p, TASK_PERTURB);
	is_taken(&s.p, honest(&s.p, &t, spec, 5 * SECOND));
	ends_with(&s, FOUND);
	submit(&s, "0 4");
	ends_with(&s, FOUND ", known");
	(void)farm_proc_kill(&s.f.daemon, SIGKILL);
	farm_proc_daemon(&s.f, 0);
	peer_close(&s.p);
	enter(&s);
	spec = sample_spec(&s.p.a, 1);
	submit(&s, "0 5");
	ends_with(&s, FOUND ", known");
	/* more time: looked for again, and nothing more found; what there was stands */
	submit(&s, "0 60");
	t = lease(&s.p, TASK_PERTURB);
	o = honest(&s.p, &t, spec, 60 * SECOND);
	o.n_rows = 1;
	o.perturbed.schedule = STR("");
	o.perturbed.failed = 0;
	is_taken(&s.p, o);
	ends_with(&s, "0.9500 '' 1995 's sip=" MOVES "' of 10000000");
	submit(&s, "0 60");
	ends_with(&s, FOUND ", known");
	down(&s);
}

/* Nothing was found: that is known too, and nobody looks again. */
static void
nothing_found(void **state)
{
	struct stage s;
	struct m_task t;
	struct m_outcome o;

	(void)state;
	up(&s);
	submit(&s, "0 5");
	answer_measure(&s.p);
	t = lease(&s.p, TASK_PERTURB);
	o = honest(&s.p, &t, sample_spec(&s.p.a, 1), 5 * SECOND);
	o.n_rows = 0;
	o.perturbed = (struct m_perturbed){.spec = o.spec,
	    .base = STR("s"),
	    .schedule = STR(""),
	    .precision = STR(""),
	    .worker = STR(""),
	    .asked_ns = 5 * SECOND};
	is_taken(&s.p, o);
	ends_with(&s, "0.0000 '' 2000 's' of 0");
	submit(&s, "0 5");
	ends_with(&s, "0.0000 '' 2000 's' of 0, known");
	down(&s);
}

/* Found, and then the compiler's code does not take it: nobody has it built again; the kernel as it was
 * counts, at what it took beside. */
static void
unfit(void **state)
{
	static const char cause[] = "the moves of its instructions do not fit the code that was compiled";
	struct stage s;
	struct arena a = {0};
	struct m_outcome o;
	struct m_task t;

	(void)state;
	up(&s);
	submit(&s, "0 5 build");
	answer_measure(&s.p);
	t = lease(&s.p, TASK_PERTURB);
	is_taken(&s.p, honest(&s.p, &t, sample_spec(&s.p.a, 1), 5 * SECOND));
	t = lease(&s.p, TASK_BUILD);
	o = task_outcome(&t);
	o.fail = (uint64_t)err_wire(ERR_COMPILE);
	o.cause = str_of(arena_printf(&a, "k0: %s", cause));
	is_taken(&s.p, o);
	ends_with(&s, arena_printf(&a, "fail=%d k0: %s", err_wire(ERR_COMPILE), cause));
	submit(&s, "0 5");
	ends_with(&s, "0.0000 '' 2100 's' of 0, known");
	(void)farm_proc_kill(&s.f.daemon, SIGKILL);
	farm_proc_daemon(&s.f, 0);
	peer_close(&s.p);
	enter(&s);
	submit(&s, "0 4");
	ends_with(&s, "0.0000 '' 2100 's' of 0, known");
	arena_fini(&a);
	down(&s);
}

/* The search itself fails by the kernel's fault: it is not begun again; by the machine's: it is. */
static void
search_fails(void **state)
{
	static const struct {
		enum err_code code;
		bool is_kept;
	} rows[] = {{ERR_COMPILE, true}, {ERR_INFEASIBLE, true}, {ERR_HOST, false}};
	struct stage s;

	(void)state;
	up(&s);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct str spec = sample_spec(&s.p.a, (int)i + 1);
		char *name = arena_printf(&a, "%zu 5", i);
		struct m_task t;
		struct m_outcome o;

		submit(&s, name);
		answer_measure(&s.p);
		t = lease(&s.p, TASK_PERTURB);
		o = honest(&s.p, &t, spec, 5 * SECOND);
		o.n_rows = 0;
		o.perturbed.schedule = STR("");
		o.perturbed.tried = o.perturbed.failed = 0;
		o.fail = (uint64_t)err_wire(rows[i].code);
		o.cause = STR("it does not work");
		is_taken(&s.p, o);
		if (rows[i].is_kept) {
			ends_with(&s, arena_printf(&a, "fail=%d", err_wire(rows[i].code)));
			submit(&s, name);
			ends_with(&s, "0.0000 '' 2000 's' of 0, known");
		} else {
			t = lease(&s.p, TASK_PERTURB);
			is_taken(&s.p, honest(&s.p, &t, spec, 5 * SECOND));
			ends_with(&s, FOUND);
		}
		arena_fini(&a);
	}
	down(&s);
}

/* The daemon dies while a worker searches: the lease is adopted by its ticket, and its result counts. */
static void
killed_in_the_middle(void **state)
{
	struct stage s;
	struct arena a = {0};
	struct m_held held;
	struct m_task t;
	struct msg welcome;
	struct err e = {0};

	(void)state;
	up(&s);
	submit(&s, "0 5");
	answer_measure(&s.p);
	t = lease(&s.p, TASK_PERTURB);
	rec_dup(&a, "task", &t);
	held = (struct m_held){.key = t.key, .gen = t.gen, .kind = t.kind, .ticket = t.ticket};
	(void)farm_proc_kill(&s.f.daemon, SIGKILL);
	farm_proc_daemon(&s.f, 0);
	peer_close(&s.p);
	peer_open(&s.p, s.f.url);
	if (!peer_hello(&s.p, "liar", &s.env, &held, 1, &welcome, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(welcome.welcome.n_revoked, 0);
	is_taken(&s.p, honest(&s.p, &t, sample_spec(&s.p.a, 1), 5 * SECOND));
	ends_with(&s, FOUND ", known");
	arena_fini(&a);
	down(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(lies), cmocka_unit_test(found_again),
	    cmocka_unit_test(nothing_found), cmocka_unit_test(unfit), cmocka_unit_test(search_fails),
	    cmocka_unit_test(killed_in_the_middle)};

	if (as_planner_is_it())
		return as_planner_run(perturb);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
