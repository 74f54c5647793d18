/* kernels/schedule/tile_feed.c: what a tile of registers reads.  A weight lies in panels of the tile's
 * columns; another factor whose columns do not lie along memory is copied so, ahead; what makes the rows of a
 * tile makes them where they are read, once for all columns. */
#include "tile_int.h"

#include <string.h>

bool
tile_lies_along(const struct tiling *t)
{
	return t->along == t->q->p.buf[t->columns_from].rank - 1;
}

bool
tile_can_read(const struct tiling *t)
{
	const struct tir_buf *b = &t->q->p.buf[t->columns_from];

	return tile_lies_along(t) || b->role == BUF_OPERAND ||
	    (b->role == BUF_TEMP && b->scope == SCOPE_global);
}

const char *
dims_but(const struct tir *p, buf_id buf, int last)
{
	const struct tir_buf *b = &p->buf[buf];
	struct strbuf sb;

	sb_init(&sb, p->arena);
	for (int d = 0; d < b->rank; d++)
		if (d != last && b->dim[d] > 1)
			sb_addf(&sb, "%d,", d);
	sb_addi(&sb, last);
	return sb_str(&sb).p;
}

bool
tile_window_is_along(const struct tiling *t, const char *loop)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *b = &p->blk[t->product];
	const axis_id element = p->st[tir_find_loop(p, str_of(loop))].axis,
		      row = tile_axis(p, t->product, t->row);
	const struct ixv bound = ixv_get(p->tx, p->st[blk_instance(p, t->product)].at);
	const struct ixv at = ixv_get(p->tx, t->rows_at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		for (uint32_t d = 0; ix_has(p->tx, bound.i[k], element) && d < at.n; d++)
			if (ix_has(p->tx, at.i[d], row) && ix_has(p->tx, at.i[d], p->iter[b->iter0 + k].id))
				return true;
	return false;
}

static const char *
dims_of(const struct tiling *t)
{
	return dims_but(&t->q->p, t->columns_from, t->along);
}

/* A weight whose columns are more than a tile's, or do not lie along memory, goes into panels. */
static void
pack(const struct tiling *t)
{
	const struct tir_buf *b = &t->q->p.buf[t->columns_from];
	const int64_t width = MIN_OF(t->columns, b->dim[t->along]);

	if ((!b->form || t->behind) && !t->is_shifted && !t->group &&
	    !(tile_lies_along(t) && width == b->dim[t->along]))
		(void)propose(t->q, "pack %%%s %lld %s", b->name, (long long)width, dims_of(t));
}

static blk_id
maker_of(const struct tir *p, buf_id buf)
{
	blk_id b = 0;

	while (b < p->n_blk && !(blk_stands(p, b) && blk_stores_buf(&p->blk[b], buf)))
		b++;
	return b < p->n_blk ? b : BLK_NONE;
}

/* Does another iteration of the loop read columns of its own? */
static bool
has_own_columns(const struct tiling *t, axis_id loop)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *b = &p->blk[t->product];
	const struct ixv bound = ixv_get(p->tx, p->st[blk_instance(p, t->product)].at);

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (ix_has(p->tx, bound.i[k], loop) &&
		    ixv_has(p->tx, t->columns_at, p->iter[b->iter0 + k].id))
			return true;
	return false;
}

/* The innermost of the outer loops of which that is so, as over a batch of products: what is copied in there
 * is copied once, and lies near. NULL: there is none. */
static const char *
loop_of_columns(const struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const char *loop = NULL;
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, blk_instance(p, t->product), path);

	for (uint32_t k = 0; k < n && p->st[path[k]].op == ST_for && has_own_columns(t, p->st[path[k]].axis);
	     k++)
		loop = p->st[path[k]].name;
	return loop;
}

/* Both ways in blocks that are turned in registers. */
static void
turn_copy(const struct tiling *t, const char *name)
{
	enum { TURNED = 16 };
	const struct tir *p = &t->q->p;
	const int dim[2] = {p->buf[t->columns_from].rank - 1, t->along};
	const char *loop[2];

	for (int k = 0; k < 2; k++) {
		loop[k] = arena_printf(p->arena, "t%s's.i%d", name, dim[k]);
		const st_id s = tir_find_loop(p, str_of(loop[k]));

		if (s == ST_NONE || loop_trips(p, s) < TURNED)
			return;
	}
	for (int k = 0; k < 2; k++)
		if (!propose(t->q, "split %s %d", loop[k], (int)TURNED))
			return;
	(void)propose(t->q, "reorder %s.o %s.o %s.i %s.i", loop[0], loop[1], loop[0], loop[1]);
}

