/* daemon/orchestrate/narrow.c: what one run of the frontier programme sees of the program: the kernels in
 * use, the tensors that they read and make, and these in an order that keeps few of them open at a time.
 *
 * States multiply with the tensors that are made and still read later, so that the order decides over
 * orders of magnitude; and which tensors those are differs with the kernels in use.  Built from the end, so
 * that what may be made or not is asked just before it is of use.  Where that comes out wider than the
 * program's own order, which goes depth first, the program's stays. */
#include "blp_int.h"

#include <math.h>
#include <string.h>

struct narrow {
	struct frontier_in in; /* of the narrow program */
	struct prog g;         /* what the programme reads of it: sizes, in, out, cost, is_wanted */
	struct adjacency out, rows;
	uint32_t *kernel_of; /* kernel -> kernel of the whole program */
};
struct order {
	const struct frontier_in *in;
	uint32_t n; /* tensors of the whole program */
	bool *is_kept;
	struct adjacency after,
	    before;       /* tensor -> tensors made from it by a kernel in use, and the inverse */
	uint32_t *n_open; /* of `after`, those that are not placed yet */
};

static void
find_kept(struct order *o)
{
	const struct prog *g = o->in->g;

	memcpy(o->is_kept, g->is_wanted, sizeof(*o->is_kept) * o->n);
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		for (uint32_t j = g->in.first[k]; o->in->use[k] && j < g->in.first[k + 1]; j++)
			o->is_kept[g->in.item[j]] = true;
		for (uint32_t j = o->in->out->first[k]; o->in->use[k] && j < o->in->out->first[k + 1]; j++)
			o->is_kept[o->in->out->item[j]] = true;
	}
}

/* Each pair of an operand and a later result once. */
static void
find_pairs(struct order *o, struct arena *a, const struct adjacency *makers)
{
	const struct prog *g = o->in->g;
	uint32_t *count = NEW_ARRAY(a, uint32_t, o->n), *seen = NEW_ARRAY(a, uint32_t, o->n);

	for (int pass = 0; pass < 2; pass++) {
		memset(seen, 0xff, sizeof(*seen) * o->n);
		for (uint32_t t = 0; t < o->n; t++) {
			uint32_t n = 0;

			for (uint32_t m = makers->first[t]; m < makers->first[t + 1]; m++) {
				uint32_t k = makers->item[m];

				for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++) {
					uint32_t u = g->in.item[j];

					if (u >= t || seen[u] == t)
						continue;
					seen[u] = t;
					if (pass == 1)
						o->before.item[o->before.first[t] + n] = u;
					n++;
				}
			}
			count[t] = n;
		}
		if (pass == 0)
			o->before = adjacency_make(a, o->n, count);
	}
	o->after = adjacency_invert(a, o->n, o->n, o->before);
}

static struct adjacency
makers_of(struct arena *a, const struct frontier_in *in)
{
	uint32_t n = in->g->n_kernels, *count = NEW_ARRAY(a, uint32_t, n);
	struct adjacency used;

	for (uint32_t k = 0; k < n; k++)
		count[k] = in->use[k] ? in->out->first[k + 1] - in->out->first[k] : 0;
	used = adjacency_make(a, n, count);
	for (uint32_t k = 0; k < n; k++)
		if (count[k])
			memcpy(used.item + used.first[k], in->out->item + in->out->first[k],
			    sizeof(*count) * count[k]);
	return adjacency_invert(a, n, in->g->n_tensors, used);
}

/* Tensor t is placed: how many more are open then. */
static int
place(struct order *o, uint32_t t)
{
	int change = o->n_open[t] > 0;

	for (uint32_t j = o->before.first[t]; j < o->before.first[t + 1]; j++)
		change -= --o->n_open[o->before.item[j]] == 0;
	return change;
}

/* About how many states an order makes: two for each tensor that is open, summed over the steps. */
static double
width_of(struct order *o, const uint32_t *order, uint32_t n)
{
	double sum = 0;
	int open = 0;

	for (uint32_t t = 0; t < o->n; t++)
		o->n_open[t] = o->after.first[t + 1] - o->after.first[t];
	for (uint32_t i = 0; i < n; i++) {
		open += place(o, order[i]);
		sum += exp2(open);
	}
	return sum;
}

/* From the end: of the tensors whose results are placed, the one that opens the fewest operands, among equals
 * the one whose results were placed last. */
static void
order_backwards(struct order *o, struct arena *a, uint32_t *order, uint32_t n)
{
	uint32_t *missing = NEW_ARRAY(a, uint32_t, o->n), *latest = NEW_ARRAY(a, uint32_t, o->n);
	uint32_t *ready = NEW_ARRAY(a, uint32_t, o->n), n_ready = 0;
	bool *is_open = NEW_ARRAY(a, bool, o->n);

	for (uint32_t t = 0; t < o->n; t++) {
		missing[t] = o->after.first[t + 1] - o->after.first[t];
		if (o->is_kept[t] && missing[t] == 0)
			ready[n_ready++] = t;
	}
	while (n_ready) {
		uint32_t best = NONE, least = 0, t;

		for (uint32_t i = 0; i < n_ready; i++) {
			uint32_t change = !is_open[ready[i]];

			for (uint32_t j = o->before.first[ready[i]]; j < o->before.first[ready[i] + 1]; j++)
				change += !is_open[o->before.item[j]];
			if (best == NONE || change < least ||
			    (change == least && latest[ready[i]] > latest[ready[best]])) {
				least = change;
				best = i;
			}
		}
		t = ready[best];
		memmove(&ready[best], &ready[best + 1], sizeof(*ready) * (--n_ready - best));
		order[--n] = t;
		for (uint32_t j = o->before.first[t]; j < o->before.first[t + 1]; j++) {
			uint32_t u = o->before.item[j];

			is_open[u] = true;
			latest[u] = o->n - n;
			if (--missing[u] == 0)
				ready[n_ready++] = u;
		}
	}
}

