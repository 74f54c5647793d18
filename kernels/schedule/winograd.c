/* kernels/schedule/winograd.c: winograd BLOCK M: sums over a window of three by three, by whole tiles of M x
 * M results, from P x P elements each, P = M + 2.  Of the block t are made
 *
 *   t'in      the factor that slides, as far as tiles go: zero behind its end
 *   t'down    tiles, each column through B
 *   t'across  each row of that: P x P positions
 *   t'mul     the sums of products, for each position by itself; the weight is mapped where it is packed
 *   t'up      each column of these through A
 *   t         each row of that: the results
 *
 * It is another sum: its terms are rounded otherwise, by 1e-5 of the largest result where M is 4. */
#include "step_int.h"

#include <string.h>

enum { TAPS = 3, MOST_P = 6 };

/* What B and A make of a row is said in two steps, for rows have sums in common: out = last * (first * in).
 */
struct small_map {
	double first[MOST_P][MOST_P], last[MOST_P][MOST_P];
};
static const struct tiles {
	int64_t m;
	int p;
	enum form_map weight;
	struct small_map b, a;
} tiles[] = {
    {2, 4, MAP_wino2,
	.b = {{{1, 0, -1}, {0, 1, 1}, {0, -1, 1}, {0, 1, 0, -1}}, {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}}},
	.a = {{{1}, {0, 1, 1}, {0, 1, -1}, {0, 0, 0, 1}}, {{1, 1}, {0, 0, 1, -1}}}},
    {4, 6, MAP_wino4,
	.b = {{{4, 0, -5, 0, 1}, {0, 0, -4, 0, 1}, {0, -4, 0, 1}, {0, 0, -1, 0, 1}, {0, -1, 0, 1},
		  {0, 4, 0, -5, 0, 1}},
	    {{1}, {0, 1, 1}, {0, 1, -1}, {0, 0, 0, 1, 2}, {0, 0, 0, 1, -2}, {0, 0, 0, 0, 0, 1}}},
	.a = {{{1}, {0, 1, 1}, {0, 1, -1}, {0, 0, 0, 1, 1}, {0, 0, 0, 1, -1}, {0, 0, 0, 0, 0, 1}},
	    {{1, 1, 0, 1}, {0, 0, 1, 0, 2}, {0, 1, 0, 4}, {0, 0, 1, 0, 8, 1}}}},
};

struct rewrite {
	const struct tir *p;
	const struct step *s;
	const struct tiles *t;
	blk_id blk;
	st_id root;
	axis_id slides[2], tap[2]; /* rows, then columns: of the result, of the window */
	ex_id factor;              /* what slides, where it is zero too; the other one is the weight */
	buf_id weight;
	ixv_id weight_at;
	ix_id *to; /* of axes, while a value is built */
	uint32_t n_to;
	struct err *e;
};

/* ---- which blocks -------------------------------------------------------------------------------------- */
static bool
find_tiles(struct rewrite *w)
{
	for (size_t k = 0; k < COUNT_OF(tiles); k++)
		if (tiles[k].m == w->s->number[0])
			w->t = &tiles[k];
	return w->t || refuse(w->e, w->s, "tile", "no tiles of that size");
}

static bool
find_factors(struct rewrite *w)
{
	struct weighted of[2];

	if (!is_free_sum(w->p, w->s, w->blk, w->e))
		return false;
	for (uint32_t k = 0, n = products_with_weight(w->p, w->blk, of); k < n; k++) {
		const struct ex *read = ex_get(w->p->tx, of[k].weight);

		if (w->p->buf[read->tensor].form)
			continue;
		w->factor = of[k].factor;
		w->weight = read->tensor;
		w->weight_at = read->at;
		return true;
	}
	return refuse(w->e, w->s, "factors", "it joins no products with a weight that is not packed");
}

static ex_id
replaced(const struct rewrite *w, ex_id e)
{
	return ex_subst(w->p->tx, &(struct tx_subst){.to = w->to, .n = w->n_to}, e);
}

static ixv_id
placed(const struct rewrite *w, ixv_id at)
{
	return ixv_subst(w->p->tx, &(struct tx_subst){.to = w->to, .n = w->n_to}, at);
}