/* What is read of an operand, one product's columns at a time. */
static bool
copy_own_columns(const struct tiling *t)
{
	const char *name = t->q->p.buf[t->columns_from].name, *loop = loop_of_columns(t);

	if (!loop || t->q->p.buf[t->columns_from].role != BUF_OPERAND ||
	    !propose(t->q, "stage %%%s %s %s", name, loop, dims_of(t)))
		return false;
	turn_copy(t, name);
	return true;
}

/* Ahead, in blocks that are turned in registers; what maps the factor does so there. */
static void
copy_along(const struct tiling *t)
{
	const char *name = t->q->p.buf[t->columns_from].name;
	const blk_id maker = maker_of(&t->q->p, t->columns_from);

	if (copy_own_columns(t) || !propose(t->q, "stage %%%s root %s", name, dims_of(t)))
		return;
	if (maker != BLK_NONE)
		(void)propose(t->q, "inline %s", t->q->p.blk[maker].name);
	turn_map(t->q, tir_find_blk(&t->q->p, str_of(arena_printf(t->q->p.arena, "t%s's", name))));
}

/* ---- rows ---------------------------------------------------------------------------------------------- */
/* Does each row of products read elements of its own?  Windows that overlap do not. */
static bool
reads_once(const struct tiling *t)
{
	const struct tir *p = &t->q->p;
	int64_t reads = 1;

	for (uint32_t k = 0; k < p->blk[t->product].n_iter; k++) {
		const axis_id a = p->iter[p->blk[t->product].iter0 + k].id;

		if (ixv_has(p->tx, t->rows_at, a))
			reads *= tx_axis_get(p->tx, a)->hi + 1;
	}
	return reads == places_of(p, t->rows_from);
}

/* Does the index count elements around a point? */
static bool
is_around_points(const struct tir *p, const struct tir_block *b, ix_id i)
{
	bool has[ITER_CARRIED + 1] = {false};

	for (uint32_t k = 0; k < b->n_iter; k++)
		has[p->iter[b->iter0 + k].kind] |= ix_has(p->tx, i, p->iter[b->iter0 + k].id);
	return has[ITER_SPACE] && has[ITER_REDUCE];
}

struct windows {
	const struct tir *p;
	const struct tir_block *b;
	bool any;
};

static void
note_window(void *self, const struct ex *read)
{
	struct windows *w = self;
	const struct ixv at = ixv_get(w->p->tx, read->at);

	for (uint32_t d = 0; d < at.n; d++)
		w->any |= is_around_points(w->p, w->b, at.i[d]);
}

/* Does it join windows?  Where neighbours are made together, what they have in common is read once. */
static bool
joins_windows(const struct tir *p, blk_id b)
{
	struct windows w = {.p = p, .b = &p->blk[b]};

	if (blk_reduces(p, b))
		blk_reads(p, &p->blk[b], note_window, &w);
	return w.any;
}

/* Not everything around an instance is a loop: a guard has no name. */
static bool
is_loop(const struct tir *p, st_id s, const char *name)
{
	return p->st[s].op == ST_for && strcmp(p->st[s].name, name) == 0;
}

/* The outermost loop around the block's instance that is inside of the other; NULL. */
static const char *
first_loop_inside(const struct tir *p, blk_id b, const char *other)
{
	st_id path[TIR_DEPTH];
	uint32_t n = tir_path(p, blk_instance(p, b), path);

	for (uint32_t k = 0; k + 1 < n; k++)
		if (is_loop(p, path[k], other))
			return p->st[path[k + 1]].op == ST_for ? p->st[path[k + 1]].name : NULL;
	return NULL;
}

/* Points of the block's instance in an iteration of the loop. */
static int64_t
elements_in(const struct tir *p, blk_id b, const char *loop)
{
	st_id path[TIR_DEPTH];
	int64_t n = 1;

	for (uint32_t k = tir_path(p, blk_instance(p, b), path); k-- > 0 && !is_loop(p, path[k], loop);)
		if (p->st[path[k]].op == ST_for)
			n *= MIN_OF(loop_trips(p, path[k]), (int64_t)INT32_MAX);
	return n;
}

