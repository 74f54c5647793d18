/* daemon/planner/search.c: lazy optimal profiling (D19).  What the solution picks is measured; then it
 * is solved again, until all that is chosen is measured.  Two aims, one after the other:
 *
 *   expect  specs without a measurement enter the program at what is expected of them (learned
 *           from those that have one): ends when no unmeasured kernel is expected to pay;
 *   prove   they enter at their lower bound: ends when none can.  Then the choice is the optimum
 *           over all candidates at recorded costs.
 *
 * The bound always comes from the optimistic program. */
#include "away.h"
#include "result_cache.h"
#include "expect.h"
#include "perturb.h"
#include "wanted.h"
#include "what_if.h"

#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 200 };

bool
search_is_over(const struct tune *t)
{
	return t->finish_asked || t->os->mono_ns(t->os->self) >= t->until_ns;
}

/* Between measurements a good choice soon is worth more than the best one: what the programme
 * may count is small there.  The last choice is made under the solver's own limits. */
static void
limit_solver(struct tune *t, bool is_last)
{
	struct blp_limits l = {
	    .stop = solve_is_over, .seconds_left = solve_seconds_left, .self = t, .solver = t->solver_asked};

	if (!is_last) {
		l.beam_width = 100;
		l.max_rounds = 10; /* rows are kept: the next solution goes on from here */
		l.max_states = 300000;
	}
	blp_state_limit(t->solver, &l);
}

int64_t *
kernel_costs(struct tune *t, struct arena *a, int64_t (*cost)(const struct tune *, uint32_t spec))
{
	int64_t *out = NEW_ARRAY(a, int64_t, t->program.n_kernels);

	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		out[k] = cost(t, t->program.spec_of[k]);
	return out;
}

static int64_t
optimistic(const struct tune *t, uint32_t s)
{
	return cost_optimistic(&t->cost[s]);
}

static int64_t
expected(const struct tune *t, uint32_t s)
{
	return cost_expected(t, &t->cost[s]);
}

int64_t
cost_measured(const struct tune *t, uint32_t s)
{
	const struct spec_cost *c = &t->cost[s];

	return c->state != LAZY_FAILED && c->measured_ns > 0 ? c->measured_ns : BLP_NEVER;
}

/* Solves for the aim's costs and keeps the result as the job's choice. */
static bool
solve(struct tune *t, enum tune_aim aim, struct err *e)
{
	struct arena old = t->choice_arena, tmp = {0};
	int64_t *cost = kernel_costs(t, &tmp, aim == AIM_EXPECT ? expected : optimistic);
	int64_t from = t->os->mono_ns(t->os->self);
	bool ok;

	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		t->program.kernels[k].cost = cost[k];
	t->choice_arena = (struct arena){0};
	ok = blp_solve_again(
	    &t->choice_arena, t->solver, cost, t->choice.chosen, t->choice.n_chosen, &t->choice, e);
	if (ok && aim == AIM_PROVE)
		t->bound_ns = t->choice.bound;
	t->solve_ns = t->os->mono_ns(t->os->self) - from;
	arena_fini(&old);
	arena_fini(&tmp);
	return ok || err_in(e, "choosing kernels");
}

bool
search_bound(struct tune *t, struct err *e)
{
	return solve(t, AIM_PROVE, e);
}

uint32_t
kernel_operators(const struct tune *t, uint32_t kernel)
{
	const struct graph *g = &t->front.graph;
	const struct cand *c = &t->front.cands.cands[kernel];
	uint32_t seen[SPEC_MAX_NODES], n = 0;

	BITSET_EACH(i, &c->members)
	{
		uint32_t origin = g->nodes[i].origin, k = 0;

		if (node_is_view(g, &g->nodes[i]) || n == SPEC_MAX_NODES)
			continue;
		while (k < n && seen[k] != origin)
			k++;
		if (k == n)
			seen[n++] = origin;
	}
	return MAX_OF(n, 1u);
}

/* Costs that lean towards kernels of few operators: `lean` of the cost more for each one above
 * the first. */
int64_t *
leaning_costs(
    struct tune *t, struct arena *a, int64_t (*cost)(const struct tune *, uint32_t spec), double lean)
{
	int64_t *out = kernel_costs(t, a, cost);

	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		uint32_t n = kernel_operators(t, k);

		if (out[k] != BLP_NEVER)
			out[k] += (int64_t)((double)out[k] * lean * (n - 1));
	}
	return out;
}

static void
note_progress(struct tune *t)
{
	struct m_progress *p = &t->progress;

	p->chosen = t->choice.n_chosen;
	p->bound_ns = t->bound_ns;
	p->latency_ns = t->best_measured != BLP_NEVER ? t->best_measured : 0;
	p->gap = p->latency_ns > 0 ? (double)(p->latency_ns - p->bound_ns) / (double)p->latency_ns : 0;
}

