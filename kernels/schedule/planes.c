/* kernels/schedule/planes.c: planes BLOCK N: sums of products of few columns, by planes of one channel each.
 * Of the block t are made
 *
 *   t'in   the factor that has the points, one plane a channel, its border as zeros
 *   t'mul  the sums: the points of a row are the last dimension, as many as a multiple of N
 *   t      the results, from these
 *
 *   for y, for x, for c                          for k, for y, for x: %2'in[k, y, x] = %0[y, x, k], or 0
 *     for ky, for kx, for k                      for y, for c, for x
 *       %2[y, x, c] sum=                   ->      for ky, for kx, for k
 *         %0[y+ky, x+kx, k] * %1[..]                 %2'mul[y, c, x] sum= %2'in[k, y+ky, x+kx] * %1[..]
 *                                                for y, for x, for c: %2[y, x, c] = %2'mul[y, c, x]
 *
 * So neighbouring points, which lie side by side in a plane, may be lanes of a register, however few columns
 * and channels there are.  Points that go by S elements lie in S planes. */
#include "step_int.h"

#include <string.h>

enum { MOST_STRIDE = 8, MOST_POINTS = 1024 };

/* A place of the result that the factor counts through, and the element beside it, if any: the factor has
 * both as by * row + dilation * tap alone. */
struct window {
	axis_id row, tap;
	int64_t by, dilation;
};
struct planes {
	const struct tir *p;
	const struct step *s;
	blk_id blk;
	st_id root;
	ex_id factor, weight; /* the products'; the factor with what guards them, zero elsewhere */
	struct window window[IXV_MAX];
	uint32_t n_window; /* the last one is along a row */
	int64_t
	    of_one[IXV_MAX]; /* of each iterator: columns side by side that have their channels in common */
	ix_id *to;           /* of axes, while a value is built */
	uint32_t n_to;
	struct err *e;
};

/* ---- which blocks -------------------------------------------------------------------------------------- */
/* A place in one factor alone: the points are the other's. */
static bool
has_points(const struct planes *w, ex_id factor, ex_id other)
{
	const struct tir_block *b = &w->p->blk[w->blk];
	bool any = false;

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &w->p->iter[b->iter0 + k];

		any |= it->kind == ITER_SPACE && ex_has(w->p->tx, factor, it->id) &&
		    !ex_has(w->p->tx, other, it->id);
	}
	return any;
}

static bool
find_factors(struct planes *w)
{
	struct weighted of[2];

	if (!is_free_sum(w->p, w->s, w->blk, w->e))
		return false;
	for (uint32_t k = 0, n = products_with_weight(w->p, w->blk, of); k < n; k++)
		if (has_points(w, of[k].factor, of[k].weight)) {
			w->factor = of[k].factor;
			w->weight = of[k].weight;
			return true;
		}
	return refuse(w->e, w->s, "factors", "it joins no products of points with a weight");
}

/* ---- windows ------------------------------------------------------------------------------------------- */
struct steps {
	const struct tx *x;
	struct window *w;
};

/* The first sum of both axes says how they count. */
static void
note_steps(void *self, ix_id i)
{
	struct steps *l = self;
	int64_t by, dilation;

	if (l->w->by == 0 && ix_coef(l->x, i, l->w->row, &by) && ix_coef(l->x, i, l->w->tap, &dilation) &&
	    by * dilation > 0) {
		const int64_t g = gcd(by, dilation);

		l->w->by = (by < 0 ? -by : by) / g;
		l->w->dilation = (dilation < 0 ? -dilation : dilation) / g;
	}
}

/* What the factor has of the window where u = by * row + dilation * tap. */
static void
put_window(struct planes *w, const struct window *d, ix_id u)
{
	const bool by_tap = d->tap != AXIS_NONE && d->dilation == 1;

	w->to[d->row] = by_tap ? ix_const(w->p->tx, 0) : u;
	if (d->tap != AXIS_NONE)
		w->to[d->tap] = by_tap ? u : ix_const(w->p->tx, 0);
}

static ix_id
place_in_window(const struct planes *w, const struct window *d, ix_id row, ix_id tap)
{
	struct tx *x = w->p->tx;
	const ix_id u = ix_mulc(x, row, d->by);

	return d->tap == AXIS_NONE ? u : ix_add(x, u, ix_mulc(x, tap, d->dilation));
}

