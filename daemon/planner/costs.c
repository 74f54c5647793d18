/* daemon/planner/costs.c: what is known of each spec, and the talk with korchd about it.
 * korchd speaks in spec hashes; a sorted index leads back to spec numbers. */
#include "device.h"
#include "expect.h"
#include "siblings.h"
#include "order.h"
#include "perturb.h"

#include "../identify/heat.h"
#include "../../kernels/base/parallel.h"

#include <stdlib.h>
#include <string.h>

struct key {
	struct hash hash;
	uint32_t spec;
};

static int
by_hash(const void *pa, const void *pb)
{
	return hash_cmp(&((const struct key *)pa)->hash, &((const struct key *)pb)->hash);
}

/* Views, the last of the specs, cost what they cost: nobody is asked. */
static uint32_t
n_asked(const struct tune *t)
{
	return t->front.cands.n_specs - t->front.cands.n_views;
}

static void
make_index(struct tune *t)
{
	uint32_t n = n_asked(t);

	t->by_hash = NEW_ARRAY(t->arena, struct key, n);
	for (uint32_t i = 0; i < n; i++)
		t->by_hash[i] = (struct key){t->front.cands.specs[i].hash, i};
	qsort(t->by_hash, n, sizeof(t->by_hash[0]), by_hash);
}

bool
cost_find(const struct tune *t, const struct hash *h, uint32_t *out)
{
	struct key want = {.hash = *h};
	const struct key *k = bsearch(&want, t->by_hash, n_asked(t), sizeof(want), by_hash);

	if (k)
		*out = k->spec;
	return k != NULL;
}

const char *
spec_description(struct tune *t, uint32_t s)
{
	const struct cand_set *c = &t->front.cands;

	for (uint32_t k = 0; k < c->n_cands; k++) {
		if (c->cands[k].spec != s)
			continue;
		BITSET_EACH(i, &c->cands[k].members)
		{
			uint32_t origin = t->front.graph.nodes[i].origin;

			if (origin < t->front.model.n_nodes)
				return t->front.model.nodes[origin].name;
		}
	}
	return "(made by rewriting)";
}

int64_t
cost_optimistic(const struct spec_cost *c)
{
	if (c->state == LAZY_FAILED)
		return BLP_NEVER;
	if (c->state == LAZY_MEASURED && !c->is_partly)
		return MAX_OF(c->measured_ns, c->bound_ns);
	return c->bound_ns;
}

bool
cost_is_known(const struct spec_cost *c)
{
	return c->state != LAZY_FAILED && c->measured_ns > 0;
}

void
costs_show_known(struct tune *t)
{
	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		const struct spec_cost *c = &t->cost[t->program.spec_of[k]];

		if (cost_is_known(c))
			t->program.kernels[k].cost = MAX_OF(t->program.kernels[k].cost, c->measured_ns);
	}
}

/* Unmeasured kernels stand half a standard deviation under what is expected of them: what is uncertain
 * is worth a look, once what is expected to be best has been looked at. */
static const double hope = 0.5;

int64_t
cost_expected(const struct tune *t, const struct spec_cost *c)
{
	if (c->state == LAZY_FAILED || c->measured_ns > 0)
		return c->state == LAZY_FAILED ? BLP_NEVER : c->measured_ns;
	return expect_ns(t, c, t->is_sober ? 0 : hope);
}

/* Not the kernel's fault: it may well be measured another time, so this job's end is not the last word. */
static bool
is_machines(enum err_code fail)
{
	return fail == ERR_THROTTLED || fail == ERR_BUSY || fail == ERR_DEVLOST || fail == ERR_MEMORY ||
	    fail == ERR_HOST || fail == ERR_IO || fail == ERR_FULL || fail == ERR_WORKERLOST ||
	    fail == ERR_LINKLOST || fail == ERR_PROTO;
}

void
costs_trouble(struct tune *t, enum err_code fail, struct str cause)
{
	if (is_machines(fail) && t->n_trouble++ == 0)
		t->trouble = str_of(arena_printf(t->arena, "%.400s", str_dup(t->arena, cause)));
}

/* Some of its schedules were tried, by the predictor's order: enough, but for a proof. */
static bool
counts_partly(const struct tune *t, const struct spec_cost *c)
{
	return c->is_partly && order_is_there(t, c) && !t->is_strict;
}

