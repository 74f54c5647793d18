/* daemon/planner/incumbent.c: the choice where the search ended before its proof.
 *
 * A plan of measured kernels is worth more than a guess, however promising.  While the search goes on that
 * plan is sought with the duals of the optimistic program; bounds are less than half of what kernels take, so
 * those prune little and the beam decides.  A program of the measured kernels alone has duals that fit: it is
 * solved once more at the end.
 *
 * Only where there is no such plan do kernels take part that were never measured, and then at a careful
 * guess: a search stands half a deviation on the hopeful side of what is expected, so that what is uncertain
 * is looked at; a plan that is to be run stands on the other side. */
#include "expect.h"
#include "tune.h"

#include <math.h>
#include <string.h>

/* So many deviations on the careful side, and more for each operator above the first, as what joins many is
 * expected too hopefully: little of both where the predictor knows the device. */
struct caution {
	double careful, doubt;
};

static struct caution
caution_of(const struct tune *t)
{
	return t->has_foreseen ? (struct caution){-0.5, 0.03} : (struct caution){-1, 0.15};
}

static int64_t
cost_careful(const struct tune *t, uint32_t s)
{
	const struct spec_cost *c = &t->cost[s];

	if (c->state == LAZY_FAILED || c->measured_ns > 0)
		return c->state == LAZY_FAILED ? BLP_NEVER : c->measured_ns;
	return expect_ns(t, c, caution_of(t).careful);
}

int64_t
incumbent_cost(const struct tune *t, uint32_t kernel)
{
	uint32_t s = t->program.spec_of[kernel];
	int64_t ns = cost_careful(t, s);
	uint32_t n = kernel_operators(t, kernel);

	if (ns == BLP_NEVER || cost_is_known(&t->cost[s]))
		return ns;
	return ns + (int64_t)((double)ns * caution_of(t).doubt * (n - 1));
}

static int64_t *
careful_costs(struct tune *t, struct arena *a)
{
	int64_t *out = NEW_ARRAY(a, int64_t, t->program.n_kernels);

	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		out[k] = incumbent_cost(t, k);
	return out;
}

/* The best plan known of measured kernels alone; its cost prunes what need not be measured.  The
 * choice's duals hold for it, as kernels without a measurement are merely forbidden. */
void
note_measured_plan(struct tune *t)
{
	struct arena tmp = {0};
	int64_t *cost = kernel_costs(t, &tmp, cost_measured);
	struct blp_result r;
	struct err none = {0};

	if (blp_plan_again(&tmp, t->solver, cost, t->measured_plan, t->n_measured_plan, &r, &none)) {
		t->best_measured = r.cost;
		t->n_measured_plan = r.n_chosen;
		memcpy(t->measured_plan, r.chosen, sizeof(*r.chosen) * r.n_chosen);
	}
	arena_fini(&tmp);
}

/* Measured times, and a careful guess of the rest; the measured plan, where the guesses gain nothing. */
static bool
predicted_plan(struct tune *t, struct blp_result *out, struct err *e)
{
	struct arena tmp = {0};
	bool ok = blp_plan_again(
	    t->arena, t->solver, careful_costs(t, &tmp), t->choice.chosen, t->choice.n_chosen, out, e);

	if (ok && t->n_measured_plan && t->best_measured <= out->cost)
		*out = (struct blp_result){.chosen = t->measured_plan, .n_chosen = t->n_measured_plan};
	arena_fini(&tmp);
	return ok;
}

bool
incumbent_plan(struct tune *t, struct blp_result *out, struct err *e)
{
	struct arena tmp = {0};
	bool ok = true;

	note_measured_plan(t);
	if (t->start.options.predict)
		ok = predicted_plan(t, out, e);
	else if (t->n_measured_plan)
		*out = (struct blp_result){.chosen = t->measured_plan, .n_chosen = t->n_measured_plan};
	else
		ok = blp_plan_again(t->arena, t->solver, careful_costs(t, &tmp), t->choice.chosen,
		    t->choice.n_chosen, out, e);
	arena_fini(&tmp);
	return ok;
}

bool
solve_is_over(void *self)
{
	const struct tune *t = self;

	return t->solve_until_ns > 0 && t->os->mono_ns(t->os->self) >= t->solve_until_ns;
}

double
solve_seconds_left(void *self)
{
	static const double least = 0.01;
	const struct tune *t = self;

	return t->solve_until_ns > 0
	    ? fmax(least, (double)(t->solve_until_ns - t->os->mono_ns(t->os->self)) * 1e-9)
	    : INFINITY;
}

/* A cheaper plan of measured kernels in place of this one, where all of its kernels are measured and the
 * program of the measured ones alone gives one. */
static void
better_incumbent(struct tune *t, struct blp_result *plan)
{
	const struct blp_limits limits = {.beam_width = 400,
	    .max_rounds = 40,
	    .max_states = 2000000,
	    .stop = solve_is_over,
	    .seconds_left = solve_seconds_left,
	    .self = t};
	struct arena tmp = {0};
	int64_t *cost = NEW_ARRAY(&tmp, int64_t, t->program.n_kernels), sum = 0;
	struct blp_result r;
	struct err none = {0};

	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		const struct spec_cost *c = &t->cost[t->program.spec_of[k]];

		cost[k] = cost_is_known(c) ? c->measured_ns : BLP_NEVER;
	}
	for (uint32_t i = 0; i < plan->n_chosen; i++)
		if (cost[plan->chosen[i]] == BLP_NEVER || !try_add_i64(sum, cost[plan->chosen[i]], &sum))
			sum = -1;
	if (sum > 0 &&
	    blp_solve_some(&tmp, &t->program.blp, cost, plan->chosen, plan->n_chosen, &limits, &r, &none) &&
	    r.cost < sum) {
		plan->chosen = arena_dup(t->arena, r.chosen, sizeof(*r.chosen) * r.n_chosen);
		plan->n_chosen = r.n_chosen;
	}
	arena_fini(&tmp);
}

void
allow_incumbent(struct tune *t)
{
	if (t->solve_until_ns > 0)
		t->solve_until_ns = share_incumbent_until_ns(t);
}

/* Bound and duals are those of the optimistic program, just solved, which no plan escapes, whatever was
 * guessed. */
bool
choose_incumbent(struct tune *t, struct err *e)
{
	struct blp_result settled;

	t->is_repeat = false;
	allow_incumbent(t);
	if (!costs_drop(t, e) || !incumbent_plan(t, &settled, e))
		return false;
	better_incumbent(t, &settled);
	t->choice.chosen = settled.chosen;
	t->choice.n_chosen = settled.n_chosen;
	t->choice.cost = 0;
	costs_show_known(t);
	for (uint32_t i = 0; i < settled.n_chosen; i++)
		t->choice.cost += t->program.kernels[settled.chosen[i]].cost;
	t->choice.proved = false;
	return true;
}

bool
search_incumbent(struct tune *t, struct err *e)
{
	allow_incumbent(t);
	return costs_drop(t, e) && search_bound(t, e) && choose_incumbent(t, e);
}
