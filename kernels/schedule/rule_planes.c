/* kernels/schedule/rule_planes.c: sums over windows that have few columns run in lanes along the points of a
 * row, from planes of a channel each (planes.c), some rows of the image at a time:
 *
 *   for some rows parallel
 *     t'in(..)                             these rows and their border, turned into planes
 *     for a row
 *       for some vectors of points
 *         for elements: for columns unroll: for points vector: t'mul(..)
 *       for points: for columns: t(..)     what follows, side by side as the result lies
 */
#include "tile_int.h"

#include <string.h>

enum {
	MOST_VECTORS = 3, /* of four gcc 12 loads each for each column again */
	MOST_LANES = 64,  /* of an array of registers */
	MOST_ROWS = 4,    /* in one tile */
	MOST_COLUMNS = 12,
	FEW_CHANNELS = 4, /* are moved side by side */
	FEW_RESULTS = 8,  /* likewise: gcc 12 makes words of even numbers of them */
	LEAST_STEPS = 8,  /* of rows, for threads, and for borders to be a part of them */
	ROWS = 2,         /* of results, for each row of border that is moved with them */
	FAR = 2,          /* times a step's rows: no border is moved with each of them */
	LEAST_USES = 4,   /* of an element that is moved: elements of a window by columns */
	HALF = 8,         /* lanes of words that are half of the widest vectors */
	PART = 8,         /* vectors of points, where there is one row */
	TURNED = 8        /* elements each way of a block that is turned in registers */
};

struct planes {
	struct proposing *q;
	blk_id blk, in, mul, last; /* last: makes results, or what is made of them alone */
	int64_t lanes;
	int64_t columns; /* that share their channels */
	int64_t all_columns, channels, elements, rows, border;
	int row_dim;   /* of the sums; -1: there is one row */
	int64_t part;  /* points of a row come in multiples of this */
	bool is_apart; /* a column has channels of its own */
	int64_t tile_rows, tile_vectors, step_rows;
	axis_id column; /* of the sums, in groups; AXIS_NONE: no groups */
	const char *name;
};

static const char *
part(const struct planes *t, const char *suffix)
{
	return arena_printf(t->q->p.arena, "%s%s", t->name, suffix);
}

static bool
has_loop(const struct planes *t, const char *name)
{
	return tir_find_loop(&t->q->p, str_of(name)) != ST_NONE;
}

/* ---- is it worth it? ----------------------------------------------------------------------------------- */
/* What the iterators of the sums are. */
static void
sort_iterators(struct planes *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *b = &p->blk[t->mul];
	const struct tir_block *in = &p->blk[t->in];
	const ixv_id in_at = ex_get(p->tx, ex_get(p->tx, b->value[0])->arg[0])->at,
		     weight_at = ex_get(p->tx, ex_get(p->tx, b->value[0])->arg[1])->at;
	const struct ixv place = ixv_get(p->tx, b->at[0]);

	t->is_apart = false;
	t->columns = t->all_columns = t->elements = t->channels = t->rows = 1;
	t->border = 0;
	t->row_dim = -1;
	t->column = AXIS_NONE;
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = p->iter[b->iter0 + k];
		const int64_t n = extent_of(p, it.id), c = place_divisor(p, in_at, it.id);

		if (it.kind == ITER_REDUCE) {
			t->elements *= n;
		} else if (ixv_has(p->tx, weight_at, it.id)) {
			t->all_columns *= n;
			t->columns *= c ? c : n;
			t->is_apart |= !c && ixv_has(p->tx, in_at, it.id);
			if (c)
				t->column = it.id;
		} else {
			for (int d = 0; d + 1 < (int)place.n; d++)
				if (place.i[d] == ix_axis(p->tx, it.id))
					t->row_dim = d;
		}
	}
	for (uint32_t k = 0; k < in->n_iter; k++)
		if (p->iter[in->iter0 + k].name[0] == 'k')
			t->channels *= extent_of(p, p->iter[in->iter0 + k].id);
}

/* Rows of border beside each row of results. */
static void
find_border(struct planes *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_buf *mul = &p->buf[p->blk[t->mul].out[0]];
	const struct ixv at =
	    ixv_get(p->tx, ex_get(p->tx, ex_get(p->tx, p->blk[t->mul].value[0])->arg[0])->at);
	const ix_id row = ixv_get(p->tx, p->blk[t->mul].at[0]).i[t->row_dim < 0 ? 0 : t->row_dim];
	axis_id a;
	int64_t by;

	if (t->row_dim < 0 || !ix_is_axis(p->tx, row, &a))
		return;
	t->rows = mul->dim[t->row_dim];
	for (uint32_t d = 0; d < at.n; d++)
		if (ix_has(p->tx, at.i[d], a) && ix_coef(p->tx, at.i[d], a, &by))
			t->border = (p->buf[p->blk[t->in].out[0]].dim[d] - 1 - by * (t->rows - 1)) / by;
}

