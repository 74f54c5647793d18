/* Sequences of what workers, clients, strangers and planners say, in any order, whole or bent, while time
 * goes on: korchd answers each request once, believes nobody who has proved nothing, and holds.
 *
 * An input is steps of an octet that says what and some that say how: each message is a right one of that
 * moment (of the session, tasks, generations and tickets that were given), then bent by as many octets as the
 * step wants. runs: 600 */
#include "daemon_rig.h"

#include "../harness/sample.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A model, an object, and what describes a build of two kernels (record `artefact`): one pass of one step
 * each. */
static const uint8_t model[] = {0x81, 1, 0x92, 0x81, 1, 0x91, 0x81, 1, 1, 0x81, 1, 0x91, 0x81, 1, 1};

struct run {
	struct rig *g;
	struct arena a;
	const uint8_t *at, *end;
};

static uint8_t
octet(struct run *x)
{
	return x->at < x->end ? *x->at++ : 0;
}

static int64_t
number(struct run *x)
{
	uint8_t how = octet(x);
	int64_t small = octet(x);

	return how < 128 ? small
	    : how < 192  ? (int64_t)1 << (small % 63)
	    : how < 224  ? -small
			 : INT64_MAX - small;
}

static struct str
a_spec(struct run *x)
{
	return sample_spec(&x->a, octet(x) % 4 + 1);
}

/* ---- sending ---- */
static struct bytes
bend(struct run *x, struct bytes b, size_t from)
{
	uint8_t *p = arena_dup(&x->a, b.p, b.n);

	for (int k = octet(x) % 8 - 4; k > 0 && b.n > from; k--) { /* half of them are right */
		size_t place = from + (size_t)(octet(x) << 8 | octet(x)) % (b.n - from);

		p[place] = (uint8_t)(p[place] ^ octet(x));
	}
	return (struct bytes){p, b.n};
}

static void
say(struct run *x, uint32_t peer, struct msg *m)
{
	struct bytes b;
	struct err e = {0};

	m->id = octet(x) % 8;
	if (!m->session)
		m->session = x->g->peer[peer].session;
	if (msg_pack(&x->a, m, MSG_MAX_BYTES, &b, &e))
		rig_say(x->g, peer, bend(x, b, 0));
}

static uint32_t
a_worker(struct run *x)
{
	return octet(x) % 2;
}

/* ---- workers ---- */
static void
hello(struct run *x)
{
	uint32_t peer = octet(x) % RIG_PEERS;
	struct m_env env = sample_env("fake", peer ? "class=fake other=1" : "class=fake");
	struct hello h = {.role = peer <= RIG_OTHER_WORKER ? AUTH_WORKER : AUTH_CLIENT,
	    .name = STR("rig"),
	    .is_local = true};
	uint8_t how = octet(x);
	struct msg m;

	h.session = how & 1 ? x->g->peer[how >> 4 & 3].session : 0;
	h.joins = how & 2;
	h.envs = &env;
	h.n_envs = h.role == AUTH_WORKER && !h.joins;
	hello_fill(&h, (struct bytes){0}, &m);
	memset(h.nonce, 1, sizeof(h.nonce));
	if (how & 4) { /* says that it holds what it was given */
		struct m_grant *grant = &x->g->peer[how >> 3 & 1].grant.grant;

		m.hello.held = NEW_ARRAY(&x->a, struct m_held, MAX_OF(grant->n_tasks, 1u));
		m.hello.n_held = grant->n_tasks;
		for (uint32_t i = 0; i < grant->n_tasks; i++)
			m.hello.held[i] = (struct m_held){.key = grant->tasks[i].key,
			    .gen = grant->tasks[i].gen,
			    .kind = grant->tasks[i].kind,
			    .ticket = grant->tasks[i].ticket};
	}
	m.session = UINT64_MAX; /* not the peer's; hello has none */
	say(x, peer, &m);
}

static void
lease(struct run *x)
{
	struct msg m = {.type = MSG_lease};

	m.lease.max = octet(x) % 8;
	m.lease.wait_ns = number(x);
	m.lease.class = STR("fake");
	say(x, a_worker(x), &m);
}

