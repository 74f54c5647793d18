/* daemon/orchestrate/frontier_dead.c: states from which no plan can come any more.
 *
 * A tensor that a state left out is never made after; kernels that read it are broken, and a tensor
 * all of whose makers are broken is lost.  A state dies when something wanted or pending is lost.
 * 64 states are followed at once: what is broken and what is lost are words, a bit a state.  Most states
 * of a step lose the same few tensors, and where none of them does, nothing is looked at. */
#include "frontier_int.h"

#include <string.h>

static uint64_t
broken_of(const struct frontier *f, uint32_t k)
{
	return f->broken_at[k] == f->stamp ? f->broken[k] : 0;
}

static uint64_t
lost_of(const struct frontier *f, uint32_t u)
{
	return f->lost_at[u] == f->stamp ? f->lost[u] : 0;
}

/* Tensor u is lost in these states too: what its readers make after t is to be looked at. */
static void
lose(struct frontier *f, uint32_t t, uint32_t u, uint64_t states)
{
	f->lost[u] = lost_of(f, u) | states;
	f->lost_at[u] = f->stamp;
	for (uint32_t j = f->readers.first[u]; j < f->readers.first[u + 1]; j++) {
		uint32_t k = f->readers.item[j];
		uint64_t before;

		if (f->last_out[k] <= t)
			break;
		before = broken_of(f, k);
		if (!(states & ~before))
			continue;
		f->broken[k] = before | states;
		f->broken_at[k] = f->stamp;
		for (uint32_t i = f->in->out->first[k]; i < f->in->out->first[k + 1]; i++)
			if (f->in->out->item[i] > t)
				set_bit(f->touched, f->in->out->item[i]);
	}
}

/* Of these states, those in which no maker of o can run.  The maker that was seen to work is asked first. */
static uint64_t
without_maker(struct frontier *f, uint32_t o, uint64_t states)
{
	if (f->witness[o] != NONE)
		states &= broken_of(f, f->witness[o]);
	for (uint32_t j = f->makers.first[o]; states && j < f->makers.first[o + 1]; j++) {
		states &= broken_of(f, f->makers.item[j]);
		if (!states)
			f->witness[o] = f->makers.item[j];
	}
	return states;
}

/* Tensors before t that are still read behind it: all that can be missing. */
void
frontier_open(struct frontier *f, uint32_t t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n_open; i++)
		if (f->avail_end[f->open[i]] > t)
			f->open[n++] = f->open[i];
	if (f->avail_end[t] > t)
		f->open[n++] = t;
	f->n_open = n;
}

uint64_t
frontier_dead(struct frontier *f, uint32_t t, const uint64_t *const *mask, uint32_t n)
{
	uint64_t all = n == DEAD_BATCH ? UINT64_MAX : ((uint64_t)1 << n) - 1, dead = 0;

	memset(f->has, 0, sizeof(*f->has) * f->words * 64);
	for (uint32_t s = 0; s < n; s++)
		for (uint32_t w = 0; w < f->words; w++)
			for (uint64_t m = mask[s][w]; m; m &= m - 1)
				f->has[w * 64 + (uint32_t)__builtin_ctzll(m)] |= (uint64_t)1 << s;
	f->stamp++;
	for (uint32_t i = 0; i < f->n_open; i++) {
		uint64_t states = all & ~f->has[f->avail_slot[f->open[i]]];

		if (states)
			lose(f, t, f->open[i], states);
	}
	/* Readers make mostly what comes after what they read; where they do not, another turn is due. */
	for (bool again = true; again;) {
		again = false;
		for (uint32_t w = t / 64; w <= (f->g->n_tensors - 1) / 64; w++)
			while (f->touched[w]) {
				uint32_t o = w * 64 + (uint32_t)__builtin_ctzll(f->touched[w]);
				uint64_t states = all & ~dead & ~lost_of(f, o);

				again = true;
				clear_bit(f->touched, o);
				if (f->avail_slot[o] != NONE && f->avail_start[o] <= t)
					states &= ~f->has[f->avail_slot[o]];
				states = without_maker(f, o, states);
				if (!states)
					continue;
				if (f->g->is_wanted[o])
					dead |= states;
				else if (can_be_pending(f, o, t))
					dead |= states & f->has[f->pending_slot[o]];
				lose(f, t, o, states & ~dead);
			}
	}
	return dead;
}
