/* kernels/cost/again.c: what a kernel must read again because it waits for a sum.
 *
 *   %1 = sum %0 over the plane      all of %0 is read, or made
 *   %2 = sub %0 %1                  none of it before the sum is there: %0 is read a second time
 *
 * A tensor's *turn* counts the sums over much memory that it waits for.  What an earlier turn has read or
 * made and a later one needs is read again, from the fastest level that holds what one such sum joins; a
 * product made again would take longer.  A row that stays in the first cache is no wait. */
#include "cost_int.h"

#include <math.h>

enum { NO_SOURCE = -1, LEAST_DEPTH = 8 };
/* Of the first cache: sums over less are joined while it is there. */
static const double held_share = 0.5;

struct turns {
	const struct graph *g;
	const struct hw *hw;
	const struct need *x;
	int *turn;      /* of a tensor */
	int *source;    /* the operand or product of as many elements that it is a map of; NO_SOURCE */
	double *joined; /* of a turn: bytes that its sum joins at once, at least */
	int most;
};

static double
count_of(const struct graph *g, tensor_id t)
{
	return (double)shape_count(&graph_tensor(g, t)->shape);
}

/* Bytes that a sum of the reduction joins: with elements along memory that are no part of the sum, vectors of
 * them. */
static double
joins(const struct turns *t, const struct node *n)
{
	const struct shape *to = &graph_tensor(t->g, n->out[0])->shape;
	double size = (double)dtype_size(graph_tensor(t->g, n->in[0])->type),
	       group = count_of(t->g, n->in[0]) / fmax(count_of(t->g, n->out[0]), 1),
	       beside = to->rank ? (double)to->dim[to->rank - 1] : 1;

	return group * size * fmin(beside, t->hw->lanes) / MAX_OF(t->hw->n_threads, 1);
}

static bool
waits(const struct turns *t, const struct node *n)
{
	return prim_info[n->prim].class == CLASS_REDUCE && prim_info[n->prim].shape != SHAPE_WINDOW &&
	    joins(t, n) > (double)t->hw->level_bytes[0] * held_share;
}

static int
source_of(const struct turns *t, const struct node *n)
{
	double made = count_of(t->g, n->out[0]);

	if (prim_info[n->prim].class == CLASS_LINEAR)
		return node_flops(t->g, n) >= 2 * LEAST_DEPTH * made ? (int)n->out[0].i : NO_SOURCE;
	if (prim_info[n->prim].class != CLASS_MAP && n->prim != PRIM_reshape && n->prim != PRIM_transpose)
		return NO_SOURCE;
	for (uint32_t k = 0; k < n->n_in; k++) {
		int from = t->source[n->in[k].i];

		if (from != NO_SOURCE && count_of(t->g, (tensor_id){(uint32_t)from}) >= made)
			return from;
	}
	return NO_SOURCE;
}

static void
find_turns(struct turns *t)
{
	for (uint32_t i = 0; i < t->g->n_tensors; i++)
		t->source[i] = NO_SOURCE;
	for (uint32_t i = 0; i < t->g->n_inputs; i++)
		t->source[t->g->inputs[i].i] = (int)t->g->inputs[i].i;
	for (uint32_t i = 0; i < t->g->n_nodes; i++) {
		const struct node *n = &t->g->nodes[i];
		int turn = 0;

		for (uint32_t k = 0; k < n->n_in; k++)
			turn = MAX_OF(turn, t->turn[n->in[k].i]);
		if (waits(t, n)) {
			double bytes = joins(t, n);

			turn++;
			t->joined[turn] = t->joined[turn] > 0 ? fmin(t->joined[turn], bytes) : bytes;
		}
		for (uint32_t k = 0; k < n->n_out; k++) {
			t->turn[n->out[k].i] = turn;
			t->source[n->out[k].i] = source_of(t, n);
		}
		t->most = MAX_OF(t->most, turn);
	}
}

