/* daemon/orchestrate/frontier.c: a dynamic programme over the tensors in topological order; as a
 * beam it finds plans, without a width it proves that none is cheaper.
 *
 * Before tensor t a state says which tensors are available and which later ones are pending.  At t: it
 * is there already; or it is left out (unless pending or wanted); or one of its makers is picked whose
 * earlier inputs are available.  A kernel is paid once, at its first *used* output: its later
 * outputs are then available, its later inputs pending, its earlier outputs ignored (a plan that uses
 * one of those picks the kernel there).
 *
 * Only bits that a later step can still ask for are kept: tensors share slots by their intervals,
 * and a state is as many words as the widest cut needs.  Of equal states the cheaper one stays.  A state
 * is dropped by proof when its bound reaches the cost of a known plan, when an earlier state has
 * all it has for less, or when something pending or wanted can no longer be made.  The bound: what the
 * path cost plus the duals of the rows it has not met, that is pi + its reduced costs + the duals of
 * rows that it met again.
 *
 * Order is ignored where a kernel reads a tensor after the one it makes: such a path is unordered, and
 * may wait for itself in a circle.  Then it is no plan, and rows, which all plans meet, say nothing of
 * it.  So an unordered state never takes the place of one that is not, and one that stands for other
 * unordered ones takes the weakest bound.  The caller branches on a final set that waits in a circle. */
#include "frontier_int.h"

#include <stdlib.h>
#include <string.h>

enum {
	DOMINANCE_WINDOW = 192,
	MAX_LATE = 64,
	MADE_PER_STATE = 16,
	ASK_EVERY = 256,
	MAX_LAYER = 1 << 20,
	MAX_LAYER_BYTES = 96 << 20
};

/* ---- layers ------------------------------------------------------------------------------ */
static void
layer_reserve(struct layer *l, uint32_t words, uint32_t row_words)
{
	if (l->n < l->cap)
		return;
	l->cap = MAX_OF(1024u, l->cap * 2);
	l->mask = heap_resize(l->mask, sizeof(*l->mask) * words * l->cap);
	l->rows_met = heap_resize(l->rows_met, sizeof(*l->rows_met) * row_words * l->cap);
	l->cost = heap_resize(l->cost, sizeof(*l->cost) * l->cap);
	l->red = heap_resize(l->red, sizeof(*l->red) * l->cap);
	l->node = heap_resize(l->node, sizeof(*l->node) * l->cap);
	l->kernel = heap_resize(l->kernel, sizeof(*l->kernel) * l->cap);
	l->fate = heap_resize(l->fate, sizeof(*l->fate) * l->cap);
	l->is_unordered = heap_resize(l->is_unordered, sizeof(*l->is_unordered) * l->cap);
}

static void
layer_fini(struct layer *l)
{
	free(l->mask);
	free(l->rows_met);
	free(l->cost);
	free(l->red);
	free(l->node);
	free(l->kernel);
	free(l->fate);
	free(l->is_unordered);
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
	uint64_t *mask, *rows_met;
	int64_t cost;
	fixed_cost red;
	uint32_t parent, kernel;
	enum fate fate;
	bool is_unordered;
};

/* State i of a layer stands for another one too, which costs no less.  A state that is not unordered
 * can end in all plans that the other can, and its bound holds for them.  An unordered one, which stands for
 * unordered ones alone, may wait for itself in a circle, so that its own rows need not be met by plans of
 * the other: the bound must hold for both. */
static void
absorb(const struct frontier *f, struct layer *l, uint32_t i, fixed_cost red, const uint64_t *rows_met)
{
	if (!l->is_unordered[i])
		return;
	l->red[i] = MIN_OF(l->red[i], red);
	for (uint32_t w = 0; w < f->row_words; w++)
		l->rows_met[(size_t)i * f->row_words + w] &= rows_met[w];
}