/* Are two thirds of the lanes of points that there are? */
static bool
fills_lanes(const struct planes *t)
{
	const struct tir *p = &t->q->p;
	const struct tir_buf *mul = &p->buf[p->blk[t->mul].out[0]];
	const int64_t all = places_of(p, p->blk[t->mul].out[0]);

	return places_of(p, p->blk[t->blk].out[0]) * 3 >= all * 2 && mul->dim[mul->rank - 1] >= t->lanes;
}

/* Do lanes along the channels do better (rule_dots)?  They are loaded as they lie: of 62 points, 3 x 3 of 32
 * channels to one in .3 of the time, to three in .6.  What is left over of vectors is done one by one. */
static bool
fills_dots(const struct planes *t)
{
	enum { FEW = 3, LONG = 16, VERY_LONG = 32, PART_OF_LANES = 4, SMALL_WINDOW = 9 };
	const int64_t n = t->channels;

	if (t->columns > FEW || t->columns != t->all_columns)
		return false;
	if (n < LONG)
		return n == HALF && t->elements <= SMALL_WINDOW * n;
	return n % HALF == 0 || (t->columns == 1 && (n % PART_OF_LANES == 0 || n > VERY_LONG));
}

/* Elements are moved once for all of a window, and no tile of columns would do, as one of eight does (of 62
 * points and 3 x 3 by AVX-512 in .77 of the time).  Without a window, moving them takes as long as what is
 * done to them. */
static bool
pays(struct planes *t)
{
	const int64_t window = t->elements / t->channels;

	return !t->is_apart && !fills_dots(t) && t->columns <= MOST_COLUMNS && t->columns != HALF &&
	    fills_lanes(t) && t->columns < t->q->target->lanes && window > 1 &&
	    window * t->columns >= LEAST_USES;
}

/* ---- how large a tile ---------------------------------------------------------------------------------- */
/* Quarter cycles of one element in a tile: two multiply-adds or loads a cycle, where what lies across two
 * lines is loaded twice, and none begins before the one before it has ended. */
static int64_t
cycles(const struct planes *t, int64_t rows, int64_t vectors)
{
	enum { LATENCY = 16 };
	const int64_t loads = rows * vectors * (t->lanes > 8 ? 4 : 3) + 2 * t->columns;

	return vectors == 0 ? 0 : MAX_OF((int64_t)LATENCY, MAX_OF(2 * rows * vectors * t->columns, loads));
}

static bool
fits(const struct planes *t, int64_t rows, int64_t vectors)
{
	const int64_t loaded = t->columns > 1 ? vectors : 1, weights = rows > 1 ? t->columns : 1;

	return rows * vectors * t->columns + loaded + weights <= t->q->target->n_vregs &&
	    vectors * t->lanes <= MOST_LANES && (t->columns == 1 || vectors <= MOST_VECTORS);
}

/* Rows of a step: few enough for threads, and so many that their border is not most of what is moved. */
static void
size_tile(struct planes *t)
{
	const struct tir_buf *mul = &t->q->p.buf[t->q->p.blk[t->mul].out[0]];
	const int64_t all = ceil_div(mul->dim[mul->rank - 1], t->lanes);
	double least = 0;

	t->step_rows = MAX_OF(MIN_OF(ROWS * t->border, ceil_div(t->rows, LEAST_STEPS)), (int64_t)1);
	if (t->step_rows > 1 && t->rows % 2 == 0)
		t->step_rows += t->step_rows % 2;
	t->tile_rows = t->tile_vectors = 1;
	for (int64_t rows = 1; rows <= MOST_ROWS; rows *= 2)
		for (int64_t v = 1; v <= all && fits(t, rows, v); v++) {
			const double n =
			    (double)(all / v * cycles(t, rows, v) + cycles(t, rows, all % v)) / (double)rows;

			if (t->step_rows % rows || t->rows % rows || (least > 0 && n >= least))
				continue;
			least = n;
			t->tile_rows = rows;
			t->tile_vectors = v;
		}
}

