/* daemon/orchestrate/lazy.c: which specs to measure next.
 *
 * All costs are at most what a measurement would say, so the solution's cost is at most the optimum,
 * and a plan that uses kernel k costs at least pi + reduced[k].  Once a plan is known whose kernels
 * are all measured, a kernel whose bound reaches its cost is in no better plan, whatever its true
 * cost: it need never be measured. */
#include "lazy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct wish {
	double reduced;
	uint32_t spec;
};

static int
cheapest_first(const void *x, const void *y)
{
	const struct wish *a = x, *b = y;

	if (a->reduced < b->reduced || b->reduced < a->reduced)
		return a->reduced < b->reduced ? -1 : 1;
	return (a->spec > b->spec) - (a->spec < b->spec);
}

/* The least reduced cost of a spec's kernels: several candidates share a spec, and its cost. */
static double *
least_reduced(struct arena *a, const struct lazy_in *in)
{
	double *r = NEW_ARRAY(a, double, in->n_specs);

	for (uint32_t s = 0; s < in->n_specs; s++)
		r[s] = HUGE_VAL;
	for (uint32_t k = 0; k < in->blp->n_kernels; k++)
		if (in->blp->kernels[k].cost != BLP_NEVER)
			r[in->spec_of[k]] = fmin(r[in->spec_of[k]], in->choice->reduced[k]);
	return r;
}

static int64_t
cost_of(const struct blp *p, uint32_t kernel)
{
	return p->kernels[kernel].cost == BLP_NEVER ? 0 : p->kernels[kernel].cost;
}

/* What is expected of a spec above its cost, over all of the choice's kernels that have it. */
static double *
lifts(struct arena *a, const struct lazy_in *in)
{
	double *lift = NEW_ARRAY(a, double, in->n_specs);

	for (uint32_t i = 0; i < in->choice->n_chosen; i++) {
		uint32_t k = in->choice->chosen[i], s = in->spec_of[k];

		lift[s] += fmax((double)in->expected[s] - (double)cost_of(in->blp, k), 0);
	}
	return lift;
}

/* Of what is chosen and open, what lifts the choice most comes first, and no more than lifts it to the best
 * measured plan: the proof needs it no higher.  What is out counts as if it had come as expected. */
static void
keep_lifting(struct arena *a, const struct lazy_in *in, struct lazy_out *out)
{
	const double *lift = lifts(a, in);
	double at = (double)in->choice->cost;
	struct wish *wish = NEW_ARRAY(a, struct wish, in->n_specs);
	uint32_t n = out->n_measure;
	bool *is_counted = NEW_ARRAY(a, bool, in->n_specs);

	for (uint32_t i = 0; i < in->choice->n_chosen; i++) {
		uint32_t s = in->spec_of[in->choice->chosen[i]];

		if (in->state[s] == LAZY_WAITING && !is_counted[s])
			at += lift[s];
		is_counted[s] = true;
	}
	for (uint32_t i = 0; i < n; i++)
		wish[i] = (struct wish){-lift[out->measure[i]], out->measure[i]};
	qsort(wish, n, sizeof(*wish), cheapest_first);
	out->n_measure = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (at >= (double)in->measured_cost && (out->n_measure || out->n_chosen_open > n))
			return;
		at -= wish[i].reduced;
		out->measure[out->n_measure++] = wish[i].spec;
	}
}

void
lazy_next(struct arena *a, const struct lazy_in *in, struct lazy_out *out)
{
	double *reduced = least_reduced(a, in);
	bool *is_listed = NEW_ARRAY(a, bool, in->n_specs);
	struct wish *wish = NEW_ARRAY(a, struct wish, in->n_specs);
	uint32_t n_wish = 0, n_waiting = 0;

	*out = (struct lazy_out){.measure = NEW_ARRAY(a, uint32_t, in->n_specs)};
	for (uint32_t i = 0; i < in->choice->n_chosen; i++) {
		uint32_t s = in->spec_of[in->choice->chosen[i]];

		if (is_listed[s] || in->state[s] == LAZY_MEASURED)
			continue;
		is_listed[s] = true;
		out->n_chosen_open++;
		if (in->state[s] == LAZY_OPEN)
			out->measure[out->n_measure++] = s;
	}
	out->done = out->n_chosen_open == 0;
	if (in->expected && in->measured_cost != BLP_NEVER)
		keep_lifting(a, in, out);
	for (uint32_t s = 0; s < in->n_specs; s++) {
		bool is_useless = in->measured_cost != BLP_NEVER &&
		    in->choice->pi + reduced[s] >= (double)in->measured_cost;

		n_waiting += in->state[s] == LAZY_WAITING;
		if (in->state[s] == LAZY_OPEN && is_useless && !is_listed[s])
			out->n_useless++;
		if (in->state[s] == LAZY_OPEN && !is_useless && !is_listed[s] && isfinite(reduced[s]))
			wish[n_wish++] = (struct wish){reduced[s], s};
	}
	qsort(wish, n_wish, sizeof(*wish), cheapest_first);
	for (uint32_t i = 0; i < n_wish && !out->done && out->n_measure + n_waiting < in->want; i++)
		out->measure[out->n_measure++] = wish[i].spec;
}
