/* kernels/schedule/tile_size.c: how large a tile of registers is: vectors of columns, rows, and rows of how
 * many fields side by side, by what is left over and how many registers there are. */
#include "tile_int.h"

enum { MOST_VECTORS = 4, MOST_ROWS = 12, WINDOWS = 2 /* fields */ };

axis_id
tile_axis(const struct tir *p, blk_id b, int d)
{
	struct ixv at = ixv_get(p->tx, p->blk[b].at[0]);
	axis_id a;

	return d >= 0 && ix_is_axis(p->tx, at.i[d], &a) ? a : AXIS_NONE;
}

/* More than a vector, or words of half of one at least: gcc makes single elements of the rest. */
static bool
fills_lanes(const struct tiling *t, int64_t columns)
{
	return (columns >= t->lanes || (columns >= t->lanes / 2 && columns % 4 == 0)) &&
	    (t->is_apart || t->alike % t->lanes == 0);
}

bool
tile_lanes(struct tiling *t, int64_t columns)
{
	enum { HALF = 8 };
	const int64_t widest = t->q->target->lanes;

	t->lanes = widest;
	if (!fills_lanes(t, columns) && widest > HALF)
		t->lanes = HALF;
	if (fills_lanes(t, columns))
		return true;
	t->lanes = t->alike < widest ? MIN_OF(widest, (int64_t)HALF) : widest;
	t->group = t->alike;
	return !t->is_apart && t->group >= t->lanes;
}

/* Vectors of columns: as many as leave nothing over, two at best, as each row's element then meets two.  One
 * row has no other products to go on with. */
static int64_t
vectors_of(const struct tiling *t, int64_t columns)
{
	static const int64_t order[] = {2, 3, MOST_VECTORS, 1};

	if (t->is_apart)
		return 1;
	if (t->panel)
		return t->panel / t->lanes;
	if (t->q->target->chosen.nv && t->alike % (t->q->target->chosen.nv * t->lanes) == 0)
		return MIN_OF(t->q->target->chosen.nv, ceil_div(columns, t->lanes));
	for (size_t k = 0; k < COUNT_OF(order) - (t->row < 0); k++)
		if (columns % (order[k] * t->lanes) == 0 && t->alike % (order[k] * t->lanes) == 0)
			return order[k];
	return columns > 2 * t->lanes && !t->alike ? 2 : 1;
}

/* Half cycles that one step of the sum takes in a tile: two multiply-adds or loads a cycle, and none begins
 * before the one before it has ended. */
static int64_t
cycles(int64_t rows, int64_t vectors)
{
	enum { LATENCY = 8 };

	return rows == 0 ? 0 : MAX_OF((int64_t)LATENCY, MAX_OF(rows * vectors, rows + vectors));
}

/* Rows, at most as many as registers are left for, so that whole tiles and what is left over take least.  Of
 * equals those with most rows, as a loaded column meets them all; columns with windows of their own have none
 * in common, so there those that leave nothing over, which would be text of its own. */
static int64_t
rows_of(const struct tiling *t, int64_t rows, int64_t most, int64_t vectors, int64_t *takes)
{
	int64_t best = most;

	*takes = INT64_MAX;
	for (int64_t n = MIN_OF(most, rows); n > 0 && (n * 2 > most || n == MIN_OF(most, rows)); n--) {
		const int64_t n_fields = t->fields * n, rest = t->fields * (rows % n);
		const int64_t all = rows / n * cycles(n_fields, vectors) + cycles(rest, vectors);

		if (all < *takes || (t->is_apart && all == *takes && rows % n == 0 && rows % best)) {
			*takes = all;
			best = n;
		}
	}
	return best;
}

/* Are there elements behind a border?  Where rows of several fields are one beside the other, each asks
 * otherwise, and the border is text of its own in both directions; in one, where a tile has whole rows. */
static bool
has_border(const struct tiling *t)
{
	const struct tir *p = &t->q->p;

	return ex_get(p->tx, p->blk[t->product].value[0])->kind == EX_GUARD;
}

/* May rows of n fields be one beside the other?  Of windows two, which have elements in common; else as many
 * as a tile has room for where rows are few.  None is left over. */
static bool
suits(const struct tiling *t, int64_t n, int64_t rows, int64_t fields, int64_t most)
{
	const int64_t asked = t->q->target->chosen.field;
	const bool may = !has_border(t) || (t->is_apart && WINDOWS * rows <= most);
	const int64_t wanted = asked ? asked : may ? WINDOWS : 1;

	if (fields % n)
		return false;
	if (asked || t->is_apart)
		return n == (fields % wanted ? 1 : wanted);
	return n == 1 || (n * rows <= most && may);
}

/* Registers of results.  A window's elements come from memory as they are multiplied. */
static int64_t
room_of(const struct tiling *t, int64_t vectors)
{
	const int64_t n = t->q->target->n_vregs;

	return MIN_OF(t->is_apart ? n / 2 : (n - TILE_SPARE) / vectors, (int64_t)MOST_ROWS);
}

/* As many fields, of as many rows each, as take least for all of them. */
static void
size_rows(struct tiling *t, int64_t rows, int64_t fields, int64_t vectors)
{
	const int64_t asked = t->q->target->chosen.mr;
	const int64_t most = room_of(t, vectors);
	int64_t least = INT64_MAX, takes;

	for (int64_t n = 1; n <= MIN_OF((int64_t)MOST_ROWS, fields); n++) {
		struct tiling with = *t;
		int64_t n_rows;

		if (!suits(t, n, rows, fields, most))
			continue;
		with.fields = n;
		n_rows = rows_of(&with, rows, MAX_OF(most / n, (int64_t)1), vectors, &takes);
		if (takes * (fields / n) < least) {
			least = takes * (fields / n);
			t->fields = n;
			t->rows = n_rows;
		}
	}
	if (asked)
		t->rows = MIN_OF(asked, rows);
}

void
tile_size(struct tiling *t)
{
	const struct tir *p = &t->q->p;
	const int64_t vectors =
	    vectors_of(t, extent_of(p, tile_axis(p, t->last, t->last_column)) + t->behind);
	const int64_t fields = t->last_field < 0 ? 1 : extent_of(p, tile_axis(p, t->last, t->last_field));

	t->columns = vectors * t->lanes;
	t->fields = 1;
	t->rows = MAX_OF((t->q->target->n_vregs - TILE_SPARE) / vectors, (int64_t)1);
	size_rows(t, extent_of(p, tile_axis(p, t->last, t->last_row)), fields, vectors);
}
