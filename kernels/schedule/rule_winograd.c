/* kernels/schedule/rule_winograd.c: where the target asks for it, sums over windows of three by three by
 * whole tiles (winograd.c), of a block of tiles after the other from its elements to its results:
 *
 *   for blocks of tiles parallel
 *     t'in(..)
 *     for q, some k: t'down, t'across         a column's elements are text, for a row of channels
 *     for panels of columns
 *       for u, v: t'mul(..)                   in tiles of registers
 *       for tiles: t'up, t                    as t'down, for a row of columns
 *
 * Both maps of a whole tile as text, 72 statements, take as long to run (what 16 registers do not hold goes
 * through memory either way) and two to three times as long to compile. */
#include "tile_int.h"

#include <string.h>

enum {
	FEW_TILES =
	    12, /* of a block: their sums of a panel stay near; a mapped weight is read again for each */
	MOST_MAPPED = 32, /* channels at once */
	LEAST_HEIGHT = 4, /* times two vectors: as many sums as multiply-adds are under way */
	SPARE = 4,        /* registers for a loaded column and a tile's element */
	WIDE = 4          /* panels that take a position's elements while these are near, of large blocks */
};

enum { ROWS, COLUMNS, CHANNELS, SIDES };
struct windows {
	struct proposing *q;
	const char *name; /* of the block */
	int64_t tiles, channels, columns;
	const char *elements;    /* the products' iterator of channels */
	const char *column;      /* ... of columns */
	const char *band;        /* the loop over blocks of rows; "": all are of one */
	blk_id last;             /* makes results, or what is made of them alone */
	bool is_apart;           /* the latter, from results that lie in a tile of their own */
	const char *own[SIDES];  /* its loops */
	const char *loop[SIDES]; /* of the last one: rows, columns of the image; columns of products */
};

static const char *
part(const struct windows *w, const char *suffix)
{
	return arena_printf(w->q->p.arena, "%s%s", w->name, suffix);
}

static blk_id
part_blk(const struct windows *w, const char *suffix)
{
	return tir_find_blk(&w->q->p, str_of(part(w, suffix)));
}

static const struct tir_buf *
made_by(const struct windows *w, const char *suffix)
{
	return &w->q->p.buf[w->q->p.blk[part_blk(w, suffix)].out[0]];
}

/* ---- is it worth it? ----------------------------------------------------------------------------------- */
/* One loop over elements, and one over columns; few tiles stick out of the image. */
static bool
pays(struct windows *w, int64_t points)
{
	const struct tir_buf *across = made_by(w, "'across"), *mul = made_by(w, "'mul");
	const struct tir_block *b = &w->q->p.blk[part_blk(w, "'mul")];
	const struct tir_iter last = w->q->p.iter[b->iter0 + b->n_iter - 1];

	w->channels = across->dim[across->rank - 1];
	w->columns = mul->dim[mul->rank - 1];
	w->tiles = mul->dim[mul->rank - 2];
	w->elements = last.name;
	w->column = w->q->p.iter[b->iter0 + b->n_iter - 2].name;
	return mul->rank == across->rank && b->n_iter >= 5 && last.kind == ITER_REDUCE &&
	    w->q->p.iter[b->iter0 + b->n_iter - 2].kind == ITER_SPACE && w->channels >= WINOGRAD_CHANNELS &&
	    w->columns >= MAX_OF(WINOGRAD_CHANNELS, w->q->target->lanes) &&
	    places_of(&w->q->p, b->out[0]) * 10 <= points * 9 * 7;
}

/* ---- the last block ------------------------------------------------------------------------------------ */

