/* How a search ends.  This program is the daemon of a real korch-planner: it answers from a table of costs
 * that it knows in advance, so that what the planner asks for, and what it does not, can be told. */
#include "../../kernels/cost/cost.h"
#include "../../kernels/emit/emit.h"
#include "../../proto/pipe.h"
#include "../../schema/plan_file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_SPECS = 4096 };
static const int64_t SECOND = 1000000000;

/* What a kernel costs, as a multiple of its bound. */
typedef double (*cost_fn)(const struct hash *spec, int64_t bound_ns);

struct known {
	struct hash spec;
	struct m_cost cost; /* what it would be measured at */
	bool is_measured;
};
struct desk {
	struct arena a;
	char dir[64];
	struct hw hw;
	struct m_env env;
	struct pipe pipe;
	cost_fn cost;
	double drift; /* what a race finds, as a multiple of the first measurement */
	struct known *known;
	uint32_t n;
	struct m_job_end end; /* of the last job; its plan is past.korch */
	struct hash end_key;
	bool is_again; /* the last job was answered with the plan of the one before */
	uint32_t n_asks, n_measured, n_raced, n_races, n_times; /* asked for by the job */
};

/* ---- the table ----------------------------------------------------------------------- */
static struct known *
look_up(struct desk *d, struct str text)
{
	struct hash h = hash_bytes(text.p, text.n);
	struct known *k = d->known;
	struct spec s;
	struct str *list;
	uint32_t n;
	int64_t bound;
	struct err e = {0};

	for (uint32_t i = 0; i < d->n; i++, k++)
		if (hash_eq(&k->spec, &h))
			return k;
	assert_true(d->n++ < MAX_SPECS);
	if (!spec_read(&d->a, text, &s, &e))
		fail_msg("%s", e.msg);
	space_list(&d->a, &s, &target_avx2, 1, &list, &n);
	*k = (struct known){
	    .spec = h, .cost = {.spec = h, .schedule = n ? list[0] : STR(""), .cause = STR(""), .effort = 1}};
	bound = cost_bound_ns(&s, &d->hw, NULL);
	if (n)
		k->cost.median_ns = k->cost.first_ns = (int64_t)((double)bound * d->cost(&h, bound));
	else
		k->cost.fail = (uint64_t)err_wire(ERR_INFEASIBLE);
	return k;
}

static void
answer_costs(struct desk *d, const struct m_spec_ask *specs, uint32_t n, bool measure)
{
	struct msg m = {.type = MSG_cost_have};
	struct m_cost *costs = NEW_ARRAY(&d->a, struct m_cost, MAX_OF(n, 1u));
	struct err e = {0};

	for (uint32_t i = 0; i < n; i++) {
		struct known *k = look_up(d, specs[i].text);

		assert_false(measure && k->is_measured); /* nothing is asked for twice */
		k->is_measured = k->is_measured || measure;
		d->n_measured += measure;
		costs[i] = k->is_measured
		    ? k->cost
		    : (struct m_cost){.spec = k->spec, .schedule = STR(""), .cause = STR("")};
	}
	m.cost_have = (struct m_cost_have){.costs = costs, .n_costs = n, .is_answer = !measure};
	assert_true(pipe_send(&d->pipe, &m, &e));
}

static void
answer_race(struct desk *d, const struct m_race_ask *ask)
{
	struct msg m = {.type = MSG_race_have};
	struct err e = {0};

	d->n_races++;
	d->n_raced += ask->n_kernels;
	m.race_have.cause = STR("");
	m.race_have.costs = NEW_ARRAY(&d->a, struct m_cost, ask->n_kernels);
	m.race_have.n_costs = ask->n_kernels;
	for (uint32_t i = 0; i < ask->n_kernels; i++) {
		struct known *k = look_up(d, ask->kernels[i].spec);

		assert_true(k->is_measured);
		k->cost.median_ns = (int64_t)((double)k->cost.first_ns * d->drift);
		k->cost.repeats++;
		m.race_have.costs[i] = k->cost;
	}
	assert_true(pipe_send(&d->pipe, &m, &e));
}

