/* kernels/schedule/rule_dots.c: products of few columns run in lanes along what they sum up: for some rows
 * and all columns a vector of partial results each, so that a loaded vector of a row meets several columns,
 * one of the weight several rows.
 *
 *   for x in 0..24                             for x.o in 0..4
 *     for c in 0..3                              for k.o in 0..2
 *       for k in 0..32                             for x.i in 0..6 unroll
 *         t2(x, c, k)                   ->           for c in 0..3 unroll
 *                                                      for k.i in 0..16 vector
 *                                                        t2'p(6*x.o + x.i, c, 16*k.o + k.i)
 *                                                for x.i, c: for k.i in 0..16: t2(..)
 *
 * The weight lies in panels of as many elements; what is none is copied so that elements lie side by side. */
#include "tile_int.h"

#include <string.h>

enum {
	LEAST_ELEMENTS = 8,
	SPARE = 1 /* registers for a row's vector */,
	MOST_ROWS = 8,
	FEW_VECTORS = 8 /* of elements: what is left over of them takes as long as one */
};

struct dots {
	struct proposing *q;
	blk_id product;
	buf_id weight;
	const char *element, *row; /* loops; row NULL: there is one */
	int along;                 /* the element's dimension in the weight */
	bool is_packed;            /* it is one, not what another kernel makes */
	int64_t lanes, rows, columns;
	struct strbuf others; /* loops over elements that stay loops */
	const char *point[STEP_NAMES];
	uint32_t n_point;
};

/* Is the iterator what vectors run along: elements, one by one in memory, that the weight has a dimension of?
 */
static bool
may_be_lanes(const struct tir *p, const struct tir_iter *it, const struct ex *rows, const struct ex *weight,
    int *along)
{
	*along = dim_along(p, weight->at, it->id);
	return it->kind == ITER_REDUCE && *along >= 0 && extent_of(p, it->id) >= LEAST_ELEMENTS &&
	    dim_along(p, rows->at, it->id) == p->buf[rows->tensor].rank - 1;
}

/* What each loop of the product is; false: another form than rows times a weight of few columns. */
static bool
sort_loops(struct dots *t, const struct ex *rows, const struct ex *weight)
{
	const struct tir *p = &t->q->p;
	const struct tir_block *b = &p->blk[t->product];

	t->columns = 1;
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &p->iter[b->iter0 + k];
		const char *loop = arena_printf(p->arena, "%s.%s", b->name, it->name);
		const bool in_weight = ixv_has(p->tx, weight->at, it->id);
		int along;

		if (!t->element && may_be_lanes(p, it, rows, weight, &along)) {
			t->element = loop;
			t->along = along;
			t->lanes = extent_of(p, it->id);
		} else if (it->kind == ITER_REDUCE) {
			sb_addf(&t->others, " %s", loop);
		} else if (in_weight) {
			if (it->kind != ITER_SPACE)
				return false;
			if (ixv_has(p->tx, rows->at, it->id)) {
				if (t->is_packed)
					return false;
				continue; /* a matrix by itself */
			}
			t->columns *= extent_of(p, it->id);
			t->point[t->n_point++] = loop;
		} else {
			t->row = loop;
			t->rows = extent_of(p, it->id);
		}
	}
	return t->element != NULL;
}

static bool
find_dots(struct dots *t)
{
	const struct tir *p = &t->q->p;
	const struct ex *one, *other;

	if (!blk_reduces(p, t->product) || blk_is_tiled(p, t->product) || tx_is_strict(p->tx) ||
	    p->buf[p->blk[t->product].out[0]].scope != SCOPE_global ||
	    !tile_factors(p, t->product, &one, &other))
		return false;
	t->is_packed = p->buf[one->tensor].scope == SCOPE_pack || p->buf[other->tensor].scope == SCOPE_pack;
	if (p->buf[one->tensor].scope == SCOPE_pack) {
		const struct ex *swap = one;

		one = other;
		other = swap;
	}
	t->weight = other->tensor;
	if (t->is_packed ? p->buf[other->tensor].form != NULL : p->buf[other->tensor].scope != SCOPE_global)
		return false;
	return sort_loops(t, one, other) && t->columns < t->q->target->lanes &&
	    (t->is_packed || (t->row && t->columns > 1 && t->columns < t->rows));
}

