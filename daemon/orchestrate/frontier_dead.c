/* daemon/orchestrate/frontier_dead.c: states from which no plan can come any more.
 *
 * A tensor that a state left out is never made after; kernels that read it are broken, and a tensor
 * all of whose makers are broken is unmakeable.  A state dies when something wanted or pending is unmakeable.
 * Each state keeps what is unmakeable, so that a child follows only what is new; a state that dies is
 * followed to the end of the graph, so the reason is kept and refutes its likes at the same step at once. */
#include "frontier_int.h"

#include <string.h>

/* Does kernel k read something that is not there and will not come?  With `before`: not counting
 * what was found in this call of frontier_is_dead(). */
static bool
is_broken(const struct frontier *f, uint32_t t, const uint64_t *m, const uint64_t *unmakeable, uint32_t k,
    bool before)
{
	for (uint32_t j = f->g->in.first[k]; j < f->g->in.first[k + 1]; j++) {
		uint32_t u = f->g->in.item[j];

		if ((u <= t ? !bit(m, f->avail_slot[u]) : bit(unmakeable, u)) &&
		    !(before && f->found[u] == f->stamp))
			return true;
	}
	return false;
}

/* The maker that was seen to work is asked first. */
static bool
has_maker(struct frontier *f, uint32_t t, const uint64_t *m, const uint64_t *unmakeable, uint32_t o)
{
	if (f->avail_slot[o] != NONE && f->avail_start[o] <= t && bit(m, f->avail_slot[o]))
		return true;
	if (f->witness[o] != NONE && !is_broken(f, t, m, unmakeable, f->witness[o], false))
		return true;
	for (uint32_t j = f->makers.first[o]; j < f->makers.first[o + 1]; j++)
		if (!is_broken(f, t, m, unmakeable, f->makers.item[j], false)) {
			f->witness[o] = f->makers.item[j];
			return true;
		}
	return false;
}

/* Follows kernel k, which has lost an input.  True when that leaves something wanted or pending without
 * a maker; other tensors without one join the queue. */
static bool
follow_kernel(struct frontier *f, uint32_t t, const uint64_t *m, uint64_t *unmakeable, uint32_t k,
    uint32_t *n_queue, uint32_t *wanted)
{
	for (uint32_t i = f->in->out->first[k]; i < f->in->out->first[k + 1]; i++) {
		uint32_t o = f->in->out->item[i];

		if (o <= t || bit(unmakeable, o) || has_maker(f, t, m, unmakeable, o))
			continue;
		if (f->g->is_wanted[o])
			*wanted = o;
		if (f->g->is_wanted[o] || (can_be_pending(f, o, t) && bit(m, f->pending_slot[o])))
			return true;
		set_bit(unmakeable, o);
		f->found[o] = f->stamp;
		f->queue[(*n_queue)++] = o;
	}
	return false;
}

/* A reason why states die at this step: none of these slots is set. */
static bool
is_refuted(const struct frontier *f, const uint64_t *m)
{
	for (uint32_t c = 0; c < f->n_no_goods; c++) {
		const uint64_t *r = f->no_good + (size_t)c * f->words;
		uint32_t w = 0;

		while (w < f->words && !(m[w] & r[w]))
			w++;
		if (w == f->words)
			return true;
	}
	return false;
}

/* Takes all that is missing in m and follows it, noting for each kernel which input broke it; then
 * walks back from the wanted tensor `w` to the slots whose absence was used. */
static void
learn(struct frontier *f, uint32_t t, const uint64_t *m, uint32_t w)
{
	uint32_t n = 0;
	uint64_t *r;

	if (f->n_no_goods == MAX_NO_GOODS)
		return;
	f->stamp++;
	for (uint32_t u = 0; u <= t; u++)
		if (f->avail_end[u] > t && !bit(m, f->avail_slot[u]))
			f->queue[n++] = u;
	for (uint32_t q = 0; q < n; q++)
		for (uint32_t j = f->readers.first[f->queue[q]]; j < f->readers.first[f->queue[q] + 1]; j++) {
			uint32_t k = f->readers.item[j];

			if (f->last_out[k] <= t)
				break;
			if (f->broken[k] == f->stamp)
				continue;
			f->broken[k] = f->stamp;
			f->cause[k] = f->queue[q];
			for (uint32_t i = f->in->out->first[k]; i < f->in->out->first[k + 1]; i++) {
				uint32_t o = f->in->out->item[i];

				if (o <= t)
					continue;
				if (f->found[o] != f->stamp) {
					f->found[o] = f->stamp;
					f->count[o] = f->makers.first[o + 1] - f->makers.first[o];
				}
				if (--f->count[o] == 0 &&
				    !(f->avail_slot[o] != NONE && f->avail_start[o] <= t &&
					bit(m, f->avail_slot[o])))
					f->queue[n++] = o;
			}
		}
	if (f->found[w] != f->stamp || f->count[w])
		return;
	r = f->no_good + (size_t)f->n_no_goods++ * f->words;
	memset(r, 0, sizeof(*r) * f->words);
	f->stamp++;
	f->queue[0] = w;
	f->found[w] = f->stamp;
	n = 1;
	for (uint32_t q = 0; q < n; q++) {
		uint32_t o = f->queue[q];

		/* A tensor that is not made yet, or one that never will be: it must not be there. */
		if (f->avail_slot[o] != NONE && f->avail_start[o] <= t)
			set_bit(r, f->avail_slot[o]);
		for (uint32_t j = f->makers.first[o]; o > t && j < f->makers.first[o + 1]; j++) {
			uint32_t u = f->cause[f->makers.item[j]];

			if (f->found[u] == f->stamp)
				continue;
			f->found[u] = f->stamp;
			f->queue[n++] = u;
		}
	}
}

/* A state whose parent lives dies only of what is new: kernel owes inputs, or (NONE) tensor t was left
 * out.  Follows what can no longer be made from t on, and keeps it in `unmakeable`.  A state that dies
 * is followed to the end of the graph, so the reason is kept for others. */
bool
frontier_is_dead(struct frontier *f, uint32_t t, const uint64_t *m, uint64_t *unmakeable, uint32_t kernel)
{
	const struct prog *g = f->g;
	uint32_t n = 0, wanted = NONE;

	for (uint32_t j = kernel == NONE ? 0 : g->in.first[kernel];
	     kernel != NONE && j < g->in.first[kernel + 1]; j++)
		if (g->in.item[j] > t && bit(unmakeable, g->in.item[j]))
			return true;
	if (kernel != NONE)
		return false;
	if (is_refuted(f, m))
		return true;
	f->stamp++;
	f->found[t] = f->stamp;
	f->queue[n++] = t;
	for (uint32_t q = 0; q < n; q++)
		for (uint32_t j = f->readers.first[f->queue[q]]; j < f->readers.first[f->queue[q] + 1]; j++) {
			uint32_t k = f->readers.item[j];

			if (f->last_out[k] <= t)
				break;
			/* Broken before: nothing counted on it. */
			if (is_broken(f, t, m, unmakeable, k, true) ||
			    !follow_kernel(f, t, m, unmakeable, k, &n, &wanted))
				continue;
			if (wanted != NONE)
				learn(f, t, m, wanted);
			return true;
		}
	return false;
}
