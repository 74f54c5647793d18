/* daemon/plan/mem.c: offsets in work memory.  Largest blocks first; each goes into the
 * smallest gap between the blocks placed that are live with it, or behind them. */
#include "plan_make.h"

#include <stdlib.h>

struct sized {
	size_t n_bytes;
	uint32_t first, i;
};

static int
largest_first(const void *x, const void *y)
{
	const struct sized *a = x, *b = y;

	if (a->n_bytes != b->n_bytes)
		return a->n_bytes > b->n_bytes ? -1 : 1;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return (a->i > b->i) - (a->i < b->i);
}

static int
by_offset(const void *x, const void *y)
{
	const struct mem_block *const *a = x, *const *b = y;

	if ((*a)->offset != (*b)->offset)
		return (*a)->offset < (*b)->offset ? -1 : 1;
	return (*a > *b) - (*a < *b);
}

static size_t
rounded(size_t n)
{
	return ck_add(n, PLAN_ALIGN - 1) & ~(size_t)(PLAN_ALIGN - 1);
}

/* near: blocks live with the new one, by offset. */
static size_t
find_gap(const struct mem_block *const *near, uint32_t n, size_t need)
{
	size_t end = 0, best = SIZE_MAX, best_size = SIZE_MAX;

	for (uint32_t i = 0; i < n; i++) {
		if (near[i]->offset >= end && near[i]->offset - end >= need &&
		    near[i]->offset - end < best_size) {
			best = end;
			best_size = near[i]->offset - end;
		}
		end = MAX_OF(end, near[i]->offset + rounded(near[i]->n_bytes));
	}
	return best != SIZE_MAX ? best : end;
}

/* Is b of no use any more when c begins? */
static bool
ends_before(const struct mem_block *b, const struct mem_block *c, const struct mem_order *o)
{
	if (b->last >= c->first)
		return false;
	for (size_t w = 0; o && w < o->words; w++)
		if (b->users[w] & ~o->before[c->first * o->words + w])
			return false;
	return true;
}

size_t
mem_place(struct arena *tmp, struct mem_block *blocks, uint32_t n, const struct mem_order *order)
{
	struct arena_mark mark = arena_mark(tmp);
	struct sized *turn = NEW_ARRAY(tmp, struct sized, n);
	const struct mem_block **near = NEW_ARRAY(tmp, const struct mem_block *, n);
	size_t total = 0;

	for (uint32_t i = 0; i < n; i++)
		turn[i] = (struct sized){blocks[i].n_bytes, blocks[i].first, i};
	qsort(turn, n, sizeof(*turn), largest_first);
	for (uint32_t i = 0; i < n; i++) {
		struct mem_block *b = &blocks[turn[i].i];
		uint32_t n_near = 0;

		for (uint32_t j = 0; j < i; j++) {
			const struct mem_block *c = &blocks[turn[j].i];

			if (!ends_before(b, c, order) && !ends_before(c, b, order))
				near[n_near++] = c;
		}
		qsort(near, n_near, sizeof(*near), by_offset);
		b->offset = find_gap(near, n_near, rounded(b->n_bytes));
		total = MAX_OF(total, ck_add(b->offset, rounded(b->n_bytes)));
	}
	arena_reset(tmp, mark);
	return total;
}
