/* daemon/orchestrate/frontier.c: a dynamic programme over the tensors in topological order; as a
 * beam it finds plans, without a width it proves that none is cheaper.
 *
 * Before tensor t a state says which tensors are available and which later ones are owed.  At t: it
 * is there already; or it is left out (unless owed or wanted); or one of its makers is picked whose
 * earlier inputs are available.  A kernel is paid once, at its first *used* output: its later
 * outputs are then available, its later inputs owed, its earlier outputs ignored (a plan that uses
 * one of those picks the kernel there).
 *
 * Only bits that a later step can still ask for are kept: tensors share slots by their intervals,
 * and a state is as many words as the widest cut needs.  Equal states keep the cheaper one.  A state
 * is dropped by proof when pi + its reduced costs reach the cost of a known plan, when an earlier
 * state has all it has for less, or when something owed or wanted can no longer be made.
 *
 * Order is ignored where a kernel reads a tensor after the one it makes, so a final set may wait
 * for itself in a circle; the caller branches on that. */
#include "blp_int.h"

#include <stdlib.h>
#include <string.h>

enum { DOMINANCE_WINDOW = 192, MAX_LAYER = 1 << 20 };

struct option { /* picking kernel at a step */
	uint32_t kernel;
	uint32_t need, n_need;  /* slots that must be set: inputs before t */
	uint32_t give, n_give;  /* slots to set: outputs from t on */
	uint32_t pay, n_pay;    /* slots to clear: owed outputs */
	uint32_t owe, n_owe;    /* pairs (avail slot or NONE, owed slot): inputs after t */
};
struct layer {
	uint64_t *mask;
	int64_t *cost;
	fix *red;
	uint32_t *node, *kernel; /* node: of the state itself, or of its parent while growing */
	uint8_t *check;          /* may have died */
	uint32_t n, cap;
};
struct node {
	uint32_t parent, kernel;
};
struct frontier {
	struct arena arena;
	const struct frontier_in *in;
	const struct prog *g;
	struct lists makers;            /* used kernels by tensor */
	uint32_t *last_out;             /* of a kernel */
	/* Of a tensor; NONE.  A slot is the tensor's only from start to end: before and after, the
	 * bit is another's. */
	uint32_t *avail_slot, *avail_start, *avail_end, *owed_slot, *owed_start;
	uint32_t n_slots, words;
	struct lists ends;              /* step -> slots to clear after it */
	struct lists owed_at;           /* step -> tensors whose owed slot begins there */
	struct lists cut;               /* step -> tensors up to it that a later step may read */
	struct lists option_of;         /* step -> numbers in option */
	struct option *option;
	uint32_t *slot;                 /* what need, give, pay, owe index */
	struct layer now, next;
	uint32_t *table, n_table, *order;
	struct node *node;
	uint32_t n_nodes, cap_nodes;
	/* of the test for dead states */
	uint32_t *kernel_stamp, *count_stamp, *count, *queue, stamp;
	bool is_complete;
	uint64_t n_states;
};

static bool
bit(const uint64_t *m, uint32_t slot)
{
	return m[slot >> 6] >> (slot & 63) & 1;
}

static void
set_bit(uint64_t *m, uint32_t slot)
{
	m[slot >> 6] |= (uint64_t)1 << (slot & 63);
}

static void
clear_bit(uint64_t *m, uint32_t slot)
{
	m[slot >> 6] &= ~((uint64_t)1 << (slot & 63));
}

/* ---- setting up -------------------------------------------------------------------------- */
static uint32_t
first_out(const struct frontier *f, uint32_t k)
{
	return f->in->out->item[f->in->out->first[k]];
}

static void
find_intervals(struct frontier *f)
{
	const struct prog *g = f->g;
	uint32_t *avail_start = f->avail_start, *owed_start = f->owed_start;

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		avail_start[t] = t;
		f->avail_end[t] = t;
		owed_start[t] = NONE;
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
				owed_start[u] = MIN_OF(owed_start[u], first_out(f, k));
		}
	}
}