static void
answer_build(struct desk *d)
{
	struct msg m = {.type = MSG_build_have};
	char *path = arena_printf(&d->a, "%s/object", d->dir);
	struct err e = {0};

	m.build_have =
	    (struct m_build_have){.path = str_of(path), .cause = STR(""), .log = STR(""), .worker = STR("")};
	assert_true(os_write_file(os_real(), path, (struct bytes){(const uint8_t *)"object", 6}, &e));
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* Whole plans: the last of them is the fastest. */
static void
answer_times(struct desk *d, const struct m_time_ask *ask)
{
	struct msg m = {.type = MSG_time_have};
	struct err e = {0};

	d->n_times += !ask->only_known;
	m.time_have.cause = STR("");
	m.time_have.timings = NEW_ARRAY(&d->a, struct m_timing, MAX_OF(ask->n_plans, 1u));
	m.time_have.n_timings = ask->only_known ? 0 : ask->n_plans;
	for (uint32_t i = 0; i < m.time_have.n_timings; i++)
		m.time_have.timings[i] =
		    (struct m_timing){.median_ns = 1000 - (int64_t)i, .min_ns = 1, .samples = 5};
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* All that this desk would tell a planner. */
static struct hash
digest_of_known(const struct desk *d)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct bytes words;
	struct hash h;
	struct err e = {0};

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < d->n; i++) {
		if (!d->known[i].is_measured)
			continue;
		assert_true(rec_pack(&tmp, "cost", &d->known[i].cost, &words, &e));
		sb_add(&sb, (struct str){(const char *)words.p, words.n});
	}
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

static void
answer_end(struct desk *d, const struct m_end_ask *ask)
{
	struct msg m = {.type = MSG_end_have};
	struct hash now = digest_of_known(d);
	struct err e = {0};

	if (hash_eq(&ask->key, &d->end_key))
		m.end_have = (struct m_end_have){
		    .end = d->end, .has_plan = true, .is_same = hash_eq(&now, &d->end.costs)};
	assert_true(pipe_send(&d->pipe, &m, &e));
}

/* The plan of a job that is over, and how it ended, are kept. */
static void
take_done(struct desk *d, const struct m_done *m)
{
	static const struct hash zero;
	struct hash before = d->end.plan;
	char *past = arena_printf(&d->a, "%s/past.korch", d->dir);
	struct err e = {0};

	d->is_again = !hash_eq(&m->plan, &zero);
	assert_true(d->is_again == (m->plan_path.n == 0));
	if (d->is_again)
		assert_true(hash_eq(&m->plan, &before));
	else
		assert_int_equal(rename(str_dup(&d->a, m->plan_path), past), 0);
	if (hash_eq(&m->end_key, &zero)) /* it was all as before: there is nothing new to keep */
		return;
	d->end_key = m->end_key;
	d->end = m->end;
	d->end.costs = digest_of_known(d);
	if (!hash_file(past, &d->end.plan, &d->end.plan_bytes, &e))
		fail_msg("%s", e.msg);
}

/* ---- a job --------------------------------------------------------------------------- */
static bool
hear(struct desk *d, const struct msg *m)
{
	switch ((int)m->type) {
	case MSG_cost_ask:
		d->n_asks++;
		answer_costs(d, m->cost_ask.specs, m->cost_ask.n_specs, false);
		break;
	case MSG_measure_ask:
		answer_costs(d, m->measure_ask.specs, m->measure_ask.n_specs, true);
		break;
	case MSG_race_ask:
		answer_race(d, &m->race_ask);
		break;
	case MSG_build_ask:
		answer_build(d);
		break;
	case MSG_time_ask:
		answer_times(d, &m->time_ask);
		break;
	case MSG_end_ask:
		answer_end(d, &m->end_ask);
		break;
	case MSG_measure_drop:
	case MSG_progress_say:
		break;
	case MSG_failed:
		fail_msg("%.*s", STR_ARG(m->failed.text));
		break;
	case MSG_done:
		take_done(d, &m->done);
		return false;
	default:
		fail_msg("the planner says %s", msg_name(m->type));
	}
	return true;
}

static pid_t
start_planner(struct desk *d)
{
	int to[2], from[2];
	pid_t pid;

	assert_true(pipe(to) == 0 && pipe(from) == 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
			_exit(127);
		(void)close(to[1]);
		(void)close(from[0]);
		(void)execl(KORCH_BINARY_DIR "/bin/korch-planner", "korch-planner", (char *)NULL);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	pipe_init(&d->pipe, from[0], to[1]);
	return pid;
}

/* Runs a job to its end; what it reached, and its plan. */
static struct m_progress
run_job(struct desk *d, int64_t budget_ns, bool prove, struct plan *plan)
{
	struct msg start = {.type = MSG_plan_start}, m;
	char *path = arena_printf(&d->a, "%s/plan.korch", d->dir);
	pid_t pid = start_planner(d);
	struct err e = {0};
	int status;

	d->n_asks = d->n_measured = d->n_raced = d->n_races = d->n_times = 0;
	start.plan_start = (struct m_plan_start){.job = 1,
	    .env = d->env,
	    .has_worker = true,
	    .model_name = STR("m.onnx"),
	    .model_path = str_of(arena_printf(&d->a, "%s/candy_small/model.onnx", d->dir)),
	    .out_path = str_of(path),
	    .work_dir = str_of(d->dir),
	    .options = {.device = STR("fake"),
		.threads = 1,
		.budget_ns = budget_ns,
		.tolerance = 1e-3,
		.fusion = STR("full"),
		.effort = 1,
		.prove = prove}};
	assert_true(pipe_send(&d->pipe, &start, &e));
	do {
		if (pipe_recv(&d->pipe, &d->a, -1, &m, &e) != PIPE_MSG)
			fail_msg("the planner ended: %s", e.msg);
	} while (hear(d, &m));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(d->pipe.in);
	(void)close(d->pipe.out);
	pipe_fini(&d->pipe);
	if (!plan_load(&d->a, arena_printf(&d->a, "%s/past.korch", d->dir), plan, NULL, &e))
		fail_msg("%s", e.msg);
	return m.done.progress;
}

static void
desk_open(struct desk *d, cost_fn cost)
{
	char cmd[512];
	const struct target *t = &target_avx2;

	*d = (struct desk){.cost = cost, .drift = 1};
	d->hw = (struct hw){.flops_peak = 1e11,
	    .bytes_per_s = {2e11, 1e11, 5e10, 1.5e10},
	    .level_bytes = {t->l1_bytes, t->l2_bytes, t->l3_bytes},
	    .call_ns = 50,
	    .barrier_ns = 20,
	    .simd_bytes = t->simd_bytes,
	    .n_threads = 1};
	d->env = (struct m_env){.class = STR("fake"),
	    .key = STR("device=table"),
	    .run_compat = STR("fake"),
	    .compiler = STR("none"),
	    .epoch = GENERATOR_EPOCH,
	    .hw = {.flops_peak = 1e11,
		.l1_bytes_per_s = 2e11,
		.l2_bytes_per_s = 1e11,
		.l3_bytes_per_s = 5e10,
		.dram_bytes_per_s = 1.5e10,
		.l1_bytes = t->l1_bytes,
		.l2_bytes = t->l2_bytes,
		.l3_bytes = t->l3_bytes,
		.call_ns = 50,
		.barrier_ns = 20,
		.simd_bytes = t->simd_bytes,
		.n_vregs = t->n_vregs,
		.n_cores = 1}};
	d->known = NEW_ARRAY(&d->a, struct known, MAX_SPECS);
	(void)snprintf(d->dir, sizeof(d->dir), "/tmp/korch-search-XXXXXX");
	assert_non_null(mkdtemp(d->dir));
	(void)snprintf(cmd, sizeof(cmd),
	    "tar -xJf '%s/tests/models/small.tar.xz' -C '%s' --strip-components=1 small/candy_small",
	    KORCH_SOURCE_DIR, d->dir);
	if (system(cmd) != 0)
		fail_msg("tests/models/small.tar.xz does not unpack");
}

static void
desk_close(struct desk *d)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", d->dir);
	assert_int_equal(system(cmd), 0);
	arena_fini(&d->a);
}

static double
always_three(const struct hash *spec, int64_t bound_ns)
{
	(void)spec;
	(void)bound_ns;
	return 3;
}

static double
two_to_six(const struct hash *spec, int64_t bound_ns)
{
	(void)bound_ns;
	return 2 + (double)spec->b[7] / 64;
}

/* ---- the tests ----------------------------------------------------------------------- */
/* Where all kernels take three times their bound that is soon learned, and what is left unmeasured is
 * expected at what it costs: the plan is the optimum, found with few measurements, but not proved. */
static void
ends_by_expectation(void **state)
{
	struct desk d;
	struct plan plan, best;
	struct m_progress p, q;
	uint32_t by_expectation;

	(void)state;
	desk_open(&d, always_three);
	p = run_job(&d, 3600 * SECOND, false, &plan);
	by_expectation = d.n_measured;
	assert_true(
	    str_is(p.stop, "no kernel without a measurement is expected to gain 1 % (--prove goes on)"));
	assert_true(by_expectation == p.measured && by_expectation > plan.n_kernels &&
	    by_expectation < p.distinct * 3 / 4);
	assert_true(!plan.proved && plan.bound_ns < plan.latency_ns);
	for (uint32_t i = 0; i < plan.n_kernels; i++)
		assert_true(plan.kernels[i].is_measured);
	q = run_job(&d, 3600 * SECOND, true, &best);
	assert_true(best.proved && d.n_measured > 0);
	assert_true(str_is(q.stop, "no candidate can beat the plan"));
	assert_true((double)p.latency_ns * 0.99 <= (double)best.latency_ns || p.winner.n);
	desk_close(&d);
}

/* A repeat asks for nothing and has the same plan; what two desks prove of the same table is the same. */
static void
repeats_measure_nothing(void **state)
{
	struct desk d, other;
	struct plan plan[3];

	(void)state;
	desk_open(&d, two_to_six);
	(void)run_job(&d, 3600 * SECOND, false, &plan[0]);
	assert_true(d.n_measured > 0 && d.n_raced > 0);
	assert_false(d.is_again);
	(void)run_job(&d, 3600 * SECOND, false, &plan[1]);
	assert_int_equal(d.n_measured + d.n_raced + d.n_times + d.n_asks, 0);
	assert_true(d.is_again);
	assert_int_equal(plan[1].latency_ns, plan[0].latency_ns);
	desk_open(&other, two_to_six);
	(void)run_job(&other, 3600 * SECOND, true, &plan[1]);
	(void)run_job(&d, 3600 * SECOND, true, &plan[2]);
	assert_true(plan[1].proved && plan[2].proved);
	assert_int_equal(plan[1].latency_ns, plan[2].latency_ns);
	desk_close(&other);
	desk_close(&d);
}

/* Results that came when the job was over make a repeat look again; unless they make a clearly better plan it
 * is the same file as before, with nothing measured, raced or timed. */
static void
late_results(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p, q;
	struct known *k;
	uint32_t n_late = 0;

	(void)state;
	desk_open(&d, two_to_six);
	p = run_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_times == 1 && plan.n_kernels > 0);
	for (k = d.known; k < d.known + d.n; k++) {
		if (k->is_measured || k->cost.fail || n_late == 20)
			continue;
		k->is_measured = true;
		k->cost.median_ns *= 4; /* no plan is better for it */
		n_late++;
	}
	assert_int_equal(n_late, 20);
	q = run_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_asks > 0 && d.is_again);
	assert_int_equal(d.n_measured + d.n_raced + d.n_times, 0);
	assert_int_equal(q.cached, p.measured + p.cached + n_late);
	assert_int_equal(q.measured, 0);
	assert_true(
	    q.latency_ns == p.latency_ns && q.measured_ns == p.measured_ns && str_eq(q.winner, p.winner));
	(void)run_job(&d, 3600 * SECOND, false, &plan); /* and that was kept */
	assert_true(d.n_asks == 0 && d.is_again);
	k = look_up(
	    &d, plan.kernels[plan.steps[0].kernel].spec); /* a kernel of the plan is not what it was */
	k->cost.median_ns *= 50;
	(void)run_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_asks > 0 && !d.is_again);
	desk_close(&d);
}