/* How often rows may seem to be made: a last tile that is not full makes none behind the end. */
#define LAST_TILE 1.25

/* Does the block read what is made of the tile's rows, or these? */
static void
find_behind(const struct tiling *t, bool *behind)
{
	const struct tir *p = &t->q->p;

	for (blk_id b = 0; b < p->n_blk; b++) {
		behind[b] = blk_stands(p, b) && blk_reads_buf(p, &p->blk[b], t->rows_from);
		for (blk_id m = 0; m < b && !behind[b]; m++)
			behind[b] = behind[m] && blk_stands(p, b) && p->blk[m].n_out == 1 &&
			    blk_reads_buf(p, &p->blk[b], p->blk[m].out[0]);
	}
}

/* What else is made of the rows (their sums) goes there too, if all that reads it is there. */
static void
move_readers(const struct tiling *t)
{
	const struct tir *p = &t->q->p;
	bool *behind = NEW_ARRAY(p->arena, bool, p->n_blk);

	find_behind(t, behind);
	for (blk_id b = p->n_blk; b-- > 0;)
		if (behind[b] && b != t->product && b != t->last && !blk_is_tiled(p, b))
			(void)move_into(t->q, b, t->rows_loop, LAST_TILE);
}

/* To the loop around the tile's rows; a product in tiles of as many rows. */
static bool
move_near(const struct tiling *t, blk_id b)
{
	return blk_is_tiled(&t->q->p, b) ? tile_at(t->q, b, t->rows_loop, t->rows, LAST_TILE)
					 : move_into(t->q, b, t->rows_loop, LAST_TILE);
}

/* What makes the rows goes to the loop around a tile's rows, and what that is made of, row by row, too. */
static void
make_rows_near(const struct tiling *t)
{
	const struct tir before = t->q->p, *p = &t->q->p;
	const size_t n = t->q->trace->n;
	const blk_id maker = maker_of(p, t->rows_from);
	const char *inside;
	bool is_tiled;

	if (maker == BLK_NONE || p->buf[t->rows_from].role == BUF_OPERAND || !t->rows_loop || !reads_once(t))
		return;
	is_tiled = blk_is_tiled(p, maker);
	move_readers(t);
	if (!move_near(t, maker)) {
		take_back(t->q, &before, n);
		return;
	}
	inside = is_tiled ? t->rows_loop : first_loop_inside(p, maker, t->rows_loop);
	if (inside && !is_tiled)
		inside = tile_of_rows(t->q, inside, elements_in(p, maker, inside));
	for (blk_id b = p->n_blk; b-- > 0 && inside;) {
		if (b == maker || !blk_stands(p, b) || joins_windows(p, b))
			continue;
		if (blk_is_tiled(p, b))
			(void)move_near(t, b);
		else
			(void)move_into(t->q, b, inside, LAST_TILE);
	}
}

void
tile_feed(struct tiling *t)
{
	if (t->q->p.buf[t->columns_from].scope == SCOPE_pack)
		pack(t);
	else if (!tile_lies_along(t))
		copy_along(t);
	make_rows_near(t);
}

/* ---- what is made here and read as columns ------------------------------------------------------------- */
/* Iterations of the loop over lanes around the block; 0: there is none. */
static int64_t
columns_of_tile(const struct tir *p, blk_id b)
{
	st_id path[TIR_DEPTH];

	for (uint32_t k = tir_path(p, blk_instance(p, b), path); k-- > 0;)
		if (p->st[path[k]].op == ST_for && p->st[path[k]].bind == BIND_vector)
			return loop_trips(p, path[k]);
	return 0;
}

/* A plain block makes it, and this tile alone reads it. */
static bool
is_own_factor(const struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_buf *b = &p->buf[t->columns_from];
	const blk_id maker = maker_of(p, t->columns_from);

	return b->role == BUF_TEMP && b->scope == SCOPE_global && maker != BLK_NONE &&
	    !blk_reduces(p, maker) && blk_only_reader(p, t->columns_from) == t->product;
}

void
tile_pack_made(struct tiling *t)
{
	const int64_t width = columns_of_tile(&t->q->p, t->product);

	if (is_own_factor(t) && tile_lies_along(t) && width > 1 &&
	    width < t->q->p.buf[t->columns_from].dim[t->along])
		(void)propose(t->q, "pack %%%s %lld", t->q->p.buf[t->columns_from].name, (long long)width);
}
