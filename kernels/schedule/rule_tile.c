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
 * A plain block that alone reads the products, each once, is tiled, and they are made in its tile.  What the
 * tile reads is then brought near (tile_feed.c). */
#include "tile_int.h"

#include <string.h>

enum { CHEAP = 8 /* operations */ };
enum { MOST_VECTORS = 4, MOST_ROWS = 12, SPARE = 4 /* registers for a loaded column and a row's element */ };

/* ---- which blocks -------------------------------------------------------------------------------------- */
static const struct ex *
through_guards(const struct tx *x, const struct ex *e)
{
	while (e->kind == EX_GUARD)
		e = ex_get(x, e->arg[0]);
	return e;
}

bool
tile_factors(const struct tir *p, blk_id b, const struct ex **one, const struct ex **other)
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

	return d >= 0 && ix_is_axis(p->tx, at.i[d], &a) ? a : AXIS_NONE;
}

int
dim_along(const struct tir *p, ixv_id place, axis_id a)
{
	const struct ixv at = ixv_get(p->tx, place);
	int found = -1;
	int64_t coef;

	for (int d = 0; d < (int)at.n; d++) {
		if (!ix_has(p->tx, at.i[d], a))
			continue;
		if (found >= 0 || !ix_coef(p->tx, at.i[d], a, &coef) || coef != 1)
			return -1;
		found = d;
	}
	return found;
}

/* How many columns side by side read the same place: of a grouped convolution a group's.  0: all do; 1: none.
 */
static int64_t
columns_alike(const struct tir *p, ixv_id place, axis_id column)
{
	const struct ixv at = ixv_get(p->tx, place);
	int64_t alike = 0;

	for (uint32_t d = 0; d < at.n; d++) {
		const struct ix n = *ix_get(p->tx, at.i[d]);
		const struct ix_term own = {.coef = 1, .atom = at.i[d]},
				     *terms = n.kind == IX_LIN ? n.terms : &own;

		for (uint32_t k = 0; k < (n.kind == IX_LIN ? n.n_terms : 1); k++) {
			const struct ix atom = *ix_get(p->tx, terms[k].atom);
			const bool divides = atom.kind == IX_DIV && atom.a == ix_axis(p->tx, column);

			if (!ix_has(p->tx, terms[k].atom, column))
				continue;
			if (!divides || (alike && alike != atom.c))
				return 1;
			alike = atom.c;
		}
	}
	return alike;
}

/* A row of the tile: an axis that the factor of the columns lacks.  A single row is one, too. */
static void
find_row(struct tiling *t)
{
	const struct tir *p = &t->q->p;

	for (t->row = t->column - 1; t->row >= 0; t->row--) {
		axis_id a = axis_of(p, t->product, t->row);

		if (a != AXIS_NONE && extent_of(p, a) > 1 && !ixv_has(p->tx, t->columns_at, a) &&
		    ixv_has(p->tx, t->rows_at, a))
			return;
	}
}

static void
take_factors(struct tiling *t, const struct ex *rows, const struct ex *columns)
{
	t->rows_from = rows->tensor;
	t->rows_at = rows->at;
	t->columns_from = columns->tensor;
	t->columns_at = columns->at;
}

/* Each column sums up a window of its own, along memory in both factors; a weight has no rows. */
static bool
take_apart(struct tiling *t, const struct ex *one, const struct ex *other, axis_id column)
{
	const struct tir *p = &t->q->p;
	const bool is_first = p->buf[one->tensor].scope == SCOPE_pack;

	t->is_apart = is_first != (p->buf[other->tensor].scope == SCOPE_pack) &&
	    columns_alike(p, one->at, column) == 1 && columns_alike(p, other->at, column) == 1 &&
	    dim_along(p, one->at, column) == p->buf[one->tensor].rank - 1 &&
	    dim_along(p, other->at, column) == p->buf[other->tensor].rank - 1;
	if (t->is_apart)
		take_factors(t, is_first ? other : one, is_first ? one : other);
	return t->is_apart;
}

/* The columns are in one factor alone, rows in the other. */
static bool
take_shared(struct tiling *t, const struct ex *one, const struct ex *other, axis_id column)
{
	const struct tir *p = &t->q->p;
	const bool swap = columns_alike(p, one->at, column) == 1;

	take_factors(t, swap ? other : one, swap ? one : other);
	t->alike = columns_alike(p, t->rows_at, column);
	return t->alike != 1 && t->alike % t->q->target->lanes == 0;
}

