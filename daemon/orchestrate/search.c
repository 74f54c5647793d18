/* daemon/orchestrate/search.c: from the covering program's bound to the optimum: beams for a plan,
 * a filter by reduced cost, the exact frontier programme, branching where its result waits for
 * itself in a circle. */
#include "blp_int.h"

#include <stdlib.h>
#include <string.h>

/* NARROW_GAP: below 1/500 of the bound the exact programme is quicker than another beam. */
enum { FIRST_WIDTH = 100, MAX_FILTERS = 3, NARROW_GAP = 500 };

struct pair { /* kernel does not count as maker of tensor */
	uint32_t kernel, tensor;
};
struct branch {
	struct pair *pairs;
	uint32_t n_pairs;
	int64_t bound;
};

static int64_t
bound_of(fix pi)
{
	return (pi + FIX_ONE - 1) >> FIX_BITS;
}

static bool
is_closed(const struct search *s)
{
	return s->bound >= s->cost;
}

static bool
is_stopped(const struct search *s)
{
	return s->n_states >= s->limits->max_states || (s->limits->cancel && *s->limits->cancel);
}

/* Kernels that a plan cheaper than `below` may hold. */
static bool *
filter(const struct search *s, fix most)
{
	bool *use = NEW_ARRAY(s->a, bool, s->g->n_kernels);

	for (uint32_t k = 0; k < s->g->n_kernels; k++)
		use[k] = s->g->cost[k] != BLP_NEVER && s->lp.reduced[k] <= most;
	return use;
}

/* Outputs of used kernels that a used kernel reads or that are wanted, but for the pairs.  A kernel
 * left with none is not used. */
static struct lists
strip_outputs(const struct search *s, bool *use, const struct branch *b)
{
	const struct prog *g = s->g;
	bool *is_read = NEW_ARRAY(s->a, bool, g->n_tensors);
	uint32_t *count = NEW_ARRAY(s->a, uint32_t, g->n_kernels);
	struct lists out;

	for (bool changed = true; changed;) {
		changed = false;
		memcpy(is_read, g->is_wanted, sizeof(*is_read) * g->n_tensors);
		for (uint32_t k = 0; k < g->n_kernels; k++)
			for (uint32_t j = g->in.first[k]; use[k] && j < g->in.first[k + 1]; j++)
				is_read[g->in.item[j]] = true;
		for (uint32_t k = 0; k < g->n_kernels; k++) {
			count[k] = 0;
			for (uint32_t j = g->out.first[k]; use[k] && j < g->out.first[k + 1]; j++)
				count[k] += is_read[g->out.item[j]];
			for (uint32_t i = 0; b && i < b->n_pairs; i++)
				count[k] -= use[k] && b->pairs[i].kernel == k && is_read[b->pairs[i].tensor];
			if (use[k] && count[k] == 0) {
				use[k] = false;
				changed = true;
			}
		}
	}
	out = lists_make(s->a, g->n_kernels, count);
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		uint32_t n = out.first[k];

		for (uint32_t j = g->out.first[k]; use[k] && j < g->out.first[k + 1]; j++) {
			bool is_out = is_read[g->out.item[j]];

			for (uint32_t i = 0; b && i < b->n_pairs; i++)
				is_out &= b->pairs[i].kernel != k || b->pairs[i].tensor != g->out.item[j];
			if (is_out)
				out.item[n++] = g->out.item[j];
		}
	}
	return out;
}

static void
keep_plan(struct search *s, uint32_t *set, uint32_t n)
{
	int64_t cost;

	greedy_trim(s->a, s->g, set, &n);
	cost = prog_cost_of(s->g, set, n);
	if (cost >= s->cost)
		return;
	s->set = set;
	s->n_set = n;
	s->cost = cost;
}

/* One run of the programme over `use`. */
static void
run(struct search *s, bool *use, uint32_t width, const struct branch *b, struct frontier_out *out)
{
	struct lists outs = strip_outputs(s, use, b);
	struct frontier_in in = {.g = s->g, .use = use, .out = &outs, .pi = s->lp.pi,
	    .reduced = s->lp.reduced, .rows = &s->rows, .dual = s->dual, .n_rows = s->n_rows,
	    .below = s->cost, .width = width, .max_states = s->limits->max_states - s->n_states,
	    .cancel = s->limits->cancel};

	frontier_run(s->a, &in, out);
	s->n_states += out->n_states;
	if (out->found)
		keep_plan(s, out->set, out->n_set);
}

/* Beams: over what looks good; then, while the gap is wide, over all that a better plan may hold. */
static void
find_plan(struct search *s)
{
	uint32_t width = MIN_OF((uint32_t)FIRST_WIDTH, s->limits->beam_width);
	struct frontier_out out;

	run(s, filter(s, s->lp.pi / 256), width, NULL, &out);
	for (int i = 0; i < MAX_FILTERS && !is_closed(s) && !is_stopped(s); i++) {
		int64_t before = s->cost;

		if (s->cost * FIX_ONE - s->lp.pi < s->lp.pi / NARROW_GAP)
			break;
		run(s, filter(s, s->cost * FIX_ONE - FIX_ONE - s->lp.pi), i ? s->limits->beam_width : width, NULL, &out);
		if (s->cost == before && i)
			break;
	}
}

/* Follows, from a tensor that is not made, the kernel that should make it to an input that is not
 * made either, until it comes round.  The pairs on the way round. */