/* number[t]: its place, NONE where it does not matter.  Returns how many do. */
static uint32_t
number_tensors(struct arena *a, const struct frontier_in *in, uint32_t *number)
{
	uint32_t n_all = in->g->n_tensors, n = 0;
	struct order o = {.in = in,
	    .n = n_all,
	    .is_kept = NEW_ARRAY(a, bool, n_all),
	    .n_open = NEW_ARRAY(a, uint32_t, n_all)};
	struct adjacency makers = makers_of(a, in);
	uint32_t *own = NEW_ARRAY(a, uint32_t, n_all), *other = NEW_ARRAY(a, uint32_t, n_all);

	find_kept(&o);
	find_pairs(&o, a, &makers);
	for (uint32_t t = 0; t < n_all; t++)
		if (o.is_kept[t])
			own[n++] = t;
	order_backwards(&o, a, other, n);
	if (width_of(&o, other, n) < width_of(&o, own, n))
		own = other;
	memset(number, 0xff, sizeof(*number) * n_all);
	for (uint32_t i = 0; i < n; i++)
		number[own[i]] = i;
	return n;
}

/* Lists of the kernels in use, in new numbers, ascending. */
static struct adjacency
renumber(struct arena *a, const struct narrow *x, const struct adjacency *l, const uint32_t *number)
{
	uint32_t n = x->g.n_kernels, *count = NEW_ARRAY(a, uint32_t, n);
	struct adjacency to;

	for (uint32_t k = 0; k < n; k++)
		for (uint32_t j = l->first[x->kernel_of[k]]; j < l->first[x->kernel_of[k] + 1]; j++)
			count[k] += number[l->item[j]] != NONE;
	to = adjacency_make(a, n, count);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t m = to.first[k];

		for (uint32_t j = l->first[x->kernel_of[k]]; j < l->first[x->kernel_of[k] + 1]; j++) {
			uint32_t t = number[l->item[j]], i = m;

			if (t == NONE)
				continue;
			for (; i > to.first[k] && to.item[i - 1] > t; i--)
				to.item[i] = to.item[i - 1];
			to.item[i] = t;
			m++;
		}
	}
	return to;
}

/* Rows as the kernels in use of each. */
static struct adjacency
renumber_rows(struct arena *a, const struct frontier_in *in, const uint32_t *number)
{
	uint32_t *count = NEW_ARRAY(a, uint32_t, in->n_rows), n = 0;
	struct adjacency to;

	for (uint32_t r = 0; r < in->n_rows; r++)
		for (uint32_t j = in->rows->first[r]; j < in->rows->first[r + 1]; j++)
			count[r] += number[in->rows->item[j]] != NONE;
	to = adjacency_make(a, in->n_rows, count);
	for (uint32_t j = 0; j < in->rows->first[in->n_rows]; j++)
		if (number[in->rows->item[j]] != NONE)
			to.item[n++] = number[in->rows->item[j]];
	return to;
}

static void
narrow_make(struct arena *a, const struct frontier_in *in, struct narrow *x)
{
	const struct prog *g = in->g;
	uint32_t *tensor = NEW_ARRAY(a, uint32_t, g->n_tensors),
		 *kernel = NEW_ARRAY(a, uint32_t, g->n_kernels);
	bool *use = NEW_ARRAY(a, bool, g->n_kernels);
	fixed_cost *reduced = NEW_ARRAY(a, fixed_cost, g->n_kernels);

	*x = (struct narrow){.in = *in, .kernel_of = NEW_ARRAY(a, uint32_t, g->n_kernels)};
	x->g.n_tensors = number_tensors(a, in, tensor);
	x->g.cost = NEW_ARRAY(a, int64_t, g->n_kernels);
	x->g.is_wanted = NEW_ARRAY(a, bool, x->g.n_tensors);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (tensor[t] != NONE)
			x->g.is_wanted[tensor[t]] = g->is_wanted[t];
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		uint32_t i = x->g.n_kernels;

		kernel[k] = in->use[k] ? i : NONE;
		if (!in->use[k])
			continue;
		use[i] = true;
		x->kernel_of[i] = k;
		x->g.cost[i] = g->cost[k];
		reduced[i] = in->reduced[k];
		x->g.n_kernels++;
	}
	x->g.in = renumber(a, x, &g->in, tensor);
	x->g.out = renumber(a, x, &g->out, tensor);
	x->out = renumber(a, x, in->out, tensor);
	x->rows = renumber_rows(a, in, kernel);
	x->in.g = &x->g;
	x->in.use = use;
	x->in.out = &x->out;
	x->in.reduced = reduced;
	x->in.rows = &x->rows;
}

void
frontier_run_narrow(struct arena *a, const struct frontier_in *in, struct frontier_out *out)
{
	struct narrow x;

	narrow_make(a, in, &x);
	frontier_run(a, &x.in, out);
	for (uint32_t i = 0; i < out->n_set; i++)
		out->set[i] = x.kernel_of[out->set[i]];
	for (uint32_t i = 0; i < out->n_stuck; i++)
		out->stuck[i] = x.kernel_of[out->stuck[i]];
}