/* Are both axes in the factor only as their sum? */
static bool
is_sum_of(const struct rewrite *w, axis_id row, axis_id tap)
{
	struct tx *x = w->p->tx;
	const axis_id u = tx_axis(x, AXIS_PAR, 0, extent_of(w->p, row) + TAPS - 2, IX_NONE);
	const ix_id back = ix_add(x, ix_axis(x, row), ix_axis(x, tap));
	ex_id over;

	w->to[row] = ix_axis(x, u);
	w->to[tap] = ix_const(x, 0);
	over = replaced(w, w->factor);
	w->to[row] = w->to[tap] = IX_NONE;
	return ex_has(x, over, u) &&
	    ex_subst(x, &(struct tx_subst){.to = &back, .first = u, .n = 1}, over) == w->factor;
}

/* The dimension of the weight that the tap counts through, and nothing else does; -1: none. */
static int
weight_dim(const struct rewrite *w, axis_id tap)
{
	const struct ixv at = ixv_get(w->p->tx, w->weight_at);
	int found = -1, n = 0;

	for (int d = 0; d < (int)at.n; d++) {
		n += ix_has(w->p->tx, at.i[d], tap);
		if (at.i[d] == ix_axis(w->p->tx, tap) && w->p->buf[w->weight].dim[d] == TAPS)
			found = d;
	}
	return n == 1 ? found : -1;
}

/* Two places of the result along which the window slides, one tap a row; all others are rows or columns. */
static bool
find_window(struct rewrite *w)
{
	const struct tir *p = w->p;
	const struct tir_block *b = &p->blk[w->blk];
	int n = 0;

	for (uint32_t i = 0; i < b->n_iter; i++) {
		const struct tir_iter row = p->iter[b->iter0 + i];

		if (row.kind == ITER_CARRIED ||
		    (row.kind == ITER_SPACE && ex_has(p->tx, w->factor, row.id) &&
			ixv_has(p->tx, w->weight_at, row.id)))
			return refuse(w->e, w->s, "window", "a place is in both factors");
		for (uint32_t k = 0; k < b->n_iter && row.kind == ITER_SPACE && n < 2; k++) {
			const struct tir_iter tap = p->iter[b->iter0 + k];

			if (tap.kind != ITER_REDUCE || extent_of(p, tap.id) != TAPS ||
			    weight_dim(w, tap.id) < 0 || (n == 1 && w->tap[0] == tap.id) ||
			    !is_sum_of(w, row.id, tap.id))
				continue;
			w->slides[n] = row.id;
			w->tap[n++] = tap.id;
			break;
		}
	}
	return n == 2 || refuse(w->e, w->s, "window", "it does not slide along two dimensions by one");
}

bool
stands_alone(const struct tir *p, const struct step *s, blk_id b, st_id *root, struct err *e)
{
	uint32_t n = 0;

	for (st_id i = 0; i < p->n_st; i++)
		if (p->st[i].op == ST_block && p->st[i].ref == b) {
			*root = i;
			n++;
		}
	if (n != 1)
		return refuse(e, s, "nest", "the block does not stand in one place");
	while (p->st[*root].up != ST_NONE)
		*root = p->st[*root].up;
	for (st_id i = *root; i < p->st[*root].end; i++)
		if (p->st[i].end != p->st[*root].end || p->st[i].bind != BIND_serial || p->st[i].n_guard ||
		    (p->st[i].op != ST_for && p->st[i].op != ST_block))
			return refuse(e, s, "nest", "the block is not alone in loops over all its points");
	return true;
}

/* Does nothing else read the weight? */
static bool
has_weight(const struct rewrite *w)
{
	for (blk_id b = 0; b < w->p->n_blk; b++)
		if (b != w->blk && blk_reads_buf(w->p, &w->p->blk[b], w->weight))
			return refuse(w->e, w->s, "weight", "another block reads it");
	return true;
}

/* ---- small maps ---------------------------------------------------------------------------------------- */
/* The sum of the elements, each times its factor; those times one first, so that others are added by one
 * instruction. */