/* The iterators of the block itself: of 'up it reads columns of tile `q`, row `i mod m`. */
static bool
find_sides(const struct windows *w, axis_id side[SIDES])
{
	const struct tir *p = &w->q->p;
	const struct tir_block *b = &p->blk[w->last];
	const buf_id up = p->blk[part_blk(w, "'up")].out[0];
	const int rank = p->buf[up].rank;
	uint32_t n;
	const struct ixv at = ixv_get(p->tx, blk_places_read(p, b, up, &n)[0]);
	const struct ix row = *ix_get(p->tx, at.i[0]);

	side[COLUMNS] = AXIS_NONE;
	for (uint32_t k = 0; k < b->n_iter; k++)
		if (ix_has(p->tx, at.i[rank - 2], p->iter[b->iter0 + k].id) &&
		    !ix_has(p->tx, at.i[0], p->iter[b->iter0 + k].id))
			side[COLUMNS] = p->iter[b->iter0 + k].id;
	return row.kind == IX_MOD && ix_is_axis(p->tx, row.a, &side[ROWS]) && side[COLUMNS] != AXIS_NONE &&
	    ix_is_axis(p->tx, at.i[rank - 1], &side[CHANNELS]);
}

/* What the reader has in place of the block's iterator; AXIS_NONE: not an iterator. */
static axis_id
in_reader(const struct tir *p, ixv_id made, ixv_id read, axis_id a)
{
	const struct ixv to = ixv_get(p->tx, made), from = ixv_get(p->tx, read);
	axis_id found;

	for (uint32_t d = 0; d < to.n; d++)
		if (to.i[d] == ix_axis(p->tx, a) && ix_is_axis(p->tx, from.i[d], &found))
			return found;
	return AXIS_NONE;
}

/* What alone reads the results, once and by the same iterators, is the last block. */
static void
find_reader(struct windows *w, axis_id side[SIDES])
{
	const struct tir *p = &w->q->p;
	const struct tir_block *b = &p->blk[w->last];
	const blk_id reader = blk_only_reader(p, b->out[0]);
	axis_id of[SIDES];
	bool same = reader != BLK_NONE && p->blk[reader].comb == COMB_NONE && p->blk[reader].n_out == 1 &&
	    blk_points(p, reader) == blk_points(p, w->last);
	uint32_t n = 0;
	ixv_id *at = same ? blk_places_read(p, &p->blk[reader], b->out[0], &n) : NULL;

	for (int k = 0; k < SIDES && n == 1; k++) {
		of[k] = in_reader(p, b->at[0], at[0], side[k]);
		same &= of[k] != AXIS_NONE;
	}
	if (!same || n != 1)
		return;
	w->last = reader;
	memcpy(side, of, sizeof(of));
}

/* The last block's loops over these iterators. */
static void
name_loops(const struct windows *w, const axis_id side[SIDES], const char *loop[SIDES])
{
	const struct tir *p = &w->q->p;
	const struct tir_block *b = &p->blk[w->last];

	for (uint32_t i = 0; i < b->n_iter; i++)
		for (int k = 0; k < SIDES; k++)
			if (p->iter[b->iter0 + i].id == side[k])
				loop[k] =
				    arena_printf(p->arena, "%s.%s", b->name, p->iter[b->iter0 + i].name);
}

/* A few operations on a result stand in the text of a tile; more are a loop over results that lie there. */
enum { FEW_FLOPS = 8 };
static bool
take_last(struct windows *w)
{
	struct proposing *q = w->q;
	axis_id side[SIDES];

	w->last = part_blk(w, "");
	if (!find_sides(w, side))
		return false;
	name_loops(w, side, w->own);
	find_reader(w, side);
	name_loops(w, side, w->loop);
	w->is_apart = w->last != part_blk(w, "") &&
	    (ex_get(q->p.tx, q->p.blk[w->last].value[0])->flops > FEW_FLOPS ||
		!propose(q, "inline %s", w->name));
	return true;
}

/* A map that the tiles' elements alone are of is made with them. */
static void
take_map(struct windows *w)
{
	const struct tir *p = &w->q->p;
	const blk_id in = part_blk(w, "'in");

	for (blk_id b = 0; b < p->n_blk; b++)
		if (blk_stands(p, b) && p->blk[b].comb == COMB_NONE &&
		    blk_only_reader(p, p->blk[b].out[0]) == in)
			(void)propose(w->q, "inline %s", p->blk[b].name);
}