/* More than a vector, or words of half of one at least: gcc makes single elements of the rest. */
static bool
fills_lanes(const struct tiling *t, int64_t columns)
{
	const int64_t lanes = t->q->target->lanes;

	return columns >= lanes || (columns >= lanes / 2 && columns % 4 == 0);
}

/* The columns lie along memory in the result, and in their factor, or can be made so. */
static bool
find_tile(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const struct ex *one, *other;
	axis_id column;

	if (!tile_factors(p, t->product, &one, &other))
		return false;
	t->column = p->buf[p->blk[t->product].out[0]].rank - 1;
	column = axis_of(p, t->product, t->column);
	if (column == AXIS_NONE || !fills_lanes(t, extent_of(p, column)))
		return false;
	if (!take_apart(t, one, other, column) && !take_shared(t, one, other, column))
		return false;
	t->along = dim_along(p, t->columns_at, column);
	if (t->along < 0 || !tile_can_read(t))
		return false;
	find_row(t);
	return t->row >= 0 || places_of(p, p->blk[t->product].out[0]) == extent_of(p, column);
}

int64_t
places_of(const struct tir *p, buf_id b)
{
	int64_t n = 1;

	for (int d = 0; d < p->buf[b].rank; d++)
		n *= p->buf[b].dim[d];
	return n;
}

/* ---- how large a tile ---------------------------------------------------------------------------------- */
/* Vectors of columns: as many as leave nothing over, two at best, as each row's element then meets two.  One
 * row has no other products to go on with. */
static int64_t
vectors_of(const struct tiling *t, int64_t columns)
{
	static const int64_t order[] = {2, 3, MOST_VECTORS, 1};

	if (t->is_apart)
		return 1;
	for (size_t k = 0; k < COUNT_OF(order) - (t->row < 0); k++)
		if (columns % (order[k] * t->q->target->lanes) == 0 &&
		    t->alike % (order[k] * t->q->target->lanes) == 0)
			return order[k];
	return columns > t->q->target->lanes && !t->alike ? 2 : 1;
}

/* Half cycles that one step of the sum takes in a tile: two multiply-adds or loads a cycle, and none begins
 * before the one before it has ended. */
static int64_t
cycles(int64_t rows, int64_t vectors)
{
	enum { LATENCY = 8 };

	return rows == 0 ? 0 : MAX_OF((int64_t)LATENCY, MAX_OF(rows * vectors, rows + vectors));
}

/* Rows, at most as many as registers are left for, so that whole tiles and what is left over take least. */
static int64_t
rows_of(const struct tiling *t, int64_t rows, int64_t vectors)
{
	const int64_t each = vectors + t->is_apart; /* a window's elements stay for the next rows */
	const int64_t most = MIN_OF((t->q->target->n_vregs - SPARE) / each, (int64_t)MOST_ROWS);
	int64_t best = most, least = INT64_MAX;

	for (int64_t n = MIN_OF(most, rows); n * 2 > most || n == rows; n--) {
		const int64_t all = rows / n * cycles(n, vectors) + cycles(rows % n, vectors);

		if (all < least) {
			least = all;
			best = n;
		}
	}
	return best;
}

static void
size_tile(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	int64_t vectors = vectors_of(t, extent_of(p, axis_of(p, t->last, t->last_column)));

	t->columns = vectors * t->q->target->lanes;
	t->rows = rows_of(t, extent_of(p, axis_of(p, t->last, t->last_row)), vectors);
}

/* ---- who reads the products ---------------------------------------------------------------------------- */
static void
take_product(struct tiling *t)
{
	t->last = t->product;
	t->last_row = t->row;
	t->last_column = t->column;
	t->made_at = t->q->p.blk[t->product].at[0];
	size_tile(t);
}

/* The plain block that alone reads the products, each once; false: none, or several. */
static bool
find_reader(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const buf_id made = p->blk[t->product].out[0];
	uint32_t n;

	t->last = BLK_NONE;
	for (blk_id b = 0; b < p->n_blk; b++) {
		ixv_id *at;

		if (!blk_stands(p, b) || b == t->product)
			continue;
		at = blk_places_read(p, &p->blk[b], made, &n);
		if (n == 0)
			continue;
		if (n > 1 || t->last != BLK_NONE || p->blk[b].comb != COMB_NONE || p->blk[b].n_out != 1 ||
		    blk_points(p, b) != places_of(p, made))
			return false;
		t->last = b;
		t->made_at = at[0];
	}
	return t->last != BLK_NONE;
}