/* The weight in panels, or a copy whose elements lie side by side. */
static bool
bring_near(const struct dots *t)
{
	const struct tir_buf *b = &t->q->p.buf[t->weight];
	const char *dims = dims_but(&t->q->p, t->weight, t->along);

	if (t->is_packed)
		return propose(t->q, "pack %%%s %lld %s", b->name, (long long)t->lanes, dims);
	return t->along == b->rank - 1 || propose(t->q, "stage %%%s root %s", b->name, dims);
}

/* As many rows as registers are left for, in tiles of one size or nearly. */
static void
size_tile(struct dots *t)
{
	const int64_t most = (t->q->target->n_vregs - SPARE - t->columns) / t->columns, all = t->rows,
		      fit = MAX_OF(MIN_OF(most, (int64_t)MOST_ROWS), (int64_t)1);
	int64_t lanes = t->q->target->lanes;

	while (lanes > t->lanes ||
	    (lanes > LEAST_ELEMENTS && t->lanes % lanes && t->lanes < FEW_VECTORS * lanes))
		lanes /= 2;
	t->lanes = lanes;
	if (t->row)
		t->rows = (all + (all + fit - 1) / fit - 1) / ((all + fit - 1) / fit);
}

static bool
has_loop(const struct dots *t, const char *name)
{
	return tir_find_loop(&t->q->p, str_of(name)) != ST_NONE;
}

/* The loop in parts of n iterations, where it has more; *inner: one part's loop.  false: refused. */
static bool
split(struct dots *t, const char *loop, int64_t n, const char **inner)
{
	*inner = loop;
	if (!has_loop(t, loop) || loop_trips(&t->q->p, tir_find_loop(&t->q->p, str_of(loop))) <= n)
		return true;
	*inner = arena_printf(t->q->p.arena, "%s.i", loop);
	return propose(t->q, "split %s %lld guard", loop, (long long)n);
}

static void
bind_if_there(struct dots *t, const char *loop, const char *how)
{
	if (has_loop(t, loop))
		(void)propose(t->q, "bind %s %s", loop, how);
}

/* The loop's name around the block of partial results. */
static const char *
of_partial(const struct dots *t, const char *loop)
{
	const char *blk = t->q->p.blk[t->product].name;

	return arena_printf(t->q->p.arena, "%s'p%s", blk, loop + strlen(blk));
}

/* Points of a tile are text, where partial results are made and where they are joined. */
static void
bind_points(struct dots *t)
{
	for (uint32_t k = 0; k < t->n_point; k++) {
		bind_if_there(t, t->point[k], "unroll");
		bind_if_there(t, of_partial(t, t->point[k]), "unroll");
	}
}

static bool
tile(struct dots *t)
{
	struct proposing *q = t->q;
	const char *lane;
	struct strbuf points;

	if (t->rows == 1)
		t->row = NULL; /* a loop around */
	if (!split(t, t->element, t->lanes, &lane) || (t->row && !split(t, t->row, t->rows, &t->row)))
		return false;
	if (strcmp(lane, t->element) != 0)
		sb_addf(&t->others, " %s.o", t->element);
	if (t->row)
		t->point[t->n_point++] = t->row;
	sb_init(&points, q->p.arena);
	for (uint32_t k = t->n_point; k-- > 0;)
		if (has_loop(t, t->point[k]))
			sb_addf(&points, " %s", t->point[k]);
	if (!propose(q, "reorder%.*s%.*s %s", STR_ARG(sb_str(&t->others)), STR_ARG(sb_str(&points)), lane) ||
	    !propose(q, "rfactor %s", lane))
		return false;
	bind_points(t);
	bind_if_there(t, of_partial(t, lane), "vector");
	return true;
}

void
rule_dots(struct proposing *q)
{
	const uint32_t n_blk = q->p.n_blk; /* rfactor adds blocks */

	for (blk_id b = 0; b < n_blk; b++) {
		struct dots t = {.q = q, .product = b};
		const struct tir was = q->p;
		const size_t n = q->trace->n;

		sb_init(&t.others, q->p.arena);
		if (!find_dots(&t))
			continue;
		size_tile(&t);
		if (!bring_near(&t) || !tile(&t))
			take_back(q, &was, n);
	}
}