static void
fill_row(struct run *x, struct m_row *r)
{
	uint8_t how = octet(x);

	*r = (struct m_row){.schedule = str_of(arena_printf(&x->a, "s=%d", octet(x) % 4))};
	if (how % 4 == 0) {
		r->fail = (uint64_t)(how / 4);
		r->cause = STR("so");
		return;
	}
	r->median_ns = how % 4 == 1 ? number(x) : 1000 + octet(x);
	r->p10_ns = r->min_ns = r->median_ns - octet(x) % 2;
	r->p90_ns = r->median_ns + octet(x) % 2;
	r->samples = how % 8 == 2 ? (uint64_t)number(x) : 31;
	r->clock_ratio = 1;
}

static void
fill_outcome(struct run *x, const struct m_task *t, struct m_outcome *o)
{
	*o = task_outcome(t);
	o->n_rows = octet(x) % 3;
	o->rows = NEW_ARRAY(&x->a, struct m_row, 3);
	for (uint32_t i = 0; i < o->n_rows; i++)
		fill_row(x, &o->rows[i]);
	if (t->kind == TASK_TIME) {
		o->n_timings = octet(x) % 3;
		o->timings = NEW_ARRAY(&x->a, struct m_timing, 3);
		for (uint32_t i = 0; i < o->n_timings; i++)
			o->timings[i] = (struct m_timing){.median_ns = number(x),
			    .min_ns = number(x),
			    .spread_ns = number(x),
			    .samples = octet(x)};
	}
	if (octet(x) % 4 == 0)
		o->fail = octet(x);
	if (t->kind == TASK_BUILD)
		o->artefact = o->description = hash_bytes(model, sizeof(model));
}

/* By either worker, of what one of them was given. */
static void
result(struct run *x)
{
	const struct m_grant *grant = &x->g->peer[a_worker(x)].grant.grant;
	struct msg m = {.type = MSG_result};
	uint32_t n = octet(x) % 4u;

	m.result.class = STR("fake");
	m.result.n_outcomes = MIN_OF(grant->n_tasks, n);
	m.result.outcomes = NEW_ARRAY(&x->a, struct m_outcome, 4);
	for (uint32_t i = 0; i < m.result.n_outcomes; i++)
		fill_outcome(x, &grant->tasks[octet(x) % grant->n_tasks], &m.result.outcomes[i]);
	say(x, a_worker(x), &m);
}

static void
renew(struct run *x)
{
	const struct m_grant *grant = &x->g->peer[a_worker(x)].grant.grant;
	struct msg m = {.type = octet(x) % 4 ? MSG_renew : MSG_release};
	struct m_held *held = NEW_ARRAY(&x->a, struct m_held, MAX_OF(grant->n_tasks, 1u));

	for (uint32_t i = 0; i < grant->n_tasks; i++)
		held[i] = (struct m_held){
		    .key = grant->tasks[i].key, .gen = grant->tasks[i].gen, .ticket = grant->tasks[i].ticket};
	if (m.type == MSG_renew) {
		m.renew.held = held;
		m.renew.n_held = grant->n_tasks;
	} else {
		m.release.held = held;
		m.release.n_held = grant->n_tasks;
	}
	say(x, a_worker(x), &m);
}

/* ---- both, and clients ---- */
static void
blob(struct run *x)
{
	uint8_t how = octet(x);
	struct msg m = {.type = how & 1 ? MSG_blob_get : MSG_blob_put};

	if (how & 1) {
		m.blob_get.digest = hash_bytes(model, sizeof(model));
		m.blob_get.offset = (uint64_t)number(x);
	} else {
		m.blob_put.digest = hash_bytes(model, sizeof(model));
		m.blob_put.total = how & 2 ? (uint64_t)number(x) : sizeof(model);
		m.blob_put.offset = how & 4 ? (uint64_t)number(x) : 0;
		m.blob_put.data = (struct bytes){model, how & 8 ? octet(x) % sizeof(model) : sizeof(model)};
		m.blob_put.kind = how & 16 ? STR("artefact") : STR("model");
	}
	say(x, octet(x) % RIG_PEERS, &m);
}

