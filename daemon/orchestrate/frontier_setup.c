/* daemon/orchestrate/frontier_setup.c: what the frontier programme knows before its first step: from when
 * to when each tensor and each row matters, its slot for that time, and what picking a kernel does. */
#include "frontier_int.h"

#include <string.h>

static uint32_t
first_out(const struct frontier *f, uint32_t k)
{
	return f->in->out->item[f->in->out->first[k]];
}

static void
find_intervals(struct frontier *f)
{
	const struct prog *g = f->g;
	uint32_t *avail_start = f->avail_start, *pending_start = f->pending_start;

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		avail_start[t] = t;
		f->avail_end[t] = t;
		pending_start[t] = NONE;
	}
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		if (!f->in->use[k])
			continue;
		f->last_out[k] = f->in->out->item[f->in->out->first[k + 1] - 1];
		for (uint32_t j = f->in->out->first[k]; j < f->in->out->first[k + 1]; j++) {
			uint32_t *s = &avail_start[f->in->out->item[j]];

			*s = MIN_OF(*s, first_out(f, k));
		}
		for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++) {
			uint32_t u = g->in.item[j];

			f->avail_end[u] = MAX_OF(f->avail_end[u], f->last_out[k]);
			if (first_out(f, k) < u)
				pending_start[u] = MIN_OF(pending_start[u], first_out(f, k));
		}
	}
}

/* Gives each interval [start, end] of steps a slot; one that ended before a step is free at it.
 * Without a start (NONE) it has none.  Returns the number of slots. */
static uint32_t
place_slots(struct frontier *f, uint32_t n, const uint32_t *start, const uint32_t *end, uint32_t *slot,
    struct adjacency *ends)
{
	uint32_t n_steps = f->g->n_tensors, n_slots = 0, n_free = 0;
	uint32_t *count = NEW_ARRAY(&f->arena, uint32_t, (size_t)n_steps + 1);
	uint32_t *n_end = NEW_ARRAY(&f->arena, uint32_t, (size_t)n_steps + 1),
		 *freed = NEW_ARRAY(&f->arena, uint32_t, n);
	struct adjacency starts;

	for (uint32_t i = 0; i < n; i++)
		if (start[i] != NONE) {
			count[start[i]]++;
			n_end[end[i]]++;
		}
	starts = adjacency_make(&f->arena, n_steps, count);
	*ends = adjacency_make(&f->arena, n_steps, n_end);
	memset(count, 0, sizeof(*count) * n_steps);
	memset(n_end, 0, sizeof(*n_end) * n_steps);
	for (uint32_t i = 0; i < n; i++) {
		slot[i] = NONE;
		if (start[i] != NONE)
			starts.item[starts.first[start[i]] + count[start[i]]++] = i;
	}
	for (uint32_t s = 0; s < n_steps; s++) {
		for (uint32_t j = starts.first[s]; j < starts.first[s + 1]; j++) {
			uint32_t i = starts.item[j];

			slot[i] = n_free ? freed[--n_free] : n_slots++;
			ends->item[ends->first[end[i]] + n_end[end[i]]++] = slot[i];
		}
		for (uint32_t j = ends->first[s]; j < ends->first[s + 1]; j++)
			freed[n_free++] = ends->item[j];
	}
	return n_slots;
}

/* Slots of tensors: available ones first, then pending ones. */
static void
place_tensors(struct frontier *f)
{
	uint32_t n = f->g->n_tensors, *count = NEW_ARRAY(&f->arena, uint32_t, (size_t)n + 1), n_slots;
	uint32_t *start = NEW_ARRAY(&f->arena, uint32_t, (size_t)n * 2),
		 *end = NEW_ARRAY(&f->arena, uint32_t, (size_t)n * 2);
	uint32_t *slot = NEW_ARRAY(&f->arena, uint32_t, (size_t)n * 2);

	find_intervals(f);
	for (uint32_t t = 0; t < n; t++) {
		/* Nobody asks after step t, and nothing makes it earlier: no slot. */
		start[t] = f->avail_end[t] > t || f->avail_start[t] < t ? f->avail_start[t] : NONE;
		end[t] = f->avail_end[t];
		start[n + t] = f->pending_start[t];
		end[n + t] = t;
		if (f->pending_start[t] != NONE)
			count[f->pending_start[t]]++;
	}
	n_slots = place_slots(f, n * 2, start, end, slot, &f->ends);
	memcpy(f->avail_slot, slot, sizeof(*slot) * n);
	memcpy(f->pending_slot, slot + n, sizeof(*slot) * n);
	f->words = n_slots / 64 + 1;
	f->pending_at = adjacency_make(&f->arena, n, count);
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t t = 0; t < n; t++)
		if (f->pending_start[t] != NONE)
			f->pending_at
			    .item[f->pending_at.first[f->pending_start[t]] + count[f->pending_start[t]]++] =
			    t;
}