static bool
check_placeable(const struct tune *t, struct err *e)
{
	int64_t limit = t->start.options.unplaceable_ns;

	if (t->n_workers || t->os->mono_ns(t->os->self) - t->alone_since_ns < limit)
		return true;
	return err_set(e, ERR_UNPLACEABLE,
	    "no connected worker measures for device '%.*s' (waited %.0f s); start a korch-worker on such a "
	    "host, or name another --device",
	    STR_ARG(t->start.options.device), (double)limit * 1e-9);
}

/* Waits until half of what is out has come back, or the time is over; for all of a foreseen plan, as there is
 * no other one yet. */
static bool
wait_for_answers(struct tune *t, struct err *e)
{
	bool is_first = t->is_foreseen && t->best_measured == BLP_NEVER;
	uint32_t enough = is_first ? 0 : t->n_waiting / 2;

	while (t->n_waiting > enough && !search_is_over(t)) {
		if (!costs_take(t, WAIT_MS, e) || !check_placeable(t, e))
			return false;
		if (!progress_say(t, "measuring", false, e))
			return false;
	}
	return true;
}

/* What a better plan must promise before it is looked for: without it a warm run, which has learned from
 * a few late measurements more, would go on where the cold one ended. */
static const double worthwhile = 0.01;

static bool
promises_little(const struct tune *t)
{
	return t->best_measured != BLP_NEVER &&
	    (double)t->choice.cost >= (double)t->best_measured * (1 - worthwhile);
}

/* One round: solve, ask for what is chosen and unmeasured.  *done: all of it is measured. */
static bool
search_round(struct tune *t, enum tune_aim aim, bool *done, struct err *e)
{
	struct arena tmp = {0};
	struct lazy_out want;
	bool ok;

	expect_learn(t);
	share_time(t);
	t->solve_until_ns = t->until_ns;
	ok = wanted_incumbent(t, e) && solve(t, aim, e);
	if (ok) {
		note_measured_plan(t);
		share_time(t);
		want = wanted_next(t, aim, &tmp);
		if (want.done && !t->choice.proved && !search_is_over(t)) {
			limit_solver(t, true);
			ok = solve(t, aim, e);
			note_measured_plan(t);
			limit_solver(t, false);
			want = wanted_next(t, aim, &tmp);
		}
		*done = want.done || (aim == AIM_EXPECT && promises_little(t));
		note_progress(t);
		if (t->is_foreseen && aim == AIM_EXPECT)
			wanted_sort(t, &tmp, &want);
		ok = ok &&
		    (*done ? wanted_closer(t, aim == AIM_EXPECT && !search_is_over(t), done, e)
			   : costs_measure(t, RANK_SEARCH, want.measure, want.n_measure, e));
	}
	arena_fini(&tmp);
	return ok && progress_say(t, aim == AIM_EXPECT ? "measuring" : "proving", true, e);
}

static bool
fail_offline(struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	uint32_t n = 0;

	sb_init(&sb, &tmp);
	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]];
		char hex[65];

		if (t->cost[s].state == LAZY_MEASURED)
			continue;
		hash_hex(&t->front.cands.specs[s].hash, hex);
		if (n++ < 4)
			sb_addf(&sb, " %.16s (node '%s')", hex, spec_description(t, s));
	}
	(void)err_set(e, ERR_OFFLINE,
	    "the cache lacks measurements of %u kernels that the best plan needs:%s%s; "
	    "run without --offline once",
	    n, sb.p, n > 4 ? " ..." : "");
	arena_fini(&tmp);
	return false;
}

static const char *
why_settled(const struct tune *t, bool done)
{
	return done           ? "no kernel without a measurement is expected to gain 1 % (--prove goes on)"
	    : t->finish_asked ? "asked to end"
			      : "the budget is over; the same command goes on from here";
}

/* Would a search go on from what the cache knows? */
static bool
is_searched(struct tune *t, bool *yes, struct err *e)
{
	struct arena tmp = {0};

	*yes = false;
	if (!t->progress.cached || t->start.options.offline || what_if_asked(t))
		return true;
	if (!solve(t, AIM_EXPECT, e))
		return false;
	note_measured_plan(t);
	*yes = wanted_next(t, AIM_EXPECT, &tmp).done || promises_little(t);
	arena_fini(&tmp);
	return true;
}