static void
submit(struct run *x)
{
	struct msg m = {.type = MSG_submit};
	struct m_file file = {
	    .name = STR("m.onnx"), .digest = hash_bytes(model, sizeof(model)), .bytes = sizeof(model)};
	uint8_t request[16] = {octet(x) % 4};

	m.submit.request = (struct bytes){request, sizeof(request)};
	m.submit.name = STR("m");
	m.submit.options = (struct m_options){.device = octet(x) % 4 ? STR("fake") : STR("f*"),
	    .threads = 1,
	    .fusion = STR("full"),
	    .budget_ns = number(x),
	    .unplaceable_ns = number(x)};
	m.submit.files = &file;
	m.submit.n_files = 1;
	say(x, octet(x) % RIG_PEERS, &m);
}

static void
of_jobs(struct run *x)
{
	static const enum msg_type type[] = {MSG_job_list, MSG_job_show, MSG_job_watch, MSG_job_cancel};
	struct msg m = {.type = type[octet(x) % COUNT_OF(type)]};
	uint64_t job = octet(x) % 8;

	if (m.type == MSG_job_list)
		m.job_list.all = job & 1;
	else if (m.type == MSG_job_show)
		m.job_show.job = job;
	else if (m.type == MSG_job_cancel)
		m.job_cancel.job = job;
	else {
		m.job_watch.job = job;
		m.job_watch.after = octet(x);
		m.job_watch.wait_ns = number(x);
	}
	say(x, RIG_CLIENT, &m);
}

static void
others(struct run *x)
{
	static const enum msg_type type[] = {MSG_bye, MSG_worker_list, MSG_drain, MSG_kick, MSG_cache_stats,
	    MSG_cache_list, MSG_cache_show, MSG_cache_export, MSG_cache_import, MSG_cache_gc,
	    MSG_cache_verify, MSG_cache_evidence};
	struct msg m = {.type = type[octet(x) % COUNT_OF(type)]};

	say(x, octet(x) % RIG_PEERS, &m);
}

/* Another's number, or none's. */
static void
stolen(struct run *x)
{
	struct msg m = {.type = octet(x) % 2 ? MSG_job_list : MSG_renew};

	m.session = x->g->peer[octet(x) % RIG_PEERS].session;
	say(x, octet(x) % RIG_PEERS, &m);
}

static void
raw(struct run *x)
{
	uint32_t peer = octet(x) % RIG_PEERS;
	size_t n = octet(x), left = (size_t)(x->end - x->at);

	n = MIN_OF(n, left);
	rig_say(x->g, peer, (struct bytes){x->at, n});
	x->at += n;
}

static void
gone(struct run *x)
{
	rig_gone(x->g, octet(x) % RIG_PEERS);
}

static void
later(struct run *x)
{
	rig_later(x->g, (int64_t)1000000 << (octet(x) % 20)); /* up to nine minutes */
}

/* ---- planners ---- */
static void
plan(struct run *x, const struct msg *m)
{
	struct bytes frame;
	struct err e = {0};

	if (frame_pack(&x->a, m, &frame, &e))
		(void)rig_plan(x->g, octet(x), bend(x, frame, 4));
}

static void
plan_asks(struct run *x)
{
	struct msg m = {.type = octet(x) % 2 ? MSG_measure_ask : MSG_cost_ask};
	struct m_spec_ask *specs = NEW_ARRAY(&x->a, struct m_spec_ask, 4);
	uint32_t n = octet(x) % 5u;

	for (uint32_t i = 0; i < n; i++)
		specs[i] = (struct m_spec_ask){.text = a_spec(x),
		    .effort = octet(x) % 4,
		    .bound = {.bound_ns = number(x), .floor_ns = number(x)}};
	if (m.type == MSG_measure_ask)
		m.measure_ask = (struct m_measure_ask){.threads = 1,
		    .precision = STR("f32"),
		    .specs = specs,
		    .n_specs = n,
		    .left_ns = number(x)};
	else
		m.cost_ask =
		    (struct m_cost_ask){.threads = 1, .precision = STR("f32"), .specs = specs, .n_specs = n};
	plan(x, &m);
}

static void
plan_drops(struct run *x)
{
	struct str spec = a_spec(x);
	struct m_digest one = {.hash = hash_bytes(spec.p, spec.n)};
	struct msg m = {.type = MSG_measure_drop};

	m.measure_drop.all = octet(x) % 2;
	m.measure_drop.wants_word = octet(x) % 2;
	m.measure_drop.specs = &one;
	m.measure_drop.n_specs = 1;
	plan(x, &m);
}