/* No answer is coming any more. */
static void
stop_waiting(const struct tune *t, struct spec_cost *c)
{
	if (c->state == LAZY_WAITING)
		c->state = counts_partly(t, c) ? LAZY_MEASURED : LAZY_OPEN;
}

/* What was measured faster than that shows that it is none (cost_take()). */
static void
tighten(const struct tune *t, uint32_t s)
{
	struct spec_cost *c = &t->cost[s];

	c->bound_ns = MAX_OF(
	    c->bound_ns, device_space_ns(&t->front.cands.specs[s], &t->target, &t->hw, c->heat, t->effort));
	if (c->measured_ns > 0)
		c->bound_ns = MIN_OF(c->bound_ns, c->measured_ns);
}

void
costs_tighten(struct tune *t)
{
	for (uint32_t s = 0; s < n_asked(t) && !t->is_tight; s++)
		if (t->cost[s].state != LAZY_FAILED && (t->cost[s].measured_ns <= 0 || t->cost[s].is_partly))
			tighten(t, s);
	t->is_tight = true;
}

void
costs_be_strict(struct tune *t)
{
	costs_tighten(t);
	t->is_strict = true;
	for (uint32_t s = 0; s < t->front.cands.n_specs; s++)
		if (t->cost[s].state == LAZY_MEASURED && t->cost[s].is_partly)
			t->cost[s].state = LAZY_OPEN;
}

/* That schedules fail says nothing of those that were not tried: they are, when it is asked for next.  What
 * is measured stays so. */
static bool
take_failure(struct tune *t, struct spec_cost *c, const struct m_cost *m)
{
	bool is_all = !order_is_there(t, c) || m->effort == 0 || m->effort >= t->effort;

	/* for a proof it would be asked for again and again */
	if (c->measured_ns > 0 ? t->is_strict : is_all)
		return false;
	costs_trouble(t, err_of_wire(m->fail), m->cause);
	c->n_wanted = UINT32_MAX;
	stop_waiting(t, c);
	return true;
}

/* One answer.  A time below its bound shows that the bound was wrong: the time counts. */
void
cost_take(struct tune *t, uint32_t s, const struct m_cost *m)
{
	struct spec_cost *c = &t->cost[s];

	if (c->state == LAZY_WAITING)
		t->n_waiting--;
	c->effort = m->effort;
	if (m->median_ns > 0) {
		c->measured_ns = m->median_ns;
		c->first_ns = m->first_ns > 0 ? m->first_ns : m->median_ns;
		c->repeats = m->repeats;
		c->spread_ns = m->spread_ns;
		c->error_ns = m->error_ns;
		c->samples = m->samples;
		c->compile_ns = m->compile_ns;
		c->schedule = (struct str){str_dup(t->arena, m->schedule), m->schedule.n};
		c->perturbed =
		    (struct bytes){arena_dup(t->arena, m->perturbed.p, m->perturbed.n), m->perturbed.n};
		c->bound_ns = MIN_OF(c->bound_ns, m->median_ns);
		c->is_partly = m->effort < t->effort;
		c->state = !c->is_partly || c->state == LAZY_WAITING || counts_partly(t, c) ? LAZY_MEASURED
											    : LAZY_OPEN;
	} else if (m->fail != 0 && take_failure(t, c, m)) {
		return;
	} else if (m->fail != 0) {
		c->fail = err_of_wire(m->fail);
		c->cause = (struct str){str_dup(t->arena, m->cause), m->cause.n};
		c->state = LAZY_FAILED;
		t->progress.failed++;
		costs_trouble(t, c->fail, c->cause);
	} else {
		stop_waiting(t, c);
	}
}

/* What comes when the choice stands is for the next job: the plan's kernels are built with the schedules that
 * its costs are of. */
static void
take_costs(struct tune *t, const struct m_cost_have *m)
{
	for (uint32_t i = 0; i < m->n_costs; i++) {
		uint32_t s;
		bool is_first; /* else it was measured by other schedules before */

		if (t->is_final) {
			costs_trouble(t, err_of_wire(m->costs[i].fail), m->costs[i].cause);
			continue;
		}

		if (!cost_find(t, &m->costs[i].spec, &s))
			continue;
		is_first = t->cost[s].state == LAZY_WAITING && t->cost[s].measured_ns <= 0;
		cost_take(t, s, &m->costs[i]);
		if (m->is_answer && t->cost[s].state == LAZY_MEASURED) {
			t->cost[s].was_cached = true;
			t->progress.cached++;
		} else if (is_first && t->cost[s].state == LAZY_MEASURED) {
			t->progress.measured++;
		}
	}
}

