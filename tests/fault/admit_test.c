/* A worker that lies: each of its sentences is refused or harmless, and what is honest is taken all the same.
 * This program is the worker (peer.h), and the planner too: it asks for as many measurements as the model's
 * name says, and tells at its end what it was told.
 * threads: yes */
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
#include <unistd.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
/* What the planner says of each of its specs. */
enum { FLOOR = 100, BOUND = 1000, HONEST = 2000 };

/* ---- the planner -------------------------------------------------------------------- */
/* The model's name is "COUNT" or "COUNT FIRST": asks for so many specs, and says "2000 2000 fail=30 " in
 * their order. */
static int
count_costs(struct pipe *p, struct arena *a, const struct m_plan_start *start)
{
	struct m_spec_ask *specs = NEW_ARRAY(a, struct m_spec_ask, 16);
	struct m_cost *have = NEW_ARRAY(a, struct m_cost, 16);
	struct msg m, ask = {.type = MSG_measure_ask};
	struct strbuf words;
	struct str name = start->model_name;
	int64_t n = 0, first = 0;
	uint32_t told = 0;
	struct err e = {0};

	if (!str_to_i64(str_cut(&name, ' '), &n) || n > 16 || (name.n && !str_to_i64(name, &first)))
		return AS_PLANNER_MUTE;
	for (int i = 0; i < n; i++) {
		struct str text = sample_spec(a, (int)first + i + 1);

		specs[i] = (struct m_spec_ask){.text = text, .effort = 1, .bound = {BOUND, FLOOR, 0}};
		have[i].spec = hash_bytes(text.p, text.n);
	}
	ask.measure_ask = (struct m_measure_ask){
	    .threads = 1, .precision = STR("f32"), .specs = specs, .n_specs = (uint32_t)n};
	if (!pipe_send(p, &ask, &e))
		return AS_PLANNER_MUTE;
	while (told < n && as_planner_hear(p, a, MSG_cost_have, &m))
		for (uint32_t i = 0; i < m.cost_have.n_costs; i++)
			for (int k = 0; k < n; k++)
				if (hash_eq(&have[k].spec, &m.cost_have.costs[i].spec)) {
					have[k] = m.cost_have.costs[i];
					told++;
				}
	sb_init(&words, a);
	for (int i = 0; i < n; i++)
		if (have[i].fail)
			sb_addf(&words, "fail=%llu ", (unsigned long long)have[i].fail);
		else
			sb_addf(&words, "%lld ", (long long)have[i].median_ns);
	return as_planner_fail(p, ERR_FAILED, sb_str(&words));
}

