/* daemon/planner/wanted.c: see wanted.h. */
#include "wanted.h"
#include "expect.h"
#include "order.h"

#include <stdlib.h>

/* Whatever is measured, so that the incumbent stays the same until a kernel of it fails. */
static int64_t
bound_alone(const struct tune *t, uint32_t s)
{
	return t->cost[s].state == LAZY_FAILED ? BLP_NEVER : t->cost[s].bound_ns;
}

/* What a plan spends: by its bound where nobody foresees it. */
static int64_t
spends(const struct tune *t, uint32_t s)
{
	return t->is_foreseen ? cost_expected(t, &t->cost[s]) : t->cost[s].bound_ns;
}

struct weight {
	int64_t ns;
	uint32_t spec;
};

static int
heaviest_first(const void *x, const void *y)
{
	const struct weight *a = x, *b = y;

	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	return (a->spec > b->spec) - (a->spec < b->spec);
}

/* A plan's specs, each once, what it spends most on first: where the budget ends among them, the guess is
 * about what matters least. */
static uint32_t *
by_weight(const struct tune *t, struct arena *a, const struct blp_result *plan, uint32_t *n)
{
	int64_t *ns = NEW_ARRAY(a, int64_t, MAX_OF(t->front.cands.n_specs, 1u));
	struct weight *list = NEW_ARRAY(a, struct weight, MAX_OF(plan->n_chosen, 1u));
	uint32_t *specs = NEW_ARRAY(a, uint32_t, MAX_OF(plan->n_chosen, 1u));

	for (uint32_t i = 0; i < plan->n_chosen; i++)
		ns[t->program.spec_of[plan->chosen[i]]] += spends(t, t->program.spec_of[plan->chosen[i]]);
	*n = 0;
	for (uint32_t i = 0; i < plan->n_chosen; i++) {
		uint32_t s = t->program.spec_of[plan->chosen[i]];

		if (ns[s] > 0)
			list[(*n)++] = (struct weight){ns[s], s};
		ns[s] = 0;
	}
	qsort(list, *n, sizeof(*list), heaviest_first);
	for (uint32_t i = 0; i < *n; i++)
		specs[i] = list[i].spec;
	return specs;
}

/* Until there is a measured plan, one of nearly one kernel per operator comes before all that is picked
 * (rewriting may leave no plan of exactly one): without it, a search that ends early has to guess.  Where the
 * predictor knows such kernels, its guess is as good: what it picks comes first. */
bool
wanted_incumbent(struct tune *t, struct err *e)
{
	static const double lean = 4;
	struct arena tmp = {0};
	struct blp_result r;
	bool ok = true,
	     is_wanted =
		 t->best_measured == BLP_NEVER && !t->is_foreseen && str_is(t->start.options.fusion, "full");

	if (is_wanted)
		ok = blp_solve_again(
		    &tmp, t->solver, leaning_costs(t, &tmp, bound_alone, lean), NULL, 0, &r, e);
	if (ok && is_wanted) {
		uint32_t n, *specs = by_weight(t, &tmp, &r, &n);

		ok = costs_measure(t, RANK_INCUMBENT, specs, n, e);
	}
	arena_fini(&tmp);
	return ok;
}

/* Measured by some of its schedules is not measured to a proof. */
static enum lazy_state
state_for(const struct spec_cost *c, enum tune_aim aim)
{
	return aim == AIM_PROVE && c->is_partly && c->state == LAZY_MEASURED ? LAZY_OPEN : c->state;
}

/* What the proof needs of a choice is that it costs as much as the best plan: of its kernels those are looked
 * at that are expected to lift it there. */
struct lazy_out
wanted_next(struct tune *t, enum tune_aim aim, struct arena *tmp)
{
	enum lazy_state *state = NEW_ARRAY(tmp, enum lazy_state, t->front.cands.n_specs);
	int64_t *likely = NEW_ARRAY(tmp, int64_t, t->front.cands.n_specs);
	struct lazy_out out;
	struct lazy_in in = {
	    .blp = &t->program.blp,
	    .choice = &t->choice,
	    .spec_of = t->program.spec_of,
	    .state = state,
	    .n_specs = t->front.cands.n_specs,
	    .measured_cost = t->best_measured,
	    .want = 0,
	};

	for (uint32_t i = 0; i < in.n_specs; i++) {
		const struct spec_cost *c = &t->cost[i];

		state[i] = state_for(c, aim);
		likely[i] = c->measured_ns > 0 ? c->measured_ns : expect_ns(t, c, 0);
	}
	in.expected = aim == AIM_PROVE ? likely : NULL;
	lazy_next(tmp, &in, &out);
	return out;
}

/* Where time is over among them, the guess is about what matters least. */
void
wanted_sort(const struct tune *t, struct arena *tmp, struct lazy_out *want)
{
	uint32_t n, *specs = by_weight(t, tmp, &t->choice, &n);

	want->n_measure = 0;
	for (uint32_t i = 0; i < n; i++)
		if (t->cost[specs[i]].state == LAZY_OPEN)
			want->measure[want->n_measure++] = specs[i];
}

/* The aim is reached by what is known: are there schedules that were left out, and that the plan may gain by?
 */
bool
wanted_closer(struct tune *t, bool may_ask, bool *done, struct err *e)
{
	struct arena tmp = {0};
	uint32_t n = 0, *specs = NULL;
	bool ok = true;

	if (may_ask) {
		specs = order_more(t, &tmp, &n);
		ok = costs_measure(t, RANK_SEARCH, specs, n, e);
		*done = n == 0 && !order_waits(t);
	}
	arena_fini(&tmp);
	return ok;
}
