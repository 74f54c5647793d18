/* kernels/codegen/own.c: what a block's threads share of a buffer is in registers of each, where every one
 * touches only tiles of its own (kernels/tir/tiles.c): sums of a product, from one step of the sum to the
 * next.
 *
 *   alloc %2 (shared)                                 alloc %2 (spread)
 *   for l in 0..128 lane                              for l in 0..128 lane
 *     for i in 0..8                                     for i in 0..8
 *       store %2[8*(l div 16) + i, l mod 16] = ..  ->     store %2[i, 0, l] = ..
 */
#include "codegen_int.h"

#include "../tir/tiles.h"

#include <string.h>

struct owning {
	const struct tir *p;
	struct tir_tiles *tiles; /* of each buffer; n 0: it is not a thread's own */
	const struct st *lane;   /* the loop over threads around the statement */
};

enum { MOST_HELD = 256 /* elements of a thread */ };

/* Are all of the buffer's elements touched in loops over threads, each by the same one?  Then those tiles. */
static bool
find_tiles(const struct tir *p, buf_id buf, struct tir_tiles *out)
{
	struct accesses l = {.n = 0};
	bool any = false;

	for (st_id i = 0; i < p->n_st; i++) {
		struct tir_tiles t;
		st_id lane;

		if (p->st[i].op == ST_alloc || !may_touch(p, i, buf))
			continue;
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++) {
			if (l.at[k].buf != buf)
				continue;
			if (p->st[i].op != ST_store || threads_around(p, i, &lane) != 1 ||
			    !tir_tiles_at(p->tx, l.at[k].place, p->st[lane].axis, &t) ||
			    (any && !tir_tiles_equal(&t, out)))
				return false;
			*out = t;
			any = true;
		}
	}
	return any;
}

/* Extents of what one thread has, and behind them one for the threads. */
static bool
own_dims(const struct tir_tiles *t, const struct tir_buf *f, int64_t *dim)
{
	int64_t held = 1, threads = 1;

	memcpy(dim, f->dim, sizeof(f->dim));
	tir_tiles_shrink(t, dim);
	for (int d = 0; d < f->rank; d++)
		held *= dim[d];
	for (uint32_t k = 0; k < t->n; k++)
		threads *= t->digit[k].extent;
	if (f->rank == MAX_RANK || held > MOST_HELD)
		return false;
	dim[f->rank] = threads;
	return true;
}

/* ---- the program over them ----------------------------------------------------------------------------- */
static ixv_id
own_place(const struct owning *q, buf_id buf, ixv_id at)
{
	struct tx *x = q->p->tx;
	ix_id i[MAX_RANK];
	struct ixv v;

	if (!q->tiles[buf].n)
		return at;
	v = ixv_get(x, tir_tiles_own(x, &q->tiles[buf], at));
	memcpy(i, v.i, v.n * sizeof(*i));
	i[v.n] = ix_axis(x, q->lane->axis);
	return ixv_make(x, v.n + 1, i);
}

static ex_id
load_own(void *self, struct tx *x, const struct ex *read, ixv_id at)
{
	return ex_load(x, read->type, read->tensor, own_place(self, read->tensor, at));
}

static bool
own_store(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct owning *q = self;
	struct tx_subst sub = {.load = load_own, .self = q};
	struct st s = p->st[i];
	st_id lane;

	if (s.op != ST_store || threads_around(p, i, &lane) != 1)
		return false;
	q->lane = &p->st[lane];
	s.at = own_place(q, s.ref, s.at);
	s.value = ex_subst(p->tx, &sub, s.value);
	tir_add(out, s);
	return true;
}

void
codegen_own(const struct tir *p, struct tir *out)
{
	struct owning q = {.p = p, .tiles = NEW_ARRAY(p->arena, struct tir_tiles, p->n_buf + 1)};
	int64_t(*dim)[MAX_RANK] = arena_alloc(p->arena, (p->n_buf + 1) * sizeof(*dim));

	for (buf_id b = 0; b < p->n_buf; b++)
		if (p->buf[b].scope != SCOPE_shared || !find_tiles(p, b, &q.tiles[b]) ||
		    !own_dims(&q.tiles[b], &p->buf[b], dim[b]))
			q.tiles[b].n = 0;
	tir_rewrite(out, p, own_store, &q);
	for (buf_id b = 0; b < p->n_buf; b++) {
		struct tir_buf *f = &out->buf[b];

		if (!q.tiles[b].n)
			continue;
		f->scope = SCOPE_spread;
		for (int d = 0; d <= f->rank; d++)
			f->dim[d] = dim[b][d];
		f->rank++;
	}
}