/* Gives each interval a slot; one that ended before a step is free at it. */
static void
place_slots(struct frontier *f)
{
	uint32_t n = f->g->n_tensors, n_free = 0;
	uint32_t *avail_start = f->avail_start, *owed_start = f->owed_start;
	uint32_t *count = NEW_ARRAY(&f->arena, uint32_t, (size_t)n + 1), *freed = NEW_ARRAY(&f->arena, uint32_t, (size_t)n * 2);
	struct lists avail_at;

	find_intervals(f);
	for (uint32_t t = 0; t < n; t++)
		count[avail_start[t]]++;
	avail_at = lists_make(&f->arena, n, count);
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t t = 0; t < n; t++)
		avail_at.item[avail_at.first[avail_start[t]] + count[avail_start[t]]++] = t;
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t t = 0; t < n; t++)
		if (owed_start[t] != NONE)
			count[owed_start[t]]++;
	f->owed_at = lists_make(&f->arena, n, count);
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t t = 0; t < n; t++)
		if (owed_start[t] != NONE)
			f->owed_at.item[f->owed_at.first[owed_start[t]] + count[owed_start[t]]++] = t;
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t t = 0; t < n; t++) {
		f->avail_slot[t] = f->owed_slot[t] = NONE;
		/* Nobody asks after step t, and nothing makes it earlier: no slot. */
		if (f->avail_end[t] > t || avail_start[t] < t)
			count[f->avail_end[t]]++;
		if (owed_start[t] != NONE)
			count[t]++;
	}
	f->ends = lists_make(&f->arena, n, count);
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t s = 0; s < n; s++) {
		for (uint32_t j = avail_at.first[s]; j < avail_at.first[s + 1]; j++) {
			uint32_t t = avail_at.item[j], end = f->avail_end[t];

			if (end == t && avail_start[t] == t)
				continue;
			f->avail_slot[t] = n_free ? freed[--n_free] : f->n_slots++;
			f->ends.item[f->ends.first[end] + count[end]++] = f->avail_slot[t];
		}
		for (uint32_t j = f->owed_at.first[s]; j < f->owed_at.first[s + 1]; j++) {
			uint32_t t = f->owed_at.item[j];

			f->owed_slot[t] = n_free ? freed[--n_free] : f->n_slots++;
			f->ends.item[f->ends.first[t] + count[t]++] = f->owed_slot[t];
		}
		for (uint32_t j = f->ends.first[s]; j < f->ends.first[s + 1]; j++)
			freed[n_free++] = f->ends.item[j];
	}
	f->words = (f->n_slots + 63) / 64 + (f->n_slots == 0);
}

static void
find_cuts(struct frontier *f)
{
	uint32_t n = f->g->n_tensors, *count = NEW_ARRAY(&f->arena, uint32_t, (size_t)n + 1);

	for (uint32_t t = 0; t < n; t++)
		for (uint32_t s = t; s < f->avail_end[t]; s++)
			count[s]++;
	f->cut = lists_make(&f->arena, n, count);
	memset(count, 0, sizeof(*count) * n);
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t s = t; s < f->avail_end[t]; s++)
			f->cut.item[f->cut.first[s] + count[s]++] = t;
}

/* Can tensor u be owed before or at step t? */
static bool
is_owable(const struct frontier *f, uint32_t u, uint32_t t)
{
	return f->owed_slot[u] != NONE && f->owed_start[u] <= t;
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
	o->pay = *n_slot;
	for (uint32_t j = f->in->out->first[k]; j < f->in->out->first[k + 1]; j++)
		if (f->in->out->item[j] >= t && is_owable(f, f->in->out->item[j], t))
			f->slot[(*n_slot)++] = f->owed_slot[f->in->out->item[j]];
	o->n_pay = *n_slot - o->pay;
	o->owe = *n_slot;
	for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
		if (g->in.item[j] > t) {
			f->slot[(*n_slot)++] = f->avail_start[g->in.item[j]] <= t ? f->avail_slot[g->in.item[j]] : NONE;
			f->slot[(*n_slot)++] = f->owed_slot[g->in.item[j]];
		}
	o->n_owe = *n_slot - o->owe;
}