/* ---- the stage ---------------------------------------------------------------------- */
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
submit(struct stage *s, const char *n_specs)
{
	struct m_options o = {.device = STR("fake"), .threads = 1, .fusion = STR("full")};
	char path[128];
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/%s", s->f.dir, n_specs);
	assert_true(
	    os_write_file(os_real(), path, (struct bytes){(const uint8_t *)n_specs, strlen(n_specs)}, &e));
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

/* Tasks of one lease; waits until there are some. */
static struct m_task *
lease(struct peer *p, uint64_t max, uint32_t *n)
{
	struct msg m, got;

	do {
		m = (struct msg){.type = MSG_lease};
		m.lease.max = max;
		m.lease.wait_ns = 20 * SECOND;
		m.lease.class = STR("fake");
		peer_want(p, &m, MSG_grant, &got);
	} while (got.grant.n_tasks == 0);
	*n = got.grant.n_tasks;
	return got.grant.tasks;
}

static struct m_task
lease_one(struct peer *p)
{
	uint32_t n;
	struct m_task *t = lease(p, 1, &n);

	assert_int_equal(n, 1);
	return *t;
}

static struct m_row
row_of(int64_t ns)
{
	return (struct m_row){.schedule = STR("s"),
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

/* What an honest worker says of a task. */
static struct m_outcome
honest(struct arena *a, const struct m_task *t, int64_t ns)
{
	struct m_outcome o = task_outcome(t);

	o.rows = NEW(a, struct m_row);
	o.n_rows = 1;
	o.rows[0] = row_of(ns);
	return o;
}

/* How many of them were not taken, and why. */
static uint64_t
tell(struct peer *p, struct m_outcome *o, uint32_t n, const char **why)
{
	struct msg m = {.type = MSG_result}, got;

	m.result.outcomes = o;
	m.result.n_outcomes = n;
	m.result.class = STR("fake");
	peer_want(p, &m, MSG_ok, &got);
	*why = str_dup(&p->a, got.ok.text);
	return got.ok.value;
}

static void
is_taken(struct peer *p, struct m_outcome o)
{
	const char *why;

	if (tell(p, &o, 1, &why))
		fail_msg("an honest result was refused: %s", why);
}

static void
is_refused(struct peer *p, struct m_outcome o, const char *words)
{
	const char *why;

	if (tell(p, &o, 1, &why) != 1)
		fail_msg("taken, where it should say: %s", words);
	if (!strstr(why, words))
		fail_msg("wanted \"%s\", it says: %s", words, why);
}

/* ---- lies about a task that was granted ------------------------------------------------ */
static void
one_ns(struct m_outcome *o)
{
	o->rows[0] = row_of(1);
	o->rows[0].min_ns = o->rows[0].p10_ns = o->rows[0].p90_ns = 1;
	o->rows[0].samples = 1000000;
}
static void
below_the_floor(struct m_outcome *o)
{
	o->rows[0] = row_of(FLOOR - 1);
}
static void
min_above_median(struct m_outcome *o)
{
	o->rows[0].min_ns = o->rows[0].median_ns + 1;
}
static void
p90_below_median(struct m_outcome *o)
{
	o->rows[0].p90_ns = o->rows[0].median_ns - 1;
}
static void
p10_far_away(struct m_outcome *o)
{
	o->rows[0].p10_ns = (int64_t)1 << 62;
	o->rows[0].p90_ns = -((int64_t)1 << 62);
}
static void
for_ever(struct m_outcome *o)
{
	o->rows[0].median_ns = o->rows[0].p90_ns = INT64_MAX;
}
static void
negative(struct m_outcome *o)
{
	o->rows[0] = row_of(-5);
}
static void
no_samples(struct m_outcome *o)
{
	o->rows[0].samples = 0;
}
static void
many_samples(struct m_outcome *o)
{
	o->rows[0].samples = ((uint64_t)1 << 60) - 1;
}
static void
nan_error(struct m_outcome *o)
{
	o->rows[0].error = (double)NAN;
}
static void
clock_of_minus_one(struct m_outcome *o)
{
	o->rows[0].clock_ratio = -1;
}
static void
failed_in_no_time(struct m_outcome *o)
{
	o->rows[0].fail = (uint64_t)err_wire(ERR_COMPILE);
}
static void
failed_by_a_number(struct m_outcome *o)
{
	o->rows[0] = (struct m_row){.schedule = STR("s"), .cause = STR(""), .stop = STR(""), .fail = 999};
}
static void
whole_failed_by_a_number(struct m_outcome *o)
{
	o->fail = (uint64_t)1 << 40;
}
static void
other_spec(struct m_outcome *o)
{
	struct arena a = {0};
	struct str text = sample_spec(&a, 100);

	o->spec = hash_bytes(text.p, text.n);
	arena_fini(&a);
}
static void
other_spec_never_compiles(struct m_outcome *o)
{
	other_spec(o);
	o->fail = (uint64_t)err_wire(ERR_COMPILE);
	o->cause = STR("says evil");
}
static void
other_threads(struct m_outcome *o)
{
	o->threads = 2;
}
static void
no_threads(struct m_outcome *o)
{
	o->threads = 0;
}
static void
other_effort(struct m_outcome *o)
{
	o->effort = 4;
}
static void
other_precision(struct m_outcome *o)
{
	o->precision = STR("f32-strict");
}
static void
a_build(struct m_outcome *o)
{
	o->kind = TASK_BUILD;
}
static void
a_race(struct m_outcome *o)
{
	o->kind = TASK_RACE;
}
static void
a_timing(struct m_outcome *o)
{
	o->kind = TASK_TIME;
}
static void
a_canary(struct m_outcome *o)
{
	o->kind = TASK_CANARY;
}
static void
kind_77(struct m_outcome *o)
{
	o->kind = 77;
}
static void
old_generation(struct m_outcome *o)
{
	o->gen--;
}
static void
no_generation(struct m_outcome *o)
{
	o->gen = UINT64_MAX;
}
static void
other_task(struct m_outcome *o)
{
	o->key.b[0] ^= 1;
}

static const struct {
	const char *name;
	void (*twist)(struct m_outcome *o);
	const char *words;
} lie[] = {
    {"1 ns by 10^6 samples", one_ns, "no device there is"},
    {"below the floor", below_the_floor, "no device there is"},
    {"min above median", min_above_median, "p10 is"},
    {"p90 below median", p90_below_median, "p90 is"},
    {"quantiles of 2^62", p10_far_away, "p10 is"},
    {"2^63-1 ns", for_ever, "median is"},
    {"negative", negative, "least is"},
    {"no samples", no_samples, "its samples is 0"},
    {"2^60-1 samples", many_samples, "its samples is"},
    {"NaN error", nan_error, "its error is"},
    {"clock ratio", clock_of_minus_one, "its clock_ratio is -1"},
    {"failed with a time", failed_in_no_time, "it failed"},
    {"failure 999", failed_by_a_number, "failure number 999"},
    {"failure 2^40", whole_failed_by_a_number, "its failure number is none"},
    {"another spec", other_spec, "of another task"},
    {"another spec never compiles", other_spec_never_compiles, "of another task"},
    {"two threads", other_threads, "of another task"},
    {"no threads", no_threads, "out of range"},
    {"effort", other_effort, "of another task"},
    {"precision", other_precision, "of another task"},
    {"a build", a_build, "of another task"},
    {"a race", a_race, "of another task"},
    {"a timing", a_timing, "is not here"},
    {"a canary", a_canary, "of another kind"},
    {"kind 77", kind_77, "no such kind"},
    {"an old lease", old_generation, "come before"},
    {"a lease of tomorrow", no_generation, "come before"},
    {"another task", other_task, "no lease of this device"},
};

/* Evidence newest first: does the first say so? */
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
	assert_true(str_is(m.evidence_have.list[0].worker, "liar"));
	if (!strstr(str_dup(&a, m.evidence_have.list[0].why), words))
		fail_msg("the newest evidence is: %.*s", STR_ARG(m.evidence_have.list[0].why));
	arena_fini(&a);
}

static void
lies_about_a_task(void **state)
{
	struct stage s;

	(void)state;
	up(&s);
	for (size_t i = 0; i < COUNT_OF(lie); i++) {
		struct m_outcome o;
		struct m_task t;
		char name[16];

		(void)snprintf(name, sizeof(name), "1 %zu", i); /* each lie is about another spec */
		submit(&s, name);
		t = lease_one(&s.p);
		o = honest(&s.p.a, &t, HONEST);
		lie[i].twist(&o);
		is_refused(&s.p, o, lie[i].words);
		is_evidence(&s, lie[i].words);
		/* a lease that the lie did not name is still there; one that it did was given again */
		o = honest(&s.p.a, &t, HONEST);
		if (lie[i].twist != old_generation && lie[i].twist != no_generation &&
		    lie[i].twist != other_task) {
			is_refused(&s.p, o, "come before");
			t = lease_one(&s.p);
			o = honest(&s.p.a, &t, HONEST);
		}
		is_taken(&s.p, o);
		ends_with(&s, "2000");
	}
	down(&s);
}

/* ---- results that nobody granted ---------------------------------------------------------- */
/* Another session of the very same kind of device: it knows the lease by heart, and has it not. */
static void
of_another_device(void **state)
{
	struct stage s;
	struct peer other;
	struct msg welcome;
	struct m_task t;
	struct err e = {0};

	(void)state;
	up(&s);
	peer_open(&other, s.f.url);
	assert_true(peer_hello(&other, "liar", &s.env, NULL, 0, &welcome, &e));
	submit(&s, "1");
	t = lease_one(&s.p);
	is_refused(&other, honest(&other.a, &t, FLOOR), "no lease of this device");
	is_taken(&s.p, honest(&s.p.a, &t, HONEST));
	ends_with(&s, "2000");
	/* a second word about what is done */
	is_refused(&s.p, honest(&s.p.a, &t, FLOOR), "come before");
	submit(&s, "1");
	ends_with(&s, "2000");
	peer_close(&other);
	down(&s);
}

static void
after_revocation(void **state)
{
	struct stage s;
	struct msg m, got;
	struct m_held held;
	struct m_task t;
	struct err e = {0};

	(void)state;
	up(&s);
	submit(&s, "1");
	t = lease_one(&s.p);
	assert_true(client_cancel(s.c, s.job, &e));
	held = (struct m_held){.key = t.key, .gen = t.gen};
	do { /* until the daemon says that it has been taken back */
		m = (struct msg){.type = MSG_renew};
		m.renew.held = &held;
		m.renew.n_held = 1;
		peer_want(&s.p, &m, MSG_renewed, &got);
	} while (got.renewed.n_revoked == 0);
	is_refused(&s.p, honest(&s.p.a, &t, FLOOR), "no lease of this device");
	submit(&s, "1");
	t = lease_one(&s.p);
	is_taken(&s.p, honest(&s.p.a, &t, HONEST));
	ends_with(&s, "2000");
	down(&s);
}

/* ---- one bad outcome takes none of the others along ---------------------------------------- */
static void
one_of_many(void **state)
{
	struct m_outcome o[4];
	struct m_task *t;
	const char *why;
	struct stage s;
	uint32_t n;

	(void)state;
	up(&s);
	submit(&s, "4");
	t = lease(&s.p, 4, &n);
	assert_int_equal(n, 4);
	for (uint32_t i = 0; i < n; i++)
		o[i] = honest(&s.p.a, &t[i], HONEST + (int64_t)t[i].spec.n);
	o[1].rows[0].p10_ns = INT64_MIN;
	o[2].kind = 77;
	assert_int_equal(tell(&s.p, o, n, &why), 2);
	for (int i = 0; i < 2; i++) {
		struct m_task again = lease_one(&s.p);

		assert_true(hash_eq(&again.key, &o[1].key) || hash_eq(&again.key, &o[2].key));
		is_taken(&s.p, honest(&s.p.a, &again, HONEST + (int64_t)again.spec.n));
	}
	ends_with(&s, "2056 2056 2056 2056");
	down(&s);
}

/* ---- below the device's own bound ------------------------------------------------------------ */
/* It is in doubt until another lease finds it too; what is not in doubt is not done twice. */
static void
below_the_bound(void **state)
{
	struct m_outcome o;
	struct m_row rows[3];
	struct m_task t;
	struct stage s;

	(void)state;
	up(&s);
	submit(&s, "1");
	t = lease_one(&s.p);
	o = honest(&s.p.a, &t, HONEST);
	rows[0] = row_of(HONEST);
	rows[1] = row_of(BOUND - 1);
	rows[2] = row_of(BOUND - 2);
	rows[0].schedule = STR("slow");
	rows[1].schedule = STR("quick");
	rows[2].schedule = STR("by luck");
	o.rows = rows;
	o.n_rows = 3;
	is_taken(&s.p, o);
	is_evidence(&s, "'quick' took 999 ns");
	t = lease_one(&s.p);
	assert_int_equal(t.n_known, 1);
	assert_true(str_is(t.known[0].name, "slow"));
	o = honest(&s.p.a, &t, HONEST);
	rows[1].median_ns = rows[1].p90_ns = BOUND - 3;
	rows[1].min_ns = rows[1].p10_ns = BOUND - 4;
	rows[2] = row_of(BOUND + 500);
	rows[2].schedule = STR("by luck");
	o.rows = rows + 1;
	o.n_rows = 2;
	is_taken(&s.p, o);
	ends_with(&s, "997");
	down(&s);
}

/* Whoever finds another wonder with every lease is not asked for ever. */
static void
a_wonder_each_time(void **state)
{
	struct stage s;

	(void)state;
	up(&s);
	submit(&s, "1");
	for (int i = 0; i < 2; i++) {
		struct m_task t = lease_one(&s.p);
		struct m_outcome o = honest(&s.p.a, &t, BOUND - 1);

		o.rows[0].schedule = str_of(arena_printf(&s.p.a, "wonder %d", i));
		is_taken(&s.p, o);
	}
	for (int i = 0; i < 3;
	     i++) { /* a worker that is not believed: three times, as any fault of a device */
		struct m_task t = lease_one(&s.p);
		struct m_outcome o = honest(&s.p.a, &t, BOUND - 1);

		o.rows[0].schedule = str_of(arena_printf(&s.p.a, "miracle %d", i));
		is_refused(&s.p, o, "with every lease");
	}
	ends_with(&s, "fail=27");
	down(&s);
}

/* ---- tickets ------------------------------------------------------------------------------------ */
/* The daemon dies; the peer greets the next one with that lease.  Was it adopted? */
static bool
greets_again(struct stage *s, const char *name, const struct m_env *env, const struct m_held *held)
{
	struct msg welcome;
	struct err e = {0};

	peer_close(&s->p);
	peer_open(&s->p, s->f.url);
	if (!peer_hello(&s->p, name, env, held, 1, &welcome, &e))
		fail_msg("%s", e.msg);
	return welcome.welcome.n_revoked == 0;
}

static void
restart(struct stage *s)
{
	(void)farm_proc_kill(&s->f.daemon, SIGKILL);
	farm_proc_daemon(&s->f, 0);
}

static struct m_held
held_of(struct arena *a, const struct m_task *t)
{
	struct m_held h = {.key = t->key, .gen = t->gen, .kind = t->kind};

	h.ticket = (struct bytes){arena_dup(a, t->ticket.p, t->ticket.n), t->ticket.n};
	return h;
}

static void
tickets(void **state)
{
	struct stage s;
	struct arena a = {0};
	struct m_env other = sample_env("fake", "device=another");
	struct m_held held, bad;
	struct m_task t;
	uint8_t forged[32];

	(void)state;
	up(&s);
	submit(&s, "1");
	t = lease_one(&s.p);
	rec_dup(&a, "task", &t);
	held = held_of(&a, &t);
	assert_int_equal(held.ticket.n, 32);
	restart(&s);

	/* others' tickets, and what a ticket is not for */
	assert_false(greets_again(&s, "another", &s.env, &held));
	assert_false(greets_again(&s, "liar", &other, &held));
	bad = held;
	bad.key.b[31] ^= 1;
	assert_false(greets_again(&s, "liar", &s.env, &bad));
	bad = held;
	bad.gen++;
	assert_false(greets_again(&s, "liar", &s.env, &bad));
	bad = held;
	bad.kind = TASK_BUILD;
	assert_false(greets_again(&s, "liar", &s.env, &bad));
	bad = held;
	bad.ticket.n = 0;
	assert_false(greets_again(&s, "liar", &s.env, &bad));
	memcpy(forged, held.ticket.p, sizeof(forged));
	forged[7] ^= 0x10;
	bad = held;
	bad.ticket.p = forged;
	assert_false(greets_again(&s, "liar", &s.env, &bad));
	is_refused(&s.p, honest(&a, &t, FLOOR), "no lease of this device");

	/* its own */
	assert_true(greets_again(&s, "liar", &s.env, &held));
	is_taken(&s.p, honest(&a, &t, HONEST));
	ends_with(&s, "2000");

	/* replayed, in this life and in the next */
	assert_false(greets_again(&s, "liar", &s.env, &held));
	is_refused(&s.p, honest(&a, &t, FLOOR), "come before");
	restart(&s);
	assert_false(greets_again(&s, "liar", &s.env, &held));
	is_refused(&s.p, honest(&a, &t, FLOOR), "come before");
	submit(&s, "1");
	ends_with(&s, "2000");
	arena_fini(&a);
	down(&s);
}

/* ---- hello ---------------------------------------------------------------------------------------- */
/* A vector that would have ended the planners of its class by a division. */
static void
impossible_hardware(void **state)
{
	static const struct m_hw bad[] = {
	    {.flops_peak = (double)NAN},
	    {.flops_peak = 1e11, .l1_bytes_per_s = -1},
	    {.flops_peak = 1e11, .l1_bytes_per_s = (double)INFINITY},
	    {.simd_bytes = (int64_t)1 << 40, .n_vregs = 16},
	    {.simd_bytes = 3, .n_vregs = 16},
	    {.simd_bytes = 32, .n_vregs = 0},
	    {.n_cores = -3},
	    {.l2_bytes = -1},
	};
	static const char *const field[] = {"hw.flops_peak", "hw.l1_bytes_per_s", "hw.l1_bytes_per_s",
	    "hw.simd_bytes", "hw.simd_bytes", "hw.n_vregs", "hw.n_cores", "hw.l2_bytes"};
	struct stage s;

	(void)state;
	up(&s);
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct m_env env = sample_env("fake", "device=impossible");
		struct msg welcome;
		struct peer p;
		struct err e = {0};

		env.hw = bad[i];
		peer_open(&p, s.f.url);
		assert_false(peer_hello(&p, "impossible", &env, NULL, 0, &welcome, &e));
		if (!strstr(e.msg, field[i]))
			fail_msg("of %s it says: %s", field[i], e.msg);
		peer_close(&p);
	}
	down(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lies_about_a_task),
	    cmocka_unit_test(of_another_device),
	    cmocka_unit_test(after_revocation),
	    cmocka_unit_test(one_of_many),
	    cmocka_unit_test(below_the_bound),
	    cmocka_unit_test(a_wonder_each_time),
	    cmocka_unit_test(tickets),
	    cmocka_unit_test(impossible_hardware),
	};

	if (as_planner_is_it())
		return as_planner_run(count_costs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