/* What the cache knows is all there is: proved by it, good enough by it, or not enough. */
static bool
search_cache(struct tune *t, struct err *e)
{
	bool offline = t->start.options.offline;
	struct arena tmp = {0};
	bool ok, done = false, searched;

	expect_learn(t);
	if (t->start.options.prove)
		costs_tighten(t);
	ok = is_searched(t, &searched, e) && solve(t, AIM_PROVE, e);
	if (ok)
		done = wanted_next(t, AIM_PROVE, &tmp).done;
	if (ok && !done && offline && !t->start.options.prove) {
		ok = solve(t, AIM_EXPECT, e);
		if (ok)
			note_measured_plan(t);
		done = ok && (wanted_next(t, AIM_EXPECT, &tmp).done || promises_little(t));
		if (done)
			ok = search_incumbent(t, e);
	}
	if (ok && !done)
		ok = offline ? fail_offline(t, e) : choose_incumbent(t, e);
	if (ok && !offline && !what_if_asked(t))
		share_note_open(t);
	if (ok && searched && !t->progress.untimed)
		t->progress.stop = str_of(why_settled(t, true));
	note_progress(t);
	arena_fini(&tmp);
	return ok;
}

/* Rounds until all that the aim's program chooses is measured, or time is over. */
static bool
search_rounds(struct tune *t, enum tune_aim aim, bool *done, struct err *e)
{
	*done = false;
	while (search_round(t, aim, done, e)) {
		if (*done || search_is_over(t))
			return true;
		if (!wait_for_answers(t, e))
			return false;
	}
	return false;
}

/* Where the predictor knows the kernels, what it expects comes first: a good plan soon.  What may be hoped
 * for beyond that comes then. */
static bool
search_measuring(struct tune *t, enum tune_aim aim, bool *done, struct err *e)
{
	bool ok;

	t->is_sober = t->is_foreseen && aim == AIM_EXPECT;
	ok = !t->is_sober || search_rounds(t, aim, done, e);
	t->is_sober = false;
	return ok && search_rounds(t, aim, done, e);
}

/* Until the search has ended, by its aim or by time. */
static bool
search_to_end(struct tune *t, bool *done, struct err *e)
{
	if (!search_measuring(t, AIM_EXPECT, done, e))
		return false;
	if (!*done || !t->start.options.prove)
		return true;
	costs_be_strict(t);
	return search_measuring(t, AIM_PROVE, done, e);
}

/* What the choice rests on is timed again; with the new costs the search goes on. */
static bool
search_and_remeasure(struct tune *t, bool *done, struct err *e)
{
	for (int round = 0;; round++) {
		bool changed = false;

		if (!search_to_end(t, done, e))
			return false;
		if (round < REMEASURE_ROUNDS && !remeasure(t, &changed, e))
			return false;
		if (!changed)
			return true;
	}
}

/* By bounds, nearly all of the first plan is something that the predictor knows. */
static bool
is_foreseen(const struct tune *t)
{
	static const double most = 0.8;
	double all = 0, known = 0;

	for (uint32_t i = 0; i < t->n_start_plan; i++) {
		const struct spec_cost *c = &t->cost[t->program.spec_of[t->start_plan[i]]];

		all += (double)c->bound_ns;
		known += c->is_foreseen ? (double)c->bound_ns : 0;
	}
	return known > most * all;
}

/* The plan that there is before anything is measured, solved as for `--budget 0`, which it is. */
static bool
start_plan(struct tune *t, struct err *e)
{
	struct blp_result plan;
	bool ok;

	t->solve_until_ns = t->os->mono_ns(t->os->self) + t->start.options.budget_ns / 50;
	limit_solver(t, true);
	ok = solve(t, AIM_PROVE, e) && incumbent_plan(t, &plan, e);
	limit_solver(t, false);
	t->solve_until_ns = t->deadline_ns;
	if (!ok)
		return false;
	t->n_start_plan = plan.n_chosen;
	t->start_plan = arena_dup(t->arena, plan.chosen, sizeof(*plan.chosen) * plan.n_chosen);
	t->is_foreseen = is_foreseen(t);
	t->start_held = held_now(t, t->arena, t->start_plan, t->n_start_plan);
	return true;
}

/* The choice of then may have cost more than the least sum: it was the faster whole plan.  By now the least
 * sum is clearly less of it, because there is a better plan or because the choice was found slower. */
static bool
is_outdone(const struct tune *t, int64_t past_cost)
{
	const struct m_job_end *end = &t->past.end;
	double was =
	    end->progress.latency_ns > 0 ? (double)end->least_ns / (double)end->progress.latency_ns : 1;

	return (double)t->best_measured < (double)past_cost * was * (1 - worthwhile);
}