static void
make_options(struct frontier *f)
{
	const struct prog *g = f->g;
	uint32_t n_slot = 0, *count = NEW_ARRAY(&f->arena, uint32_t, g->n_kernels);
	size_t n_items = 0;
	struct lists used;

	for (uint32_t k = 0; k < g->n_kernels; k++) {
		uint32_t n_out = f->in->out->first[k + 1] - f->in->out->first[k];

		if (!f->in->use[k])
			continue;
		count[k] = n_out;
		n_items += (size_t)n_out * (2 * (size_t)(g->in.first[k + 1] - g->in.first[k]) + 2 * (size_t)n_out);
	}
	used = lists_make(&f->arena, g->n_kernels, count);
	for (uint32_t k = 0; k < g->n_kernels; k++)
		if (count[k])
			memcpy(used.item + used.first[k], f->in->out->item + f->in->out->first[k], sizeof(uint32_t) * count[k]);
	f->makers = lists_invert(&f->arena, g->n_kernels, g->n_tensors, used);
	f->option_of = f->makers;
	f->option = NEW_ARRAY(&f->arena, struct option, f->makers.first[g->n_tensors]);
	f->slot = NEW_ARRAY(&f->arena, uint32_t, n_items);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		for (uint32_t j = f->makers.first[t]; j < f->makers.first[t + 1]; j++)
			fill_option(f, &f->option[j], f->makers.item[j], t, &n_slot);
}

/* ---- layers ------------------------------------------------------------------------------ */
static void
layer_reserve(struct layer *l, uint32_t words)
{
	if (l->n < l->cap)
		return;
	l->cap = MAX_OF(1024u, l->cap * 2);
	l->mask = heap_resize(l->mask, sizeof(*l->mask) * words * l->cap);
	l->cost = heap_resize(l->cost, sizeof(*l->cost) * l->cap);
	l->red = heap_resize(l->red, sizeof(*l->red) * l->cap);
	l->node = heap_resize(l->node, sizeof(*l->node) * l->cap);
	l->kernel = heap_resize(l->kernel, sizeof(*l->kernel) * l->cap);
	l->check = heap_resize(l->check, sizeof(*l->check) * l->cap);
}

static void
layer_fini(struct layer *l)
{
	free(l->mask);
	free(l->cost);
	free(l->red);
	free(l->node);
	free(l->kernel);
	free(l->check);
}

static uint64_t
hash_mask(const uint64_t *m, uint32_t words)
{
	uint64_t h = 0;

	for (uint32_t w = 0; w < words; w++)
		h = mix64(h ^ m[w]);
	return h;
}

static void
table_grow(struct frontier *f)
{
	free(f->table);
	f->n_table *= 4;
	f->table = heap_alloc(sizeof(*f->table) * f->n_table);
	for (uint32_t i = 0; i < f->next.n; i++) {
		uint64_t h = hash_mask(f->next.mask + (size_t)i * f->words, f->words);
		uint32_t s = (uint32_t)h & (f->n_table - 1);

		while (f->table[s])
			s = (s + 1) & (f->n_table - 1);
		f->table[s] = i + 1;
	}
}

struct child {
	const uint64_t *mask;
	int64_t cost;
	fix red;
	uint32_t parent, kernel;
	bool check;
};

/* Joins a child to the next layer; of equal states the cheaper one stays. */
static void
put_child(struct frontier *f, const struct child *c)
{
	struct layer *l = &f->next;
	uint32_t s = (uint32_t)hash_mask(c->mask, f->words) & (f->n_table - 1), i;

	while (f->table[s] && memcmp(l->mask + (size_t)(f->table[s] - 1) * f->words, c->mask,
	    sizeof(*c->mask) * f->words) != 0)
		s = (s + 1) & (f->n_table - 1);
	i = f->table[s] ? f->table[s] - 1 : l->n;
	if (i == l->n) {
		if (l->n >= MAX_LAYER) {
			f->is_complete = false;
			return;
		}
		layer_reserve(l, f->words);
		memcpy(l->mask + (size_t)i * f->words, c->mask, sizeof(*c->mask) * f->words);
		l->n++;
		f->table[s] = i + 1;
	} else if (c->cost > l->cost[i] || (c->cost == l->cost[i] && c->red >= l->red[i])) {
		return;
	}
	l->cost[i] = c->cost;
	l->red[i] = c->red;
	l->node[i] = c->parent;
	l->kernel[i] = c->kernel;
	l->check[i] = c->check;
	if (l->n * 2 > f->n_table)
		table_grow(f);
}

