/* daemon/planner/settle.c: the best plan of measured kernels, sought once more at the end.
 *
 * While the search goes on, that plan is sought with the duals of the optimistic program; bounds are less
 * than half of what kernels take, so those prune little and the beam decides.  A program of the measured
 * kernels alone has duals that fit. */
#include "tune.h"

void
settle_better(struct tune *t, struct blp_result *plan)
{
	static const struct blp_limits limits = {.beam_width = 400, .max_rounds = 40, .max_states = 2000000};
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