/* Does the reader store along memory what lies along the products' columns, and has it their rows?  Where it
 * has a part of the columns, tiles must not go over its end. */
static bool
take_reader(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	axis_id column, row;

	if (!find_reader(t))
		return false;
	t->last_column = p->buf[p->blk[t->last].out[0]].rank - 1;
	column = axis_of(p, t->last, t->last_column);
	if (column == AXIS_NONE || dim_along(p, t->made_at, column) != t->column)
		return false;
	for (t->last_row = t->last_column - 1; t->last_row >= 0 && t->row >= 0; t->last_row--) {
		row = axis_of(p, t->last, t->last_row);
		if (row != AXIS_NONE && dim_along(p, t->made_at, row) == t->row)
			break;
	}
	size_tile(t);
	return (t->row < 0 || t->last_row >= 0) &&
	    (extent_of(p, column) == extent_of(p, axis_of(p, t->product, t->column)) ||
		extent_of(p, column) % t->columns == 0);
}

/* ---- the trace ----------------------------------------------------------------------------------------- */
/* "": none */
static const char *
loop_of(const struct tiling *t, blk_id b, int d)
{
	return d < 0 ? "" : arena_printf(t->q->p.arena, "%s.i%d", t->q->p.blk[b].name, d);
}

/* What stands for the loop of dimension d: its tiles, or itself where one tile has all of it. */
static const char *
split(const struct tiling *t, int d, int64_t size, const char **inner)
{
	const char *loop = loop_of(t, t->last, d);
	const st_id at = tir_find_loop(&t->q->p, str_of(loop));

	*inner = loop;
	if (at == ST_NONE || loop_trips(&t->q->p, at) <= size ||
	    !propose(t->q, "split %s %lld guard", loop, (long long)size))
		return NULL;
	*inner = arena_printf(t->q->p.arena, "%s.i", loop);
	return arena_printf(t->q->p.arena, "%s.o", loop);
}

/* Does the loop count through columns of the products? */
static bool
counts_columns(const struct tiling *t, blk_id b, st_id instance, axis_id loop)
{
	const struct tir *p = &t->q->p;
	const ix_id column = ixv_get(p->tx, b == t->last ? t->made_at : p->blk[b].at[0]).i[t->column];
	const struct ixv bound = ixv_get(p->tx, p->st[instance].at);

	for (uint32_t k = 0; k < p->blk[b].n_iter; k++)
		if (ix_has(p->tx, bound.i[k], loop) && ix_has(p->tx, column, p->iter[p->blk[b].iter0 + k].id))
			return true;
	return false;
}

enum wanted { OTHERS, COLUMNS, ELEMENTS };

/* Names of the loops around the block's instance, but for two; of the last one, or NULL. */
static const char *
add_loops(
    const struct tiling *t, struct strbuf *sb, blk_id b, enum wanted what, const char *not1, const char *not2)
{
	const struct tir *p = &t->q->p;
	const char *last = NULL;
	st_id path[TIR_DEPTH], at = blk_instance(p, b);
	uint32_t n = tir_path(p, at, path);

	for (uint32_t k = 0; k < n; k++) {
		const struct st *l = &p->st[path[k]];
		const enum wanted is = l->op != ST_for || binds_kind(p, &p->st[at], l->axis, ITER_REDUCE)
		    ? ELEMENTS
		    : counts_columns(t, b, at, l->axis) ? COLUMNS
							: OTHERS;

		if (l->op != ST_for || is != what || strcmp(l->name, not1) == 0 || strcmp(l->name, not2) == 0)
			continue;
		last = l->name;
		sb_addf(sb, " %s", last);
	}
	return last;
}

static void
bind_tile(struct proposing *q, const char *row, const char *column)
{
	if (*row)
		(void)propose(q, "bind %s unroll", row);
	(void)propose(q, "bind %s vector", column);
}

/* As text for each row, exponentials took half of the compiler's time; in a loop they wait in a tile that is
 * near, which few operations would feel. */
static bool
is_dear(const struct tir *p, blk_id b)
{
	return ex_get(p->tx, p->blk[b].value[0])->flops > CHEAP;
}

