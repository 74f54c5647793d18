/* daemon/orchestrate/greedy.c: a plan for the first moment, and less of a plan. */
#include "blp_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A heap of kernels by value; entries may be out of date, popping checks. */
struct entry {
	double value;
	uint32_t kernel;
};
struct heap {
	struct entry *e;
	uint32_t n, cap;
};

static bool
is_less(struct entry a, struct entry b)
{
	if (a.value < b.value || b.value < a.value)
		return a.value < b.value;
	return a.kernel < b.kernel;
}

static void
push(struct arena *a, struct heap *h, struct entry x)
{
	uint32_t i = h->n;

	GROW(a, h->e, h->n, h->cap);
	h->n++;
	for (; i > 0 && is_less(x, h->e[(i - 1) / 2]); i = (i - 1) / 2)
		h->e[i] = h->e[(i - 1) / 2];
	h->e[i] = x;
}

static struct entry
pop(struct heap *h)
{
	struct entry top = h->e[0], last = h->e[--h->n];
	uint32_t i = 0, c;

	while ((c = 2 * i + 1) < h->n) {
		if (c + 1 < h->n && is_less(h->e[c + 1], h->e[c]))
			c++;
		if (!is_less(h->e[c], last))
			break;
		h->e[i] = h->e[c];
		i = c;
	}
	h->e[i] = last;
	return top;
}

/* Knuth's generalisation of Dijkstra: maker[t] is the kernel of least cost plus values of its inputs,
 * so that following makers back never goes round. */
static uint32_t *
cheapest_makers(struct arena *a, const struct prog *g)
{
	uint32_t *maker = NEW_ARRAY(a, uint32_t, g->n_tensors),
		 *missing = NEW_ARRAY(a, uint32_t, g->n_kernels);
	double *value = NEW_ARRAY(a, double, g->n_kernels);
	struct heap h = {0};

	memset(maker, 0xff, sizeof(*maker) * g->n_tensors);
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		missing[k] = g->in.first[k + 1] - g->in.first[k];
		value[k] = g->cost[k] == BLP_NEVER ? INFINITY : (double)g->cost[k];
		if (missing[k] == 0 && isfinite(value[k]))
			push(a, &h, (struct entry){value[k], k});
	}
	while (h.n) {
		struct entry x = pop(&h);

		for (uint32_t j = g->out.first[x.kernel]; j < g->out.first[x.kernel + 1]; j++) {
			uint32_t t = g->out.item[j];

			if (maker[t] != NONE)
				continue;
			maker[t] = x.kernel;
			for (uint32_t i = g->readers.first[t]; i < g->readers.first[t + 1]; i++) {
				uint32_t r = g->readers.item[i];

				value[r] += x.value;
				if (--missing[r] == 0 && isfinite(value[r]))
					push(a, &h, (struct entry){value[r], r});
			}
		}
	}
	return maker;
}

bool
greedy_plan(struct arena *a, const struct prog *g, uint32_t **set, uint32_t *n, uint32_t *missing)
{
	uint32_t *maker = cheapest_makers(a, g), *queue = NEW_ARRAY(a, uint32_t, g->n_tensors), n_queue = 0;
	bool *is_queued = NEW_ARRAY(a, bool, g->n_tensors), *is_in = NEW_ARRAY(a, bool, g->n_kernels);

	*set = NEW_ARRAY(a, uint32_t, g->n_kernels);
	*n = 0;
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (g->is_wanted[t]) {
			is_queued[t] = true;
			queue[n_queue++] = t;
		}
	for (uint32_t q = 0; q < n_queue; q++) {
		uint32_t k = maker[queue[q]];

		if (k == NONE) {
			*missing = queue[q];
			return false;
		}
		if (is_in[k])
			continue;
		is_in[k] = true;
		(*set)[(*n)++] = k;
		for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
			if (!is_queued[g->in.item[j]]) {
				is_queued[g->in.item[j]] = true;
				queue[n_queue++] = g->in.item[j];
			}
	}
	for (uint32_t i = 0; i < *n / 2; i++) {
		uint32_t k = (*set)[i];

		(*set)[i] = (*set)[*n - 1 - i];
		(*set)[*n - 1 - i] = k;
	}
	greedy_trim(a, g, *set, n);
	return true;
}

struct by_cost {
	int64_t cost;
	uint32_t kernel;
};

static int
dearest_first(const void *x, const void *y)
{
	const struct by_cost *a = x, *b = y;

	if (a->cost != b->cost)
		return a->cost > b->cost ? -1 : 1;
	return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

/* Does every output of k have another maker in the plan, or nobody who needs it? */
static bool
looks_idle(const struct prog *g, uint32_t k, const uint32_t *n_makers, const uint32_t *n_readers)
{
	for (uint32_t j = g->out.first[k]; j < g->out.first[k + 1]; j++) {
		uint32_t t = g->out.item[j];

		if (n_makers[t] < 2 && (n_readers[t] || g->is_wanted[t]))
			return false;
	}
	return true;
}

void
greedy_trim(struct arena *tmp, const struct prog *g, uint32_t *set, uint32_t *n)
{
	struct arena_mark mark = arena_mark(tmp);
	uint32_t *n_makers = NEW_ARRAY(tmp, uint32_t, g->n_tensors),
		 *n_readers = NEW_ARRAY(tmp, uint32_t, g->n_tensors);
	struct by_cost *order = NEW_ARRAY(tmp, struct by_cost, *n);
	uint32_t *trial = NEW_ARRAY(tmp, uint32_t, *n), n_order = *n;

	for (uint32_t i = 0; i < *n; i++) {
		order[i] = (struct by_cost){g->cost[set[i]], set[i]};
		for (uint32_t j = g->out.first[set[i]]; j < g->out.first[set[i] + 1]; j++)
			n_makers[g->out.item[j]]++;
		for (uint32_t j = g->in.first[set[i]]; j < g->in.first[set[i] + 1]; j++)
			n_readers[g->in.item[j]]++;
	}
	qsort(order, n_order, sizeof(*order), dearest_first);
	for (uint32_t i = 0; i < n_order; i++) {
		uint32_t k = order[i].kernel, m = 0;

		if (!looks_idle(g, k, n_makers, n_readers))
			continue;
		for (uint32_t j = 0; j < *n; j++)
			if (set[j] != k)
				trial[m++] = set[j];
		if (!prog_schedule(tmp, g, trial, m, NULL, NULL))
			continue;
		memcpy(set, trial, sizeof(*set) * m);
		*n = m;
		for (uint32_t j = g->out.first[k]; j < g->out.first[k + 1]; j++)
			n_makers[g->out.item[j]]--;
		for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
			n_readers[g->in.item[j]]--;
	}
	prog_schedule(tmp, g, set, *n, NULL, NULL);
	arena_reset(tmp, mark);
}