static bool
is_equal(const struct frontier *f, const struct layer *l, uint32_t i, const struct child *c)
{
	return l->is_unordered[i] == c->is_unordered &&
	    memcmp(l->mask + (size_t)i * f->words, c->mask, sizeof(*c->mask) * f->words) == 0;
}

/* Joins a child to the next layer; of equal states, unordered ones apart from the others, the cheaper stays.
 */
static void
put_child(struct frontier *f, struct child *c)
{
	struct layer *l = &f->next;
	uint32_t s = (uint32_t)hash_mask(c->mask, f->words) & (f->n_table - 1), i;

	while (f->table[s] && !is_equal(f, l, f->table[s] - 1, c))
		s = (s + 1) & (f->n_table - 1);
	i = f->table[s] ? f->table[s] - 1 : l->n;
	if (i == l->n) {
		if (l->n >= f->max_layer) {
			f->is_complete = false;
			return;
		}
		layer_reserve(l, f->words, f->row_words);
		memcpy(l->mask + (size_t)i * f->words, c->mask, sizeof(*c->mask) * f->words);
		l->n++;
		f->table[s] = i + 1;
	} else if (c->cost > l->cost[i] || (c->cost == l->cost[i] && c->red >= l->red[i])) {
		absorb(f, l, i, c->red, c->rows_met);
		return;
	} else if (c->is_unordered) {
		c->red = MIN_OF(c->red, l->red[i]);
		for (uint32_t w = 0; w < f->row_words; w++)
			c->rows_met[w] &= l->rows_met[(size_t)i * f->row_words + w];
	}
	memcpy(l->rows_met + (size_t)i * f->row_words, c->rows_met, sizeof(*c->rows_met) * f->row_words);
	l->cost[i] = c->cost;
	l->red[i] = c->red;
	l->node[i] = c->parent;
	l->is_unordered[i] = c->is_unordered;
	l->kernel[i] = c->kernel;
	l->fate[i] = (uint8_t)c->fate;
	if (l->n * 2 > f->n_table)
		table_grow(f);
}

static bool
is_over(const struct frontier *f, int64_t cost, fixed_cost red)
{
	if (f->in->below == BLP_NEVER)
		return false;
	return cost >= f->in->below || f->in->pi + red > (f->in->below - 1) * FIXED_ONE;
}

/* Clears what no later step asks for and joins the child. */
static void
finish_child(struct frontier *f, uint32_t t, struct child *c)
{
	for (uint32_t j = f->ends.first[t]; j < f->ends.first[t + 1]; j++)
		clear_bit(c->mask, f->ends.item[j]);
	for (uint32_t j = f->row_ends.first[t]; j < f->row_ends.first[t + 1]; j++)
		clear_bit(c->rows_met, f->row_ends.item[j]);
	f->n_made++;
	put_child(f, c);
}

/* What the path pays for meeting rows again: their duals were counted once. */
static void
hit_rows(const struct frontier *f, uint32_t kernel, struct child *c)
{
	for (uint32_t j = f->rows_of.first[kernel]; j < f->rows_of.first[kernel + 1]; j++) {
		uint32_t r = f->rows_of.item[j];

		if (bit(c->rows_met, f->row_slot[r]))
			c->red += f->in->dual[r];
		else
			set_bit(c->rows_met, f->row_slot[r]);
	}
}

static void
copy_state(const struct frontier *f, uint32_t i, struct child *c)
{
	const struct layer *l = &f->now;

	memcpy(c->mask, l->mask + (size_t)i * f->words, sizeof(*c->mask) * f->words);
	memcpy(c->rows_met, l->rows_met + (size_t)i * f->row_words, sizeof(*c->rows_met) * f->row_words);
	c->cost = l->cost[i];
	c->red = l->red[i];
	c->parent = i;
	c->is_unordered = l->is_unordered[i];
}

