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

enum { CHEAP = 8 /* operations */, FEW_COLUMNS = 64 };

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

/* A row of the tile: an axis that the factor of the columns lacks, the last one before a dimension.  A single
 * row is one, too. */
static int
row_before(const struct tiling *t, int d)
{
	const struct tir *p = &t->q->p;

	while (--d >= 0) {
		axis_id a = tile_axis(p, t->product, d);

		if (a != AXIS_NONE && extent_of(p, a) > 1 && !ixv_has(p->tx, t->columns_at, a) &&
		    ixv_has(p->tx, t->rows_at, a))
			break;
	}
	return d;
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
	return t->alike != 1;
}

/* A weight that another product has put into panels of its tile's columns: how many; 0: it is no such. */
static int64_t
panel_of(const struct tiling *t, axis_id column)
{
	const struct tir *p = &t->q->p;
	const struct tir_buf *b = &p->buf[t->columns_from];
	const struct ixv at = ixv_get(p->tx, t->columns_at);
	const int64_t n = b->dim[b->rank - 1];
	const ix_id number = ix_axis(p->tx, column);

	return b->form && n % t->lanes == 0 && !ix_is_const(p->tx, at.i[0], NULL) &&
		at.i[0] == ix_div(p->tx, number, n) && at.i[at.n - 1] == ix_mod(p->tx, number, n)
	    ? n
	    : 0;
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
	column = tile_axis(p, t->product, t->column);
	if (column == AXIS_NONE ||
	    (!take_apart(t, one, other, column) && !take_shared(t, one, other, column)) ||
	    !tile_lanes(t, extent_of(p, column)))
		return false;
	t->panel = panel_of(t, column);
	t->along = t->panel ? p->buf[t->columns_from].rank - 1 : dim_along(p, t->columns_at, column);
	if (t->along < 0 || !tile_can_read(t))
		return false;
	t->row = row_before(t, t->column);
	t->field = row_before(t, t->row);
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

/* ---- who reads the products ---------------------------------------------------------------------------- */
static void
take_product(struct tiling *t)
{
	t->last = t->product;
	t->last_row = t->row;
	t->last_column = t->column;
	t->last_field = t->field;
	t->made_at = t->q->p.blk[t->product].at[0];
	tile_size(t);
}

/* Places of the products, but for columns behind the last. */
static int64_t
read_places(const struct tiling *t, buf_id made)
{
	const struct tir_buf *b = &t->q->p.buf[made];
	const int64_t columns = b->dim[b->rank - 1];

	return places_of(&t->q->p, made) / columns * (columns - t->behind);
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
		    blk_points(p, b) != read_places(t, made))
			return false;
		t->last = b;
		t->made_at = at[0];
	}
	return t->last != BLK_NONE;
}

/* The reader's dimension before d that goes along that one of the products; -1: none. */
static int
read_along(const struct tiling *t, int d, int of)
{
	const struct tir *p = &t->q->p;

	while (--d >= 0) {
		const axis_id a = tile_axis(p, t->last, d);

		if (a != AXIS_NONE && dim_along(p, t->made_at, a) == of)
			break;
	}
	return d;
}

/* Does the reader store along memory what lies along the products' columns, and has it their rows?  Where it
 * has a part of the columns, tiles must not go over its end. */
