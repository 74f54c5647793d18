/* kernels/schedule/matrix.c: matrix BLOCK ROWS COLUMNS ELEMENTS: sums of products as one product of matrices,
 * or one for each point that both factors have.  Of the block t are made
 *
 *   t'a  the first factor, a row for each of its own points, its border as zeros
 *   t'b  the second one, a column for each of its own
 *   t'm  the sums
 *   t    the results, from these
 *
 *   for y, for x, for c              for i, for k
 *     for ky, for kx, for k            %2'a[i, k] = %0[(i div 8) + .., (i mod 8) + .., k mod 4]
 *       %2[y, x, c] sum=             for k, for j
 *         %0[y+ky, x+kx, k]    ->      %2'b[k, j] = %1[k div 12, (k div 4) mod 3, k mod 4, j]
 *         * %1[ky, kx, k, c]         for i, for j, for k
 *                                      %2'm[i, j] sum= %2'a[i, k] * %2'b[k, j]
 *                                    for y, for x, for c
 *                                      %2[y, x, c] = %2'm[8*y + x, c]
 *
 * A convolution in groups has the first factor at c div n, all of n columns at once: c div n is a point of
 * both factors, c mod n a column.
 *
 * Each dimension has a multiple of so many elements, the ones behind the last are zero: tiles of it are
 * alike. Both factors are made where they are read (stage, inline), so that of the matrices there are tiles
 * only. */
#include "step_int.h"

#include <string.h>

enum { MOST_MULTIPLE = 1024 };
/* Which factors count the iterator: both, the first, the second, or it is summed over. */
enum kind { OF_BOTH, ROW, COLUMN, ELEMENT, KINDS };
enum side { FIRST, SECOND };

struct factor {
	ex_id value;
	enum dtype type; /* what its matrix holds; */
	bool is_cast;    /* its elements are cast to the sum's type where they are multiplied */
	buf_id buf;
	uint32_t n_guard; /* what else than the value is zero */
	struct tir_guard guard[2 * MAX_RANK];
};
/* (of div size) mod extent: numbers of a kind are made of such. */
struct digit {
	axis_id of;
	int64_t size, extent;
	enum kind kind;
};
struct matrices {
	const struct tir *p;
	const struct step *s;
	struct err *e;
	blk_id blk;
	st_id root; /* its nest */
	struct factor of[2];
	struct digit digit[IXV_MAX + 1]; /* of the block's iterators, in their order */
	uint32_t n_digit;
	axis_id last;          /* iterator of the columns */
	int64_t per_group;     /* columns of it that share a group; 0: there are no groups */
	int64_t count[KINDS];  /* points of a kind, */
	int64_t padded[KINDS]; /* and with those behind the last */
	ix_id *to;             /* of all axes, while a value is built */
	uint32_t n_to;
	buf_id sums;
};

/* ---- which blocks ----------------------------------------------------------------------------------------
 */
static bool
is_zero(const struct tx *x, ex_id e)
{
	return ex_get(x, e)->kind == EX_CONST && ex_get(x, e)->real == 0;
}

/* An iterator of the block that the factor counts. */
static bool
counts(const struct matrices *w, enum side side, axis_id a)
{
	return ex_has(w->p->tx, w->of[side].value, a);
}

/* Halves stay halves. */
static void
set_factor(struct matrices *w, enum side side, ex_id value)
{
	const struct ex v = *ex_get(w->p->tx, value);
	const enum dtype inside =
	    v.kind == EX_MAP && v.prim == PRIM_cast ? ex_get(w->p->tx, v.arg[0])->type : DT_f32;

	w->of[side] = (struct factor){.value = value, .type = v.type};
	if (inside == DT_f16 || inside == DT_bf16)
		w->of[side] = (struct factor){.value = v.arg[0], .type = inside, .is_cast = true};
}

/* Does the guard ask of the factor's own points and elements alone? */
static bool
is_asked_of(const struct matrices *w, enum side side, ix_id i)
{
	const struct tir_block *b = &w->p->blk[w->blk];

	for (uint32_t k = 0; k < b->n_iter; k++) {
		const axis_id a = w->p->iter[b->iter0 + k].id;

		if (ix_has(w->p->tx, i, a) && !counts(w, side, a) && counts(w, !side, a))
			return false;
	}
	return true;
}