/* Does a linear primitive have results that may be made in this turn?  Those that a sum joins are all there
 * before the turn behind it. */
static bool
has_products(const struct turns *t, const int *last, int turn)
{
	for (uint32_t i = 0; i < t->g->n_nodes; i++) {
		const struct node *n = &t->g->nodes[i];

		if (prim_info[n->prim].class == CLASS_LINEAR && t->turn[n->out[0].i] <= turn &&
		    turn <= last[n->out[0].i])
			return true;
	}
	return false;
}

/* Of each tensor the last turn in which it may be made. */
static void
find_last(const struct turns *t, int *last)
{
	for (uint32_t i = 0; i < t->g->n_tensors; i++)
		last[i] = t->most;
	for (uint32_t i = t->g->n_nodes; i-- > 0;) {
		const struct node *n = &t->g->nodes[i];
		int at = t->most;

		for (uint32_t k = 0; k < n->n_out; k++)
			at = MIN_OF(at, last[n->out[k].i]);
		if (waits(t, n))
			at = MIN_OF(at, t->turn[n->out[0].i] - 1);
		for (uint32_t k = 0; k < n->n_in; k++)
			last[n->in[k].i] = MIN_OF(last[n->in[k].i], at);
	}
}

static double
read_s(const struct hw *hw, double bytes, double of)
{
	double held = 0, s = 0;

	for (int level = 0; level < 3 && held < 1; level++) {
		double share = fmax(held, fmin(1, (double)hw->level_bytes[level] / fmax(of, 1)));

		s += (share - held) * bytes / hw->bytes_per_s[level];
		held = share;
	}
	return s + (1 - held) * bytes / hw->bytes_per_s[3];
}

/* Each source once a turn. */
static double
turn_s(const struct turns *t, int turn, bool *seen)
{
	double bytes = 0;

	for (uint32_t i = 0; i < t->g->n_tensors; i++)
		seen[i] = false;
	for (uint32_t i = 0; i < t->g->n_nodes; i++) {
		const struct node *n = &t->g->nodes[i];
		double made = count_of(t->g, n->out[0]);

		if (prim_info[n->prim].class != CLASS_MAP || t->turn[n->out[0].i] != turn ||
		    t->x[n->out[0].i].n < made)
			continue;
		for (uint32_t k = 0; k < n->n_in; k++) {
			int from = t->turn[n->in[k].i] < turn ? t->source[n->in[k].i] : NO_SOURCE;

			if (from == NO_SOURCE || seen[from] ||
			    count_of(t->g, (tensor_id){(uint32_t)from}) != made)
				continue;
			seen[from] = true;
			bytes +=
			    made * (double)dtype_size(graph_tensor(t->g, (tensor_id){(uint32_t)from})->type);
		}
	}
	return read_s(t->hw, bytes / MAX_OF(t->hw->n_threads, 1), t->joined[turn]);
}

double
cost_again_s(const struct graph *g, const struct hw *hw, const struct need *x, double *alone)
{
	struct arena tmp = {0};
	struct turns t = {.g = g,
	    .hw = hw,
	    .x = x,
	    .turn = NEW_ARRAY(&tmp, int, g->n_tensors + 1),
	    .source = NEW_ARRAY(&tmp, int, g->n_tensors + 1),
	    .joined = NEW_ARRAY(&tmp, double, g->n_nodes + 2)};
	int *last = NEW_ARRAY(&tmp, int, g->n_tensors + 1);
	bool *seen = NEW_ARRAY(&tmp, bool, g->n_tensors + 1);
	double all = 0;

	*alone = 0;
	find_turns(&t);
	find_last(&t, last);
	for (int turn = 1; turn <= t.most; turn++) {
		double s = turn_s(&t, turn, seen);

		all += s;
		*alone += has_products(&t, last, turn) ? 0 : s;
	}
	arena_fini(&tmp);
	return all;
}