/* Is a step's border many times its rows?  Then planes are made of the whole image at once, and only where a
 * tile of columns would be worse than that: 48 rows apart, a window of three makes 112 rows of 16. */
static bool
is_far(const struct planes *t)
{
	return t->border > FAR * t->step_rows;
}

/* ---- the last block ------------------------------------------------------------------------------------ */
/* The place of the sums that the block reads; IXV_NONE: several. */
static ixv_id
sums_read(const struct planes *t, blk_id b)
{
	uint32_t n;
	const ixv_id *at = blk_places_read(&t->q->p, &t->q->p.blk[b], t->q->p.blk[t->mul].out[0], &n);

	return n == 1 ? at[0] : IXV_NONE;
}

/* The block's loop over dimension d of the sums; NULL: there is none. */
static const char *
loop_over(const struct planes *t, blk_id b, int d)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *k = &p->blk[b];
	const ixv_id at = sums_read(t, b);
	axis_id a;

	if (at == IXV_NONE || d < 0 || !ix_is_axis(p->tx, ixv_get(p->tx, at).i[d], &a))
		return NULL;
	for (uint32_t i = 0; i < k->n_iter; i++)
		if (p->iter[k->iter0 + i].id == a)
			return arena_printf(p->arena, "%s.%s", k->name, p->iter[k->iter0 + i].name);
	return NULL;
}

static int
last_dim(const struct planes *t)
{
	return t->q->p.buf[t->q->p.blk[t->mul].out[0]].rank - 1;
}

/* What alone reads the results, each once and by rows and points as they are, makes them too. */
static void
take_reader(struct planes *t)
{
	struct proposing *q = t->q;
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	const blk_id reader = blk_only_reader(&q->p, q->p.blk[t->blk].out[0]);

	if (reader == BLK_NONE || q->p.blk[reader].comb != COMB_NONE || q->p.blk[reader].n_out != 1 ||
	    blk_points(&q->p, reader) != blk_points(&q->p, t->blk) || !propose(q, "inline %s", t->name))
		return;
	t->last = reader;
	if (loop_over(t, reader, last_dim(t)) && (t->row_dim < 0 || loop_over(t, reader, t->row_dim)))
		return;
	take_back(q, &was, n);
	t->last = t->blk;
}

/* ---- the trace ----------------------------------------------------------------------------------------- */
/* Loops of the last block: a name, or nothing. */
static void
add_name(struct strbuf *sb, const char *name)
{
	if (name)
		sb_addf(sb, " %s", name);
}

/* The loop over rows as steps, tiles in these, rows in those: their names, as far as there are such. */
static void
split_rows(const struct planes *t, const char *y, const char **step, const char **row, struct strbuf *names)
{
	struct proposing *q = t->q;
	const char *i = arena_printf(q->p.arena, "%s.i", y);

	*step = *row = y;
	if (t->step_rows > 1 && propose(q, "split %s %lld guard", y, (long long)t->step_rows)) {
		*step = arena_printf(q->p.arena, "%s.o", y);
		*row = t->tile_rows == t->step_rows ? *step : i;
		sb_addf(names, " %s", *step);
		if (t->tile_rows > 1 && t->tile_rows < t->step_rows &&
		    propose(q, "split %s %lld", i, (long long)t->tile_rows)) {
			*row = arena_printf(q->p.arena, "%s.o", i);
			sb_addf(names, " %s", *row);
			i = arena_printf(q->p.arena, "%s.i", i);
		}
		y = i;
	}
	sb_addf(names, " %s", y);
}

/* Results in some rows; *step: the loop over these, *row: over those that a tile has.  One row: in parts of
 * it.  NULL: there is none.  Where points are no whole vectors, the last one is asked for all the same.
 * false: what is made last counts no points (a slice of each second one). */
