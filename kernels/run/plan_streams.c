/* kernels/run/plan_streams.c: a plan's steps as what kernels/device/streams.c orders: the bytes that each of
 * them touches, and its recorded cost. */
#include "exec.h"

static bool
is_changing(const struct place *at)
{
	return (at->kind == PLACE_WORK || at->kind == PLACE_OUTPUT) && at->n_bytes > 0;
}

void
streams_uses(struct arena *a, const struct plan *p, struct step_uses *out)
{
	uint32_t n = 0, cap = 0;

	*out = (struct step_uses){
	    .first = NEW_ARRAY(a, uint32_t, (size_t)p->n_steps + 1), .n_steps = p->n_steps};
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct plan_step *s = &p->steps[i];
		const struct plan_kernel *k = &p->kernels[s->kernel];

		for (uint32_t j = 0; j < s->n_places; j++) {
			const struct place *at = &p->places[s->places[j]];

			if (!is_changing(at))
				continue;
			GROW(a, out->use, n, cap);
			out->use[n++] =
			    (struct step_use){.region = at->kind == PLACE_WORK ? 0 : 1 + at->index,
				.from = at->offset,
				.to = at->offset + at->n_bytes,
				.is_written = j >= k->n_operands && !plan_kernel_is_view(k)};
		}
		out->first[i + 1] = n;
	}
}

void
streams_of_plan(struct arena *a, const struct plan *p, uint32_t n_streams, struct streams *out)
{
	struct arena tmp = {0};
	struct step_uses uses;
	struct step_links deps;
	int64_t *cost_ns = NEW_ARRAY(&tmp, int64_t, p->n_steps);

	streams_uses(&tmp, p, &uses);
	if (n_streams <= 1 || p->n_steps > STREAMS_MAX_STEPS || uses.first[p->n_steps] > STREAMS_MAX_USES) {
		streams_one(a, p->n_steps, out);
	} else {
		for (uint32_t i = 0; i < p->n_steps; i++)
			cost_ns[i] = p->kernels[p->steps[i].kernel].cost_ns;
		streams_depend(&tmp, &uses, &deps);
		streams_assign(a, &deps, cost_ns, p->n_steps, n_streams, out);
	}
	arena_fini(&tmp);
}
