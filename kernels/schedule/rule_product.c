/* kernels/schedule/rule_product.c: on a GPU, products of matrices by a block's threads: a block makes a tile
 * of the sums, each of its threads some rows of some columns in registers; of both factors it has the
 * elements of one step of the sum at a time in shared memory.  (tests/golden/loops/product_by_threads.txt)
 *
 *   for tiles of the result block
 *     for k.o                                     some elements
 *       for .. lane: t2'a's(..)                   copies, k the outer dimension
 *       for .. lane: t2'b's(..)
 *       for rows and columns of tiles lane
 *         for k.i: for i unroll: for j unroll: t2'm(..)
 *     for .. lane: for i unroll: for j unroll: t3(..) */
#include "../tir/tensor.h"
#include "product_int.h"

#include <string.h>

enum {
	STEP = 16, /* elements of the sum at once; where there are fewer in all, a multiple of */
	LEAST_STEP = 4,
	FULL = 108 * 8 * 32, /* threads that keep a device busy */
	MOST_PARTS = 64,
	MOST_AGAIN = 64 /* operations for an element of a factor, in all tiles that it is in */
};
static const struct tile_shape shapes[] = {
    {128, 128, 8, 8},
    {64, 64, 8, 4},
    {32, 64, 4, 4},
    {64, 32, 4, 4},
    {32, 32, 4, 2},
    {64, 16, 4, 2},
    {128, 8, 4, 2},
    {16, 32, 2, 2},
    {256, 4, 4, 2}, /* few columns */
    {32, 4, 1, 1},
    {256, 2, 4, 1},
    {64, 2, 1, 1},
    {8, 128, 2, 4}, /* few rows */
    {8, 32, 1, 2},
    {8, 8, 1, 1},
    {4, 4, 1, 1},
    {4, 128, 1, 4},
    {4, 32, 1, 1},
    {2, 256, 1, 4},
    {2, 64, 1, 1},
};

/* ---- names -----------------------------------------------------------------------------------------------
 */
const char *
product_part(const struct product *w, const char *suffix)
{
	return arena_printf(w->q->p.arena, "%s%s", w->name, suffix);
}

blk_id
product_blk(const struct product *w, const char *suffix)
{
	return tir_find_blk(&w->q->p, str_of(product_part(w, suffix)));
}

const struct tir_buf *
product_sums(const struct product *w)
{
	return &w->q->p.buf[w->q->p.blk[product_blk(w, "'m")].out[0]];
}

/* ---- loops -----------------------------------------------------------------------------------------------
 */
bool
product_is_loop(const struct product *w, const char *name)
{
	return name && tir_find_loop(&w->q->p, str_of(name)) != ST_NONE;
}

const char *
product_fuse(const struct product *w, const char *a, const char *b)
{
	if (!a || !b)
		return a ? a : b;
	return propose(w->q, "fuse %s %s", a, b) ? arena_printf(w->q->p.arena, "%s~%s", a, b) : NULL;
}

struct loop_tiles
product_split(const struct product *w, const char *loop, int64_t size)
{
	struct loop_tiles t = {NULL, loop};

	if (size == 1)
		return (struct loop_tiles){loop, NULL};
	if (product_is_loop(w, loop) && propose(w->q, "split %s %lld guard", loop, (long long)size)) {
		t.outer = arena_printf(w->q->p.arena, "%s.o", loop);
		t.inner = arena_printf(w->q->p.arena, "%s.i", loop);
	}
	t.outer = product_is_loop(w, t.outer) ? t.outer : NULL;
	t.inner = product_is_loop(w, t.inner) ? t.inner : NULL;
	return t;
}

bool
product_reorder(const struct product *w, const char *const *loops, uint32_t n)
{
	struct strbuf sb;
	st_id last = ST_NONE;
	uint32_t found = 0;
	bool sorted = true;

	sb_init(&sb, w->q->p.arena);
	for (uint32_t k = 0; k < n; k++) {
		const st_id at = loops[k] ? tir_find_loop(&w->q->p, str_of(loops[k])) : ST_NONE;

		if (at == ST_NONE)
			continue;
		sb_addf(&sb, " %s", loops[k]);
		sorted &= found++ == 0 || at > last;
		last = at;
	}
	return sorted || propose(w->q, "reorder%.*s", STR_ARG(sb_str(&sb)));
}

