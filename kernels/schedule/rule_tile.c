/* kernels/schedule/rule_tile.c: products run in tiles of registers: some rows of some vectors of columns, all
 * of the sum's loops around them, so that a loaded column meets several rows.
 *
 *   for i in 0..96                             for i.o in 0..16
 *     for j in 0..64                             for j.o in 0..2
 *       for k in 0..256                            for k in 0..256
 *         t2(i, j, k)                   ->           for i.i in 0..6 unroll
 *                                                      for j.i in 0..32 vector
 *                                                        t2(6*i.o + i.i, 32*j.o + j.i, k)
 *
 * A plain block that alone reads the products, point by point, is tiled, and they are made in its tile. */
#include "rule_int.h"

#include <string.h>

enum { MOST_VECTORS = 4, MOST_ROWS = 12, SPARE = 4 /* registers for a loaded column and a row's element */ };

struct tiling {
	struct proposing *q;
	blk_id product, last;  /* last: the block whose loops are tiled */
	int row, column;       /* their dimensions in the result */
	int64_t rows, columns; /* of a tile */
	buf_id factor;         /* that has the columns, */
	int along;             /* in this dimension */
};

/* ---- which blocks -------------------------------------------------------------------------------------- */
static const struct ex *
through_guards(const struct tx *x, const struct ex *e)
{
	while (e->kind == EX_GUARD)
		e = ex_get(x, e->arg[0]);
	return e;
}

/* Both factors of a sum of products; false: it is none. */
static bool
factors(const struct tir *p, blk_id b, const struct ex **one, const struct ex **other)
{
	const struct ex *v = through_guards(p->tx, ex_get(p->tx, p->blk[b].value[0]));

	if (p->blk[b].comb != COMB_sum || p->blk[b].n_out != 1 || v->kind != EX_MAP || v->prim != PRIM_mul)
		return false;
	*one = through_guards(p->tx, ex_get(p->tx, v->arg[0]));
	*other = through_guards(p->tx, ex_get(p->tx, v->arg[1]));
	return (*one)->kind == EX_READ && (*other)->kind == EX_READ;
}

/* The iterator that is dimension d of the result; AXIS_NONE: it has one element, or none. */
static axis_id
axis_of(const struct tir *p, blk_id b, int d)
{
	struct ixv at = ixv_get(p->tx, p->blk[b].at[0]);
	axis_id a;

	return ix_is_axis(p->tx, at.i[d], &a) ? a : AXIS_NONE;
}

static int64_t
extent_of(const struct tir *p, axis_id a)
{
	return a == AXIS_NONE ? 1 : tx_axis_get(p->tx, a)->hi + 1;
}

/* The dimension of the factor that counts columns: the last one, or of a weight any, as panels will lie so.
 */
static bool
find_along(struct tiling *t, const struct ex *factor, axis_id column)
{
	const struct tir *p = &t->q->p;
	const struct tir_buf *b = &p->buf[factor->tensor];
	const struct ixv at = ixv_get(p->tx, factor->at);
	int64_t coef;

	t->along = -1;
	for (int d = 0; d < (int)at.n; d++) {
		if (!ix_has(p->tx, at.i[d], column))
			continue;
		if (t->along >= 0 || !ix_coef(p->tx, at.i[d], column, &coef) || coef != 1)
			return false;
		t->along = d;
	}
	t->factor = factor->tensor;
	return t->along >= 0 && (t->along == b->rank - 1 || b->scope == SCOPE_pack);
}

