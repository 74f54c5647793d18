/* kernels/schedule/product_mma.c: products on a GPU by a warp's instructions (kernels/tir/tensor.def): each
 * warp of a block makes some tiles of the instruction, of rows of both factors along what is summed up, in
 * shared memory; of the sums it holds, its lanes make the results.  (tests/golden/loops/product_by_warps.txt)
 */
#include "product_int.h"

#include "../tir/tensor.h"

enum { LANES = 32, HALVES = 32, NUMBERS = 16 /* of a row at once */ };

static const struct tile_shape shapes[] = {{128, 128, 64, 32}, {128, 64, 32, 32}, {64, 64, 32, 16},
    {64, 32, 32, 8}, {32, 64, 16, 16}, {32, 32, 16, 8}, {64, 16, 16, 8}, {16, 64, 16, 8}, {16, 32, 16, 8}};

static enum dtype
type_of(const struct product *w, const char *suffix)
{
	const struct tir *p = &w->q->p;

	return p->buf[p->blk[product_blk(w, suffix)].out[0]].type;
}

/* Are they what it takes, or may they be rounded to that? */
bool
mma_choose(struct product *w)
{
	const struct tensor_row *t = tensor_row_of(w->mma);
	const bool rounds = w->mma == w->q->target->rounded_mma && !w->q->target->chosen.exact;
	const enum dtype is[] = {type_of(w, "'a"), type_of(w, "'b")};

	for (int k = 0; k < 2; k++)
		if (is[k] != t->of[1].type && !(rounds && is[k] == DT_f32))
			return false;
	if (!rounds && is[0] == DT_f32)
		return false;
	w->step = MAX_OF(t->of[1].type == DT_f32 ? NUMBERS : HALVES, tensor_extent(t, 'k'));
	while (w->step > tensor_extent(t, 'k') && w->step / 2 >= w->elements)
		w->step /= 2;
	return product_shape(w, shapes, COUNT_OF(shapes));
}

bool
mma_round(const struct product *w, const char *copy)
{
	struct proposing *q = w->q;
	const enum dtype type = tensor_row_of(w->mma)->of[1].type;

	for (buf_id b = 0; b < q->p.n_buf; b++)
		if (str_is(str_of(copy), q->p.buf[b].name) && q->p.buf[b].type != type)
			return propose(q, "round %%%s %s", copy, dtype_name(type));
	return true;
}

/* Turns of all warps, as many as there are. */
static bool
deal_turns(const struct product *w, const char *loop)
{
	const int64_t warps = product_threads(w) / LANES;
	struct loop_tiles turns;

	if (!loop)
		return false;
	if (loop_trips(&w->q->p, tir_find_loop(&w->q->p, str_of(loop))) == warps)
		return propose(w->q, "bind %s warp", loop);
	turns = product_split(w, loop, warps);
	return turns.inner && propose(w->q, "bind %s warp", turns.inner);
}

bool
mma_copy(const struct product *w, const char *loop)
{
	const struct loop_tiles lanes = product_split(w, loop, LANES);

	return lanes.inner && propose(w->q, "bind %s lane", lanes.inner) && deal_turns(w, lanes.outer);
}

/* A warp takes ROWS_AT_ONCE columns of WORDS_AT_ONCE words along what is summed up, as its instructions do:
 * so no two lanes store into one bank, and of memory each takes a sector. */
bool
mma_copy_turned(const struct product *w, const char *element, const char *column)
{
	enum { ROWS_AT_ONCE = 8, WORDS_AT_ONCE = 4, WORD_BYTES = 4 };
	const int64_t word = WORD_BYTES / (int64_t)dtype_size(tensor_row_of(w->mma)->of[2].type);
	const struct loop_tiles k = product_split(w, element, WORDS_AT_ONCE * word),
				e = product_split(w, k.inner, word),
				j = product_split(w, column, ROWS_AT_ONCE);
	const char *const order[] = {k.outer, j.outer, j.inner, e.outer, e.inner};
	const char *lanes;

	if (!j.inner || !e.outer || !product_reorder(w, order, COUNT_OF(order)))
		return false;
	lanes = product_fuse(w, j.inner, e.outer);
	return lanes && loop_trips(&w->q->p, tir_find_loop(&w->q->p, str_of(lanes))) == LANES &&
	    propose(w->q, "bind %s lane", lanes) && deal_turns(w, product_fuse(w, k.outer, j.outer)) &&
	    (!e.inner || propose(w->q, "bind %s vector", e.inner));
}

/* The warps' tiles. */
static bool
deal_warps(const struct product *w, const struct loop_tiles *rows, const struct loop_tiles *columns)
{
	const char *warps = product_fuse(w, rows->outer, columns->outer);

	return warps && propose(w->q, "bind %s warp", warps);
}

static bool
deal_results(const struct product *w, const char *row, const char *column)
{
	const struct loop_tiles rows = product_split(w, row, w->t.own_rows),
				columns = product_split(w, column, w->t.own_columns);
	const char *const order[] = {rows.outer, columns.outer, rows.inner, columns.inner};

	return product_reorder(w, order, COUNT_OF(order)) && deal_warps(w, &rows, &columns);
}

bool
mma_deal(const struct product *w, const char *element, const char *row, const char *column)
{
	const struct tensor_row *t = tensor_row_of(w->mma);

	if (!element)
		return deal_results(w, row, column);
	const struct loop_tiles rows = product_split(w, row, w->t.own_rows),
				columns = product_split(w, column, w->t.own_columns),
				i = product_split(w, rows.inner, tensor_extent(t, 'i')),
				j = product_split(w, columns.inner, tensor_extent(t, 'j')),
				k = product_split(w, element, tensor_extent(t, 'k'));
	const char *const order[] = {
	    rows.outer, columns.outer, k.outer, i.outer, j.outer, i.inner, j.inner, k.inner};

	if (!i.inner || !j.inner || !k.inner || !product_reorder(w, order, COUNT_OF(order)) ||
	    !deal_warps(w, &rows, &columns) ||
	    !propose(w->q, "tensorize %s %s", i.inner, intrin_info[w->mma].name))
		return false;
	for (uint32_t n = 2; n < 5; n++)
		if (order[n] && !propose(w->q, "bind %s unroll", order[n]))
			return false;
	return true;
}