static bool
is_over(const struct frontier *f, int64_t cost, fix red)
{
	if (f->in->below == BLP_NEVER)
		return false;
	return cost >= f->in->below || f->in->pi + red > (f->in->below - 1) * FIX_ONE;
}

/* Clears what no later step asks for and joins the child. */
static void
finish_child(struct frontier *f, uint32_t t, uint64_t *mask, struct child *c)
{
	for (uint32_t j = f->ends.first[t]; j < f->ends.first[t + 1]; j++)
		clear_bit(mask, f->ends.item[j]);
	c->mask = mask;
	put_child(f, c);
}

static void
try_option(struct frontier *f, uint32_t t, uint32_t i, const struct option *o, uint64_t *mask)
{
	const struct layer *l = &f->now;
	const uint64_t *m = l->mask + (size_t)i * f->words;
	const uint32_t *slot = f->slot;
	struct child c = {NULL, l->cost[i] + f->g->cost[o->kernel], l->red[i] + f->in->reduced[o->kernel],
	    l->node[i], o->kernel, false};

	for (uint32_t j = 0; j < o->n_need; j++)
		if (!bit(m, slot[o->need + j]))
			return;
	if (is_over(f, c.cost, c.red))
		return;
	memcpy(mask, m, sizeof(*mask) * f->words);
	for (uint32_t j = 0; j < o->n_pay; j++)
		clear_bit(mask, slot[o->pay + j]);
	for (uint32_t j = 0; j < o->n_give; j++)
		set_bit(mask, slot[o->give + j]);
	for (uint32_t j = 0; j < o->n_owe; j += 2) {
		uint32_t avail = slot[o->owe + j], owed = slot[o->owe + j + 1];

		if ((avail != NONE && bit(mask, avail)) || bit(mask, owed))
			continue;
		set_bit(mask, owed);
		c.check = true;
	}
	finish_child(f, t, mask, &c);
}

static void
expand(struct frontier *f, uint32_t t, uint64_t *mask)
{
	const struct layer *l = &f->now;
	uint32_t avail = f->avail_slot[t], owed = f->owed_slot[t];
	bool is_read_later = f->avail_end[t] > t;

	for (uint32_t i = 0; i < l->n; i++) {
		const uint64_t *m = l->mask + (size_t)i * f->words;
		bool is_there = avail != NONE && bit(m, avail);
		bool is_due = f->g->is_wanted[t] || (owed != NONE && bit(m, owed));

		if (is_there || !is_due) {
			struct child c = {NULL, l->cost[i], l->red[i], l->node[i], NONE, !is_there && is_read_later};

			memcpy(mask, m, sizeof(*mask) * f->words);
			finish_child(f, t, mask, &c);
		}
		if (is_there || !(is_due || is_read_later))
			continue;
		for (uint32_t j = f->option_of.first[t]; j < f->option_of.first[t + 1]; j++)
			try_option(f, t, i, &f->option[j], mask);
	}
}

/* ---- dropping ---------------------------------------------------------------------------- */
/* Takes `lost` tensors away and all that cannot be made without them; true when that meets
 * something wanted or owed. */
