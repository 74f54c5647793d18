/* daemon/orchestrate/search.c: from the covering program's bound to the optimum: beams for a plan,
 * a filter by reduced cost, the exact frontier programme, branching where its result waits for
 * itself in a circle. */
#include "blp_int.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_WIDTH = 100, MAX_IDLE = 2 };

struct pair { /* kernel does not count as maker of tensor */
	uint32_t kernel, tensor;
};
struct branch {
	struct pair *pairs;
	uint32_t n_pairs;
	int64_t bound;
};

static int64_t
bound_of(fixed_cost pi)
{
	return (pi + FIXED_ONE - 1) >> FIXED_BITS;
}

static bool
is_closed(const struct search *s)
{
	return s->bound >= s->cost;
}

static bool
is_stopped(const struct search *s)
{
	return s->n_states >= s->limits->max_states || blp_is_stopped(s->limits);
}

/* Kernels that a plan cheaper than `below` may hold. */
static bool *
filter(const struct search *s, fixed_cost most)
{
	bool *use = NEW_ARRAY(s->a, bool, s->g->n_kernels);

	for (uint32_t k = 0; k < s->g->n_kernels; k++)
		use[k] = s->g->cost[k] != BLP_NEVER && s->lp.reduced[k] <= most;
	return use;
}

/* Kernels that read what no used kernel makes are not used. */
static void
drop_unfed(const struct search *s, bool *use)
{
	const struct prog *g = s->g;
	bool *is_made = NEW_ARRAY(s->a, bool, g->n_tensors);

	for (bool changed = true; changed;) {
		changed = false;
		memset(is_made, 0, sizeof(*is_made) * g->n_tensors);
		for (uint32_t k = 0; k < g->n_kernels; k++)
			for (uint32_t j = g->out.first[k]; use[k] && j < g->out.first[k + 1]; j++)
				is_made[g->out.item[j]] = true;
		for (uint32_t k = 0; k < g->n_kernels; k++)
			for (uint32_t j = g->in.first[k]; use[k] && j < g->in.first[k + 1]; j++)
				if (!is_made[g->in.item[j]]) {
					use[k] = false;
					changed = true;
				}
	}
}

/* Outputs of used kernels that a used kernel reads or that are wanted, but for the pairs.  A kernel
 * left with none is not used. */