/* guard(..) ? a * b : 0 */
static bool
find_factors(struct matrices *w)
{
	struct tx *x = w->p->tx;
	struct tir_guard guard[2 * MAX_RANK];
	uint32_t n = 0;
	struct ex v = *ex_get(x, w->p->blk[w->blk].value[0]);

	for (; v.kind == EX_GUARD && is_zero(x, v.arg[1]) && n < COUNT_OF(guard); v = *ex_get(x, v.arg[0]))
		guard[n++] = (struct tir_guard){v.ix, v.lo, v.hi};
	if (v.kind != EX_MAP || v.prim != PRIM_mul)
		return refuse(w->e, w->s, "factors", "it joins no products");
	set_factor(w, FIRST, v.arg[0]);
	set_factor(w, SECOND, v.arg[1]);
	for (uint32_t k = 0; k < n; k++) {
		const enum side side = is_asked_of(w, FIRST, guard[k].i) ? FIRST : SECOND;

		if (!is_asked_of(w, side, guard[k].i))
			return refuse(w->e, w->s, "guard", "it asks of rows and columns at once");
		w->of[side].guard[w->of[side].n_guard++] = guard[k];
	}
	return true;
}

static void
swap_factors(struct matrices *w)
{
	const struct factor first = w->of[FIRST];

	w->of[FIRST] = w->of[SECOND];
	w->of[SECOND] = first;
}

struct divided {
	const struct tir *p;
	axis_id of;
	int64_t by;
};

static void
note_divisor(void *self, const struct ex *read)
{
	struct divided *d = self;

	if (d->by == 0)
		d->by = place_divisor(d->p, read->at, d->of);
}

/* Numbers of the last iterator that the factor takes for one, as it has it as `last div n` alone; 0: it
 * tells all apart. */
static int64_t
group_of(const struct matrices *w, enum side side)
{
	const struct factor *f = &w->of[side];
	struct tx *x = w->p->tx;
	struct divided d = {.p = w->p, .of = w->last};
	ix_id *to = NEW_ARRAY(w->p->arena, ix_id, w->n_to);
	const struct tx_subst sub = {.to = to, .n = w->n_to};

	ex_reads(x, f->value, note_divisor, &d);
	if (d.by == 0)
		return 0;
	const axis_id group = tx_axis(x, AXIS_PAR, 0, extent_of(w->p, w->last) / d.by - 1, IX_NONE),
		      inside = tx_axis(x, AXIS_PAR, 0, d.by - 1, IX_NONE);

	memset(to, 0xff, w->n_to * sizeof(*to));
	to[w->last] = ix_add(x, ix_mulc(x, ix_axis(x, group), d.by), ix_axis(x, inside));
	for (uint32_t k = 0; k < f->n_guard; k++)
		if (ix_has(x, ix_subst(x, &sub, f->guard[k].i), inside))
			return 0;
	return ex_has(x, ex_subst(x, &sub, f->value), inside) ? 0 : d.by;
}

/* Is the last iterator of one factor alone, the second then, or are its numbers in a group? */
static bool
are_columns(struct matrices *w)
{
	const bool first = counts(w, FIRST, w->last), second = counts(w, SECOND, w->last);

	w->per_group = first && second ? group_of(w, FIRST) : 0;
	if (first && (!second || (w->per_group == 0 && (w->per_group = group_of(w, SECOND)) > 0)))
		swap_factors(w);
	return first != second || w->per_group > 0;
}

/* The last dimension of the results that is not of both factors, as parts of a sum are, are columns. */
static bool
find_columns(struct matrices *w)
{
	const struct ixv at = ixv_get(w->p->tx, w->p->blk[w->blk].at[0]);

	for (uint32_t d = 0; d < at.n; d++)
		if (!ix_is_axis(w->p->tx, at.i[d], &w->last) && ix_get(w->p->tx, at.i[d])->hi > 0)
			return refuse(w->e, w->s, "results", "a dimension is not an iterator of its own");
	for (uint32_t d = at.n; d-- > 0;)
		if (ix_is_axis(w->p->tx, at.i[d], &w->last) && are_columns(w))
			return true;
	return refuse(w->e, w->s, "columns", "each dimension is of both factors, or of none");
}

static void
add_digit(struct matrices *w, axis_id of, int64_t size, int64_t extent, enum kind kind)
{
	w->digit[w->n_digit++] = (struct digit){of, size, extent, kind};
	w->count[kind] *= extent;
}

static enum kind
kind_of(const struct matrices *w, const struct tir_iter *it)
{
	const bool first = counts(w, FIRST, it->id), second = counts(w, SECOND, it->id);

	if (it->kind == ITER_REDUCE)
		return ELEMENT;
	return first && second ? OF_BOTH : second ? COLUMN : ROW;
}