static bool
is_dead(struct frontier *f, uint32_t t, const uint64_t *m)
{
	const struct prog *g = f->g;
	const struct lists *out = f->in->out;
	uint32_t n = 0;

	f->stamp++;
	for (uint32_t j = f->cut.first[t]; j < f->cut.first[t + 1]; j++)
		if (!bit(m, f->avail_slot[f->cut.item[j]]))
			f->queue[n++] = f->cut.item[j];
	for (uint32_t q = 0; q < n; q++)
		for (uint32_t j = g->readers.first[f->queue[q]]; j < g->readers.first[f->queue[q] + 1]; j++) {
			uint32_t k = g->readers.item[j];

			if (!f->in->use[k] || f->last_out[k] <= t || f->kernel_stamp[k] == f->stamp)
				continue;
			f->kernel_stamp[k] = f->stamp;
			for (uint32_t i = out->first[k]; i < out->first[k + 1]; i++) {
				uint32_t o = out->item[i];

				if (o <= t)
					continue;
				if (f->count_stamp[o] != f->stamp) {
					f->count_stamp[o] = f->stamp;
					f->count[o] = f->makers.first[o + 1] - f->makers.first[o];
				}
				if (--f->count[o] || (f->avail_slot[o] != NONE && f->avail_start[o] <= t &&
				    bit(m, f->avail_slot[o])))
					continue;
				if (g->is_wanted[o] || (is_owable(f, o, t) && bit(m, f->owed_slot[o])))
					return true;
				f->queue[n++] = o;
			}
		}
	return false;
}

struct ranked {
	fix red;
	int64_t cost;
	uint32_t i;
};

static int
by_rank(const void *x, const void *y)
{
	const struct ranked *a = x, *b = y;

	if (a->red != b->red)
		return a->red < b->red ? -1 : 1;
	if (a->cost != b->cost)
		return a->cost < b->cost ? -1 : 1;
	return (a->i > b->i) - (a->i < b->i);
}

/* Does kept state j have all that m has, owe nothing more, and cost no more?  Owed slots are
 * told from available ones by `owed`. */
static bool
is_covered(const struct frontier *f, const struct layer *kept, uint32_t j, const uint64_t *m, int64_t cost,
    const uint64_t *owed)
{
	const uint64_t *k = kept->mask + (size_t)j * f->words;

	if (kept->cost[j] > cost)
		return false;
	for (uint32_t w = 0; w < f->words; w++)
		if ((m[w] & ~k[w] & ~owed[w]) || (k[w] & ~m[w] & owed[w]))
			return false;
	return true;
}

static uint32_t
add_node(struct frontier *f, uint32_t parent, uint32_t kernel)
{
	if (kernel == NONE)
		return parent;
	if (f->n_nodes == f->cap_nodes) {
		f->cap_nodes = MAX_OF(1u << 14, f->cap_nodes * 2);
		f->node = heap_resize(f->node, sizeof(*f->node) * f->cap_nodes);
	}
	f->node[f->n_nodes] = (struct node){parent, kernel};
	return f->n_nodes++;
}

/* Moves the states worth keeping from next to now. */
static void
select_states(struct frontier *f, uint32_t t, struct ranked *rank, const uint64_t *owed)
{
	struct layer *l = &f->next, *kept = &f->now;

	for (uint32_t i = 0; i < l->n; i++)
		rank[i] = (struct ranked){l->red[i], l->cost[i], i};
	qsort(rank, l->n, sizeof(*rank), by_rank);
	kept->n = 0;
	for (uint32_t r = 0; r < l->n; r++) {
		uint32_t i = rank[r].i, j = 0, n_seen;
		const uint64_t *m = l->mask + (size_t)i * f->words;

		if (f->in->width && kept->n >= f->in->width) {
			f->is_complete = false;
			break;
		}
		n_seen = MIN_OF(kept->n, (uint32_t)DOMINANCE_WINDOW);
		while (j < n_seen && !is_covered(f, kept, j, m, l->cost[i], owed))
			j++;
		if (j < n_seen || (l->check[i] && is_dead(f, t, m)))
			continue;
		layer_reserve(kept, f->words);
		memcpy(kept->mask + (size_t)kept->n * f->words, m, sizeof(*m) * f->words);
		kept->cost[kept->n] = l->cost[i];
		kept->red[kept->n] = l->red[i];
		kept->node[kept->n++] = add_node(f, l->node[i], l->kernel[i]);
	}
	f->n_states += kept->n;
}

/* ---- the plans at the end ----------------------------------------------------------------- */
static uint32_t
collect(const struct frontier *f, uint32_t node, uint32_t *set)
{
	uint32_t n = 0;

	for (; node != NONE; node = f->node[node].parent)
		set[n++] = f->node[node].kernel;
	for (uint32_t i = 0; i < n / 2; i++) {
		uint32_t k = set[i];

		set[i] = set[n - 1 - i];
		set[n - 1 - i] = k;
	}
	return n;
}