static ex_id
weighted_sum(struct tx *x, const double *by, const ex_id *in)
{
	ex_id sum = EX_NONE;

	for (int turn = 0; turn < 2; turn++)
		for (int k = 0; k < MOST_P; k++) {
			enum prim join = PRIM_add;
			ex_id v = in[k];

			if (by[k] == 0 || (by[k] != 1 && by[k] != -1) != turn)
				continue;
			if (by[k] == -1 && sum != EX_NONE)
				join = PRIM_sub;
			else if (by[k] != 1)
				v = ex_map(x, PRIM_mul, DT_f32, 2, (ex_id[]){v, ex_real(x, DT_f32, by[k])});
			sum = sum == EX_NONE ? v : ex_map(x, join, DT_f32, 2, (ex_id[]){sum, v});
		}
	return sum;
}

/* Row r of the map: an arm for each. */
static ex_id
mapped(struct tx *x, const struct small_map *m, ix_id r, int n_rows, const ex_id *in)
{
	ex_id first[MOST_P], v = EX_NONE;

	for (int k = 0; k < MOST_P; k++)
		first[k] = weighted_sum(x, m->first[k], in);
	for (int k = n_rows; k-- > 0;) {
		const ex_id row = weighted_sum(x, m->last[k], first);

		v = v == EX_NONE ? row : ex_guard(x, r, k, k + 1, row, v);
	}
	return v;
}

/* ---- places -------------------------------------------------------------------------------------------- */
/* What the block counts beside the window: 'f' places in the sliding factor, 'c' other places, 'k' elements.
 */
static char
group_of(const struct rewrite *w, const struct tir_iter *it)
{
	for (int side = 0; side < 2; side++)
		if (it->id == w->slides[side] || it->id == w->tap[side])
			return 0;
	return it->kind == ITER_REDUCE ? 'k' : ex_has(w->p->tx, w->factor, it->id) ? 'f' : 'c';
}

/* What the axes of a group have become, behind the n indices. */
static uint32_t
group_at(const struct rewrite *w, char group, ix_id *at, uint32_t n)
{
	const struct tir_block *b = &w->p->blk[w->blk];

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (group_of(w, &w->p->iter[b->iter0 + k]) == group)
			at[n++] = w->to[w->p->iter[b->iter0 + k].id];
	return n;
}

/* In a buffer of tiles: row and column of the tile, places of the factor, the tile's number, and a group. */
struct spot {
	ix_id side[2], tile;
};
static ex_id
in_tile(const struct rewrite *w, const struct tir *out, buf_id buf, struct spot s, char group)
{
	ix_id at[IXV_MAX] = {s.side[0], s.side[1]};
	uint32_t n = group_at(w, 'f', at, 2);

	at[n++] = s.tile;
	n = group_at(w, group, at, n);
	return ex_load(out->tx, DT_f32, buf, ixv_make(out->tx, n, at));
}

/* ---- a block under construction ------------------------------------------------------------------------ */
struct part {
	struct rewrite *w;
	struct tir *out;
	struct tir_block b;
	struct spot at;
	ix_id place[MAX_RANK];
	int64_t dim[MAX_RANK];
	int rank;
};

static struct part
begin(struct rewrite *w, struct tir *out, const char *suffix)
{
	const char *name = arena_printf(out->arena, "%s%s", w->p->blk[w->blk].name, suffix);

	memset(w->to, 0xff, w->n_to * sizeof(*w->to));
	return (struct part){
	    w, out, .b = {.name = name, .iter0 = out->n_iter, .n_out = 1, .comb = COMB_NONE}};
}

static ix_id
iterator(struct part *q, const char *name, enum iter_kind kind, int64_t extent)
{
	if (extent == 1)
		return ix_const(q->out->tx, 0);
	q->b.n_iter++;
	return ix_axis(q->out->tx, tir_add_iter(q->out, name, kind, extent));
}

static ix_id
place(struct part *q, const char *name, int64_t extent)
{
	q->dim[q->rank] = extent;
	return q->place[q->rank++] = iterator(q, name, ITER_SPACE, extent);
}

/* The block's own axes of a group, as iterators: elements, or places of the result. */
static void
add_group(struct part *q, char group, enum iter_kind kind)
{
	struct rewrite *w = q->w;
	const struct tir_block *b = &w->p->blk[w->blk];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];

		if (group_of(w, &it) == group)
			w->to[it.id] = kind == ITER_SPACE
			    ? place(q, it.name, extent_of(w->p, it.id))
			    : iterator(q, it.name, kind, extent_of(w->p, it.id));
	}
}