/* What is neither mapped nor zero outside of the image, and lies there as it is read, is read where it is. */
static void
read_in_place(struct windows *w)
{
	const struct tir *p = &w->q->p;
	const struct tir_block *b = &p->blk[part_blk(w, "'in")];
	const struct ex v = *ex_get(p->tx, b->value[0]);
	bool affine = v.kind == EX_READ;

	for (uint32_t k = 0; affine && k < b->n_iter; k++)
		for (int d = 0; d < p->buf[v.tensor].rank; d++)
			affine &= ix_coef(
			    p->tx, ixv_get(p->tx, v.at).i[d], p->iter[b->iter0 + k].id, &(int64_t){0});
	if (affine)
		(void)propose(w->q, "inline %s", b->name);
}

/* ---- the trace ----------------------------------------------------------------------------------------- */
/* The least divisor of n from least to twice that; else what parts n evenly enough. */
static int64_t
even_part(int64_t n, int64_t least)
{
	for (int64_t k = least; k <= 2 * least && k < n; k++)
		if (n % k == 0)
			return k;
	return n <= 2 * least ? n : ceil_div(n, n / least);
}

/* A map along columns: of each column after the other a row of channels, whose elements of the column are
 * text. */
static bool
map_columns(const struct windows *w, const char *suffix, const char *channels)
{
	const char *map = part(w, suffix);

	if (!propose(w->q, "reorder %s.v %s.%s %s.u", map, map, channels, map))
		return false;
	(void)propose(w->q, "bind %s.u unroll", map);
	return true;
}

/* A loop in parts of so many iterations: *outer over these, and what is inside of one; "": there is no loop.
 */
static const char *
in_parts(struct proposing *q, const char *loop, int64_t size, const char **outer)
{
	const st_id at = tir_find_loop(&q->p, str_of(loop));

	*outer = "";
	if (size == 1) {
		*outer = loop;
		return "";
	}
	if (at == ST_NONE || loop_trips(&q->p, at) <= size ||
	    !propose(q, "split %s %lld", loop, (long long)size))
		return loop;
	*outer = arena_printf(q->p.arena, "%s.o", loop);
	return arena_printf(q->p.arena, "%s.i", loop);
}

static bool
in_order(struct proposing *q, uint32_t n, const char *const *loop)
{
	struct strbuf sb;

	sb_init(&sb, q->p.arena);
	for (uint32_t k = 0; k < n; k++)
		if (*loop[k])
			sb_addf(&sb, " %s", loop[k]);
	return propose(q, "reorder%.*s", STR_ARG(sb_str(&sb)));
}

/* A tile's results as text for each channel: of the last block, or apart for it in the loop over tiles. */
static bool
map_results(const struct windows *w, const char *tile, const char *const loop[SIDES])
{
	struct proposing *q = w->q;

	if (w->is_apart) {
		loop = w->own;
		if (!propose(q, "compute_at %s %s", w->name, tile) ||
		    !in_order(q, SIDES, (const char *[]){loop[ROWS], loop[CHANNELS], loop[COLUMNS]}))
			return false;
	}
	if (!propose(q, "compute_at %s %s", part(w, "'up"), tile))
		return false;
	(void)propose(q, "bind %s unroll", loop[COLUMNS]);
	return map_columns(w, "'up", w->column);
}

/* The last block's loops: blocks of tiles, panels, tiles of one, columns of a panel, a tile's results as
 * text. */