static bool
tile_results(const struct planes *t, const char **step, const char **row)
{
	struct proposing *q = t->q;
	const char *x = loop_over(t, t->last, last_dim(t)), *y = loop_over(t, t->last, t->row_dim);
	struct strbuf outer, columns;

	if (!x || !has_loop(t, x))
		return false;
	sb_init(&outer, q->p.arena);
	sb_init(&columns, q->p.arena);
	for (int d = 0; d < last_dim(t); d++)
		if (d != t->row_dim)
			add_name(d < t->row_dim ? &outer : &columns, loop_over(t, t->last, d));
	*step = *row = NULL;
	if (y) {
		split_rows(t, y, step, row, &outer);
	} else if (t->part > t->lanes && propose(q, "split %s %lld guard", x, (long long)t->part)) {
		*step = *row = arena_printf(q->p.arena, "%s.o", x);
		x = arena_printf(q->p.arena, "%s.i", x);
		add_name(&outer, *step);
	}
	if (loop_trips(&q->p, tir_find_loop(&q->p, str_of(x))) % t->lanes &&
	    propose(q, "split %s %lld guard", x, (long long)t->lanes)) {
		add_name(&outer, arena_printf(q->p.arena, "%s.o", x));
		x = arena_printf(q->p.arena, "%s.i", x);
	}
	(void)propose(q, "reorder%.*s %s%.*s", STR_ARG(sb_str(&outer)), x, STR_ARG(sb_str(&columns)));
	if (columns.n && t->all_columns <= FEW_RESULTS && t->all_columns % 2 == 0)
		(void)propose(q, "bind%.*s unroll", STR_ARG(sb_str(&columns)));
	return true;
}

/* The sums' loops of one copy: elements, then columns of a group, then points. */
static void
order_sums(const struct planes *t, const char *suffix, const char *points)
{
	struct proposing *q = t->q;
	const struct tir_block *b = &q->p.blk[t->mul];
	struct strbuf groups, elements, columns;
	const char *column[STEP_NAMES];
	uint32_t n = 0;

	sb_init(&groups, q->p.arena);
	sb_init(&elements, q->p.arena);
	sb_init(&columns, q->p.arena);
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = q->p.iter[b->iter0 + k];
		const char *loop = arena_printf(q->p.arena, "%s.%s%s", b->name, it.name, suffix);
		const char *o = arena_printf(q->p.arena, "%s.%s.o%s", b->name, it.name, suffix),
			   *i = arena_printf(q->p.arena, "%s.%s.i%s", b->name, it.name, suffix);

		if (strcmp(it.name, "x") == 0)
			continue;
		if (has_loop(t, o))
			sb_addf(&groups, " %s", o);
		if (has_loop(t, i))
			loop = i;
		if (!has_loop(t, loop))
			continue;
		if (it.kind == ITER_REDUCE) {
			sb_addf(&elements, " %s", loop);
		} else if (loop == i || it.id != t->column) {
			sb_addf(&columns, " %s", loop);
			column[n++] = loop;
		} else {
			sb_addf(&groups, " %s", loop);
		}
	}
	(void)propose(q, "reorder%.*s%.*s%.*s %s", STR_ARG(sb_str(&groups)), STR_ARG(sb_str(&elements)),
	    STR_ARG(sb_str(&columns)), points);
	for (uint32_t k = 0; k < n; k++)
		(void)propose(q, "bind %s unroll", column[k]);
	(void)propose(q, "bind %s vector", points);
}

/* The loop over points in front of columns, so that each part of it has all of these. */
static void
points_first(const struct planes *t, const char *points)
{
	const struct tir *p = &t->q->p;
	st_id path[TIR_DEPTH];
	const uint32_t n = tir_path(p, blk_instance(p, t->mul), path);
	const char *name = part(t, "'mul.");
	struct strbuf sb;

	sb_init(&sb, p->arena);
	for (uint32_t k = 0; k < n; k++)
		if (p->st[path[k]].op == ST_for && strcmp(p->st[path[k]].name, points) != 0 &&
		    strncmp(p->st[path[k]].name, name, strlen(name)) == 0)
			sb_addf(&sb, " %s", p->st[path[k]].name);
	(void)propose(t->q, "reorder %s%.*s", points, STR_ARG(sb_str(&sb)));
}

static void
tile_sums(const struct planes *t)
{
	struct proposing *q = t->q;
	const struct tir_buf *mul = &q->p.buf[q->p.blk[t->mul].out[0]];
	const int64_t points = t->part > t->lanes ? t->part : mul->dim[mul->rank - 1],
		      tile = t->tile_vectors * t->lanes;
	const char *x = part(t, "'mul.x");

	for (uint32_t k = 0; k < q->p.blk[t->mul].n_iter && t->column != AXIS_NONE; k++) {
		const struct tir_iter it = q->p.iter[q->p.blk[t->mul].iter0 + k];

		if (it.id == t->column && extent_of(&q->p, it.id) > t->columns)
			(void)propose(q, "split %s.%s %lld", part(t, "'mul"), it.name, (long long)t->columns);
	}
	points_first(t, x);
	if (points > tile && propose(q, "split %s %lld cut", x, (long long)tile)) {
		if (points % tile)
			order_sums(t, "'t", part(t, "'mul.x.t.i"));
		x = part(t, "'mul.x.i");
	}
	order_sums(t, "", x);
}