static void
take_race(struct tune *t, const struct m_race_have *m)
{
	for (uint32_t i = 0; i < m->n_costs && !t->is_final; i++) {
		uint32_t s;

		if (cost_find(t, &m->costs[i].spec, &s) && t->cost[s].state == LAZY_MEASURED) {
			t->progress.remeasured += m->costs[i].repeats > t->cost[s].repeats;
			cost_take(t, s, &m->costs[i]);
		}
	}
	t->race_fail = err_of_wire(m->fail);
	t->is_racing = false;
}

/* Messages that may come at any time; false when `m` is none of them. */
static bool
take_aside(struct tune *t, const struct msg *m)
{
	switch ((int)m->type) {
	case MSG_cost_have:
		take_costs(t, &m->cost_have);
		return true;
	case MSG_race_have:
		take_race(t, &m->race_have);
		return true;
	case MSG_perturb_have:
		perturb_take(t, &m->perturb_have);
		return true;
	case MSG_worker_here:
		if (t->n_workers && !m->worker_here.n_workers)
			t->alone_since_ns = t->os->mono_ns(t->os->self);
		t->n_workers = m->worker_here.n_workers;
		return true;
	case MSG_finish:
		t->finish_asked = true;
		return true;
	default:
		return false;
	}
}

static bool
receive(struct tune *t, struct arena *a, int wait_ms, struct msg *m, bool *got, struct err *e)
{
	*got = false;
	switch (pipe_recv(t->pipe, a, wait_ms, m, e)) {
	case PIPE_MSG:
		os_seam("planner.heard");
		*got = true;
		return true;
	case PIPE_TIMEOUT:
		return true;
	case PIPE_END:
		return err_set(e, ERR_LINKLOST, "the daemon is gone");
	case PIPE_ERR:
		return false;
	}
	bug("pipe_recv gave no answer");
}

bool
costs_take(struct tune *t, int wait_ms, struct err *e)
{
	for (bool got = true; got; wait_ms = 0) {
		struct arena tmp = {0};
		struct msg m;

		if (!receive(t, &tmp, wait_ms, &m, &got, e)) {
			arena_fini(&tmp);
			return false;
		}
		if (got && !take_aside(t, &m)) {
			(void)err_set(
			    e, ERR_PROTO, "unexpected message '%s' from the daemon", msg_name(m.type));
			arena_fini(&tmp);
			return false;
		}
		arena_fini(&tmp);
	}
	return true;
}

/* All that is out and not answered is no longer wanted. */
static bool
drop_all(struct tune *t, struct err *e)
{
	struct msg drop = {.type = MSG_measure_drop};

	drop.measure_drop = (struct m_measure_drop){.all = true, .wants_word = true};
	for (uint32_t i = 0; i < t->front.cands.n_specs; i++)
		stop_waiting(t, &t->cost[i]);
	t->n_waiting = t->n_perturbing = 0;
	t->is_racing = false;
	return pipe_send(t->pipe, &drop, e);
}

/* Machines that had failed, and that would have been tried again. */
static void
note_dropped(struct tune *t, const struct m_dropped *m)
{
	if (m->n_failed == 0)
		return;
	costs_trouble(t, err_of_wire(m->fail), m->cause);
	t->n_trouble += (uint32_t)MIN_OF(m->n_failed - 1, (uint64_t)1000000);
}

/* How long to listen before looking at the clock again; -1: for ever. */
static int
patience_ms(const struct tune *t, int64_t until_ns)
{
	int64_t left = until_ns - t->os->mono_ns(t->os->self);

	return until_ns ? (int)(MIN_OF(MAX_OF(left, (int64_t)0), (int64_t)200000000) / 1000000) : -1;
}