static bool
tile_results(struct windows *w, int64_t wide, const char **block, const char **panel)
{
	struct proposing *q = w->q;
	const int64_t asked = q->target->chosen.block, least = asked ? asked : FEW_TILES;
	const char *in[SIDES], *tiles[2], *blocks[2], *tile;
	int64_t across;

	for (int k = 0; k < 2; k++)
		if (!propose(q, "split %s %lld", w->loop[k], (long long)q->target->chosen.wino))
			return false;
	for (int k = 0; k < 2; k++) {
		tiles[k] = arena_printf(q->p.arena, "%s.o", w->loop[k]);
		in[k] = arena_printf(q->p.arena, "%s.i", w->loop[k]);
	}
	across = loop_trips(&q->p, tir_find_loop(&q->p, str_of(tiles[COLUMNS])));
	tiles[ROWS] =
	    in_parts(q, tiles[ROWS], even_part(w->tiles / across, ceil_div(least, across)), &blocks[ROWS]);
	tiles[COLUMNS] =
	    in_parts(q, tiles[COLUMNS], across < least ? across : even_part(across, least), &blocks[COLUMNS]);
	in[CHANNELS] = in_parts(q, w->loop[CHANNELS], wide, panel);
	if (!in_order(q, 8,
		(const char *[]){blocks[ROWS], blocks[COLUMNS], *panel, tiles[ROWS], tiles[COLUMNS], in[ROWS],
		    w->is_apart ? "" : in[CHANNELS], in[COLUMNS]}))
		return false;
	w->band = blocks[ROWS];
	*block = *blocks[COLUMNS] ? blocks[COLUMNS] : blocks[ROWS];
	*panel = **panel ? *panel : *block;
	tile = *tiles[COLUMNS] ? tiles[COLUMNS] : *tiles[ROWS] ? tiles[ROWS] : *panel;
	return *tile && map_results(w, tile, in);
}

/* Panels as wide as a tile of registers, in each all elements of one position after the other. */
static void
pack_weight(const struct windows *w, int64_t columns)
{
	const struct tir *p = &w->q->p;
	const struct ex v = *ex_get(p->tx, p->blk[part_blk(w, "'mul")].value[0]);

	for (uint32_t k = 0; k < v.n_arg; k++) {
		const struct ex *read = ex_get(p->tx, v.arg[k]);

		if (read->kind == EX_READ && p->buf[read->tensor].scope == SCOPE_pack)
			(void)propose(w->q, "pack %%%s %lld", p->buf[read->tensor].name, (long long)columns);
	}
}

/* The loops around a tile of registers, of which a second copy has a suffix: its rows' are `rows`.o,
 * `rows`.i. */
static bool
tile_registers(struct windows *w, const char *rows, const char *panel, const char *column, const char *suffix)
{
	struct proposing *q = w->q;
	const char *name[5] = {panel, arena_printf(q->p.arena, "%s.o", rows), part(w, "'mul."),
	    arena_printf(q->p.arena, "%s.i", rows), column};

	name[2] = arena_printf(q->p.arena, "%s%s", name[2], w->elements);
	if (tir_find_loop(&q->p, str_of(name[3])) == ST_NONE)
		name[3] = rows;
	for (int k = 0; k < 5; k += 2)
		name[k] = arena_printf(q->p.arena, "%s%s", name[k], suffix);
	for (int k = 0; k < 5; k++)
		if (tir_find_loop(&q->p, str_of(name[k])) == ST_NONE)
			name[k] = "";
	if (!in_order(q, 5, name))
		return false;
	if (*name[3])
		(void)propose(q, "bind %s unroll", name[3]);
	(void)propose(q, "bind %s vector", name[4]);
	return true;
}

/* Rows of a tile of registers: so many that one height takes all, if no fewer than two thirds of what there
 * is room for; else of two heights, as even as may be. */
static int64_t
tile_height(int64_t n, int64_t most)
{
	for (int64_t h = most; h >= MAX_OF((int64_t)LEAST_HEIGHT, most * 2 / 3); h--)
		if (n % h == 0)
			return h;
	return ceil_div(n, ceil_div(n, most));
}

/* A block's products of some panels: for each position tiles of registers, of two heights at most, one panel
 * after the other. */