static void
read_plans(struct frontier *f, struct arena *a, struct frontier_out *out)
{
	struct layer *l = &f->now;
	struct ranked *rank = NEW_ARRAY(&f->arena, struct ranked, l->n);
	uint32_t *set = NEW_ARRAY(a, uint32_t, f->g->n_kernels);

	for (uint32_t i = 0; i < l->n; i++)
		rank[i] = (struct ranked){l->cost[i], 0, i};
	qsort(rank, l->n, sizeof(*rank), by_rank);
	for (uint32_t r = 0; r < l->n && !out->found; r++) {
		uint32_t n = collect(f, l->node[rank[r].i], set);

		if (r == 0)
			out->relaxed = l->cost[rank[r].i];
		out->found = prog_schedule(&f->arena, f->g, set, n, NULL, NULL);
		if (out->found) {
			out->set = set;
			out->n_set = n;
		} else if (r == 0) {
			out->stuck = arena_dup(a, set, sizeof(*set) * n);
			out->n_stuck = n;
		}
	}
}

void
frontier_run(struct arena *a, const struct frontier_in *in, struct frontier_out *out)
{
	struct frontier f = {.in = in, .g = in->g, .is_complete = true, .n_table = 4096};
	uint32_t n = in->g->n_tensors, n_rank = 0;
	uint64_t *mask, *owed;
	struct ranked *rank = NULL;

	*out = (struct frontier_out){.relaxed = BLP_NEVER};
	f.avail_slot = NEW_ARRAY(&f.arena, uint32_t, n);
	f.avail_start = NEW_ARRAY(&f.arena, uint32_t, n);
	f.owed_slot = NEW_ARRAY(&f.arena, uint32_t, n);
	f.owed_start = NEW_ARRAY(&f.arena, uint32_t, n);
	f.avail_end = NEW_ARRAY(&f.arena, uint32_t, n);
	f.last_out = NEW_ARRAY(&f.arena, uint32_t, in->g->n_kernels);
	f.kernel_stamp = NEW_ARRAY(&f.arena, uint32_t, in->g->n_kernels);
	f.count_stamp = NEW_ARRAY(&f.arena, uint32_t, n);
	f.count = NEW_ARRAY(&f.arena, uint32_t, n);
	f.queue = NEW_ARRAY(&f.arena, uint32_t, n);
	place_slots(&f);
	find_cuts(&f);
	make_options(&f);
	mask = NEW_ARRAY(&f.arena, uint64_t, f.words);
	owed = NEW_ARRAY(&f.arena, uint64_t, f.words);
	f.table = heap_alloc(sizeof(*f.table) * f.n_table);
	layer_reserve(&f.now, f.words);
	memset(f.now.mask, 0, sizeof(*mask) * f.words);
	f.now.cost[0] = f.now.red[0] = 0;
	f.now.node[0] = NONE;
	f.now.n = 1;
	for (uint32_t t = 0; t < n; t++) {
		f.next.n = 0;
		memset(f.table, 0, sizeof(*f.table) * f.n_table);
		expand(&f, t, mask);
		if (f.next.n > n_rank) {
			n_rank = f.next.n * 2;
			free(rank);
			rank = heap_alloc(sizeof(*rank) * n_rank);
		}
		for (uint32_t j = f.owed_at.first[t]; j < f.owed_at.first[t + 1]; j++)
			set_bit(owed, f.owed_slot[f.owed_at.item[j]]);
		for (uint32_t j = f.ends.first[t]; j < f.ends.first[t + 1]; j++)
			clear_bit(owed, f.ends.item[j]);
		select_states(&f, t, rank, owed);
		if (f.now.n == 0)
			break;
		if (f.n_states > in->max_states || (in->cancel && *in->cancel)) {
			f.is_complete = false;
			f.now.n = 0;
			break;
		}
	}
	read_plans(&f, a, out);
	out->is_complete = f.is_complete;
	out->n_states = f.n_states;
	layer_fini(&f.now);
	layer_fini(&f.next);
	free(f.table);
	free(f.node);
	free(rank);
	arena_fini(&f.arena);
}
