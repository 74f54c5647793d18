/* kernels/schedule/rule_near.c: what one other nest reads, row by row, is made where that row is read: a pass
 * less, and the row is still in the cache:
 *
 *   for y, for x: %1[y, x] = ..                 for y
 *   for y                                ->       for x: %1[x] = ..
 *     for x: .. %1[y, x] ..                       for x: .. %1[x] ..
 *
 * At the outermost loop whose part is not too large, and only where no point is made more often than before.
 */
#include "rule_int.h"

/* The outermost loop around all readers; ST_NONE: there are none, or in several nests, or in a tile of
 * registers. */
static st_id
nest_of_readers(const struct tir *p, buf_id buf)
{
	st_id path[TIR_DEPTH], root = ST_NONE;

	for (st_id i = 0; i < p->n_st; i++) {
		if (p->st[i].op != ST_block || !blk_reads_buf(p, &p->blk[p->st[i].ref], buf))
			continue;
		if (tir_path(p, i, path) == 0 || (root != ST_NONE && root != path[0]))
			return ST_NONE;
		root = path[0];
	}
	return root != ST_NONE && loop_is_of_lanes(p, root) ? ST_NONE : root;
}

/* Points that are made by the block's one instance, below statement `from` or all of them. */
static int64_t
points_made(const struct tir *p, blk_id b, st_id from)
{
	st_id path[TIR_DEPTH], at = only_instance(p, b);
	int64_t n = 1;

	for (uint32_t k = at == ST_NONE ? 0 : tir_path(p, at, path); k-- > 0;)
		if ((from == ST_NONE || path[k] > from) && n < INT32_MAX)
			n *= MIN_OF(loop_trips(p, path[k]), (int64_t)INT32_MAX);
	return n;
}

/* Did the block go to the loop as it should: nothing made twice, a row that stays near? */
static bool
is_near(const struct proposing *q, blk_id b, const char *loop)
{
	const struct tir_buf *f = &q->p.buf[q->p.blk[b].out[0]];
	const int64_t bytes =
	    points_made(&q->p, b, tir_find_loop(&q->p, str_of(loop))) * (int64_t)dtype_size(f->type);

	return points_made(&q->p, b, ST_NONE) <= blk_points(&q->p, b) &&
	    bytes <= MAX_OF(q->target->l1_bytes, (int64_t)1);
}

static void
look_at(struct proposing *q, blk_id b)
{
	const struct tir before = q->p;
	const size_t n = q->trace->n;
	st_id loop;

	if (only_instance(&q->p, b) == ST_NONE || blk_is_tiled(&q->p, b) ||
	    q->p.buf[q->p.blk[b].out[0]].role != BUF_TEMP)
		return;
	loop = nest_of_readers(&q->p, q->p.blk[b].out[0]);
	for (; loop != ST_NONE && before.st[loop].op == ST_for && loop_counts_places(&before, loop); loop++) {
		const char *name = before.st[loop].name;

		if (propose(q, "compute_at %s %s", before.blk[b].name, name) && is_near(q, b, name) &&
		    !strides_in(&q->p, b, name))
			return;
		take_back(q, &before, n);
		if (before.st[loop].end != before.st[loop + 1].end)
			return; /* not all of its body */
	}
}

void
rule_near(struct proposing *q)
{
	for (blk_id b = q->p.n_blk; b-- > 0 && !joins_rows_only(&q->p);)
		look_at(q, b);
}
