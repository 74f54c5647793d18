/* kernels/schedule/rule_warp.c: on a GPU, products of halves run by a warp's instructions: a block makes a
 * tile of the result, its lanes copy tiles of both factors some steps ahead, and its warp multiplies them.
 * (tests/golden/apply/product_on_gpu.txt) */
#include "rule_int.h"

enum {
	ROWS = 16,
	COLUMNS = 8,
	STEP = 16,
	MOST_HELD = 64 /* elements of the result in a lane */,
	DEPTH = 3,
	MANY = 256 /* blocks that fill a device */
};

struct warp_product {
	struct proposing *q;
	blk_id product, last;  /* last: the block that alone reads the sums */
	int row, column;       /* dimensions of the sums */
	int64_t rows, columns; /* of a block's tile */
	const char *step;      /* the loop over tiles of the sum's elements */
};

/* ---- which products ------------------------------------------------------------------------------------ */
static blk_id
only_reader(const struct tir *p, blk_id product)
{
	blk_id reader = BLK_NONE;

	for (blk_id b = 0; b < p->n_blk; b++) {
		if (b == product || !blk_stands(p, b) ||
		    !blk_reads_buf(p, &p->blk[b], p->blk[product].out[0]))
			continue;
		if (reader != BLK_NONE || p->blk[b].comb != COMB_NONE || p->blk[b].at[0] == IXV_NONE)
			return BLK_NONE;
		reader = b;
	}
	return reader;
}

/* The largest of some sizes that leaves nothing over. */
static int64_t
tile_of(int64_t n, int64_t least, int64_t most)
{
	while (most > least && n % most)
		most /= 2;
	return n % most ? 0 : most;
}

/* Smaller tiles, but not so small that copies would be all the work. */
static bool
may_halve(const struct warp_product *w)
{
	return w->rows * w->columns > ROWS * 2 * COLUMNS && (w->rows > ROWS || w->columns > COLUMNS);
}

static bool
find_product(struct warp_product *w, blk_id b)
{
	const struct tir *p = &w->q->p;
	const struct tir_block *k = &p->blk[b];
	const struct tir_buf *f = &p->buf[k->out[0]];

	if (!blk_stands(p, b) || !blk_reduces(p, b) || k->comb != COMB_sum || f->type != DT_f32 ||
	    f->rank < 2)
		return false;
	w->product = b;
	w->last = only_reader(p, b);
	w->row = f->rank - 2;
	w->column = f->rank - 1;
	w->rows = tile_of(f->dim[w->row], ROWS, 64);
	w->columns = tile_of(f->dim[w->column], COLUMNS, 64);
	if (w->last == BLK_NONE || !w->rows || !w->columns)
		return false;
	while (w->rows * w->columns > MOST_HELD * 32)
		w->rows /= 2;
	while (blk_points(p, w->last) < MANY * w->rows * w->columns && may_halve(w))
		*(w->rows > w->columns && w->rows > ROWS ? &w->rows : &w->columns) /= 2;
	return true;
}

/* ---- the trace -------------------------------------------------------------------------------------------
 */
static const char *
text(const struct warp_product *w, const char *fmt, const char *name)
{
	return arena_printf(w->q->p.arena, fmt, name);
}

static const char *
loop_of(const struct warp_product *w, blk_id b, int d)
{
	return arena_printf(w->q->p.arena, "%s.i%d", w->q->p.blk[b].name, d);
}

/* The loop in tiles, or as it is where one tile has all of it (*outer: NULL). */
static void
split(const struct warp_product *w, const char *loop, int64_t size, const char **outer, const char **inner)
{
	*outer = NULL;
	*inner = loop;
	if (propose(w->q, "split %s %lld", loop, (long long)size)) {
		*outer = text(w, "%s.o", loop);
		*inner = text(w, "%s.i", loop);
	}
}

/* Two loops as one, or the one that there is. */
static const char *
both(const struct warp_product *w, const char *a, const char *b)
{
	if (!a || !b)
		return a ? a : b;
	return propose(w->q, "fuse %s %s", a, b) ? arena_printf(w->q->p.arena, "%s~%s", a, b) : NULL;
}