static bool
tile_products(struct windows *w, int64_t columns)
{
	struct proposing *q = w->q;
	const struct tir_block *b = &q->p.blk[part_blk(w, "'mul")];
	const char *rows = part(w, "'mul.q"), *column, *panel;
	const st_id at = tir_find_loop(&q->p, str_of(rows));
	int64_t most, n;

	column = arena_printf(q->p.arena, "%s.%s", b->name, q->p.iter[b->iter0 + b->n_iter - 2].name);
	column = in_parts(q, column, columns, &panel);
	if (at == ST_NONE)
		return false;
	n = loop_trips(&q->p, at);
	most = tile_height(n, (q->target->n_vregs - SPARE) * q->target->lanes / columns);
	if (n > most && !propose(q, "split %s %lld balanced", rows, (long long)most))
		return false;
	pack_weight(w, columns);
	return tile_registers(w, rows, panel, column, "") &&
	    (n % most == 0 || tile_registers(w, part(w, "'mul.q.t"), panel, column, "'t"));
}

/* Channels that are mapped at once: what lies between both maps stays in the first cache. */
static int64_t
few_channels(int64_t n)
{
	for (int64_t k = MOST_MAPPED; k >= MOST_MAPPED / 4; k /= 2)
		if (n % k == 0)
			return k;
	return n <= 2 * MOST_MAPPED ? n : MOST_MAPPED;
}

/* A block's elements.  Its rows, zero outside of the image, are those of all blocks beside it: what asks
 * about the image's border, and becomes text once for each of its sides, holds nothing else.  Then some
 * channels of a tile, each map by itself. */
static bool
take_elements(struct windows *w, const char *block)
{
	struct proposing *q = w->q;
	const char *across = part(w, "'across"), *k = arena_printf(q->p.arena, "%s.%s", across, w->elements);
	const char *u = arena_printf(q->p.arena, "%s.u", across),
		   *v = arena_printf(q->p.arena, "%s.v", across);
	const char *tile = arena_printf(q->p.arena, "%s.q", across), *rows;

	if (*block && !propose(q, "compute_at %s %s", across, block))
		return false;
	k = in_parts(q, k, few_channels(w->channels), &rows);
	if (!in_order(q, 5, (const char *[]){tile, rows, u, k, v}) ||
	    !propose(q, "compute_at %s %s", part(w, "'down"), *rows ? rows : tile))
		return false;
	if (*block)
		(void)propose(q, "compute_at %s %s", part(w, "'in"), *w->band ? w->band : block);
	else
		(void)propose(q, "bind %s.y parallel", part(w, "'in"));
	(void)propose(q, "bind %s unroll", v);
	return map_columns(w, "'down", w->elements);
}

static bool
tile_windows(struct windows *w)
{
	struct proposing *q = w->q;
	const int64_t columns = MIN_OF(2, w->columns / q->target->lanes) * q->target->lanes,
		      wide = q->target->chosen.block > FEW_TILES ? WIDE * columns : columns;
	const char *block, *panels;

	take_map(w);
	read_in_place(w);
	return take_last(w) && tile_results(w, wide, &block, &panels) &&
	    (!*panels || propose(q, "compute_at %s %s", part(w, "'mul"), panels)) &&
	    take_elements(w, block) && tile_products(w, columns);
}

void
rule_winograd(struct proposing *q)
{
	for (blk_id b = 0; b < q->p.n_blk && q->target->chosen.wino; b++) {
		struct windows w = {.q = q, .name = q->p.blk[b].name};
		const struct tir was = q->p;
		const size_t n = q->trace->n;
		const int64_t points = blk_stands(&q->p, b) ? places_of(&q->p, q->p.blk[b].out[0]) : 0;

		if (!points || !blk_reduces(&q->p, b) ||
		    !propose(q, "winograd %s %lld", w.name, (long long)q->target->chosen.wino))
			continue;
		if (!pays(&w, points) || !tile_windows(&w))
			take_back(q, &was, n);
	}
}