static int64_t
n_tiles(const struct rewrite *w, int side)
{
	return ceil_div(extent_of(w->p, w->slides[side]), w->t->m);
}

/* A part whose result is a buffer of tiles. */
static struct part
begin_tiles(struct rewrite *w, struct tir *out, const char *suffix, int64_t rows, char group)
{
	struct part q = begin(w, out, suffix);

	q.at.side[0] = place(&q, "u", rows);
	q.at.side[1] = place(&q, "v", w->t->p);
	add_group(&q, 'f', ITER_SPACE);
	q.at.tile = place(&q, "q", n_tiles(w, 0) * n_tiles(w, 1));
	add_group(&q, group, ITER_SPACE);
	return q;
}

static buf_id
finish(struct part *q, ex_id value)
{
	const struct tir_block *was = &q->w->p->blk[q->w->blk];
	const char *name = arena_printf(
	    q->out->arena, "%s%s", q->w->p->buf[was->out[0]].name, q->b.name + strlen(was->name));
	const struct tir_buf b = tir_buf_make(name, DT_f32, BUF_TEMP, SCOPE_global, q->rank, q->dim);

	q->b.out[0] = tir_add_buf(q->out, &b);
	q->b.at[0] = ixv_make(q->out->tx, (uint32_t)q->rank, q->place);
	q->b.value[0] = value;
	tir_nest(q->out, tir_add_blk(q->out, &q->b));
	return q->b.out[0];
}

/* ---- the blocks ---------------------------------------------------------------------------------------- */
static buf_id
make_in(struct rewrite *w, struct tir *out)
{
	struct part q = begin(w, out, "'in");
	ix_id at[2];
	ex_id v;

	add_group(&q, 'f', ITER_SPACE);
	for (int side = 0; side < 2; side++) {
		at[side] = place(&q, side ? "x" : "y", n_tiles(w, side) * w->t->m + TAPS - 1);
		w->to[w->slides[side]] = at[side];
		w->to[w->tap[side]] = ix_const(out->tx, 0);
	}
	add_group(&q, 'k', ITER_SPACE);
	v = replaced(w, w->factor);
	for (int side = 2; side-- > 0;)
		v = ex_guard(out->tx, at[side], 0, extent_of(w->p, w->slides[side]) + TAPS - 1, v,
		    ex_real(out->tx, DT_f32, 0));
	return finish(&q, v);
}

static buf_id
make_down(struct rewrite *w, struct tir *out, buf_id in)
{
	struct part q = begin_tiles(w, out, "'down", w->t->p, 'k');
	struct tx *x = out->tx;
	const ix_id row = ix_mulc(x, ix_div(x, q.at.tile, n_tiles(w, 1)), w->t->m);
	const ix_id column = ix_mulc(x, ix_mod(x, q.at.tile, n_tiles(w, 1)), w->t->m);
	ex_id elem[MOST_P];

	for (int k = 0; k < w->t->p; k++) {
		ix_id at[IXV_MAX];
		uint32_t n = group_at(w, 'f', at, 0);

		at[n++] = ix_addc(x, row, k);
		at[n++] = ix_add(x, column, q.at.side[1]);
		n = group_at(w, 'k', at, n);
		elem[k] = ex_load(x, DT_f32, in, ixv_make(x, n, at));
	}
	return finish(&q, mapped(x, &w->t->b, q.at.side[0], w->t->p, elem));
}

/* Row `row` of the map over what a buffer of tiles has along one side of each. */
static ex_id
map_side(const struct part *q, const struct small_map *m, ix_id row, int n_rows, buf_id buf, struct spot at,
    int side, char group)
{
	ex_id elem[MOST_P];

	for (int k = 0; k < q->w->t->p; k++) {
		at.side[side] = ix_const(q->out->tx, k);
		elem[k] = in_tile(q->w, q->out, buf, at, group);
	}
	return mapped(q->out->tx, m, row, n_rows, elem);
}

static buf_id
make_across(struct rewrite *w, struct tir *out, buf_id down)
{
	struct part q = begin_tiles(w, out, "'across", w->t->p, 'k');

	return finish(&q, map_side(&q, &w->t->b, q.at.side[1], w->t->p, down, q.at, 1, 'k'));
}