/* Slots of rows: from the first step that can pick one of its kernels to the last. */
static void
place_rows(struct frontier *f)
{
	const struct adjacency *rows = f->in->rows;
	uint32_t n = f->in->n_rows, *count = NEW_ARRAY(&f->arena, uint32_t, n), m = 0;
	uint32_t *start = NEW_ARRAY(&f->arena, uint32_t, n), *end = NEW_ARRAY(&f->arena, uint32_t, n);
	struct adjacency used;

	for (uint32_t r = 0; r < n; r++) {
		start[r] = NONE;
		for (uint32_t j = rows->first[r]; j < rows->first[r + 1]; j++) {
			uint32_t k = rows->item[j];

			if (!f->in->use[k])
				continue;
			count[r]++;
			start[r] = MIN_OF(start[r], first_out(f, k));
			end[r] = MAX_OF(end[r], f->last_out[k]);
		}
	}
	f->row_slot = NEW_ARRAY(&f->arena, uint32_t, n);
	f->row_words = place_slots(f, n, start, end, f->row_slot, &f->row_ends) / 64 + 1;
	used = adjacency_make(&f->arena, n, count);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t j = rows->first[r]; j < rows->first[r + 1]; j++)
			if (f->in->use[rows->item[j]])
				used.item[m++] = rows->item[j];
	f->rows_of = adjacency_invert(&f->arena, n, f->g->n_kernels, used);
}

static void
fill_option(struct frontier *f, struct option *o, uint32_t k, uint32_t t, uint32_t *n_slot)
{
	const struct prog *g = f->g;

	o->kernel = k;
	o->need = *n_slot;
	for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
		if (g->in.item[j] < t)
			f->slot[(*n_slot)++] = f->avail_slot[g->in.item[j]];
	o->n_need = *n_slot - o->need;
	o->give = *n_slot;
	for (uint32_t j = f->in->out->first[k]; j < f->in->out->first[k + 1]; j++)
		if (f->in->out->item[j] >= t && f->avail_slot[f->in->out->item[j]] != NONE)
			f->slot[(*n_slot)++] = f->avail_slot[f->in->out->item[j]];
	o->n_give = *n_slot - o->give;
	o->meet = *n_slot;
	for (uint32_t j = f->in->out->first[k]; j < f->in->out->first[k + 1]; j++)
		if (f->in->out->item[j] >= t && can_be_pending(f, f->in->out->item[j], t))
			f->slot[(*n_slot)++] = f->pending_slot[f->in->out->item[j]];
	o->n_met = *n_slot - o->meet;
	o->demand = *n_slot;
	for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
		if (g->in.item[j] > t) {
			f->slot[(*n_slot)++] =
			    f->avail_start[g->in.item[j]] <= t ? f->avail_slot[g->in.item[j]] : NONE;
			f->slot[(*n_slot)++] = f->pending_slot[g->in.item[j]];
		}
	o->n_demand = *n_slot - o->demand;
}