/* ---- the result ------------------------------------------------------------------------------------------
 */
/* Who makes results from the sums: the block itself, or what alone reads it, point by point. */
static void
find_last(struct product *w)
{
	const struct tir *p = &w->q->p;
	const blk_id own = tir_find_blk(p, str_of(w->name));
	const blk_id reader = blk_only_reader(p, p->blk[own].out[0]);

	w->last = own;
	if (reader != BLK_NONE && p->blk[reader].comb == COMB_NONE && p->blk[reader].n_out == 1 &&
	    p->buf[p->blk[own].out[0]].role == BUF_TEMP && propose(w->q, "inline %s", w->name))
		w->last = reader;
}

/* Does it read what rows join to?  Then it is made in their row (rule_rows.c). */
static bool
is_of_rows(const struct tir *p, blk_id b)
{
	for (blk_id r = 0; r < p->n_blk; r++)
		if (blk_joins_rows(p, r) && blk_reads_buf(p, &p->blk[b], p->blk[r].out[0]))
			return true;
	return false;
}

/* A map that a factor alone reads, of few operations, is made where the factor's tiles are: as often as tiles
 * of the other dimension ask for them, and windows lie over each other. */
static void
inline_prologue(struct product *w, const char *suffix, int64_t tiles)
{
	for (;;) {
		const struct tir *p = &w->q->p;
		const struct tir_block *factor = &p->blk[product_blk(w, suffix)];
		blk_id b = 0;

		for (; b < p->n_blk; b++)
			if (blk_stands(p, b) && p->blk[b].comb == COMB_NONE && p->blk[b].n_out == 1 &&
			    p->buf[p->blk[b].out[0]].role == BUF_TEMP &&
			    blk_reads_buf(p, factor, p->blk[b].out[0]) &&
			    blk_only_reader(p, p->blk[b].out[0]) == product_blk(w, suffix))
				break;
		if (b == p->n_blk)
			return;
		const double times =
		    (double)tiles * (double)blk_points(p, product_blk(w, suffix)) / (double)blk_points(p, b);

		if (is_of_rows(p, b) ||
		    times * (double)ex_get(p->tx, p->blk[b].value[0])->flops > MOST_AGAIN ||
		    !propose(w->q, "inline %s", p->blk[b].name))
			return;
	}
}

/* The place of the sums that the last block reads, over the loops around it; IXV_NONE: there are several. */
static ixv_id
place_of_sums(const struct product *w)
{
	const struct tir *p = &w->q->p;
	const struct tir_block *b = &p->blk[w->last];
	const st_id at = only_instance(p, w->last);
	ix_id *to = NEW_ARRAY(p->arena, ix_id, tx_n_axes(p->tx));
	const struct tx_subst sub = {.to = to, .n = tx_n_axes(p->tx)};
	uint32_t n_read;
	const ixv_id *read = blk_places_read(p, b, p->blk[product_blk(w, "'m")].out[0], &n_read);

	if (n_read != 1 || at == ST_NONE)
		return IXV_NONE;
	memset(to, 0xff, sub.n * sizeof(*to));
	for (uint32_t k = 0; k < b->n_iter; k++)
		to[p->iter[b->iter0 + k].id] = ixv_get(p->tx, p->st[at].at).i[k];
	return ixv_subst(p->tx, &sub, read[0]);
}

/* A loop that counts several dimensions of the sums' place by its digits is a loop for each. */
static void
part_digits(const struct product *w)
{
	const struct tir *p = &w->q->p;
	st_id path[TIR_DEPTH];
	const uint32_t n = tir_path(p, only_instance(p, w->last), path);
	int64_t by[TIR_DEPTH];
	const char *loop[TIR_DEPTH];

	for (uint32_t k = 0; k < n; k++) {
		loop[k] = p->st[path[k]].name;
		by[k] = place_divisor(p, place_of_sums(w), p->st[path[k]].axis);
	}
	for (uint32_t k = 0; k < n; k++)
		if (by[k])
			(void)propose(w->q, "split %s %lld", loop[k], (long long)by[k]);
}