static bool
take_reader(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	axis_id column;

	if (!find_reader(t))
		return false;
	t->last_column = p->buf[p->blk[t->last].out[0]].rank - 1;
	column = tile_axis(p, t->last, t->last_column);
	if (column == AXIS_NONE || dim_along(p, t->made_at, column) != t->column)
		return false;
	t->last_row = t->row < 0 ? t->last_column - 1 : read_along(t, t->last_column, t->row);
	t->last_field = t->field < 0 ? -1 : read_along(t, t->last_row, t->field);
	tile_size(t);
	return (t->row < 0 || t->last_row >= 0) &&
	    (extent_of(p, column) + t->behind == extent_of(p, tile_axis(p, t->product, t->column)) ||
		(!t->group && extent_of(p, column) % t->columns == 0));
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
split_by(const struct tiling *t, const char *loop, int d, int64_t size, const char *tail, const char **inner)
{
	const st_id at = tir_find_loop(&t->q->p, str_of(loop));
	const int64_t trips = at == ST_NONE ? 0 : loop_trips(&t->q->p, at);

	*inner = loop;
	if (trips < size && trips + t->behind == size && d == t->last_column &&
	    propose(t->q, "split %s %lld guard", loop, (long long)size)) {
		*inner = arena_printf(t->q->p.arena, "%s.i", loop);
		return NULL;
	}
	if (trips <= size || !propose(t->q, "split %s %lld %s", loop, (long long)size, tail))
		return NULL;
	*inner = arena_printf(t->q->p.arena, "%s.i", loop);
	return arena_printf(t->q->p.arena, "%s.o", loop);
}

static const char *
split(const struct tiling *t, int d, int64_t size, const char **inner)
{
	return split_by(t, loop_of(t, t->last, d), d, size, "guard", inner);
}

/* Of few columns the last tile begins earlier where it would not be full: its lanes are all there so, and a
 * weight of few is near as it lies.  Likewise of a group's. */
static void
split_columns(struct tiling *t, const char **inner)
{
	const int64_t all = extent_of(&t->q->p, tile_axis(&t->q->p, t->last, t->last_column)),
		      n = t->group ? t->group : all;
	const char *loop = loop_of(t, t->last, t->last_column);

	if (n < all && propose(t->q, "split %s %lld", loop, (long long)n))
		loop = arena_printf(t->q->p.arena, "%s.i", loop);
	t->is_shifted = t->last != t->product && t->behind == 0 && n % t->columns &&
	    (n < FEW_COLUMNS || t->group) && tile_lies_along(t) &&
	    split_by(t, loop, t->last_column, t->columns, "shift", inner);
	if (!t->is_shifted)
		(void)split_by(t, loop, t->last_column, t->columns, "guard", inner);
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

/* A tile's own loops; "": it has none of that kind. */
struct tile_loops {
	const char *field, *row, *column;
};

/* Names of the loops around the block's instance, but for the tile's; of the last one, or NULL. */
static const char *
add_loops(
    const struct tiling *t, struct strbuf *sb, blk_id b, enum wanted what, const struct tile_loops * not )
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

		if (l->op != ST_for || is != what || strcmp(l->name, not ->field) == 0 ||
		    strcmp(l->name, not ->row) == 0 || strcmp(l->name, not ->column) == 0)
			continue;
		last = l->name;
		sb_addf(sb, " %s", last);
	}
	return last;
}

static void
add_tile(struct strbuf *sb, const struct tile_loops *l)
{
	const char *name[] = {l->field, l->row, l->column};

	for (size_t k = 0; k < COUNT_OF(name); k++)
		if (*name[k])
			sb_addf(sb, " %s", name[k]);
}

/* Loops over what block b sums up, then the tile's; the last of the former.  Where columns have windows of
 * their own, a field's rows stand outside of the elements along them: what a border asks of a field is asked
 * once. */
static const char *
add_sum(const struct tiling *t, struct strbuf *sb, blk_id b, const struct tile_loops *l)
{
	const char *along = add_loops(t, sb, b, ELEMENTS, l);

	if (!along || !t->is_apart || !*l->field) {
		add_tile(sb, l);
		return along;
	}
	sb->n -= strlen(along) + 1;
	sb_addf(sb, " %s %s", l->field, along);
	add_tile(sb, &(struct tile_loops){"", l->row, l->column});
	return along;
}

/* The loop's name; "": there is none. */
static const char *
if_there(const struct tiling *t, const char *loop)
{
	return tir_find_loop(&t->q->p, str_of(loop)) == ST_NONE ? "" : loop;
}

static void
bind_tile(struct proposing *q, const struct tile_loops *l, bool is_text)
{
	if (*l->field && is_text)
		(void)propose(q, "bind %s unroll", l->field);
	if (*l->row && is_text)
		(void)propose(q, "bind %s unroll", l->row);
	if (*l->column)
		(void)propose(q, "bind %s vector", l->column);
}

/* As text for each row, exponentials took half of the compiler's time; in a loop they wait in a tile that is
 * near, which few operations would feel. */
static bool
is_dear(const struct tir *p, blk_id b)
{
	return ex_get(p->tx, p->blk[b].value[0])->flops > CHEAP;
}

/* Rows have elements of a window in common: these are read once where they stand side by side.  A window that
 * lies across them (11 x 1) stays a loop, with the border in its bounds. */
static void
unroll_window(const struct tiling *t, const char *along)
{
	if (t->is_apart && along && t->row >= 0 && tile_window_is_along(t, along))
		(void)propose(t->q, "bind %s unroll", along);
}