static int64_t
extent_in_window(const struct planes *w, const struct window *d, int64_t rows)
{
	return d->by * (rows - 1) + (d->tap == AXIS_NONE ? 0 : d->dilation * (extent_of(w->p, d->tap) - 1)) +
	    1;
}

/* Has the factor both axes only so? */
static bool
slides(struct planes *w, const struct window *d)
{
	struct tx *x = w->p->tx;
	const axis_id u =
	    tx_axis(x, AXIS_PAR, 0, extent_in_window(w, d, extent_of(w->p, d->row)) - 1, IX_NONE);
	ex_id over;
	ix_id back;

	if (d->by == 0 || (d->by != 1 && d->dilation != 1))
		return false;
	put_window(w, d, ix_axis(x, u));
	over = ex_subst(x, &(struct tx_subst){.to = w->to, .n = w->n_to}, w->factor);
	w->to[d->row] = w->to[d->tap] = IX_NONE;
	back = place_in_window(w, d, ix_axis(x, d->row), ix_axis(x, d->tap));
	return ex_has(x, over, u) &&
	    ex_subst(x, &(struct tx_subst){.to = &back, .first = u, .n = 1}, over) == w->factor;
}

static bool
is_tap(const struct planes *w, axis_id a)
{
	for (uint32_t k = 0; k < w->n_window; k++)
		if (w->window[k].tap == a)
			return true;
	return false;
}

static struct window
window_of(struct planes *w, axis_id row)
{
	const struct tir_block *b = &w->p->blk[w->blk];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];
		struct window d = {.row = row, .tap = it.id};
		struct steps l = {w->p->tx, &d};

		if (it.kind != ITER_REDUCE || is_tap(w, it.id))
			continue;
		ex_indices(w->p->tx, w->factor, note_steps, &l);
		if (slides(w, &d))
			return d;
	}
	return (struct window){.row = row, .tap = AXIS_NONE, .by = 1};
}

/* Each place that the factor alone counts through. */
static bool
find_windows(struct planes *w)
{
	const struct tir *p = w->p;
	const struct tir_block *b = &p->blk[w->blk];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = p->iter[b->iter0 + k];

		if (it.kind == ITER_CARRIED)
			return refuse(w->e, w->s, "carried", "an order that the block rests on");
		if (it.kind == ITER_SPACE && ex_has(p->tx, w->factor, it.id) &&
		    !ex_has(p->tx, w->weight, it.id)) {
			w->window[w->n_window] = window_of(w, it.id);
			w->n_window++;
		}
	}
	return w->window[w->n_window - 1].by <= MOST_STRIDE ||
	    refuse(w->e, w->s, "stride", "points of a row are too far apart");
}

/* ---- a block under construction ------------------------------------------------------------------------ */
struct part {
	struct planes *w;
	struct tir *out;
	struct tir_block b;
	ix_id place[MAX_RANK];
	int64_t dim[MAX_RANK];
	int rank;
};