/* Which of both, rows, columns the loop counts in a place of the sums; 3: none, or several. */
static uint32_t
kind_of(const struct tir *p, struct ixv at, axis_id loop)
{
	uint32_t kind = 3, n = 0;

	for (uint32_t d = 0; d < at.n; d++)
		if (ix_has(p->tx, at.i[d], loop)) {
			kind = d + 3 - at.n;
			n++;
		}
	return n == 1 ? kind : 3;
}

/* The last block's loops by what of the sums' place they count: points of both factors, rows, columns; those
 * of each as one (NULL: none). */
static bool
sort_loops(struct product *w, const char **of)
{
	const char *loop[3 * TIR_DEPTH] = {0}; /* by kind */
	st_id path[TIR_DEPTH];

	if (place_of_sums(w) == IXV_NONE)
		return false;
	part_digits(w);
	const struct tir *p = &w->q->p;
	const struct ixv at = ixv_get(p->tx, place_of_sums(w));
	const uint32_t n = tir_path(p, only_instance(p, w->last), path);

	for (uint32_t k = 0; k < n; k++) {
		const uint32_t kind = kind_of(p, at, p->st[path[k]].axis);

		if (kind > 2)
			return false;
		loop[kind * TIR_DEPTH + k] = p->st[path[k]].name;
	}
	if (!product_reorder(w, loop, COUNT_OF(loop)))
		return false;
	for (uint32_t k = 0; k < 3; k++) {
		of[k] = NULL;
		for (uint32_t i = 0; i < TIR_DEPTH; i++)
			if (loop[k * TIR_DEPTH + i] &&
			    !(of[k] = product_fuse(w, of[k], loop[k * TIR_DEPTH + i])))
				return false;
	}
	return of[1] && of[2];
}

/* Tiles of the result to blocks; the loops inside of one. */
static bool
add_blocks(struct product *w, struct loop_tiles *row, struct loop_tiles *column)
{
	const char *of[3];

	if (!sort_loops(w, of))
		return false;
	*row = product_split(w, of[1], w->t.rows);
	*column = product_split(w, of[2], w->t.columns);
	const char *const order[] = {of[0], row->outer, column->outer, row->inner, column->inner};

	if (!product_reorder(w, order, COUNT_OF(order)))
		return false;
	w->blocks = product_fuse(w, product_fuse(w, of[0], row->outer), column->outer);
	if (!w->blocks) { /* one tile has all */
		if (!propose(w->q, "enclose %s %s", product_part(w, "'a"), w->q->p.blk[w->last].name))
			return false;
		w->blocks = w->q->p.st[0].name;
	}
	return propose(w->q, "bind %s block", w->blocks);
}

/* ---- what a block does -----------------------------------------------------------------------------------
 */
/* Rows and columns of a tile to threads, some of each to one: rows side by side, columns by words, so that
 * those of neighbouring threads are side by side. */
static bool
deal(const struct product *w, const char *element, const char *row, const char *column)
{
	const int64_t word = MIN_OF(w->t.own_columns, (int64_t)PRODUCT_WORD);
	const struct loop_tiles rows = product_split(w, row, w->t.own_rows),
				words = product_split(w, column, word),
				runs = product_split(w, words.outer, w->t.columns / w->t.own_columns);
	const char *const order[] = {rows.outer, runs.inner, element, rows.inner, runs.outer, words.inner};
	const char *threads;

	if (!words.outer || !product_reorder(w, order, COUNT_OF(order)))
		return false;
	threads = product_fuse(w, rows.outer, runs.inner);
	if (!threads || !propose(w->q, "bind %s lane", threads))
		return false;
	for (uint32_t k = 2; k < COUNT_OF(order); k++)
		if (order[k] && !propose(w->q, "bind %s unroll", order[k]))
			return false;
	return true;
}

static bool
deal_tile(const struct product *w, const char *element, const char *row, const char *column)
{
	return w->mma == INTRIN_COUNT ? deal(w, element, row, column) : mma_deal(w, element, row, column);
}