/* The columns lie along memory in one factor and in the result; rows are in the other factor alone. */
static bool
find_tile(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const struct ex *one, *other;
	int rank = p->buf[p->blk[t->product].out[0]].rank;
	axis_id column;

	if (!factors(p, t->product, &one, &other))
		return false;
	t->column = rank - 1;
	column = axis_of(p, t->product, t->column);
	if (column == AXIS_NONE || extent_of(p, column) < t->q->target->lanes)
		return false;
	if (ixv_has(p->tx, one->at, column)) {
		const struct ex *swap = one;

		one = other;
		other = swap;
	}
	if (ixv_has(p->tx, one->at, column) || !find_along(t, other, column))
		return false;
	for (t->row = rank - 2; t->row >= 0; t->row--) {
		axis_id a = axis_of(p, t->product, t->row);

		if (a != AXIS_NONE && extent_of(p, a) > 1 && !ixv_has(p->tx, other->at, a) &&
		    ixv_has(p->tx, one->at, a))
			return true;
	}
	return false;
}

/* Of the block's result. */
static int64_t
places(const struct tir *p, blk_id b)
{
	const struct tir_buf *f = &p->buf[p->blk[b].out[0]];
	int64_t n = 1;

	for (int d = 0; d < f->rank; d++)
		n *= f->dim[d];
	return n;
}

/* The plain block that alone reads the products, each where it makes its own point; else the product's own.
 */
static blk_id
last_block(const struct tir *p, blk_id product)
{
	blk_id reader = BLK_NONE;
	uint32_t n;

	for (blk_id b = 0; b < p->n_blk; b++) {
		ixv_id *at;

		if (!blk_stands(p, b) || b == product)
			continue;
		at = blk_places_read(p, &p->blk[b], p->blk[product].out[0], &n);
		if (n == 0)
			continue;
		if (n > 1 || reader != BLK_NONE || p->blk[b].comb != COMB_NONE || p->blk[b].n_out != 1 ||
		    blk_points(p, b) != places(p, product) || at[0] != p->blk[b].at[0])
			return BLK_NONE;
		reader = b;
	}
	return reader == BLK_NONE ? product : reader;
}

/* ---- how large a tile ---------------------------------------------------------------------------------- */
/* Vectors of columns: as many as leave nothing over, two at best, as each row's element then meets two. */
static int64_t
vectors_of(const struct tiling *t, int64_t columns)
{
	static const int64_t order[] = {2, 3, MOST_VECTORS, 1};

	for (size_t k = 0; k < COUNT_OF(order); k++)
		if (columns % (order[k] * t->q->target->lanes) == 0)
			return order[k];
	return columns > t->q->target->lanes ? 2 : 1;
}

/* Rows, as many as registers are left for; fewer, but more than half, where these leave nothing over. */
static int64_t
rows_of(const struct tiling *t, int64_t rows, int64_t vectors)
{
	int64_t most = MIN_OF((t->q->target->n_vregs - SPARE) / vectors, (int64_t)MOST_ROWS);

	for (int64_t n = most; n * 2 > most; n--)
		if (rows % n == 0)
			return n;
	return most;
}

static void
size_tile(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	int64_t vectors = vectors_of(t, extent_of(p, axis_of(p, t->product, t->column)));

	t->columns = vectors * t->q->target->lanes;
	t->rows = rows_of(t, extent_of(p, axis_of(p, t->product, t->row)), vectors);
}

/* ---- the trace ----------------------------------------------------------------------------------------- */
static const char *
loop_of(const struct tiling *t, blk_id b, int d)
{
	return arena_printf(t->q->p.arena, "%s.i%d", t->q->p.blk[b].name, d);
}

/* What stands for the loop of dimension d: its tiles, or itself where one tile has all of it. */
static const char *
split(const struct tiling *t, int d, int64_t size, const char **inner)
{
	const char *loop = loop_of(t, t->last, d);

	*inner = loop;
	if (loop_trips(&t->q->p, tir_find_loop(&t->q->p, str_of(loop))) <= size ||
	    !propose(t->q, "split %s %lld guard", loop, (long long)size))
		return NULL;
	*inner = arena_printf(t->q->p.arena, "%s.i", loop);
	return arena_printf(t->q->p.arena, "%s.o", loop);
}