static struct adjacency
strip_outputs(const struct search *s, bool *use, const struct branch *b)
{
	const struct prog *g = s->g;
	bool *is_read = NEW_ARRAY(s->a, bool, g->n_tensors);
	uint32_t *count = NEW_ARRAY(s->a, uint32_t, g->n_kernels);
	struct adjacency out;

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
	out = adjacency_make(s->a, g->n_kernels, count);
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

/* One run of the programme over `use`.  The first, which often is the last, takes the program as it is: an
 * order of its own pays only where states multiply. */
static void
run(struct search *s, bool *use, uint32_t width, const struct branch *b, struct frontier_out *out)
{
	struct adjacency outs;
	struct frontier_in in = {.g = s->g,
	    .use = use,
	    .out = &outs,
	    .pi = s->lp.pi,
	    .reduced = s->lp.reduced,
	    .rows = &s->rows,
	    .dual = s->dual,
	    .n_rows = s->n_rows,
	    .below = s->cost,
	    .width = width,
	    .max_states = s->limits->max_states - s->n_states,
	    .limits = s->limits};

	drop_unfed(s, use);
	outs = strip_outputs(s, use, b);
	(s->n_states ? frontier_run_narrow : frontier_run)(s->a, &in, out);
	s->n_states += out->n_states;
	s->n_made += out->n_made;
	if (out->found)
		keep_plan(s, out->set, out->n_set);
}

/* Beams: over what looks good, in either order of tensors, then over all that a better plan may hold, ever
 * wider.  Where costs have many ties a wide beam meets the bound long before an exhaustive run does; where
 * the bound has a gap no beam helps once the plan is right, so that the ladder ends after a step without
 * gain. */
static void
find_plan(struct search *s)
{
	uint32_t width = MIN_OF((uint32_t)FIRST_WIDTH, s->limits->beam_width), idle = 0;
	struct frontier_out out;

	for (int i = 0; i < 2 && !is_closed(s) && !is_stopped(s); i++)
		run(s, filter(s, s->lp.pi / 256), width, NULL, &out);
	for (; !is_closed(s) && !is_stopped(s) && width <= s->limits->beam_width && idle < MAX_IDLE;
	     width *= 4) {
		int64_t before = s->cost;

		run(s, filter(s, s->cost * FIXED_ONE - FIXED_ONE - s->lp.pi), width, NULL, &out);
		if (out.is_complete)
			return;
		idle = s->cost == before ? idle + 1 : 0;
	}
}

/* A set that cannot run, and what it makes by itself. */
struct stuck {
	const struct prog *g;
	const struct branch *b;
	const uint32_t *set;
	uint32_t n_run, n; /* the first n_run kernels run */
	uint8_t *made;
	uint32_t *seen; /* tensor -> 1 + its place on the path */
	struct pair *path;
};

static bool
counts_as_maker(const struct branch *b, uint32_t kernel, uint32_t tensor)
{
	for (uint32_t i = 0; i < b->n_pairs; i++)
		if (b->pairs[i].kernel == kernel && b->pairs[i].tensor == tensor)
			return false;
	return true;
}

/* The waiting kernel that should make t. */
static uint32_t
waiting_maker(const struct stuck *x, uint32_t t)
{
	for (uint32_t i = x->n_run; i < x->n; i++)
		for (uint32_t j = x->g->out.first[x->set[i]]; j < x->g->out.first[x->set[i] + 1]; j++)
			if (x->g->out.item[j] == t && counts_as_maker(x->b, x->set[i], t))
				return x->set[i];
	return NONE;
}

static uint32_t
unmade_input(const struct stuck *x, uint32_t k)
{
	for (uint32_t j = x->g->in.first[k]; j < x->g->in.first[k + 1]; j++)
		if (!x->made[x->g->in.item[j]])
			return x->g->in.item[j];
	return NONE;
}

/* Follows, from a tensor that is not made, the kernel that should make it to an input that is not
 * made either, until it comes round.  The length of the way round, whose pairs end the path. */
static uint32_t
follow(struct stuck *x, uint32_t t, uint32_t *n_path)
{
	*n_path = 0;
	memset(x->seen, 0, sizeof(*x->seen) * x->g->n_tensors);
	while (t != NONE && !x->seen[t]) {
		uint32_t maker = waiting_maker(x, t);

		if (maker == NONE)
			return 0;
		x->path[*n_path] = (struct pair){maker, t};
		x->seen[t] = ++*n_path;
		t = unmade_input(x, maker);
	}
	return t == NONE ? 0 : *n_path - (x->seen[t] - 1);
}

/* The shortest circle that following finds: few branches. */
static uint32_t
find_circle(struct search *s, const struct branch *b, uint32_t *set, uint32_t n, struct pair **circle)
{
	const struct prog *g = s->g;
	struct stuck x = {.g = g,
	    .b = b,
	    .set = set,
	    .n = n,
	    .made = NEW_ARRAY(s->a, uint8_t, g->n_tensors),
	    .seen = NEW_ARRAY(s->a, uint32_t, g->n_tensors),
	    .path = NEW_ARRAY(s->a, struct pair, (size_t)g->n_tensors + 1)};
	uint32_t best = 0, n_path;

	prog_schedule(s->a, g, set, n, &x.n_run, x.made);
	for (uint32_t i = x.n_run; i < n; i++) {
		uint32_t len = follow(&x, unmade_input(&x, set[i]), &n_path);

		if (len && (!best || len < best)) {
			best = len;
			*circle = arena_dup(s->a, x.path + n_path - len, sizeof(**circle) * len);
		}
	}
	return best;
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
		run(s, filter(s, s->cost * FIXED_ONE - FIXED_ONE - s->lp.pi), 0, &b, &out);
		if (!out.is_complete)
			given_up = MIN_OF(given_up, b.bound);
		else if (out.n_stuck && out.relaxed < s->cost)
			split(s, &q, &b, &out);
	}
	for (uint32_t i = 0; i < q.n; i++)
		given_up = MIN_OF(given_up, q.item[i].bound);
	s->bound = MAX_OF(s->bound, MIN_OF(s->cost, given_up));
}

void
search_rows(struct search *s)
{
	uint32_t *count = NEW_ARRAY(s->a, uint32_t, s->lp.n_rows), n;

	s->dual = NEW_ARRAY(s->a, fixed_cost, s->lp.n_rows);
	for (uint32_t r = 0; r < s->lp.n_rows; r++)
		if (s->lp.dual[r] > 0) {
			cover_row(s->cover, r, &count[s->n_rows]);
			s->dual[s->n_rows++] = s->lp.dual[r];
		}
	s->rows = adjacency_make(s->a, s->n_rows, count);
	n = 0;
	for (uint32_t r = 0; r < s->lp.n_rows; r++)
		if (s->lp.dual[r] > 0) {
			uint32_t len;
			const uint32_t *row = cover_row(s->cover, r, &len);

			memcpy(s->rows.item + s->rows.first[n++], row, sizeof(*row) * len);
		}
}

void
search_plan(struct search *s)
{
	search_rows(s);
	s->bound = MIN_OF(bound_of(s->lp.pi), s->cost);
	if (!is_closed(s))
		find_plan(s);
}

void
search_run(struct search *s)
{
	search_plan(s);
	if (!is_closed(s) && !is_stopped(s))
		prove(s);
}