/* False when the kernel's earlier inputs are not there. */
static bool
try_option(struct frontier *f, uint32_t t, uint32_t i, const struct option *o, struct child *c)
{
	const uint64_t *m = f->now.mask + (size_t)i * f->words;
	const uint32_t *slot = f->slot;

	for (uint32_t j = 0; j < o->n_need; j++)
		if (!bit(m, slot[o->need + j]))
			return false;
	if (is_over(f, f->now.cost[i] + f->g->cost[o->kernel], f->now.red[i] + f->in->reduced[o->kernel]))
		return true;
	copy_state(f, i, c);
	c->cost += f->g->cost[o->kernel];
	c->red += f->in->reduced[o->kernel];
	hit_rows(f, o->kernel, c);
	if (is_over(f, c->cost, c->red))
		return true;
	c->kernel = o->kernel;
	c->fate = LIVES;
	for (uint32_t j = 0; j < o->n_met; j++)
		clear_bit(c->mask, slot[o->meet + j]);
	for (uint32_t j = 0; j < o->n_give; j++)
		set_bit(c->mask, slot[o->give + j]);
	for (uint32_t j = 0; j < o->n_demand; j += 2) {
		uint32_t avail = slot[o->demand + j], pending = slot[o->demand + j + 1];

		if (avail != NONE && bit(c->mask, avail))
			continue;
		c->is_unordered = true;
		if (!bit(c->mask, pending))
			c->fate = MAY_HAVE_DIED;
		set_bit(c->mask, pending);
	}
	finish_child(f, t, c);
	return true;
}

/* What counts against the limit.  Where a tensor has hundreds of makers nearly all that is made is dropped
 * again, and takes the time all the same. */
static uint64_t
work_done(const struct frontier *f)
{
	return MAX_OF(f->n_states, f->n_made / MADE_PER_STATE);
}

/* The work is over, or an exhaustive run has left something out: it can prove nothing any more. */
static bool
is_given_up(const struct frontier *f)
{
	return work_done(f) > f->in->max_states || (!f->in->width && !f->is_complete) ||
	    blp_is_stopped(f->in->limits);
}

/* Leaving t out can kill a state only if t could be made: else its parent, which lives, did
 * not count on t.  False: given up. */
static bool
expand(struct frontier *f, uint32_t t, struct child *c)
{
	const struct layer *l = &f->now;
	uint32_t avail = f->avail_slot[t], pending = f->pending_slot[t];
	bool is_read_later = f->avail_end[t] > t;

	for (uint32_t i = 0; i < l->n; i++) {
		const uint64_t *m = l->mask + (size_t)i * f->words;
		bool is_there = avail != NONE && bit(m, avail);
		bool is_due = f->g->is_wanted[t] || (pending != NONE && bit(m, pending)), is_makeable = false;

		if (i % ASK_EVERY == ASK_EVERY - 1 && is_given_up(f))
			return false;
		for (uint32_t j = f->option_of.first[t]; j < f->option_of.first[t + 1]; j++)
			if (!is_there && (is_due || is_read_later))
				is_makeable |= try_option(f, t, i, &f->option[j], c);
		if (is_there || !is_due) {
			copy_state(f, i, c);
			c->kernel = NONE;
			c->fate = is_makeable ? MAY_HAVE_DIED : LIVES;
			finish_child(f, t, c);
		}
	}
	return !is_given_up(f);
}

struct ranked {
	fixed_cost red;
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
		return a->cost > b->cost ? -1 : 1;
	return (a->i > b->i) - (a->i < b->i);
}

/* Does kept state j have all that child i has, demand nothing more, and cost no more?  Owed slots are
 * told from available ones by `pending`. */
static bool
is_covered(const struct frontier *f, uint32_t j, uint32_t i, const uint64_t *pending)
{
	const struct layer *kept = &f->kept, *l = &f->next;
	const uint64_t *k = kept->mask + (size_t)j * f->words, *m = l->mask + (size_t)i * f->words;

	if (kept->cost[j] > l->cost[i] || kept->is_unordered[j] > l->is_unordered[i])
		return false;
	for (uint32_t w = 0; w < f->words; w++)
		if ((m[w] & ~k[w] & ~pending[w]) || (k[w] & ~m[w] & pending[w]))
			return false;
	return true;
}