static uint32_t
find_circle(struct search *s, const struct branch *b, uint32_t *set, uint32_t n, struct pair **circle)
{
	const struct prog *g = s->g;
	uint8_t *made = NEW_ARRAY(s->a, uint8_t, g->n_tensors);
	uint32_t *seen = NEW_ARRAY(s->a, uint32_t, g->n_tensors), n_run, t = NONE, n_path = 0;
	struct pair *path = NEW_ARRAY(s->a, struct pair, (size_t)g->n_tensors + 1);

	prog_schedule(s->a, g, set, n, &n_run, made);
	for (uint32_t i = n_run; i < n && t == NONE; i++)
		for (uint32_t j = g->in.first[set[i]]; j < g->in.first[set[i] + 1]; j++)
			if (!made[g->in.item[j]])
				t = g->in.item[j];
	while (t != NONE && !seen[t]) {
		uint32_t maker = NONE, next = NONE;

		for (uint32_t i = n_run; i < n && maker == NONE; i++)
			for (uint32_t j = g->out.first[set[i]]; j < g->out.first[set[i] + 1]; j++) {
				bool is_maker = g->out.item[j] == t;

				for (uint32_t q = 0; q < b->n_pairs; q++)
					is_maker &= b->pairs[q].kernel != set[i] || b->pairs[q].tensor != t;
				if (is_maker)
					maker = set[i];
			}
		if (maker == NONE)
			return 0;
		path[n_path] = (struct pair){maker, t};
		seen[t] = ++n_path;
		for (uint32_t j = g->in.first[maker]; j < g->in.first[maker + 1]; j++)
			if (!made[g->in.item[j]])
				next = g->in.item[j];
		t = next;
	}
	if (t == NONE)
		return 0;
	*circle = path + seen[t] - 1;
	return n_path - (seen[t] - 1);
}

struct queue {
	struct branch *item;
	uint32_t n, cap;
};

static void
push(struct search *s, struct queue *q, struct branch b)
{
	GROW(s->a, q->item, q->n, q->cap);
	q->item[q->n++] = b;
}

/* The branch of least bound, oldest first. */
static struct branch
pop(struct queue *q)
{
	uint32_t best = 0;
	struct branch b;

	for (uint32_t i = 1; i < q->n; i++)
		if (q->item[i].bound < q->item[best].bound)
			best = i;
	b = q->item[best];
	memmove(&q->item[best], &q->item[best + 1], sizeof(b) * (q->n - best - 1));
	q->n--;
	return b;
}

static void
split(struct search *s, struct queue *q, const struct branch *b, struct frontier_out *out)
{
	struct pair *circle = NULL;
	uint32_t n = find_circle(s, b, out->stuck, out->n_stuck, &circle);

	if (n == 0)
		bug("a plan of the frontier programme neither runs nor waits in a circle");
	for (uint32_t i = 0; i < n; i++) {
		struct branch child = {NEW_ARRAY(s->a, struct pair, (size_t)b->n_pairs + 1), b->n_pairs + 1,
		    MAX_OF(b->bound, out->relaxed)};

		if (b->n_pairs)
			memcpy(child.pairs, b->pairs, sizeof(*b->pairs) * b->n_pairs);
		child.pairs[b->n_pairs] = circle[i];
		push(s, q, child);
	}
}

/* Best first over branches.  The bound is the least of the open ones, of those given up, and of the
 * best plan. */
static void
prove(struct search *s)
{
	struct queue q = {0};
	int64_t given_up = BLP_NEVER;

	push(s, &q, (struct branch){NULL, 0, s->bound});
	while (q.n && !is_stopped(s)) {
		struct branch b = pop(&q);
		struct frontier_out out;

		if (b.bound >= s->cost)
			continue;
		s->n_branches++;
		run(s, filter(s, s->cost * FIX_ONE - FIX_ONE - s->lp.pi), 0, &b, &out);
		if (!out.is_complete)
			given_up = MIN_OF(given_up, b.bound);
		else if (out.n_stuck && out.relaxed < s->cost)
			split(s, &q, &b, &out);
	}
	for (uint32_t i = 0; i < q.n; i++)
		given_up = MIN_OF(given_up, q.item[i].bound);
	s->bound = MAX_OF(s->bound, MIN_OF(s->cost, given_up));
}

static void
take_rows(struct search *s)
{
	uint32_t *count = NEW_ARRAY(s->a, uint32_t, s->lp.n_rows), n;

	s->dual = NEW_ARRAY(s->a, fix, s->lp.n_rows);
	for (uint32_t r = 0; r < s->lp.n_rows; r++)
		if (s->lp.dual[r] > 0) {
			cover_row(s->cover, r, &count[s->n_rows]);
			s->dual[s->n_rows++] = s->lp.dual[r];
		}
	s->rows = lists_make(s->a, s->n_rows, count);
	n = 0;
	for (uint32_t r = 0; r < s->lp.n_rows; r++)
		if (s->lp.dual[r] > 0) {
			uint32_t len;
			const uint32_t *row = cover_row(s->cover, r, &len);

			memcpy(s->rows.item + s->rows.first[n++], row, sizeof(*row) * len);
		}
}

void
search_run(struct search *s)
{
	take_rows(s);
	s->bound = MIN_OF(bound_of(s->lp.pi), s->cost);
	if (!is_closed(s))
		find_plan(s);
	if (!is_closed(s) && !is_stopped(s))
		prove(s);
}