/* Elements that lie side by side become planes: few as text, so that a compiler sees all of a vector. */
static void
tile_planes(const struct planes *t)
{
	struct proposing *q = t->q;
	const struct tir_block *b = &q->p.blk[t->in];
	struct strbuf channels, others;
	const char *channel = NULL;

	sb_init(&channels, q->p.arena);
	sb_init(&others, q->p.arena);
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = q->p.iter[b->iter0 + k];
		const char *loop = arena_printf(q->p.arena, "%s.%s", b->name, it.name);

		if (!has_loop(t, loop))
			continue;
		if (it.name[0] == 'k' || it.name[0] == 'i') {
			sb_addf(&channels, " %s", loop);
			channel = loop;
		} else {
			sb_addf(&others, " %s", loop);
		}
	}
	if (!channel || !propose(q, "reorder%.*s%.*s", STR_ARG(sb_str(&others)), STR_ARG(sb_str(&channels))))
		return;
	if (loop_trips(&q->p, tir_find_loop(&q->p, str_of(channel))) <= FEW_CHANNELS)
		(void)propose(q, "bind %s unroll", channel);
}

/* What is computed of the results goes along them as they lie: planes of several columns are turned back
 * first, in blocks of registers, and not read column by column by the map. */
static void
turn_results(const struct planes *t, const char *row)
{
	const struct tir *p = &t->q->p;
	const struct tir_buf *mul = &p->buf[p->blk[t->mul].out[0]];
	const int last = last_dim(t);
	int column = -1;

	for (int d = 0; d < last; d++)
		if (d != t->row_dim && mul->dim[d] > 1)
			column = column < 0 ? d : last;
	if (column >= 0 && column < last && mul->dim[column] >= TURNED && mul->dim[last] >= TURNED &&
	    ex_get(p->tx, p->blk[t->last].value[0])->kind != EX_READ)
		(void)propose(
		    t->q, "stage %%%s %s %s", mul->name, row, dims_but(p, p->blk[t->mul].out[0], column));
}

/* The step, by multiples of so many points; false: refused. */
static bool
make_planes(struct planes *t, int64_t part_points)
{
	t->part = part_points;
	if (!propose(t->q, "planes %s %lld", t->name, (long long)part_points))
		return false;
	t->in = tir_find_blk(&t->q->p, str_of(part(t, "'in")));
	t->mul = tir_find_blk(&t->q->p, str_of(part(t, "'mul")));
	t->last = t->blk;
	sort_iterators(t);
	find_border(t);
	return true;
}

static bool
look_at(struct planes *t)
{
	struct proposing *q = t->q;
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	const char *step, *row;

	t->name = q->p.blk[t->blk].name;
	t->lanes = q->target->lanes;
	if (!make_planes(t, t->lanes))
		return false;
	if (!fills_lanes(t) && t->lanes > HALF) {
		take_back(q, &was, n);
		t->lanes = HALF;
		if (!make_planes(t, t->lanes))
			return false;
	}
	if (!pays(t))
		return false;
	if (t->row_dim < 0 &&
	    places_of(&q->p, q->p.blk[t->mul].out[0]) > LEAST_STEPS * PART * t->lanes * t->all_columns) {
		take_back(q, &was, n);
		if (!make_planes(t, PART * t->lanes))
			return false;
	}
	size_tile(t);
	if (is_far(t) && t->columns >= HALF)
		return false;
	take_reader(t);
	if (!tile_results(t, &step, &row))
		return false;
	if (row)
		turn_results(t, row);
	if (step &&
	    (!propose(q, "compute_at %s %s", part(t, "'mul"), row) ||
		(!is_far(t) && !propose(q, "compute_at %s %s", part(t, "'in"), step))))
		return false;
	tile_sums(t);
	tile_planes(t);
	return true;
}

void
rule_planes(struct proposing *q)
{
	const uint32_t n_blk = q->p.n_blk; /* planes adds blocks */

	for (blk_id b = 0; b < n_blk; b++) {
		struct planes t = {.q = q, .blk = b};
		const struct tir was = q->p;
		const size_t n = q->trace->n;

		if (blk_stands(&q->p, b) && blk_reduces(&q->p, b) &&
		    q->p.buf[q->p.blk[b].out[0]].scope == SCOPE_global && !look_at(&t))
			take_back(q, &was, n);
	}
}
