/* daemon/plan/order.c: an order of the chosen kernels that keeps little memory live.  Greedy:
 * of the kernels that can run, the one that adds least (what it makes less what dies with it); the
 * given order wins ties, and wins altogether where greed did not help. */
#include "plan_make.h"

#include <string.h>

struct order {
	const struct blp *p;
	const size_t *bytes;
	uint32_t *set, n;
	uint32_t *n_readers; /* of a tensor, not yet run */
	bool *is_fixed;      /* given or wanted: costs nothing here */
	bool *have;
	bool *is_run;
};

static void
start(struct order *o)
{
	memset(o->n_readers, 0, sizeof(*o->n_readers) * o->p->n_tensors);
	memset(o->have, 0, sizeof(*o->have) * o->p->n_tensors);
	memset(o->is_run, 0, sizeof(*o->is_run) * o->n);
	for (uint32_t i = 0; i < o->p->n_given; i++)
		o->have[o->p->given[i]] = true;
	for (uint32_t i = 0; i < o->n; i++)
		for (uint32_t j = 0; j < o->p->kernels[o->set[i]].n_in; j++)
			o->n_readers[o->p->kernels[o->set[i]].in[j]]++;
}

static bool
can_run(const struct order *o, uint32_t k)
{
	for (uint32_t j = 0; j < o->p->kernels[k].n_in; j++)
		if (!o->have[o->p->kernels[k].in[j]])
			return false;
	return true;
}

/* Bytes that running k adds to what is live. */
static double
growth(const struct order *o, uint32_t k)
{
	const struct blp_kernel *b = &o->p->kernels[k];
	double sum = 0;

	for (uint32_t j = 0; j < b->n_out; j++)
		if (!o->have[b->out[j]] && !o->is_fixed[b->out[j]] && o->n_readers[b->out[j]])
			sum += (double)o->bytes[b->out[j]];
	for (uint32_t j = 0; j < b->n_in; j++)
		if (!o->is_fixed[b->in[j]] && o->n_readers[b->in[j]] == 1)
			sum -= (double)o->bytes[b->in[j]];
	return sum;
}

/* Runs k: *peak rises to what is live meanwhile, *live moves behind it. */
static void
step(struct order *o, uint32_t k, double *live, double *peak)
{
	const struct blp_kernel *b = &o->p->kernels[k];
	double during = *live;

	for (uint32_t j = 0; j < b->n_out; j++)
		during += o->is_fixed[b->out[j]] || o->have[b->out[j]] ? 0 : (double)o->bytes[b->out[j]];
	*live += growth(o, k);
	for (uint32_t j = 0; j < b->n_in; j++)
		o->n_readers[b->in[j]]--;
	for (uint32_t j = 0; j < b->n_out; j++)
		o->have[b->out[j]] = true;
	*peak = MAX_OF(*peak, during);
}

static double
peak_of(struct order *o, const uint32_t *order)
{
	double live = 0, peak = 0;

	start(o);
	for (uint32_t i = 0; i < o->n; i++)
		step(o, order[i], &live, &peak);
	return peak;
}

void
order_make(struct arena *a, const struct blp *p, const size_t *tensor_bytes, uint32_t *chosen, uint32_t n)
{
	struct arena_mark mark = arena_mark(a);
	struct order o = {.p = p, .bytes = tensor_bytes, .set = chosen, .n = n};
	uint32_t *order = NEW_ARRAY(a, uint32_t, n);
	double live = 0, peak = 0;

	o.n_readers = NEW_ARRAY(a, uint32_t, p->n_tensors);
	o.is_fixed = NEW_ARRAY(a, bool, p->n_tensors);
	o.have = NEW_ARRAY(a, bool, p->n_tensors);
	o.is_run = NEW_ARRAY(a, bool, n);
	for (uint32_t i = 0; i < p->n_given; i++)
		o.is_fixed[p->given[i]] = true;
	for (uint32_t i = 0; i < p->n_wanted; i++)
		o.is_fixed[p->wanted[i]] = true;
	start(&o);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t best = UINT32_MAX;
		double least = 0;

		for (uint32_t j = 0; j < n; j++) {
			double g;

			if (o.is_run[j] || !can_run(&o, chosen[j]))
				continue;
			g = growth(&o, chosen[j]);
			if (best == UINT32_MAX || g < least) {
				best = j;
				least = g;
			}
		}
		if (best == UINT32_MAX)
			bug("the chosen kernels wait for each other after %u of %u", i, n);
		o.is_run[best] = true;
		order[i] = chosen[best];
		step(&o, order[i], &live, &peak);
	}
	if (peak < peak_of(&o, chosen))
		memcpy(chosen, order, sizeof(*order) * n);
	arena_reset(a, mark);
}
