/* daemon/planner/sure.c: a confidence beside the proof.
 *
 * The proven bound has every kernel that was not measured at a time that nothing beats, which is half of what
 * it takes; so it says that a plan may be twice as slow as the best, and mostly it is not.  Here the program
 * is solved once more with these kernels at the low end of what is predicted of them, so far down that in 95
 * of 100 jobs no plan is cheaper than that (how far: daemon/train/sure.h).  Where nothing is predicted, they
 * stay at their bounds.  What was measured stands at its time, less what that may err.
 *
 * The sum of the duals of that program is what is claimed: a plan's reader can add them up. */
#include "sure.h"
#include "expect.h"
#include "what_if.h"

#include <math.h>

/* What comes out of it is for a plan of measured kernels; a proof says more. */
static bool
may_say(const struct tune *t)
{
	if (!t->predictor || !(t->predictor->sure > 0) || t->choice.proved || what_if_asked(t))
		return false;
	for (uint32_t i = 0; i < t->choice.n_chosen; i++)
		if (!cost_is_known(&t->cost[t->program.spec_of[t->choice.chosen[i]]]))
			return false;
	return t->choice.n_chosen > 0;
}

static double
measured_low(const struct spec_cost *c)
{
	double error = c->error_ns >= 0 && isfinite(c->error_ns) ? c->error_ns : 0;

	return fmax((double)c->measured_ns - predict_sure_errors * error, (double)c->bound_ns);
}

static double
predicted_low(const struct tune *t, const struct spec_cost *c)
{
	double bound = (double)c->bound_ns;

	return c->is_foreseen ? predict_sure(t->predictor, c->group, bound, (double)expect_ns(t, c, 0))
			      : bound;
}

/* What the schedules that were left out may win: 8.8 % of the sum where the first predicted one alone was
 * tried, of models that training had not seen (tests/bench/RESULTS.md). */
static const double left_out = 0.1;

static int64_t
low_ns(const struct tune *t, const struct spec_cost *c)
{
	double ns;

	if (c->state == LAZY_FAILED)
		return BLP_NEVER;
	ns = c->measured_ns > 0 ? measured_low(c) : predicted_low(t, c);
	if (c->measured_ns > 0 && c->is_partly)
		ns = fmax(ns * (1 - left_out), (double)c->bound_ns);
	else if (c->measured_ns > 0 && c->state != LAZY_MEASURED) /* nobody knows which were tried */
		ns = fmin(ns, predicted_low(t, c));
	return (int64_t)fmax(floor(ns), 1);
}

static int64_t *
low_costs(struct tune *t, struct plan_sure *sure)
{
	uint32_t n_specs = t->front.cands.n_specs, n_kernels = t->program.n_kernels;
	int64_t *low = NEW_ARRAY(t->arena, int64_t, MAX_OF(n_specs, 1u)),
		*out = NEW_ARRAY(t->arena, int64_t, MAX_OF(n_kernels, 1u));

	for (uint32_t s = 0; s < n_specs; s++) {
		const struct spec_cost *c = &t->cost[s];
		bool is_open = c->state != LAZY_FAILED && c->measured_ns <= 0;

		low[s] = low_ns(t, c);
		sure->n_predicted += is_open && c->is_foreseen;
		sure->n_bound += is_open && !c->is_foreseen;
	}
	for (uint32_t k = 0; k < n_kernels; k++)
		out[k] = low[t->program.spec_of[k]];
	return out;
}

/* In a program of its own: later plans need the duals of the optimistic one. */
static bool
solve(struct tune *t, const int64_t *cost, struct blp_result *out, struct err *e)
{
	const struct blp_limits limits = {.beam_width = 100,
	    .max_states = 300000,
	    .stop = solve_is_over,
	    .seconds_left = solve_seconds_left,
	    .self = t};
	struct blp_state *solver = blp_state_new(&t->program.blp, &limits);
	bool ok;

	allow_incumbent(t);
	ok = blp_solve_again(t->arena, solver, cost, t->choice.chosen, t->choice.n_chosen, out, e);
	blp_state_free(solver);
	return ok || err_in(e, "how sure the choice is");
}