static bool
sort_iterators(struct matrices *w)
{
	const struct tir_block *b = &w->p->blk[w->blk];

	for (int k = 0; k < KINDS; k++)
		w->count[k] = 1;
	for (uint32_t k = 0; k < b->n_iter; k++) {
		const struct tir_iter *it = &w->p->iter[b->iter0 + k];
		const int64_t n = extent_of(w->p, it->id);

		if (w->per_group && it->id == w->last) {
			add_digit(w, it->id, w->per_group, n / w->per_group, OF_BOTH);
			add_digit(w, it->id, 1, w->per_group, COLUMN);
		} else {
			add_digit(w, it->id, 1, n, kind_of(w, it));
		}
	}
	for (int k = 0; k < KINDS; k++) {
		const int64_t by = k == OF_BOTH ? 1 : w->s->number[k - ROW];

		if (by < 1 || by > MOST_MULTIPLE)
			return refuse(w->e, w->s, "multiple", "of 1 to 1024");
		w->padded[k] = ceil_div(w->count[k], by) * by;
	}
	return (w->count[ROW] > 1 && w->count[ELEMENT] > 1) ||
	    refuse(w->e, w->s, "rows", "there is one, or nothing is summed up");
}

/* ---- building --------------------------------------------------------------------------------------------
 */
/* The number among all of its kind, of the block's iterators as they stand in `to`. */
static ix_id
number_of(const struct matrices *w, enum kind kind)
{
	struct tx *x = w->p->tx;
	ix_id all = ix_const(x, 0);

	for (uint32_t k = 0; k < w->n_digit; k++) {
		const struct digit *d = &w->digit[k];

		if (d->kind == kind)
			all = ix_add(x, ix_mulc(x, all, d->extent),
			    ix_mod(x, ix_div(x, w->to[d->of], d->size), d->extent));
	}
	return all;
}

/* The iterators have the digits of the number; what is behind the last is under a guard. */
static void
put_digits(struct matrices *w, enum kind kind, ix_id number)
{
	struct tx *x = w->p->tx;
	int64_t rest = w->count[kind];

	for (uint32_t k = w->n_digit; k-- > 0;) {
		const struct digit *d = &w->digit[k];
		ix_id *to = &w->to[d->of];

		if (d->kind != kind)
			continue;
		const ix_id i = ix_mulc(x, rest > d->extent ? ix_mod(x, number, d->extent) : number, d->size);

		*to = *to == IX_NONE ? i : ix_add(x, *to, i);
		number = ix_div(x, number, d->extent);
		rest /= d->extent;
	}
}

/* A matrix by two kinds, one for each point of both factors. */
static buf_id
add_matrix(
    struct matrices *w, struct tir *out, const char *suffix, enum dtype type, enum kind row, enum kind column)
{
	const bool many = w->count[OF_BOTH] > 1;
	const int64_t dim[] = {w->count[OF_BOTH], w->padded[row], w->padded[column]};
	const char *name = w->p->buf[w->p->blk[w->blk].out[0]].name;
	const struct tir_buf b = tir_buf_make(arena_printf(out->arena, "%s%s", name, suffix), type, BUF_TEMP,
	    SCOPE_global, 2 + many, dim + !many);

	return tir_add_buf(out, &b);
}

/* Iterators over it, of the block that is added next: i[0] of both factors. */
static struct tir_block
begin_block(
    const struct matrices *w, struct tir *out, const char *suffix, enum kind row, enum kind column, ix_id *i)
{
	struct tir_block b = {.iter0 = out->n_iter, .n_out = 1, .comb = COMB_NONE};
	const int64_t extent[] = {w->count[OF_BOTH], w->padded[row], w->padded[column]};

	b.name = arena_printf(out->arena, "%s%s", w->p->blk[w->blk].name, suffix);
	i[0] = ix_const(out->tx, 0);
	for (uint32_t k = w->count[OF_BOTH] == 1; k < 3; k++) {
		i[k] = ix_axis(out->tx,
		    tir_add_iter(out, arena_printf(out->arena, "i%u", b.n_iter), ITER_SPACE, extent[k]));
		b.n_iter++;
	}
	return b;
}

static ixv_id
place_in(const struct matrices *w, struct tx *x, ix_id both, ix_id row, ix_id column)
{
	const bool many = w->count[OF_BOTH] > 1;

	return ixv_make(x, 2 + many, (const ix_id[]){both, row, column} + !many);
}