/* Of the steps of the sum: both factors' tiles, then what is multiplied of them. */
static bool
add_steps(const struct product *w)
{
	const bool many = product_sums(w)->rank > 2, by_warps = w->mma != INTRIN_COUNT;
	const char *row = product_part(w, many ? "'m.i1" : "'m.i0"),
		   *column = product_part(w, many ? "'m.i2" : "'m.i1");
	const struct loop_tiles k = product_split(w, product_part(w, "'m.k0"), w->step);
	const char *const order[] = {k.outer, row, column, k.inner}, *step = k.outer ? k.outer : w->blocks;
	static const char *const as_it_is[] = {"0,1", "0,1,2"}, *const turned[] = {"1,0", "0,2,1"};

	const bool ok = product_reorder(w, order, COUNT_OF(order)) &&
	    propose(w->q, "share %%%s", product_sums(w)->name) &&
	    product_copy(w, "'a", step, (by_warps ? as_it_is : turned)[many]) &&
	    product_copy(w, "'b", step, (by_warps ? turned : as_it_is)[many]) &&
	    deal_tile(w, k.inner, row, column);

	if (ok && k.outer && w->mma != INTRIN_COUNT && tensor_row_of(w->mma)->of[1].type != DT_f32)
		(void)propose(w->q, "pipeline %s 2", k.outer);
	return ok;
}

static bool
multiply(struct product *w)
{
	struct loop_tiles row, column;

	find_last(w);
	inline_prologue(w, "'a", ceil_div(w->columns, w->t.columns));
	inline_prologue(w, "'b", ceil_div(w->rows, w->t.rows));
	return add_blocks(w, &row, &column) && propose(w->q, "compute_at %s'm %s", w->name, w->blocks) &&
	    add_steps(w) && deal_tile(w, NULL, row.inner, column.inner);
}

/* ---- parts of the sum ------------------------------------------------------------------------------------
 */
/* The loops of the block, that which counts most of its elements. */
static bool
find_longest(struct product *w)
{
	const struct tir *p = &w->q->p;
	struct nest n;

	if (!find_nest_of(p, tir_find_blk(p, str_of(w->name)), &n))
		return false;
	w->longest = 0;
	for (uint32_t k = 0; k < n.n; k++) {
		const st_id loop = tir_find_loop(p, str_of(n.loop[k].name));

		if (loop_counts_places(p, loop) || loop_trips(p, loop) <= w->longest)
			continue;
		w->longest = loop_trips(p, loop);
		w->longest_loop = n.loop[k].name;
	}
	return w->longest > 0;
}

/* Parts of the sum are results of their own, made side by side; the block joins them. */
static bool
part_sum(struct product *w)
{
	const blk_id partial = w->q->p.n_blk;
	const char *outer = arena_printf(w->q->p.arena, "%s.o", w->longest_loop);
	const char *order[TIR_DEPTH + 1] = {outer};
	st_id path[TIR_DEPTH];
	uint32_t n;

	if (w->parts == 1)
		return true;
	if (!propose(w->q, "split %s %lld", w->longest_loop, (long long)(w->longest / w->parts)))
		return false;
	n = tir_path(&w->q->p, only_instance(&w->q->p, tir_find_blk(&w->q->p, str_of(w->name))), path);
	for (uint32_t k = 0; k < n; k++)
		if (strcmp(w->q->p.st[path[k]].name, outer) != 0)
			order[k + 1] = w->q->p.st[path[k]].name;
	if (!product_reorder(w, order, n + 1) || !propose(w->q, "rfactor %s", outer))
		return false;
	w->name = w->q->p.blk[partial].name;
	return true;
}

/* ---- the rule --------------------------------------------------------------------------------------------
 */
/* What the matrices are, as they have been made. */
static void
measure(struct product *w)
{
	const struct tir *p = &w->q->p;
	const struct tir_buf *sums = product_sums(w), *first = &p->buf[p->blk[product_blk(w, "'a")].out[0]];
	const struct tir_block *b = &p->blk[tir_find_blk(p, str_of(w->name))];
	uint32_t n;
	const ixv_id *read = blk_places_read(p, b, p->blk[product_blk(w, "'m")].out[0], &n);

	w->both = sums->rank > 2 ? sums->dim[0] : 1;
	w->rows = sums->dim[sums->rank - 2];
	w->columns = sums->dim[sums->rank - 1];
	w->elements = first->dim[first->rank - 1];
	for (uint32_t k = 0; k < b->n_iter; k++)
		w->is_grouped |= place_divisor(p, read[0], p->iter[b->iter0 + k].id) > 0;
}