bool
sure_find(struct tune *t, struct err *e)
{
	struct plan_sure sure = {.confidence = predict_sure_level};
	struct blp_result r;
	int64_t *cost;

	if (!may_say(t))
		return true;
	expect_anew(t); /* so that equal measurements make an equal claim */
	cost = low_costs(t, &sure);
	if (sure.n_predicted == 0)
		return true;
	if (!solve(t, cost, &r, e))
		return false;
	sure.least_ns = (int64_t)ceil(r.pi);
	if (sure.least_ns <= t->choice.bound) /* the bound says as much, and that is certain */
		return true;
	t->sure = NEW(t->arena, struct sure);
	*t->sure = (struct sure){sure, cost, r.rows, r.n_rows};
	return true;
}

/* ---- into the plan ---------------------------------------------------------------------- */
/* As plan_make() numbers them: kernels that cannot be used are no candidates. */
static uint32_t *
number_candidates(const struct tune *t, struct arena *a)
{
	uint32_t *number = NEW_ARRAY(a, uint32_t, MAX_OF(t->program.n_kernels, 1u)), n = 0;

	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		number[k] = t->program.kernels[k].cost == BLP_NEVER ? PLAN_NONE : n++;
	return number;
}

static void
tell_costs(struct tune *t, const uint32_t *number, struct plan *plan)
{
	plan->sure_costs = NEW_ARRAY(t->plan_arena, struct plan_sure_cost, MAX_OF(plan->n_candidates, 1u));
	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		if (number[k] != PLAN_NONE && t->sure->cost[k] != t->program.kernels[k].cost)
			plan->sure_costs[plan->n_sure_costs++] =
			    (struct plan_sure_cost){number[k], t->sure->cost[k]};
}

static void
tell_rows(struct tune *t, const uint32_t *number, struct plan *plan)
{
	plan->sure_rows = NEW_ARRAY(t->plan_arena, struct plan_row, MAX_OF(t->sure->n_rows, 1u));
	plan->n_sure_rows = t->sure->n_rows;
	for (uint32_t i = 0; i < t->sure->n_rows; i++) {
		const struct blp_row *from = &t->sure->rows[i];
		struct plan_row *to = &plan->sure_rows[i];

		to->dual = from->dual;
		to->candidates = NEW_ARRAY(t->plan_arena, uint32_t, MAX_OF(from->n, 1u));
		for (uint32_t k = 0; k < from->n; k++)
			if (number[from->kernels[k]] != PLAN_NONE)
				to->candidates[to->n_candidates++] = number[from->kernels[k]];
	}
}

/* Is the claim about this plan?  Its kernels may count as they did in an earlier one (held.h). */
static bool
may_tell(const struct tune *t, const struct plan *plan)
{
	bool is_said = t->sure && !plan->proved && t->sure->claim.least_ns > plan->bound_ns &&
	    t->sure->claim.least_ns <= plan->latency_ns;

	for (uint32_t i = 0; i < plan->n_steps && is_said; i++)
		is_said = plan->candidates[plan->steps[i].candidate].is_measured;
	for (uint32_t i = 0; i < t->choice.n_chosen && is_said; i++) {
		uint32_t k = t->choice.chosen[i];

		is_said = t->sure->cost[k] <= t->program.kernels[k].cost;
	}
	return is_said;
}

void
sure_tell(struct tune *t, struct plan *plan)
{
	struct arena tmp = {0};
	bool is_said = may_tell(t, plan);

	t->progress.sure_ns = is_said ? t->sure->claim.least_ns : 0;
	t->progress.sure = is_said ? t->sure->claim.confidence : 0;
	if (is_said) {
		uint32_t *number = number_candidates(t, &tmp);

		plan->sures = arena_dup(t->plan_arena, &t->sure->claim, sizeof(t->sure->claim));
		plan->n_sures = 1;
		tell_costs(t, number, plan);
		tell_rows(t, number, plan);
	}
	arena_fini(&tmp);
}