bool
costs_await(struct tune *t, enum msg_type type, int64_t until_ns, struct msg *m, struct err *e)
{
	for (bool got, is_dropped = false;;) {
		if (!receive(t, t->arena, is_dropped ? -1 : patience_ms(t, until_ns), m, &got, e))
			return false;
		if (!got && t->os->mono_ns(t->os->self) >= until_ns) {
			if (!drop_all(t, e))
				return false;
			is_dropped = true;
		}
		if (!got)
			continue;
		if (m->type == MSG_dropped && is_dropped) {
			note_dropped(t, &m->dropped);
			return true;
		}
		if (m->type == type && !(type == MSG_cost_have && !m->cost_have.is_answer)) {
			if (!is_dropped)
				return true;
			continue; /* too late */
		}
		if (!take_aside(t, m))
			return err_set(e, ERR_PROTO, "wanted '%s' from the daemon, got '%s'", msg_name(type),
			    msg_name(m->type));
	}
}

static struct m_spec_ask
ask_for(const struct tune *t, uint32_t s, int64_t priority)
{
	return (struct m_spec_ask){.text = t->front.cands.specs[s].text,
	    .heat = t->cost[s].heat,
	    .any_heat = !tune_may_measure(t),
	    .effort = t->effort,
	    .priority = priority};
}

struct m_bound
cost_bound(const struct tune *t, uint32_t s)
{
	return (struct m_bound){.bound_ns = t->cost[s].bound_ns,
	    .floor_ns = cost_floor_ns(&t->front.cands.specs[s], t->target.is_cuda, t->hw.n_threads)};
}

/* Kernels are timed with their operands where the plan will find them.  A GPU's are timed as before. */
static struct str *
heats(struct tune *t)
{
	const int64_t *level = t->hw.level_bytes;
	struct heat_caches caches = {.n_cores = (uint32_t)MAX_OF(t->hw.n_threads, 1)};

	if (!t->target.is_cuda) {
		caches.own = (size_t)MAX_OF(level[1], (int64_t)0);
		caches.last = (size_t)MAX_OF(level[2], (int64_t)0);
	}
	return heats_decide(t->arena, &t->front.graph, &t->front.cands, &caches);
}

/* What the store knows of all, in messages that have an end: of a spec that holds constants by value these
 * are most of its text. */
static bool
ask_known(struct tune *t, struct m_spec_ask *asks, uint32_t n, struct err *e)
{
	enum { MOST_BYTES = 16 << 20 };
	struct msg ask = {.type = MSG_cost_ask}, have;
	uint32_t from = 0;

	do {
		uint32_t to = from;

		for (size_t bytes = 0; to < n && (to == from || bytes + asks[to].text.n <= MOST_BYTES); to++)
			bytes += asks[to].text.n;
		ask.cost_ask = (struct m_cost_ask){.threads = t->start.options.threads,
		    .precision = t->precision,
		    .specs = asks + from,
		    .n_specs = to - from};
		if (to == n)
			siblings_ask(t, &ask.cost_ask);
		if (!pipe_send(t->pipe, &ask, e) || !costs_await(t, MSG_cost_have, 0, &have, e))
			return false;
		take_costs(t, &have.cost_have);
		from = to;
	} while (from < n);
	siblings_take(t, have.cost_have.siblings, have.cost_have.n_siblings);
	return true;
}

/* Specs as they are priced before any is measured: each by itself. */
struct pricing {
	struct tune *t;
	const struct str *heat;
	struct m_spec_ask *asks;
	uint16_t *leaves;
};

static void
price(void *self, uint32_t hand, uint32_t i)
{
	const struct pricing *x = self;
	struct tune *t = x->t;
	struct spec_cost *c = &t->cost[i];
	const struct spec *s = &t->front.cands.specs[i];
	struct cost_parts parts;

	(void)hand;
	c->heat = x->heat[i];
	c->work_ns = cost_work_ns(s, &t->hw, c->heat, &parts);
	c->bound_ns = device_bound_ns(s, &t->target, &t->hw, c->heat);
	expect_spec(t, i, &parts, x->leaves);
	c->state = LAZY_OPEN;
	x->asks[i] = ask_for(t, i, 0);
}