/* The weight's rows in its window are positions from now on. */
static void
map_weight(const struct rewrite *w, struct tir *out)
{
	struct tir_buf *b = &out->buf[w->weight];
	struct tir_form *f = NEW(out->arena, struct tir_form);

	f->rank = f->from_rank = b->rank;
	memcpy(f->from_dim, b->dim, sizeof(f->from_dim));
	for (int side = 0; side < 2; side++) {
		const int d = weight_dim(w, w->tap[side]);

		f->map[d] = w->t->weight;
		b->dim[d] = w->t->p;
	}
	ix_id at[MAX_RANK];

	for (int d = 0; d < b->rank; d++) {
		f->place[d] = tx_axis(out->tx, AXIS_PAR, 0, b->dim[d] - 1, IX_NONE);
		at[d] = ix_axis(out->tx, f->place[d]);
	}
	f->at = ixv_make(out->tx, (uint32_t)b->rank, at);
	b->form = f;
}

static buf_id
make_mul(struct rewrite *w, struct tir *out, buf_id across)
{
	struct part q = begin_tiles(w, out, "'mul", w->t->p, 'c');
	ex_id arg[2];

	add_group(&q, 'k', ITER_REDUCE);
	for (int side = 0; side < 2; side++)
		w->to[w->tap[side]] = q.at.side[side];
	arg[0] = in_tile(w, out, across, q.at, 'k');
	arg[1] = ex_load(out->tx, DT_f32, w->weight, placed(w, w->weight_at));
	q.b.comb = COMB_sum;
	return finish(&q, ex_map(out->tx, PRIM_mul, DT_f32, 2, arg));
}

static buf_id
make_up(struct rewrite *w, struct tir *out, buf_id mul)
{
	struct part q = begin_tiles(w, out, "'up", w->t->m, 'c');

	return finish(&q, map_side(&q, &w->t->a, q.at.side[0], (int)w->t->m, mul, q.at, 0, 'c'));
}

/* In the old block's place, by the same iterators. */
static void
make_results(struct rewrite *w, struct tir *out, buf_id up)
{
	const struct tir_block was = w->p->blk[w->blk];
	struct part q = begin(w, out, "");
	struct tx *x = out->tx;

	for (uint32_t k = 0; k < was.n_iter; k++) {
		const struct tir_iter it = w->p->iter[was.iter0 + k];

		if (it.kind == ITER_SPACE)
			w->to[it.id] = iterator(&q, it.name, it.kind, extent_of(w->p, it.id));
	}
	q.at.tile = ix_const(x, 0);
	for (int side = 0; side < 2; side++) {
		const ix_id i = w->to[w->slides[side]];

		q.at.tile = ix_add(x, ix_mulc(x, q.at.tile, n_tiles(w, side)), ix_div(x, i, w->t->m));
		q.at.side[side] = ix_mod(x, i, w->t->m);
	}
	q.b.out[0] = was.out[0];
	q.b.at[0] = placed(w, was.at[0]);
	q.b.value[0] = map_side(&q, &w->t->a, q.at.side[1], (int)w->t->m, up, q.at, 1, 'c');
	out->blk[w->blk] = q.b;
	tir_nest(out, w->blk);
}

static bool
rewrite_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct rewrite *w = self;

	(void)p;
	if (i != w->root)
		return false;
	const buf_id in = make_in(w, out), down = make_down(w, out, in), across = make_across(w, out, down);

	map_weight(w, out);
	make_results(w, out, make_up(w, out, make_mul(w, out, across)));
	return true;
}

bool
step_winograd(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct rewrite w = {.p = p, .s = s, .e = e};

	w.n_to = tx_n_axes(p->tx);
	w.to = NEW_ARRAY(p->arena, ix_id, w.n_to + 1);
	memset(w.to, 0xff, (w.n_to + 1) * sizeof(*w.to));
	if (!find_blk(p, s, 0, &w.blk, e) || !find_tiles(&w) || !find_factors(&w) || !find_window(&w) ||
	    !stands_alone(p, s, w.blk, &w.root, e) || !has_weight(&w))
		return false;
	tir_rewrite(out, p, rewrite_here, &w);
	return true;
}