/* Names of the loops around the block's instance from `first` on, those over elements or the others. */
static void
add_loops(
    const struct tiling *t, struct strbuf *sb, blk_id b, bool elements, const char *not1, const char *not2)
{
	const struct tir *p = &t->q->p;
	st_id path[TIR_DEPTH], at = blk_instance(p, b);
	uint32_t n = tir_path(p, at, path);

	for (uint32_t k = 0; k < n; k++) {
		const struct st *l = &p->st[path[k]];

		if (l->op == ST_for && binds_kind(p, &p->st[at], l->axis, ITER_REDUCE) == elements &&
		    strcmp(l->name, not1) != 0 && strcmp(l->name, not2) != 0)
			sb_addf(sb, " %s", l->name);
	}
}

/* The product's loops in the tile: the sum's outside, then rows, then columns. */
static void
tile_inside(const struct tiling *t, const char *row, const char *column)
{
	struct proposing *q = t->q;
	struct strbuf sb;

	sb_init(&sb, q->p.arena);
	add_loops(t, &sb, t->product, true, "", "");
	if (tir_find_loop(&q->p, str_of(row)) != ST_NONE)
		sb_addf(&sb, " %s", row);
	if (tir_find_loop(&q->p, str_of(column)) != ST_NONE)
		sb_addf(&sb, " %s", column);
	(void)propose(q, "reorder%.*s", STR_ARG(sb_str(&sb)));
	(void)propose(q, "bind %s unroll", row);
	(void)propose(q, "bind %s vector", column);
}

/* The last block's loops in tiles; the product's, where that is another, are made in one.  false: they cannot
 * be. */
static bool
tile(const struct tiling *t)
{
	struct proposing *q = t->q;
	const char *row, *column, *rows = split(t, t->row, t->rows, &row),
				  *columns = split(t, t->column, t->columns, &column),
				  *around = columns ? columns : rows;
	struct strbuf sb;

	sb_init(&sb, q->p.arena);
	add_loops(t, &sb, t->last, false, row, column);
	if (t->last == t->product)
		add_loops(t, &sb, t->last, true, "", "");
	(void)propose(q, "reorder%.*s %s %s", STR_ARG(sb_str(&sb)), row, column);
	(void)propose(q, "bind %s unroll", row);
	(void)propose(q, "bind %s vector", column);
	if (t->last == t->product)
		return true;
	if (!around || !propose(q, "compute_at %s %s", q->p.blk[t->product].name, around))
		return false;
	tile_inside(t, loop_of(t, t->product, t->row), loop_of(t, t->product, t->column));
	return true;
}

/* A weight whose columns are more than a tile's, or do not lie along memory, goes into panels of a tile. */
static void
pack(const struct tiling *t)
{
	const struct tir_buf *b = &t->q->p.buf[t->factor];
	const int64_t width = MIN_OF(t->columns, b->dim[t->along]);
	struct strbuf sb;

	if (b->scope != SCOPE_pack || b->form || (t->along == b->rank - 1 && width == b->dim[t->along]))
		return;
	sb_init(&sb, t->q->p.arena);
	for (int d = 0; d < b->rank; d++)
		if (d != t->along && b->dim[d] > 1)
			sb_addf(&sb, "%d,", d);
	(void)propose(
	    t->q, "pack %%%s %lld %.*s%d", b->name, (long long)width, STR_ARG(sb_str(&sb)), t->along);
}

void
rule_tile(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk; b++) {
		struct tiling t = {.q = q, .product = b};
		const struct tir was = q->p;
		const size_t n = q->trace->n;

		if (!blk_stands(&q->p, b) || !blk_reduces(&q->p, b) || !find_tile(&t))
			continue;
		size_tile(&t);
		t.last = last_block(&q->p, b);
		if (t.last == BLK_NONE || !tile(&t)) {
			take_back(q, &was, n);
			t.last = b;
			(void)tile(&t);
		}
		pack(&t);
	}
}