/* Rows have elements of a window in common: these are read once where they stand side by side. */
static void
unroll_window(const struct tiling *t, const char *along)
{
	if (t->is_apart && along)
		(void)propose(t->q, "bind %s unroll", along);
}

/* The product's loops in the tile: several of columns (NULL: one), the sum's, then rows, then columns. */
static void
tile_inside(const struct tiling *t, const char *tiles, const char *row, const char *column)
{
	struct proposing *q = t->q;
	const char *along;
	struct strbuf sb;

	sb_init(&sb, q->p.arena);
	if (tiles)
		sb_addf(&sb, " %s", tiles);
	along = add_loops(t, &sb, t->product, ELEMENTS, "", "");
	if (tir_find_loop(&q->p, str_of(row)) != ST_NONE)
		sb_addf(&sb, " %s", row);
	if (tir_find_loop(&q->p, str_of(column)) != ST_NONE)
		sb_addf(&sb, " %s", column);
	(void)propose(q, "reorder%.*s", STR_ARG(sb_str(&sb)));
	bind_tile(q, row, column);
	unroll_window(t, along);
}

/* A loop over elements that a factor's index divides is two: none of them does. */
static void
split_digits(const struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_block b = p->blk[t->product];

	for (uint32_t k = 0; k < b.n_iter; k++) {
		const struct tir_iter it = p->iter[b.iter0 + k];
		const int64_t c = it.kind == ITER_REDUCE ? place_divisor(p, t->rows_at, it.id) : 0;

		if (c)
			(void)propose(t->q, "split %s.%s %lld", b.name, it.name, (long long)c);
	}
}

/* The last block's loops in tiles; the product's, where that is another, are made in one.  Columns inside of
 * rows: what a row reads is near for all of them.  false: they cannot be. */
static bool
tile(struct tiling *t)
{
	struct proposing *q = t->q;
	const char *row, *column, *around, *others, *along;
	struct strbuf sb;

	(void)split(t, t->last_row, t->rows, &row);
	(void)split(t, t->last_column, t->columns, &column);
	sb_init(&sb, q->p.arena);
	others = add_loops(t, &sb, t->last, OTHERS, row, column);
	around = add_loops(t, &sb, t->last, COLUMNS, row, column);
	t->rows_loop = others;
	t->has_columns = around != NULL;
	along = t->last == t->product ? add_loops(t, &sb, t->last, ELEMENTS, "", "") : NULL;
	(void)propose(q, "reorder%.*s%s%s %s", STR_ARG(sb_str(&sb)), *row ? " " : "", row, column);
	bind_tile(q, t->last == t->product || !is_dear(&q->p, t->last) ? row : "", column);
	unroll_window(t, along);
	if (t->last == t->product)
		return true;
	around = around ? around : others;
	if (!around || !propose(q, "compute_at %s %s", q->p.blk[t->product].name, around))
		return false;
	tile_inside(t, NULL, loop_of(t, t->product, t->row), loop_of(t, t->product, t->column));
	return true;
}

bool
tile_at(struct proposing *q, blk_id product, const char *loop, int64_t rows, double most)
{
	struct tiling t = {.q = q, .product = product};
	const int64_t vectors = (q->target->n_vregs - SPARE) / MAX_OF(rows, (int64_t)1);
	const char *tiles, *column;

	if (!find_tile(&t) || t.row < 0 || !move_into(q, product, loop, most))
		return false;
	take_product(&t);
	t.columns = MIN_OF(t.columns, MAX_OF(vectors, (int64_t)1) * q->target->lanes);
	tiles = split(&t, t.column, t.columns, &column);
	tile_inside(&t, tiles, loop_of(&t, product, t.row), column);
	return true;
}

void
rule_tile(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk; b++) {
		struct tiling t = {.q = q, .product = b};
		const struct tir was = q->p;
		const size_t n = q->trace->n;

		if (!blk_stands(&q->p, b) || !blk_reduces(&q->p, b) ||
		    q->p.buf[q->p.blk[b].out[0]].scope != SCOPE_global || !find_tile(&t))
			continue;
		if (!take_reader(&t) || !tile(&t)) {
			take_back(q, &was, n);
			take_product(&t);
			(void)tile(&t);
		}
		split_digits(&t);
		tile_feed(&t);
	}
}