/* The choice of before, unless the store knows a clearly better plan by now.  Nothing is measured. */
static bool
search_replay(struct tune *t, int64_t past_cost, struct err *e)
{
	t->solve_until_ns = share_incumbent_until_ns(t);
	limit_solver(t, true);
	if (!solve(t, AIM_PROVE, e))
		return false;
	note_measured_plan(t);
	t->progress.stop = t->past.end.progress.stop;
	if (is_outdone(t, past_cost))
		return choose_incumbent(t, e);
	cached_take(t, past_cost);
	t->choice.proved = false;
	t->best_measured = past_cost;
	note_progress(t);
	return true;
}

/* Of several optima the one that this job ended with. */
static bool
end_proved(struct tune *t, int64_t past_cost, struct err *e)
{
	if (past_cost == t->choice.cost)
		cached_take(t, past_cost);
	t->progress.stop = STR("no candidate can beat the plan");
	t->best_measured = t->choice.cost;
	note_progress(t);
	return costs_drop(t, e);
}

/* The search is over: is what was expected to be best proved best all the same? */
static bool
end_search(struct tune *t, bool done, int64_t past_cost, struct err *e)
{
	struct arena tmp = {0};
	bool is_optimum = done;

	t->is_cut = !done && !t->finish_asked;
	if (!done || !t->start.options.prove) {
		limit_solver(t, true);
		allow_incumbent(t);
		/* what came just now counts too */
		if (!costs_drop(t, e) || !solve(t, AIM_PROVE, e))
			return false;
		is_optimum = done && wanted_next(t, AIM_PROVE, &tmp).done;
		arena_fini(&tmp);
	}
	if (is_optimum)
		return end_proved(t, past_cost, e);
	t->progress.stop =
	    t->is_cut && t->progress.measured == 0 ? share_nothing_words(t) : str_of(why_settled(t, done));
	return choose_incumbent(t, e);
}

/* Nothing can be measured in this time.  Perhaps nothing need be; else what is known is all there is. */
static bool
search_small(struct tune *t, int64_t past_cost, struct err *e)
{
	struct str words = share_small_words(t);
	struct arena tmp = {0};
	bool ok = solve(t, AIM_EXPECT, e), done = false;

	if (ok) {
		note_measured_plan(t);
		done =
		    !t->start.options.prove && (wanted_next(t, AIM_EXPECT, &tmp).done || promises_little(t));
	}
	arena_fini(&tmp);
	ok = ok && end_search(t, done, past_cost, e);
	if (ok && !done)
		t->progress.stop = words;
	note_progress(t);
	return ok;
}

bool
tune_may_measure(const struct tune *t)
{
	const struct m_options *o = &t->start.options;

	return !o->offline && o->budget_ns > 0 && !what_if_asked(t);
}

bool
tune_search(struct tune *t, struct err *e)
{
	const struct m_options *o = &t->start.options;
	bool may_measure = tune_may_measure(t), done;
	int64_t past_cost;

	t->solver = blp_state_new(&t->program.blp, NULL);
	t->best_measured = BLP_NEVER;
	t->measured_plan = NEW_ARRAY(t->arena, uint32_t, t->program.n_kernels);
	t->remeasure_left_ns = o->budget_ns / 10;
	/* without a budget the counted limits alone end the solver, so that equal jobs give equal plans */
	t->solve_until_ns = may_measure ? t->deadline_ns : 0;
	/* whoever gives no time waits for the first answer: as one round of a search looks at it */
	limit_solver(t, o->predict || (!may_measure && (o->prove || o->offline || o->budget_ns > 0)));
	if (may_measure && o->predict)
		return away_search(t, e);
	if (!may_measure)
		return search_cache(t, e) && (!what_if_asked(t) || what_if_run(t, e));
	if (!cached_cost(t, &past_cost))
		past_cost = -1;
	else if (!t->past.end.is_cut && !t->past.end.progress.proved)
		return search_replay(t, past_cost, e);
	else if (t->past.end.progress.proved) /* it will be again, by what is known */
		t->remeasure_left_ns = 0;
	expect_learn(t);
	if (!start_plan(t, e))
		return false;
	t->measuring_from_ns = t->os->mono_ns(t->os->self);
	share_time(t);
	if (share_is_too_small(t))
		return search_small(t, past_cost, e);
	return search_and_remeasure(t, &done, e) && end_search(t, done, past_cost, e);
}

bool
search_renew(struct tune *t, struct err *e)
{
	struct arena tmp = {0};
	struct str stop = t->progress.stop;
	bool is_optimum;

	limit_solver(t, true);
	allow_incumbent(t);
	if (!solve(t, AIM_PROVE, e))
		return false;
	is_optimum = !t->is_cut && wanted_next(t, AIM_PROVE, &tmp).done;
	arena_fini(&tmp);
	if (is_optimum)
		return end_proved(t, -1, e);
	t->progress.stop = stop;
	return choose_incumbent(t, e);
}