static struct part
begin(struct planes *w, struct tir *out, const char *suffix)
{
	memset(w->to, 0xff, w->n_to * sizeof(*w->to));
	return (struct part){w, out,
	    .b = {.name = arena_printf(out->arena, "%s%s", w->p->blk[w->blk].name, suffix),
		.iter0 = out->n_iter,
		.n_out = 1,
		.comb = COMB_NONE}};
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

static ex_id
replaced(const struct planes *w, ex_id e)
{
	return ex_subst(w->p->tx, &(struct tx_subst){.to = w->to, .n = w->n_to}, e);
}

/* ---- places -------------------------------------------------------------------------------------------- */
static const struct window *
along_row(const struct planes *w)
{
	return &w->window[w->n_window - 1];
}

/* Points of a row, as many as there are lanes for. */
static int64_t
points(const struct planes *w)
{
	return ceil_div(extent_of(w->p, along_row(w)->row), w->s->number[0]) * w->s->number[0];
}

/* An iterator that is neither of a window nor of the weight alone: a channel, or a column whose channels are
 * its own. */
static bool
is_of_factor(const struct planes *w, const struct tir_iter *it)
{
	for (uint32_t k = 0; k < w->n_window; k++)
		if (w->window[k].row == it->id)
			return false;
	return !is_tap(w, it->id) && ex_has(w->p->tx, w->factor, it->id);
}

struct divisor {
	const struct tx *x;
	axis_id a;
	int64_t c; /* 0: none yet */
};

static void
note_divisor(void *self, ix_id i)
{
	struct divisor *l = self;
	const struct ix n = *ix_get(l->x, i);

	if (l->c == 0 && n.kind == IX_DIV && n.a == ix_axis((struct tx *)l->x, l->a))
		l->c = n.c;
}

/* Columns side by side that have their channels in common: the factor has them by their quotient alone. */
static int64_t
columns_of_one(const struct planes *w, axis_id a)
{
	struct divisor l = {.x = w->p->tx, .a = a};
	struct tx *x = w->p->tx;
	axis_id g;
	ix_id to, back;

	ex_indices(x, w->factor, note_divisor, &l);
	if (l.c == 0)
		return 1;
	g = tx_axis(x, AXIS_PAR, 0, (extent_of(w->p, a) - 1) / l.c, IX_NONE);
	to = ix_mulc(x, ix_axis(x, g), l.c);
	back = ix_div(x, ix_axis(x, a), l.c);
	const ex_id over = ex_subst(x, &(struct tx_subst){.to = &to, .first = a, .n = 1}, w->factor);

	return ex_subst(x, &(struct tx_subst){.to = &back, .first = g, .n = 1}, over) == w->factor ? l.c : 1;
}

/* Of each iterator of the factor, once. */
static void
find_groups(struct planes *w)
{
	const struct tir_block *b = &w->p->blk[w->blk];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];

		w->of_one[k] = is_of_factor(w, &it) && it.kind == ITER_SPACE ? columns_of_one(w, it.id) : 1;
	}
}

/* ---- the blocks ---------------------------------------------------------------------------------------- */
static buf_id
make_in(struct planes *w, struct tir *out)
{
	const struct tir_block *b = &w->p->blk[w->blk];
	const struct window *row = along_row(w);
	struct part q = begin(w, out, "'in");
	struct tx *x = out->tx;
	const int64_t read = extent_in_window(w, row, extent_of(w->p, row->row));
	ix_id u;

	for (uint32_t k = 0; k + 1 < w->n_window; k++)
		put_window(w, &w->window[k],
		    place(&q, arena_printf(out->arena, "r%u", k),
			extent_in_window(w, &w->window[k], extent_of(w->p, w->window[k].row))));
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];
		const int64_t c = w->of_one[k];

		if (is_of_factor(w, &it))
			w->to[it.id] = ix_mulc(x, place(&q, it.name, ceil_div(extent_of(w->p, it.id), c)), c);
	}
	u = row->by == 1 ? ix_const(x, 0) : place(&q, "p", row->by);
	u = ix_add(x, u,
	    ix_mulc(x, place(&q, "x", ceil_div(extent_in_window(w, row, points(w)), row->by)), row->by));
	put_window(w, row, u);
	return finish(&q, ex_guard(x, u, 0, read, replaced(w, w->factor), ex_real(x, DT_f32, 0)));
}

/* Where 'in has what the block's iterators, as they are replaced now, ask for. */
static ixv_id
place_in(const struct planes *w)
{
	const struct tir_block *b = &w->p->blk[w->blk];
	const struct window *row = along_row(w);
	struct tx *x = w->p->tx;
	ix_id at[IXV_MAX], u[IXV_MAX];
	uint32_t n = 0;

	for (uint32_t k = 0; k < w->n_window; k++)
		u[k] = place_in_window(w, &w->window[k], w->to[w->window[k].row],
		    w->window[k].tap == AXIS_NONE ? IX_NONE : w->to[w->window[k].tap]);
	for (uint32_t k = 0; k + 1 < w->n_window; k++)
		at[n++] = u[k];
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];

		if (is_of_factor(w, &it))
			at[n++] = ix_div(x, w->to[it.id], w->of_one[k]);
	}
	if (row->by > 1)
		at[n++] = ix_mod(x, u[w->n_window - 1], row->by);
	at[n++] = ix_div(x, u[w->n_window - 1], row->by);
	return ixv_make(x, n, at);
}