/* Buckets by last output, latest first, so that the test for dead states can stop early. */
static void
make_readers(struct frontier *f)
{
	const struct prog *g = f->g;
	uint32_t *count = NEW_ARRAY(&f->arena, uint32_t, (size_t)g->n_tensors + 1);
	struct adjacency by_last;

	for (uint32_t k = 0; k < g->n_kernels; k++)
		if (f->in->use[k])
			count[g->n_tensors - 1 - f->last_out[k]]++;
	by_last = adjacency_make(&f->arena, g->n_tensors, count);
	memset(count, 0, sizeof(*count) * g->n_tensors);
	for (uint32_t k = 0; k < g->n_kernels; k++)
		if (f->in->use[k]) {
			uint32_t b = g->n_tensors - 1 - f->last_out[k];

			by_last.item[by_last.first[b] + count[b]++] = k;
		}
	memset(count, 0, sizeof(*count) * g->n_tensors);
	for (uint32_t k = 0; k < g->n_kernels; k++)
		for (uint32_t j = g->in.first[k]; f->in->use[k] && j < g->in.first[k + 1]; j++)
			count[g->in.item[j]]++;
	f->readers = adjacency_make(&f->arena, g->n_tensors, count);
	memset(count, 0, sizeof(*count) * g->n_tensors);
	for (uint32_t i = 0; i < by_last.first[g->n_tensors]; i++) {
		uint32_t k = by_last.item[i];

		for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++) {
			uint32_t t = g->in.item[j];

			f->readers.item[f->readers.first[t] + count[t]++] = k;
		}
	}
}

static void
make_options(struct frontier *f)
{
	const struct prog *g = f->g;
	uint32_t n_slot = 0, *count = NEW_ARRAY(&f->arena, uint32_t, g->n_kernels);
	size_t n_items = 0;
	struct adjacency used;

	for (uint32_t k = 0; k < g->n_kernels; k++) {
		uint32_t n_out = f->in->out->first[k + 1] - f->in->out->first[k];

		if (!f->in->use[k])
			continue;
		count[k] = n_out;
		n_items +=
		    (size_t)n_out * (2 * (size_t)(g->in.first[k + 1] - g->in.first[k]) + 2 * (size_t)n_out);
	}
	used = adjacency_make(&f->arena, g->n_kernels, count);
	for (uint32_t k = 0; k < g->n_kernels; k++)
		if (count[k])
			memcpy(used.item + used.first[k], f->in->out->item + f->in->out->first[k],
			    sizeof(uint32_t) * count[k]);
	f->makers = adjacency_invert(&f->arena, g->n_kernels, g->n_tensors, used);
	f->option_of = f->makers;
	f->option = NEW_ARRAY(&f->arena, struct option, f->makers.first[g->n_tensors]);
	f->slot = NEW_ARRAY(&f->arena, uint32_t, n_items);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		for (uint32_t j = f->makers.first[t]; j < f->makers.first[t + 1]; j++)
			fill_option(f, &f->option[j], f->makers.item[j], t, &n_slot);
}

void
frontier_setup(struct frontier *f)
{
	uint32_t n = f->g->n_tensors;

	f->avail_slot = NEW_ARRAY(&f->arena, uint32_t, n);
	f->avail_start = NEW_ARRAY(&f->arena, uint32_t, n);
	f->pending_slot = NEW_ARRAY(&f->arena, uint32_t, n);
	f->pending_start = NEW_ARRAY(&f->arena, uint32_t, n);
	f->avail_end = NEW_ARRAY(&f->arena, uint32_t, n);
	f->last_out = NEW_ARRAY(&f->arena, uint32_t, f->g->n_kernels);
	f->found = NEW_ARRAY(&f->arena, uint32_t, n);
	f->lost = NEW_ARRAY(&f->arena, uint64_t, n);
	f->lost_at = NEW_ARRAY(&f->arena, uint32_t, n);
	f->touched = NEW_ARRAY(&f->arena, uint64_t, n / 64 + 1);
	f->open = NEW_ARRAY(&f->arena, uint32_t, n);
	f->broken = NEW_ARRAY(&f->arena, uint64_t, f->g->n_kernels);
	f->broken_at = NEW_ARRAY(&f->arena, uint32_t, f->g->n_kernels);
	f->witness = NEW_ARRAY(&f->arena, uint32_t, n);
	memset(f->witness, 0xff, sizeof(*f->witness) * n);
	place_tensors(f);
	place_rows(f);
	make_options(f);
	make_readers(f);
	f->has = NEW_ARRAY(&f->arena, uint64_t, (size_t)f->words * 64);
}