/* A search that its budget ended goes on with a larger one, not with the same. */
static void
budgets(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;

	(void)state;
	desk_open(&d, two_to_six);
	p = run_job(&d, 1, false, &plan);
	assert_true(str_is(p.stop, "the budget is over"));
	p = run_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_measured > 0 && !str_is(p.stop, "the budget is over"));
	d.end.budget_ns = 60 * SECOND; /* as if that had been all of it */
	d.end.progress.stop = STR("the budget is over");
	p = run_job(&d, 60 * SECOND, false, &plan);
	assert_true(d.n_measured == 0 && str_is(p.stop, "the budget is over"));
	desk_close(&d);
}

/* What a race finds counts, and whole plans are told apart by their whole time, unless one is proved. */
static void
races_and_playoffs(void **state)
{
	struct desk d;
	struct plan plan;
	struct m_progress p;
	int64_t sum = 0;

	(void)state;
	desk_open(&d, two_to_six);
	d.drift = 1.25;
	p = run_job(&d, 3600 * SECOND, false, &plan);
	assert_true(d.n_races >= 1 && d.n_races <= 3 && p.remeasured > 0 && d.n_times == 1);
	for (uint32_t i = 0; i < plan.n_steps; i++) {
		struct known *k = look_up(&d, plan.kernels[plan.steps[i].kernel].spec);

		assert_int_equal(plan.kernels[plan.steps[i].kernel].cost_ns, k->cost.median_ns);
		sum += k->cost.median_ns;
	}
	assert_int_equal(sum, plan.latency_ns);
	assert_true(plan.measured_ns > 0 && plan.stop.n > 0);
	if (p.runner.n) { /* the last of them was the fastest */
		assert_true(p.winner.n && plan.runner_measured_ns > plan.measured_ns);
		assert_true(str_eq(plan.runner, p.runner));
	}
	p = run_job(&d, 3600 * SECOND, true, &plan);
	assert_true(plan.proved && p.winner.n == 0);
	desk_close(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ends_by_expectation),
	    cmocka_unit_test(repeats_measure_nothing), cmocka_unit_test(late_results),
	    cmocka_unit_test(budgets), cmocka_unit_test(races_and_playoffs)};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