/* Tiles of the result, each by a block; the loop over these, NULL: there is none. */
static const char *
add_blocks(const struct warp_product *w)
{
	const char *row, *rows, *column, *columns, *blocks;
	const char *outer = w->row ? loop_of(w, w->last, 0) : NULL;

	for (int d = 1; d < w->row; d++)
		outer = both(w, outer, loop_of(w, w->last, d));
	split(w, loop_of(w, w->last, w->row), w->rows, &rows, &row);
	split(w, loop_of(w, w->last, w->column), w->columns, &columns, &column);
	if (columns && !propose(w->q, "reorder %s %s", columns, row))
		return NULL;
	blocks = both(w, both(w, outer, rows), columns);
	return blocks && propose(w->q, "bind %s block", blocks) ? blocks : NULL;
}

/* The product's loops: steps of the sum, tiles of the instruction, what is in one; the last ones' outermost.
 */
static const char *
add_tiles(struct warp_product *w, const char *blocks)
{
	const char *name = w->q->p.blk[w->product].name, *rows, *row, *columns, *column, *steps, *step;

	if (!propose(w->q, "compute_at %s %s", name, blocks))
		return NULL;
	split(w, text(w, "%s.k0", name), STEP, &steps, &step);
	split(w, loop_of(w, w->product, w->row), ROWS, &rows, &row);
	split(w, loop_of(w, w->product, w->column), COLUMNS, &columns, &column);
	w->step = steps;
	return steps &&
		propose(w->q, "reorder %s%s%s%s%s %s %s %s", steps, rows ? " " : "", rows ? rows : "",
		    columns ? " " : "", columns ? columns : "", row, column, step)
	    ? row
	    : NULL;
}

/* The buffer's tile of a step is shared, and copied by lanes. */
static bool
add_copy(const struct warp_product *w, buf_id b)
{
	struct proposing *q = w->q;
	const char *name = arena_printf(q->p.arena, "%s's", q->p.buf[b].name), *all = NULL;
	st_id path[TIR_DEPTH], at;
	uint32_t n;

	if (!propose(q, "stage %%%s %s", q->p.buf[b].name, w->step) || !propose(q, "share %%%s", name))
		return false;
	const struct tir was = q->p;

	at = blk_instance(&was, tir_find_blk(&was, str_of(text(w, "t%s", name))));
	n = tir_path(&was, at, path);
	for (uint32_t k = 0; k < n; k++)
		if (was.st[path[k]].op == ST_for && was.st[path[k]].end == at + 1)
			all = both(w, all, was.st[path[k]].name);
	return all && propose(q, "split %s %d", all, q->target->warp) && propose(q, "bind %s.i lane", all);
}

struct factors {
	buf_id buf[2];
	uint32_t n;
};

static void
note_factor(void *self, const struct ex *read)
{
	struct factors *f = self;

	if (f->n < 2)
		f->buf[f->n] = read->tensor;
	f->n++;
}

static bool
multiply(struct warp_product *w)
{
	const char *blocks = add_blocks(w), *tile = blocks ? add_tiles(w, blocks) : NULL;
	struct factors f = {.n = 0};

	blk_reads(&w->q->p, &w->q->p.blk[w->product], note_factor, &f);
	if (!tile || f.n != 2 || !add_copy(w, f.buf[0]) || !add_copy(w, f.buf[1]))
		return false;
	for (int depth = DEPTH; depth > 1; depth--)
		if (propose(w->q, "pipeline %s %d", w->step, depth))
			break;
	return propose(w->q, "tensorize %s mma_f16", tile) || propose(w->q, "tensorize %s mma_bf16", tile);
}

void
rule_warp(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk && q->target->has_mma; b++) {
		struct warp_product w = {.q = q};
		const struct tir was = q->p;
		const size_t n = q->trace->n;

		if (find_product(&w, b) && !multiply(&w))
			take_back(q, &was, n);
	}
}
