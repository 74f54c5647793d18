/* daemon/planner/away.c: a plan for a device that is not here (--predict): chosen by what was measured on its
 * class and what is expected of the rest.  It says how far off that may be: all kernels may err alike (one
 * device, one model), so the ends of their intervals add up. */
#include "away.h"
#include "expect.h"
#include "perturb.h"

bool
away_has_no_builder(const struct tune *t)
{
	return t->start.options.predict && !t->has_worker;
}

/* Sum over the steps of the choice. */
static struct expect_range
range_of_choice(const struct tune *t)
{
	struct expect_range sum = {0};

	for (uint32_t i = 0; i < t->choice.n_chosen; i++) {
		uint32_t s = t->program.spec_of[t->choice.chosen[i]];
		struct expect_range r = expect_range(t, &t->cost[s]);

		if (cand_is_view(&t->front.cands, s))
			continue;
		sum.ns += r.ns;
		sum.low_ns += r.low_ns;
		sum.high_ns += r.high_ns;
	}
	return sum;
}

void
away_note(struct tune *t)
{
	struct expect_range r;
	struct m_progress *p = &t->progress;

	if (!t->start.options.predict)
		return;
	expect_learn(t);
	r = range_of_choice(t);
	p->predicted_ns = (int64_t)r.ns;
	p->predicted_low_ns = (int64_t)r.low_ns;
	p->predicted_high_ns = (int64_t)r.high_ns;
	p->stop = str_of(arena_printf(t->arena, "predicted for %.*s, %s", STR_ARG(t->start.env.class),
	    away_has_no_builder(t) ? "nothing built or checked on it" : "built there"));
}

void
away_tell(const struct tune *t, struct plan *plan)
{
	if (!t->start.options.predict)
		return;
	plan->expected = NEW_ARRAY(t->arena, struct plan_expected, MAX_OF(plan->n_kernels, 1u));
	for (uint32_t i = 0; i < plan->n_kernels; i++) {
		struct hash spec = hash_bytes(plan->kernels[i].spec.p, plan->kernels[i].spec.n);
		struct expect_range r;
		uint32_t s;

		if (plan_kernel_is_view(&plan->kernels[i]) || plan->kernels[i].is_measured ||
		    !cost_find(t, &spec, &s))
			continue;
		r = expect_range(t, &t->cost[s]);
		plan->expected[plan->n_expected++] =
		    (struct plan_expected){i, (int64_t)r.ns, (int64_t)r.low_ns, (int64_t)r.high_ns};
	}
}