/* The product's loops in the tile: several of columns (NULL: one), the sum's, then rows, then columns. */
static void
tile_inside(const struct tiling *t, const char *tiles, const struct tile_loops *l)
{
	struct proposing *q = t->q;
	const char *along;
	struct strbuf sb;

	sb_init(&sb, q->p.arena);
	if (tiles)
		sb_addf(&sb, " %s", tiles);
	along = add_sum(t, &sb, t->product, l);
	(void)propose(q, "reorder%.*s", STR_ARG(sb_str(&sb)));
	bind_tile(q, l, true);
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

/* Is the weight more than all that it meets, which comes from outside as it is?  Then columns are the outer
 * loop: a tile's are near for all rows, and threads share no weight. */
static bool
weighs(const struct tiling *t)
{
	const struct tir *p = &t->q->p;

	return !t->is_apart && t->row >= 0 && p->buf[t->columns_from].scope == SCOPE_pack &&
	    p->buf[t->rows_from].role == BUF_OPERAND &&
	    places_of(p, t->columns_from) >
	    places_of(p, t->rows_from) + places_of(p, p->blk[t->product].out[0]);
}

/* The last block's loops in tiles; the product's, where that is another, are made in one.  Columns inside of
 * rows: what a row reads is near for all of them, but where the weight is larger.  false: they cannot be. */
static bool
tile(struct tiling *t)
{
	struct proposing *q = t->q;
	const char *around, *others, *along;
	struct tile_loops l = {"", "", ""};
	struct strbuf sb;

	if (t->fields > 1)
		(void)split(t, t->last_field, t->fields, &l.field);
	(void)split(t, t->last_row, t->rows, &l.row);
	split_columns(t, &l.column);
	sb_init(&sb, q->p.arena);
	if (weighs(t)) {
		around = add_loops(t, &sb, t->last, COLUMNS, &l);
		others = add_loops(t, &sb, t->last, OTHERS, &l);
		around = others ? others : around;
	} else {
		others = add_loops(t, &sb, t->last, OTHERS, &l);
		around = add_loops(t, &sb, t->last, COLUMNS, &l);
		around = around ? around : others;
	}
	t->rows_loop = others;
	along = NULL;
	if (t->last == t->product)
		along = add_sum(t, &sb, t->last, &l);
	else
		add_tile(&sb, &l);
	(void)propose(q, "reorder%.*s", STR_ARG(sb_str(&sb)));
	bind_tile(q, &l, t->last == t->product || !is_dear(&q->p, t->last));
	unroll_window(t, along);
	if (t->last == t->product)
		return true;
	if (!around || !propose(q, "compute_at %s %s", q->p.blk[t->product].name, around))
		return false;
	l = (struct tile_loops){t->fields > 1 ? if_there(t, loop_of(t, t->product, t->field)) : "",
	    if_there(t, loop_of(t, t->product, t->row)), if_there(t, loop_of(t, t->product, t->column))};
	tile_inside(t, NULL, &l);
	return true;
}

bool
tile_at(struct proposing *q, blk_id product, const char *loop, int64_t rows, double most)
{
	struct tiling t = {.q = q, .product = product};
	const int64_t vectors = (q->target->n_vregs - TILE_SPARE) / MAX_OF(rows, (int64_t)1);
	struct tile_loops l = {"", "", ""};
	const char *tiles;

	if (!find_tile(&t) || t.row < 0 || t.group || t.panel > MAX_OF(vectors, (int64_t)1) * t.lanes ||
	    !move_into(q, product, loop, most))
		return false;
	t.field = -1;
	take_product(&t);
	t.columns = MIN_OF(t.columns, MAX_OF(vectors, (int64_t)1) * t.lanes);
	tiles = split(&t, t.column, t.columns, &l.column);
	l.row = if_there(&t, loop_of(&t, product, t.row));
	tile_inside(&t, tiles, &l);
	return true;
}

static bool
is_product(const struct proposing *q, blk_id b)
{
	return blk_stands(&q->p, b) && blk_reduces(&q->p, b) &&
	    q->p.buf[q->p.blk[b].out[0]].scope == SCOPE_global;
}

/* A compiler makes single elements of what fills no vector, and no four of one. */
static void
widen(struct proposing *q, blk_id b, int64_t columns)
{
	if (columns % 4 && columns > q->target->lanes / 2)
		(void)propose(q, "widen %s %d", q->p.blk[b].name, q->target->lanes);
}

/* Columns that the weight has been given behind its last one. */
static int64_t
columns_behind(const struct tiling *t)
{
	const struct tir_buf *b = &t->q->p.buf[t->columns_from];

	return b->form && b->form->rank == b->form->from_rank ? b->dim[t->along] - b->form->from_dim[t->along]
							      : 0;
}

void
rule_tile(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk; b++) {
		struct tiling t = {.q = q, .product = b};
		const axis_id column =
		    is_product(q, b) ? tile_axis(&q->p, b, q->p.buf[q->p.blk[b].out[0]].rank - 1) : AXIS_NONE;

		if (column == AXIS_NONE)
			continue;
		widen(q, b, extent_of(&q->p, column));
		const struct tir was = q->p;
		const size_t n = q->trace->n;

		if (!is_product(q, b) || !find_tile(&t))
			continue;
		t.behind = columns_behind(&t);
		if (!take_reader(&t) || !tile(&t)) {
			take_back(q, &was, n);
			take_product(&t);
			(void)tile(&t);
		}
		split_digits(&t);
		tile_feed(&t);
	}
	for (blk_id b = 0; b < q->p.n_blk; b++) {
		struct tiling t = {.q = q, .product = b};

		if (blk_stands(&q->p, b) && find_tile(&t))
			tile_pack_made(&t);
	}
}