bool
costs_open(struct tune *t, struct err *e)
{
	uint32_t n = n_asked(t);
	struct m_spec_ask *asks = NEW_ARRAY(t->arena, struct m_spec_ask, n);
	struct pricing pricing = {.t = t, .heat = heats(t), .asks = asks};

	make_index(t);
	if (!expect_open(t, e))
		return false;
	pricing.leaves = expect_leaves(t, n);
	t->cost = NEW_ARRAY(t->arena, struct spec_cost, t->front.cands.n_specs);
	for (uint32_t i = n; i < t->front.cands.n_specs; i++)
		t->cost[i] = (struct spec_cost){.bound_ns = PLAN_VIEW_NS,
		    .work_ns = PLAN_VIEW_NS,
		    .measured_ns = PLAN_VIEW_NS,
		    .first_ns = PLAN_VIEW_NS,
		    .repeats = 1,
		    .schedule = STR(PLAN_VIEW),
		    .state = LAZY_MEASURED};
	parallel_for(n, parallel_hands(PLANNER_HANDS), price, &pricing);
	if (!ask_known(t, asks, n, e))
		return false;
	expect_begin(t);
	return true;
}

/* Until a plan is measured in full, what was asked for first comes first: it is the rest of the plan that was
 * expected, and without it there is none.  Later what was asked for last is what is known best. */
static int64_t
priority_of(struct tune *t, enum ask_rank rank)
{
	enum { TURNS = 1 << 15 };
	int64_t turn = t->best_measured == BLP_NEVER ? TURNS - MIN_OF(t->n_turns, (uint32_t)TURNS) : 0;

	t->n_turns++;
	return ((int64_t)rank << 32) + (turn << 16);
}

bool
costs_measure(struct tune *t, enum ask_rank rank, const uint32_t *specs, uint32_t n, struct err *e)
{
	struct arena tmp = {0};
	struct m_spec_ask *asks = NEW_ARRAY(&tmp, struct m_spec_ask, n);
	struct msg ask = {.type = MSG_measure_ask};
	int64_t first = priority_of(t, rank);
	uint32_t n_asks = 0;
	bool ok;

	orders_make_open(t, specs, n);
	for (uint32_t i = 0; i < n; i++) {
		if (t->cost[specs[i]].state != LAZY_OPEN)
			continue;
		t->cost[specs[i]].state = LAZY_WAITING;
		asks[n_asks] = ask_for(t, specs[i], first + (int64_t)MIN_OF(n - i, 0xffffU));
		order_ask(t, specs[i], &tmp, &asks[n_asks]);
		asks[n_asks++].bound = cost_bound(t, specs[i]);
	}
	t->n_waiting += n_asks;
	ask.measure_ask = (struct m_measure_ask){.threads = t->start.options.threads,
	    .precision = t->precision,
	    .specs = asks,
	    .n_specs = n_asks,
	    .left_ns = MAX_OF(t->until_ns - t->os->mono_ns(t->os->self), (int64_t)1)};
	ok = n_asks == 0 || pipe_send(t->pipe, &ask, e);
	arena_fini(&tmp);
	return ok;
}

/* What had come before the daemon heard of it is taken: all that is known then counts. */
bool
costs_drop(struct tune *t, struct err *e)
{
	bool is_dropped = t->n_waiting == 0 && !t->is_racing && t->n_perturbing == 0;

	if (!is_dropped && !drop_all(t, e))
		return false;
	while (!is_dropped) {
		struct arena tmp = {0};
		struct msg m;
		bool got, ok = receive(t, &tmp, -1, &m, &got, e);

		is_dropped = ok && got && m.type == MSG_dropped;
		if (is_dropped)
			note_dropped(t, &m.dropped);
		else if (ok && got && !take_aside(t, &m))
			ok = err_set(
			    e, ERR_PROTO, "wanted 'dropped' from the daemon, got '%s'", msg_name(m.type));
		arena_fini(&tmp);
		if (!ok)
			return false;
	}
	return true;
}

enum { SAY_EVERY_NS = 250000000 };

bool
progress_say(struct tune *t, const char *phase, bool now, struct err *e)
{
	int64_t at = t->os->mono_ns(t->os->self);
	struct msg say = {.type = MSG_progress_say};

	if (!now && at - t->said_ns < SAY_EVERY_NS)
		return true;
	t->said_ns = at;
	t->progress.phase = str_of(phase);
	t->progress.seconds = (double)(at - t->began_ns) * 1e-9;
	t->progress.seconds_left = MAX_OF((double)(t->deadline_ns - at) * 1e-9, 0.0);
	t->progress.wanted = t->n_waiting;
	say.progress_say.progress = t->progress;
	return pipe_send(t->pipe, &say, e);
}