/* Matrices as they are, without what fills tiles. */
static bool
find_matrices(struct product *w, blk_id b)
{
	const struct tir *p = &w->q->p;

	if (!blk_stands(p, b) || !blk_reduces(p, b) || p->blk[b].comb != COMB_sum || blk_joins_rows(p, b))
		return false;
	w->name = p->blk[b].name;
	return find_longest(w) && propose(w->q, "matrix %s 1 1 1", w->name);
}

/* Sets t, parts, step: as many elements as are asked for, or as there are. */
static bool
threads_choose(struct product *w)
{
	const int64_t asked = w->q->target->chosen.tk;

	w->step = asked ? asked : MIN_OF((int64_t)STEP, ceil_div(w->elements, LEAST_STEP) * LEAST_STEP);
	return product_shape(w, shapes, COUNT_OF(shapes));
}

/* By an instruction, or by none (INTRIN_COUNT). */
static bool
make_product(struct proposing *q, blk_id b, enum intrin mma)
{
	struct product w = {.q = q, .mma = mma};
	const struct tir was = q->p;
	const size_t n = q->trace->n;
	bool ok = find_matrices(&w, b);

	if (ok)
		measure(&w);
	if (ok && mma != INTRIN_COUNT)
		ok = mma_choose(&w);
	else if (ok)
		ok = threads_choose(&w);
	take_back(q, &was, n);
	ok = ok && part_sum(&w) &&
	    propose(q, "matrix %s %lld %lld %lld", w.name, (long long)w.t.rows, (long long)w.t.columns,
		(long long)w.step) &&
	    multiply(&w);
	if (!ok)
		take_back(q, &was, n);
	return ok;
}

/* ---- one row ---------------------------------------------------------------------------------------------
 */
/* Does the block sum up products of a row and a matrix that has its columns along memory?  A block of threads
 * takes a sum along memory (rule_team.c). */
static bool
is_row(const struct proposing *q, blk_id b)
{
	const struct tir *p = &q->p;
	struct ex v;
	st_id along;

	if (!blk_joins_rows(p, b) || p->blk[b].comb != COMB_sum || tx_is_strict(p->tx))
		return false;
	for (v = *ex_get(p->tx, p->blk[b].value[0]); v.kind == EX_GUARD;)
		v = *ex_get(p->tx, v.arg[0]);
	along = loop_along_memory(p, b);
	return v.kind == EX_MAP && v.prim == PRIM_mul && along != ST_NONE && loop_counts_places(p, along);
}

/* As many parts as keep a device busy, a thread for each column of one. */
static int64_t
parts_of_row(const struct product *w, int64_t points)
{
	const int64_t asked = w->q->target->chosen.splitk;
	int64_t best = 1;

	for (int64_t parts = 2; parts <= (asked ? asked : MOST_PARTS) && parts < w->longest; parts++)
		if (w->longest % parts == 0 &&
		    (asked || (points * parts <= FULL && w->longest / parts >= STEP)))
			best = parts;
	return best;
}

static void
part_row(struct proposing *q, blk_id b)
{
	struct product w = {.q = q, .name = q->p.blk[b].name};
	const struct tir was = q->p;
	const size_t n = q->trace->n;

	if (!find_longest(&w))
		return;
	w.parts = parts_of_row(&w, blk_points(&q->p, b) / w.longest);
	if (!part_sum(&w))
		take_back(q, &was, n);
}

static void
make_best(struct proposing *q, blk_id b)
{
	const enum intrin by[] = {INTRIN_mma_f16, INTRIN_mma_bf16, q->target->rounded_mma, INTRIN_COUNT};

	for (size_t k = q->target->has_mma ? 0 : 2; k < COUNT_OF(by); k++)
		if (make_product(q, b, by[k]))
			return;
}

void
rule_product(struct proposing *q)
{
	const blk_id n = q->p.n_blk; /* without what it adds */

	for (blk_id b = 0; b < n; b++)
		(is_row(q, b) ? part_row : make_best)(q, b);
}