static uint32_t
add_node(struct frontier *f, uint32_t parent, uint32_t kernel, bool is_unordered)
{
	if (kernel == NONE)
		return parent;
	if (f->n_nodes == f->cap_nodes) {
		f->cap_nodes = MAX_OF(1u << 14, f->cap_nodes * 2);
		f->node = heap_resize(f->node, sizeof(*f->node) * f->cap_nodes);
	}
	f->node[f->n_nodes] = (struct node){parent, kernel, is_unordered};
	return f->n_nodes++;
}

static bool
waits(const struct frontier *f, uint32_t kernel)
{
	for (uint32_t j = f->g->in.first[kernel]; j < f->g->in.first[kernel + 1]; j++)
		if (f->found[f->g->in.item[j]] == f->stamp)
			return true;
	return false;
}

/* Can the kernels of a path that owes nothing run, those after its last node that is not unordered in another
 * order than they were picked?  Then the path is not unordered, whatever was pending on the way. */
static bool
can_be_ordered(struct frontier *f, uint32_t node)
{
	uint32_t late[MAX_LATE], n = 0;
	bool moved = true;

	for (; node != NONE && f->node[node].is_unordered; node = f->node[node].parent) {
		if (n == MAX_LATE)
			return false;
		late[n++] = f->node[node].kernel;
	}
	f->stamp++;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = f->in->out->first[late[i]]; j < f->in->out->first[late[i] + 1]; j++)
			f->found[f->in->out->item[j]] = f->stamp;
	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < n; i++) {
			if (waits(f, late[i]))
				continue;
			for (uint32_t j = f->in->out->first[late[i]]; j < f->in->out->first[late[i] + 1]; j++)
				f->found[f->in->out->item[j]] = 0;
			late[i--] = late[--n];
			moved = true;
		}
	}
	return n == 0;
}

static bool
owes(const struct frontier *f, const uint64_t *m, const uint64_t *pending)
{
	for (uint32_t w = 0; w < f->words; w++)
		if (m[w] & pending[w])
			return true;
	return false;
}

/* Looks at child rank[r] and those behind it that may have died, as many as are looked at at once. */
static void
find_dead(struct frontier *f, uint32_t t, const struct ranked *rank, uint32_t r)
{
	struct layer *l = &f->next;
	const uint64_t *mask[DEAD_BATCH];
	uint32_t child[DEAD_BATCH], n = 0;
	uint64_t dead;

	for (; r < l->n && n < DEAD_BATCH; r++)
		if (l->fate[rank[r].i] == MAY_HAVE_DIED) {
			child[n] = rank[r].i;
			mask[n++] = l->mask + (size_t)rank[r].i * f->words;
		}
	dead = frontier_dead(f, t, mask, n);
	for (uint32_t s = 0; s < n; s++)
		l->fate[child[s]] = dead >> s & 1 ? IS_DEAD : LIVES;
}

/* Child i becomes the next kept state. */
static void
keep_child(struct frontier *f, uint32_t i, const uint64_t *pending)
{
	const struct layer *l = &f->next, *before = &f->now;
	struct layer *kept = &f->kept;
	uint32_t n = kept->n;
	const uint64_t *m = l->mask + (size_t)i * f->words;

	layer_reserve(kept, f->words, f->row_words);
	memcpy(kept->mask + (size_t)n * f->words, m, sizeof(*m) * f->words);
	memcpy(kept->rows_met + (size_t)n * f->row_words, l->rows_met + (size_t)i * f->row_words,
	    sizeof(*m) * f->row_words);
	kept->cost[n] = l->cost[i];
	kept->red[n] = l->red[i];
	kept->is_unordered[n] = l->is_unordered[i];
	kept->node[n] = add_node(f, before->node[l->node[i]], l->kernel[i], l->is_unordered[i]);
	if (kept->is_unordered[n] && l->kernel[i] != NONE && !owes(f, m, pending) &&
	    can_be_ordered(f, kept->node[n]))
		kept->is_unordered[n] = f->node[kept->node[n]].is_unordered = false;
	kept->n++;
}

