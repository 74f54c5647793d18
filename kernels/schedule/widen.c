/* kernels/schedule/widen.c: widen BLOCK N: sums of products with a weight are made for as many columns as
 * fill vectors of N, the ones behind the last from zeros:
 *
 *   widen t2 16        buf %2 f32[56,39]      ->   buf %2'w f32[56,48] temp
 *                      t2 sums %0 * %1[k, c]       t2'w sums %0 * %1[k, c], %1 f32[64,48] from(.. of [64,39])
 *                                                  t2 copies %2'w[r, c], c < 39
 *
 * A tile's columns are all alike so, and nobody asks for a vector's rest.  Where the results are a temp it is
 * that which has more columns; their readers do not see the ones behind the last. */
#include "step_int.h"

#include <string.h>

struct widening {
	const struct tir *p;
	const struct step *s;
	struct err *e;
	blk_id blk;
	st_id root;     /* its nest */
	axis_id column; /* the iterator that counts them */
	int64_t count, wide;
	buf_id weight;
	int along; /* the weight's dimension of the columns */
	ix_id *to; /* of all axes: what they become */
	uint32_t n_to;
};

/* ---- legality ---------------------------------------------------------------------------------------- */
/* The iterator of the last dimension, of all of it, and of no other. */
static bool
find_column(struct widening *w)
{
	const struct tir_block *b = &w->p->blk[w->blk];
	const struct ixv at = ixv_get(w->p->tx, b->at[0]);
	const int64_t *dim = w->p->buf[b->out[0]].dim;

	if (b->comb != COMB_sum || b->n_out != 1 || at.n == 0 ||
	    !ix_is_axis(w->p->tx, at.i[at.n - 1], &w->column))
		return refuse(w->e, w->s, "columns", "it sums up nothing whose results have columns");
	for (uint32_t d = 0; d + 1 < at.n; d++)
		if (ix_has(w->p->tx, at.i[d], w->column))
			return refuse(w->e, w->s, "columns", "two dimensions count them");
	w->count = extent_of(w->p, w->column);
	if (w->s->number[0] >= 2 * w->count)
		return refuse(w->e, w->s, "width", "vectors of twice the columns, or more");
	w->wide = ceil_div(w->count, w->s->number[0]) * w->s->number[0];
	return (w->s->number[0] > 1 && w->wide > w->count && dim[at.n - 1] == w->count) ||
	    refuse(w->e, w->s, "columns", "none are left over");
}

/* One in the place of the weight. */
static ex_id
without_weight(void *self, struct tx *x, const struct ex *read, ixv_id where)
{
	const struct widening *w = self;

	return read->tensor == w->weight ? ex_real(x, read->type, 1)
					 : ex_load(x, read->type, read->tensor, where);
}

/* One weight, as it comes from outside, is read by columns, in one dimension and one place; nothing else is.
 */
static bool
find_weight(struct widening *w)
{
	const struct tir *p = w->p;
	const struct tir_block *b = &p->blk[w->blk];
	struct weighted ways[2];
	const uint32_t n_ways = products_with_weight(p, w->blk, ways);
	struct tx_subst sub = {.load = without_weight, .self = w};
	uint32_t n = 0;
	axis_id a;

	for (uint32_t k = 0; k < n_ways; k++)
		if (ex_has(p->tx, ways[k].weight, w->column))
			w->weight = ex_get(p->tx, ways[k].weight)->tensor;
	if (w->weight == BUF_NONE || p->buf[w->weight].form)
		return refuse(w->e, w->s, "weight", "no weight as it comes has the columns");
	const ixv_id *read = blk_places_read(p, b, w->weight, &n);
	const struct ixv at = ixv_get(p->tx, n ? read[0] : IXV_NONE);

	w->along = -1;
	for (uint32_t d = 0; n == 1 && d < at.n; d++)
		if (ix_has(p->tx, at.i[d], w->column))
			w->along = w->along < 0 && ix_is_axis(p->tx, at.i[d], &a) ? (int)d : MAX_RANK;
	for (blk_id o = 0; o < p->n_blk; o++)
		if (o != w->blk && blk_reads_buf(p, &p->blk[o], w->weight))
			w->along = MAX_RANK;
	if (w->along < 0 || w->along >= MAX_RANK || p->buf[w->weight].dim[w->along] != w->count)
		return refuse(
		    w->e, w->s, "weight", "its columns are not a dimension that this block alone reads");
	return !ex_has(p->tx, ex_subst(p->tx, &sub, b->value[0]), w->column) ||
	    refuse(w->e, w->s, "factor", "what the weight meets has columns, too");
}