static buf_id
make_mul(struct planes *w, struct tir *out, buf_id in)
{
	const struct tir_block *b = &w->p->blk[w->blk];
	const axis_id row = along_row(w)->row;
	struct part q = begin(w, out, "'mul");
	ex_id arg[2];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];

		if (it.kind == ITER_SPACE && it.id != row)
			w->to[it.id] = place(&q, it.name, extent_of(w->p, it.id));
	}
	w->to[row] = place(&q, "x", points(w));
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter it = w->p->iter[b->iter0 + k];

		if (it.kind == ITER_REDUCE)
			w->to[it.id] = iterator(&q, it.name, it.kind, extent_of(w->p, it.id));
	}
	arg[0] = ex_load(out->tx, DT_f32, in, place_in(w));
	arg[1] = replaced(w, w->weight);
	q.b.comb = COMB_sum;
	return finish(&q, ex_map(out->tx, PRIM_mul, DT_f32, 2, arg));
}

/* In the old block's place, by the same iterators. */
static void
make_results(struct planes *w, struct tir *out, buf_id mul)
{
	const struct tir_block was = w->p->blk[w->blk];
	const axis_id row = along_row(w)->row;
	struct part q = begin(w, out, "");
	ix_id at[IXV_MAX];
	uint32_t n = 0;

	for (uint32_t k = 0; k < was.n_iter; k++) {
		const struct tir_iter it = w->p->iter[was.iter0 + k];

		if (it.kind != ITER_SPACE)
			continue;
		w->to[it.id] = iterator(&q, it.name, it.kind, extent_of(w->p, it.id));
		if (it.id != row)
			at[n++] = w->to[it.id];
	}
	at[n++] = w->to[row];
	q.b.out[0] = was.out[0];
	q.b.at[0] = ixv_subst(out->tx, &(struct tx_subst){.to = w->to, .n = w->n_to}, was.at[0]);
	q.b.value[0] = ex_load(out->tx, DT_f32, mul, ixv_make(out->tx, n, at));
	out->blk[w->blk] = q.b;
	tir_nest(out, w->blk);
}

/* ---- the step ------------------------------------------------------------------------------------------ */
/* Does 'in read the factor at its own places alone, wherever the products do? */
static bool
is_whole(struct planes *w)
{
	const struct tir_block *b = &w->p->blk[w->blk];
	uint32_t n_dims = w->n_window + (along_row(w)->by > 1);
	struct tir trial;
	ex_id v;

	for (uint32_t k = 0; k < b->n_iter; k++)
		n_dims += is_of_factor(w, &w->p->iter[b->iter0 + k]);
	if (n_dims > MAX_RANK)
		return refuse(w->e, w->s, "rank", "planes would have too many dimensions");
	tir_like(&trial, w->p);
	(void)make_in(w, &trial);
	v = trial.blk[trial.n_blk - 1].value[0];
	for (uint32_t k = 0; k < b->n_iter; k++)
		if (ex_has(w->p->tx, v, w->p->iter[b->iter0 + k].id))
			return refuse(w->e, w->s, "window", "places and elements meet in another way");
	return true;
}

static bool
rewrite_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct planes *w = self;

	(void)p;
	if (i != w->root)
		return false;
	make_results(w, out, make_mul(w, out, make_in(w, out)));
	return true;
}

bool
step_planes(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct planes w = {.p = p, .s = s, .e = e};

	w.n_to = tx_n_axes(p->tx);
	w.to = NEW_ARRAY(p->arena, ix_id, w.n_to + 1);
	memset(w.to, 0xff, (w.n_to + 1) * sizeof(*w.to));
	if (s->number[0] < 1 || s->number[0] > MOST_POINTS)
		return refuse(e, s, "points", "no number of points side by side");
	if (!find_blk(p, s, 0, &w.blk, e) || !find_factors(&w) || !find_windows(&w) ||
	    !stands_alone(p, s, w.blk, &w.root, e))
		return false;
	find_groups(&w);
	if (!is_whole(&w))
		return false;
	tir_rewrite(out, p, rewrite_here, &w);
	return true;
}