/* Moves the children worth keeping to the layer `now`. */
static void
select_states(struct frontier *f, uint32_t t, struct ranked *rank, const uint64_t *pending)
{
	struct layer *l = &f->next, *kept = &f->kept, swap;

	for (uint32_t i = 0; i < l->n; i++)
		rank[i] = (struct ranked){l->red[i], l->cost[i], i};
	if (l->n)
		qsort(rank, l->n, sizeof(*rank), by_rank);
	kept->n = 0;
	for (uint32_t r = 0; r < l->n; r++) {
		uint32_t i = rank[r].i, j = 0, n_seen = MIN_OF(kept->n, (uint32_t)DOMINANCE_WINDOW);

		if (f->in->width && kept->n >= f->in->width) {
			f->is_complete = false;
			break;
		}
		while (j < n_seen && !is_covered(f, j, i, pending))
			j++;
		if (j < n_seen)
			absorb(f, kept, j, l->red[i], l->rows_met + (size_t)i * f->row_words);
		else if (l->fate[i] == MAY_HAVE_DIED)
			find_dead(f, t, rank, r);
		if (j == n_seen && l->fate[i] == LIVES)
			keep_child(f, i, pending);
	}
	f->n_states += kept->n;
	swap = f->now;
	f->now = f->kept;
	f->kept = swap;
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
	if (l->n)
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
	uint64_t *pending;
	struct child child;
	struct ranked *rank = NULL;

	*out = (struct frontier_out){.relaxed = BLP_NEVER};
	frontier_setup(&f);
	child.mask = NEW_ARRAY(&f.arena, uint64_t, f.words);
	child.rows_met = NEW_ARRAY(&f.arena, uint64_t, f.row_words);
	pending = NEW_ARRAY(&f.arena, uint64_t, f.words);
	f.max_layer = MAX_OF(
	    1u, MIN_OF((uint32_t)MAX_LAYER, (uint32_t)(MAX_LAYER_BYTES / 8 / (f.words + f.row_words + 4))));
	f.table = heap_alloc(sizeof(*f.table) * f.n_table);
	layer_reserve(&f.now, f.words, f.row_words);
	memset(f.now.mask, 0, sizeof(*pending) * f.words);
	memset(f.now.rows_met, 0, sizeof(*pending) * f.row_words);
	f.now.cost[0] = f.now.red[0] = 0;
	f.now.node[0] = NONE;
	f.now.is_unordered[0] = 0;
	f.now.n = 1;
	for (uint32_t t = 0; t < n; t++) {
		f.next.n = 0;
		frontier_open(&f, t);
		memset(f.table, 0, sizeof(*f.table) * f.n_table);
		if (!expand(&f, t, &child)) {
			f.is_complete = false;
			f.now.n = 0;
			break;
		}
		if (f.next.n > n_rank) {
			n_rank = f.next.n * 2;
			free(rank);
			rank = heap_alloc(sizeof(*rank) * n_rank);
		}
		for (uint32_t j = f.pending_at.first[t]; j < f.pending_at.first[t + 1]; j++)
			set_bit(pending, f.pending_slot[f.pending_at.item[j]]);
		for (uint32_t j = f.ends.first[t]; j < f.ends.first[t + 1]; j++)
			clear_bit(pending, f.ends.item[j]);
		select_states(&f, t, rank, pending);
		if (f.now.n == 0)
			break;
	}
	read_plans(&f, a, out);
	out->is_complete = f.is_complete;
	out->n_states = work_done(&f);
	out->n_made = f.n_made;
	layer_fini(&f.now);
	layer_fini(&f.next);
	layer_fini(&f.kept);
	free(f.table);
	free(f.node);
	free(rank);
	arena_fini(&f.arena);
}