/* ---- building ---------------------------------------------------------------------------------------- */
/* Zero behind the last column. */
static struct tir_buf
padded_weight(const struct widening *w)
{
	struct tir_buf b = w->p->buf[w->weight];
	struct tir_form *f = NEW(w->p->arena, struct tir_form);
	ix_id at[MAX_RANK];

	f->rank = f->from_rank = b.rank;
	memcpy(f->from_dim, b.dim, sizeof(b.dim[0]) * (size_t)b.rank);
	b.dim[w->along] = w->wide;
	for (int d = 0; d < b.rank; d++) {
		f->place[d] = tx_axis(w->p->tx, AXIS_PAR, 0, b.dim[d] - 1, IX_NONE);
		at[d] = ix_axis(w->p->tx, f->place[d]);
	}
	f->at = ixv_make(w->p->tx, (uint32_t)b.rank, at);
	b.form = f;
	return b;
}

/* Iterators of the block that is added next: the old one's, `columns` of the columns; elements of the sum,
 * too? */
static struct tir_block
add_iterators(struct widening *w, struct tir *out, int64_t columns, bool sums)
{
	const struct tir_block *was = &w->p->blk[w->blk];
	struct tir_block b = {.iter0 = out->n_iter, .n_out = 1, .comb = sums ? was->comb : COMB_NONE};

	memset(w->to, 0xff, w->n_to * sizeof(*w->to));
	for (uint32_t k = 0; k < was->n_iter; k++) {
		const struct tir_iter it = w->p->iter[was->iter0 + k];

		if (it.kind == ITER_REDUCE && !sums)
			continue;
		w->to[it.id] = ix_axis(out->tx,
		    tir_add_iter(
			out, it.name, it.kind, it.id == w->column ? columns : extent_of(w->p, it.id)));
		b.n_iter++;
	}
	return b;
}

static struct tx_subst
renamed(const struct widening *w)
{
	return (struct tx_subst){.to = w->to, .n = w->n_to};
}

/* The sum, for all columns. */
static struct tir_block
wide_block(struct widening *w, struct tir *out, const char *name, buf_id to)
{
	const struct tir_block *was = &w->p->blk[w->blk];
	struct tir_block b = add_iterators(w, out, w->wide, true);
	const struct tx_subst sub = renamed(w);

	b.name = name;
	b.out[0] = to;
	b.at[0] = ixv_subst(out->tx, &sub, was->at[0]);
	b.value[0] = ex_subst(out->tx, &sub, was->value[0]);
	return b;
}

/* In the old block's place, where its results are wanted as they are. */
static struct tir_block
copying_block(struct widening *w, struct tir *out, buf_id from)
{
	const struct tir_block *was = &w->p->blk[w->blk];
	struct tir_block b = add_iterators(w, out, w->count, false);
	const struct tx_subst sub = renamed(w);

	b.name = was->name;
	b.out[0] = was->out[0];
	b.at[0] = ixv_subst(out->tx, &sub, was->at[0]);
	b.value[0] = ex_load(out->tx, out->buf[from].type, from, b.at[0]);
	return b;
}

static bool
widen_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct widening *w = self;
	const struct tir_block *was = &p->blk[w->blk];
	struct tir_buf results = p->buf[was->out[0]];
	struct tir_block b;
	buf_id wide;

	if (i != w->root)
		return false;
	out->buf[w->weight] = padded_weight(w);
	if (results.role == BUF_TEMP) {
		out->buf[was->out[0]].dim[results.rank - 1] = w->wide;
		out->blk[w->blk] = wide_block(w, out, was->name, was->out[0]);
		tir_nest(out, w->blk);
		return true;
	}
	results.dim[results.rank - 1] = w->wide;
	results = tir_buf_make(arena_printf(out->arena, "%s'w", results.name), results.type, BUF_TEMP,
	    SCOPE_global, results.rank, results.dim);
	wide = tir_add_buf(out, &results);
	b = wide_block(w, out, arena_printf(out->arena, "%s'w", was->name), wide);
	tir_nest(out, tir_add_blk(out, &b));
	out->blk[w->blk] = copying_block(w, out, wide);
	tir_nest(out, w->blk);
	return true;
}

bool
step_widen(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct widening w = {.p = p, .s = s, .e = e, .weight = BUF_NONE, .n_to = tx_n_axes(p->tx)};

	w.to = NEW_ARRAY(p->arena, ix_id, w.n_to);
	if (!find_blk(p, s, 0, &w.blk, e) || !stands_alone(p, s, w.blk, &w.root, e) || !find_column(&w) ||
	    !find_weight(&w))
		return false;
	tir_rewrite(out, p, widen_here, &w);
	return true;
}