static void
plan_builds(struct run *x)
{
	struct m_kernel kernel[2] = {
	    {.spec = a_spec(x), .symbol = STR("a")}, {.spec = a_spec(x), .symbol = STR("b")}};
	struct m_bound bound[2] = {
	    {.bound_ns = number(x), .floor_ns = number(x)}, {.bound_ns = 1, .floor_ns = 1}};
	static const enum msg_type types[] = {MSG_build_ask, MSG_race_ask, MSG_perturb_ask};
	struct msg m = {.type = types[octet(x) % COUNT_OF(types)]};

	if (m.type == MSG_perturb_ask) {
		m.perturb_ask.threads = 1;
		m.perturb_ask.precision = STR("f32");
		m.perturb_ask.kernels = kernel;
		m.perturb_ask.n_kernels = octet(x) % 3;
		m.perturb_ask.bounds = bound;
		m.perturb_ask.n_bounds = octet(x) % 3;
		m.perturb_ask.each_ns = number(x);
		m.perturb_ask.asked_ns = number(x);
	} else if (m.type == MSG_build_ask) {
		m.build_ask.threads = 1;
		m.build_ask.precision = STR("f32");
		m.build_ask.kernels = kernel;
		m.build_ask.n_kernels = 2;
	} else {
		m.race_ask.threads = 1;
		m.race_ask.precision = STR("f32");
		m.race_ask.kernels = kernel;
		m.race_ask.n_kernels = 2;
		m.race_ask.turn = octet(x);
		m.race_ask.bounds = bound;
		m.race_ask.n_bounds = octet(x) % 3;
	}
	plan(x, &m);
}

static void
plan_ends(struct run *x)
{
	struct msg m = {.type = octet(x) % 2 ? MSG_done : MSG_failed};

	if (octet(x) % 4 == 0) {
		(void)rig_plan_ends(x->g, octet(x), octet(x) % 4, octet(x) % 2 * 11);
		return;
	}
	if (m.type == MSG_failed) {
		m.failed.code = octet(x);
		m.failed.text = STR("no");
	} else {
		m.done.plan_path = STR("/nowhere");
		m.done.threads = 1;
		m.done.precision = STR("f32");
	}
	plan(x, &m);
}

/* Where each input begins: workers, a client, the model, a job whose planner wants three times, and a worker
 * that has been given the tasks. */
static void
begin(struct run *x)
{
#define STEP(F, S)                                                                                           \
	{                                                                                                    \
		F, (const uint8_t *)(S), sizeof(S) - 1                                                       \
	}
	static const struct {
		void (*step)(struct run *x);
		const uint8_t *octets;
		size_t n;
	} row[] = {STEP(hello, "\0"), STEP(hello, "\1"), STEP(hello, "\2"), STEP(blob, "\0\2"),
	    STEP(submit, "\0\1\x80\x28\x80\x28\2"), STEP(later, "\0"),
	    STEP(plan_asks, "\1\3\0\1\0\0\0\0\1\1\0\0\0\0\2\1"), STEP(lease, "\4\0\0\0"),
	    STEP(lease, "\4\0\0\1")};
#undef STEP

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		x->at = row[i].octets;
		x->end = x->at + row[i].n;
		row[i].step(x);
	}
	if (x->g->peer[RIG_WORKER].grant.grant.n_tasks + x->g->peer[RIG_OTHER_WORKER].grant.grant.n_tasks ==
	    0)
		abort(); /* all that follows would be about nothing */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const step[])(struct run * x) = {hello, hello, lease, lease, result, result, result,
	    renew, blob, submit, submit, of_jobs, others, stolen, raw, gone, later, later, plan_asks,
	    plan_asks, plan_drops, plan_builds, plan_ends};
	struct run x = {.g = rig_up()};

	begin(&x);
	x.at = data;
	x.end = data + n;
	while (x.at < x.end)
		step[octet(&x) % COUNT_OF(step)](&x);
	rig_down(x.g);
	arena_fini(&x.a);
	return 0;
}
