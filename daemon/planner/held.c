/* daemon/planner/held.c: kernels that are built as they were before, whatever is known of them by now. */
#include "held.h"

const struct held *
held_find(const struct tune *t, uint32_t s)
{
	for (uint32_t i = 0; i < t->n_held; i++)
		if (t->held[i].spec == s)
			return &t->held[i];
	return NULL;
}

bool
held_is_guess(const struct tune *t, uint32_t s)
{
	const struct held *h = held_find(t, s);

	return h ? h->cost_ns <= 0 : t->cost[s].measured_ns <= 0;
}

struct held *
held_now(struct tune *t, struct arena *a, const uint32_t *chosen, uint32_t n)
{
	struct held *out = NEW_ARRAY(a, struct held, MAX_OF(n, 1u));

	for (uint32_t i = 0; i < n; i++) {
		uint32_t s = t->program.spec_of[chosen[i]];

		const struct held *h = held_find(t, s);

		if (h)
			out[i] = *h;
		else if (cand_is_view(&t->front.cands, s))
			out[i] = (struct held){.spec = s, .schedule = STR(""), .cost_ns = 1};
		else
			out[i] = (struct held){s, finish_schedule(t, s), MAX_OF(t->cost[s].measured_ns, 0)};
	}
	return out;
}

int64_t *
held_show(struct tune *t, struct arena *a)
{
	int64_t *was = NEW_ARRAY(a, int64_t, MAX_OF(t->program.n_kernels, 1u));

	for (uint32_t k = 0; k < t->program.n_kernels; k++) {
		const struct held *h = held_find(t, t->program.spec_of[k]);

		was[k] = t->program.kernels[k].cost;
		if (h && was[k] != BLP_NEVER)
			t->program.kernels[k].cost = MAX_OF(was[k], h->cost_ns);
	}
	return was;
}

void
held_hide(struct tune *t, const int64_t *was)
{
	for (uint32_t k = 0; k < t->program.n_kernels; k++)
		t->program.kernels[k].cost = was[k];
}