/* Zero behind the last row, column and element, and where a guard says so. */
static ex_id
factor_value(struct matrices *w, const struct factor *f, const ix_id *i, enum kind row, enum kind column)
{
	struct tx *x = w->p->tx;
	const ex_id zero = ex_real(x, f->type, 0);
	struct tx_subst sub = {.to = w->to, .n = w->n_to};
	ex_id value;

	memset(w->to, 0xff, w->n_to * sizeof(*w->to));
	put_digits(w, OF_BOTH, i[0]);
	put_digits(w, row, i[1]);
	put_digits(w, column, i[2]);
	value = ex_subst(x, &sub, f->value);
	for (uint32_t k = f->n_guard; k-- > 0;)
		value = ex_guard(
		    x, ix_subst(x, &sub, f->guard[k].i), f->guard[k].lo, f->guard[k].hi, value, zero);
	if (w->padded[column] > w->count[column])
		value = ex_guard(x, i[2], 0, w->count[column], value, zero);
	if (w->padded[row] > w->count[row])
		value = ex_guard(x, i[1], 0, w->count[row], value, zero);
	return value;
}

static void
add_factor(struct matrices *w, struct tir *out, enum side side)
{
	const char *suffix = side == FIRST ? "'a" : "'b";
	const enum kind row = side == FIRST ? ROW : ELEMENT, column = side == FIRST ? ELEMENT : COLUMN;
	struct factor *f = &w->of[side];
	ix_id i[3];
	struct tir_block b = begin_block(w, out, suffix, row, column, i);

	f->buf = add_matrix(w, out, suffix, f->type, row, column);
	b.out[0] = f->buf;
	b.at[0] = place_in(w, out->tx, i[0], i[1], i[2]);
	b.value[0] = factor_value(w, f, i, row, column);
	tir_nest(out, tir_add_blk(out, &b));
}

static ex_id
read_factor(const struct matrices *w, struct tx *x, enum side side, ixv_id at)
{
	const ex_id read = ex_load(x, w->of[side].type, w->of[side].buf, at);

	return w->of[side].is_cast ? ex_map(x, PRIM_cast, DT_f32, 1, &read) : read;
}

static void
add_sums(struct matrices *w, struct tir *out)
{
	struct tx *x = out->tx;
	ix_id i[3], k;
	struct tir_block b = begin_block(w, out, "'m", ROW, COLUMN, i);

	w->sums = add_matrix(w, out, "'m", DT_f32, ROW, COLUMN);
	k = ix_axis(x, tir_add_iter(out, "k0", ITER_REDUCE, w->padded[ELEMENT]));
	b.n_iter++;
	b.comb = COMB_sum;
	b.out[0] = w->sums;
	b.at[0] = place_in(w, x, i[0], i[1], i[2]);
	const ex_id of[] = {read_factor(w, x, FIRST, place_in(w, x, i[0], i[1], k)),
	    read_factor(w, x, SECOND, place_in(w, x, i[0], k, i[2]))};

	b.value[0] = ex_map(x, PRIM_mul, DT_f32, 2, of);
	tir_nest(out, tir_add_blk(out, &b));
}

/* In the old block's place: its results are the sums. */
static void
add_results(struct matrices *w, struct tir *out)
{
	const struct tir_block *was = &w->p->blk[w->blk];
	struct tir_block b = {.name = was->name, .iter0 = out->n_iter, .n_out = 1, .comb = COMB_NONE};
	const struct tx_subst sub = {.to = w->to, .n = w->n_to};

	memset(w->to, 0xff, w->n_to * sizeof(*w->to));
	for (uint32_t k = 0; k < was->n_iter; k++) {
		const struct tir_iter it = w->p->iter[was->iter0 + k];

		if (it.kind == ITER_REDUCE)
			continue;
		w->to[it.id] =
		    ix_axis(out->tx, tir_add_iter(out, it.name, ITER_SPACE, extent_of(w->p, it.id)));
		b.n_iter++;
	}
	b.out[0] = was->out[0];
	b.at[0] = ixv_subst(out->tx, &sub, was->at[0]);
	b.value[0] = ex_load(out->tx, DT_f32, w->sums,
	    place_in(w, out->tx, number_of(w, OF_BOTH), number_of(w, ROW), number_of(w, COLUMN)));
	out->blk[w->blk] = b;
	tir_nest(out, w->blk);
}

static bool
multiply_here(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct matrices *w = self;

	(void)p;
	if (i != w->root)
		return false;
	add_factor(w, out, FIRST);
	add_factor(w, out, SECOND);
	add_sums(w, out);
	add_results(w, out);
	return true;
}

bool
step_matrix(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	struct matrices w = {.p = p, .s = s, .e = e, .n_to = tx_n_axes(p->tx)};

	w.to = NEW_ARRAY(p->arena, ix_id, w.n_to);
	if (!find_blk(p, s, 0, &w.blk, e) || !is_free_sum(p, s, w.blk, e) ||
	    !stands_alone(p, s, w.blk, &w.root, e) || !find_factors(&w) || !find_columns(&w) ||
	    !sort_iterators(&w))
		return false;
	tir_rewrite(out, p, multiply_here, &w);
	return true;
}
