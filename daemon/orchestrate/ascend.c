/* daemon/orchestrate/ascend.c: landmark rows that raise the bound at once, from reduced costs.
 *
 * Where kernels of reduced cost 0 alone do not make all that is wanted, there is a T with no such
 * kernel in ext(T): its row can take a dual of the least reduced cost in ext(T) as it is.  T grows
 * backwards from what is hardest to reach, through kernels of reduced cost 0, each by the input that
 * is hardest to reach.  Then reduced costs are lowered by that dual and the next T is looked for: many
 * rows between two runs of the simplex, each with a gain of its own, where separation by the solution
 * finds rows by the thousand that hardly move it.  (LM-cut, of delete-free planning.) */
#include "landmark_int.h"

#include <math.h>
#include <string.h>

static const double nothing = 1e-3; /* ns: reduced costs below count as 0 */

struct reach {
	double value;
	uint32_t tensor;
};
struct ascend {
	const struct prog *g;
	double *reduced, *value;  /* per kernel; per tensor: how hard it is to reach, INFINITY: not at all */
	uint32_t *missing, *last; /* per kernel: inputs not reached yet; the one reached last */
	struct reach *heap;
	uint32_t n_heap;
	bool *is_done;
};

static bool
is_before(struct reach a, struct reach b)
{
	if (a.value < b.value || b.value < a.value)
		return a.value < b.value;
	return a.tensor < b.tensor;
}

static void
push(struct ascend *s, struct reach x)
{
	uint32_t i = s->n_heap++;

	for (; i > 0 && is_before(x, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = x;
}

static struct reach
pop(struct ascend *s)
{
	struct reach top = s->heap[0], last = s->heap[--s->n_heap];
	uint32_t i = 0, c;

	while ((c = 2 * i + 1) < s->n_heap) {
		if (c + 1 < s->n_heap && is_before(s->heap[c + 1], s->heap[c]))
			c++;
		if (!is_before(s->heap[c], last))
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	s->heap[i] = last;
	return top;
}

/* Kernel k has all its inputs, the last at `value`. */
static void
reach_outputs(struct ascend *s, uint32_t k, double value)
{
	const struct prog *g = s->g;

	if (!isfinite(s->reduced[k]))
		return;
	value += s->reduced[k];
	for (uint32_t j = g->out.first[k]; j < g->out.first[k + 1]; j++) {
		uint32_t t = g->out.item[j];

		if (value >= s->value[t])
			continue;
		s->value[t] = value;
		push(s, (struct reach){value, t});
	}
}

/* A tensor costs its cheapest maker and that maker's dearest input. */
static void
reach_all(struct ascend *s)
{
	const struct prog *g = s->g;

	s->n_heap = 0;
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		s->value[t] = INFINITY;
		s->is_done[t] = false;
	}
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		s->missing[k] = g->in.first[k + 1] - g->in.first[k];
		s->last[k] = NONE;
		if (s->missing[k] == 0)
			reach_outputs(s, k, 0);
	}
	while (s->n_heap) {
		struct reach r = pop(s);

		if (s->is_done[r.tensor])
			continue;
		s->is_done[r.tensor] = true;
		for (uint32_t j = g->readers.first[r.tensor]; j < g->readers.first[r.tensor + 1]; j++) {
			uint32_t k = g->readers.item[j];

			s->last[k] = r.tensor;
			if (--s->missing[k] == 0)
				reach_outputs(s, k, r.value);
		}
	}
}

static uint32_t
hardest_wanted(const struct ascend *s)
{
	uint32_t best = NONE;

	for (uint32_t t = 0; t < s->g->n_tensors; t++)
		if (s->g->is_wanted[t] && (best == NONE || s->value[t] > s->value[best]))
			best = t;
	return best;
}

/* The input by which kernel k is hardest to reach; NONE: it reads nothing. */
static uint32_t
hardest_input(const struct ascend *s, uint32_t k)
{
	const struct prog *g = s->g;

	for (uint32_t j = g->in.first[k]; s->missing[k] && j < g->in.first[k + 1]; j++)
		if (!s->is_done[g->in.item[j]])
			return g->in.item[j];
	return s->last[k];
}

/* T from `wanted` backwards; the number of kernels in ext(T), whose least reduced cost is *gain. */
static uint32_t
cut(struct landmarks *m, const struct ascend *s, uint32_t wanted, uint32_t *row, double *gain)
{
	const struct prog *g = m->g;
	struct separation *sep = m->sep;
	uint32_t n = 0;

	memset(sep->T, 0, sizeof(*sep->T) * m->words_t);
	put(sep->T, wanted);
	sep->added[0] = wanted;
	sep->n_added = 1;
	for (uint32_t q = 0; q < sep->n_added; q++)
		for (uint32_t j = g->makers.first[sep->added[q]]; j < g->makers.first[sep->added[q] + 1];
		     j++) {
			uint32_t k = g->makers.item[j], u;

			if (s->reduced[k] > nothing || reads_any(g, k, sep->T) ||
			    (u = hardest_input(s, k)) == NONE)
				continue;
			put(sep->T, u);
			sep->added[sep->n_added++] = u;
		}
	sep->now++;
	*gain = INFINITY;
	for (uint32_t i = 0; i < sep->n_added; i++)
		for (uint32_t j = g->makers.first[sep->added[i]]; j < g->makers.first[sep->added[i] + 1];
		     j++) {
			uint32_t k = g->makers.item[j];

			if (sep->stamp[k] == sep->now || reads_any(g, k, sep->T))
				continue;
			sep->stamp[k] = sep->now;
			*gain = fmin(*gain, s->reduced[k]);
			row[n++] = k;
		}
	return n;
}

uint32_t
landmarks_ascend(struct landmarks *m, double *reduced, uint32_t max_rows)
{
	const struct prog *g = m->g;
	struct arena tmp = {0};
	struct ascend s = {.g = g,
	    .reduced = reduced,
	    .value = NEW_ARRAY(&tmp, double, g->n_tensors),
	    .missing = NEW_ARRAY(&tmp, uint32_t, g->n_kernels),
	    .last = NEW_ARRAY(&tmp, uint32_t, g->n_kernels),
	    .heap = NEW_ARRAY(&tmp, struct reach, (size_t)g->out.first[g->n_kernels] + 1),
	    .is_done = NEW_ARRAY(&tmp, bool, g->n_tensors)};
	uint32_t before = m->n_rows, *row = NEW_ARRAY(&tmp, uint32_t, g->n_kernels), n;
	double gain;

	for (uint32_t i = 0; i < max_rows; i++) {
		uint32_t w;

		reach_all(&s);
		w = hardest_wanted(&s);
		if (w == NONE || !(s.value[w] > nothing) || !isfinite(s.value[w]))
			break;
		n = cut(m, &s, w, row, &gain);
		if (n == 0 || !(gain > nothing) || !isfinite(gain))
			break;
		for (uint32_t j = 0; j < n; j++)
			reduced[row[j]] -= gain;
		landmarks_add_row(m, row, n);
	}
	arena_fini(&tmp);
	return m->n_rows - before;
}
