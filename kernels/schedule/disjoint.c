/* kernels/schedule/disjoint.c: does each iteration of a loop make points of its own?  By indices that only
 * rise from one iteration to the next, by tiles that lie side by side, or by digits of the iteration's number
 * in the indices. */
#include "../tir/tiles.h"
#include "step_int.h"

struct disjoint {
	const struct tir *p;
	st_id loop;
};

/* Is `lo` of the next iteration above `hi` of this one? */
static bool
next_is_above(const struct disjoint *t, ix_id lo, ix_id hi)
{
	struct tx *x = t->p->tx;
	const struct st *l = &t->p->st[t->loop];
	const ix_id to = ix_addc(x, ix_axis(x, l->axis), 1);
	const struct tx_subst sub = {.to = &to, .first = l->axis, .n = 1};
	const ix_id next = ix_subst(x, &sub, lo);

	return ix_get(x, ix_add(x, next, ix_mulc(x, hi, -1)))->lo > 0;
}

/* What a guard of the instance leaves of a loop inside. */
static struct tir_range
range_left(const struct disjoint *t, st_id loop, const struct st *instance)
{
	struct tx *x = t->p->tx;
	const struct st *l = &t->p->st[loop];
	struct tir_range r = {.axis = l->axis, .from = l->from, .to = l->to};

	for (uint32_t k = 0; k < instance->n_guard; k++) {
		const struct tir_guard *g = &t->p->guard[instance->guard0 + k];

		if (g->i != ix_axis(x, l->axis))
			continue;
		r.from = ix_outer(x, r.from, ix_const(x, g->lo), true);
		r.to = ix_outer(x, r.to, ix_const(x, g->hi), false);
	}
	return r;
}

/* The interval of i in one iteration, all loops inside run through. */
static void
region_inside(const struct disjoint *t, st_id instance, ix_id i, ix_id *lo, ix_id *hi)
{
	struct tir_range r[TIR_DEPTH];
	st_id path[TIR_DEPTH];
	const uint32_t n_path = tir_path(t->p, instance, path);
	uint32_t n = 0;
	bool exact;

	for (uint32_t k = 0; k < n_path; k++)
		if (path[k] > t->loop && t->p->st[path[k]].op == ST_for)
			r[n++] = range_left(t, path[k], &t->p->st[instance]);
	ix_region(t->p->tx, n, r, i, lo, hi, &exact);
}

/* Does i only rise from one iteration to the next? */
static bool
rises(const struct disjoint *t, st_id instance, ix_id i)
{
	ix_id lo, hi;

	region_inside(t, instance, i, &lo, &hi);
	return next_is_above(t, lo, hi);
}

/* The terms of i that hang on the loop, from 0 on. */
static ix_id
part_of_loop(const struct disjoint *t, ix_id i)
{
	struct tx *x = t->p->tx;
	const axis_id a = t->p->st[t->loop].axis;
	const struct ix n = *ix_get(x, i);
	ix_id part = ix_has(x, i, a) && n.kind != IX_LIN ? i : ix_const(x, 0);

	for (uint32_t k = 0; k < n.n_terms; k++)
		if (ix_has(x, n.terms[k].atom, a))
			part = ix_add(x, part, ix_mulc(x, n.terms[k].atom, n.terms[k].coef));
	return ix_addc(x, part, -ix_get(x, part)->lo);
}

/* Does i change with a loop inside, too? */
static bool
moves_inside(const struct disjoint *t, st_id instance, ix_id i)
{
	for (st_id k = t->loop + 1; k < instance; k++)
		if (t->p->st[k].op == ST_for && ix_has(t->p->tx, i, t->p->st[k].axis))
			return true;
	return false;
}

/* A digit of i that the loops inside leave alone: of 4*(16*run + lane) + word that is (i div 4) mod 16, where
 * a lane's tiles are not one piece. */
static bool
digit_left(const struct disjoint *t, st_id instance, ix_id i, ix_id *digit)
{
	struct tx *x = t->p->tx;
	const struct ix n = *ix_get(x, i);

	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix_term m = n.terms[k];

		if (!ix_has(x, m.atom, t->p->st[t->loop].axis) || m.coef < 1 || ix_get(x, m.atom)->lo != 0)
			continue;
		const ix_id d = ix_mod(x, ix_div(x, i, m.coef), ix_get(x, m.atom)->hi + 1);

		*digit = part_of_loop(t, d);
		if (!moves_inside(t, instance, d))
			return true;
	}
	return false;
}

/* Is that, of all iterations, tiles of one size side by side?  Then their number. */
static bool
tile_number(const struct disjoint *t, st_id instance, ix_id i, ix_id *tile)
{
	struct tx *x = t->p->tx;
	int64_t last, rest;
	ix_id lo, hi;

	region_inside(t, instance, i, &lo, &hi);
	if (!ix_is_const(x, ix_add(x, hi, ix_mulc(x, lo, -1)), &last) ||
	    !ix_is_const(x, ix_mod(x, lo, last + 1), &rest) || rest != 0)
		return digit_left(t, instance, i, tile);
	*tile = part_of_loop(t, ix_div(x, lo, last + 1));
	return true;
}

/* Points of the instance's iterators first .. end - 1 as digits of one number. */
static ix_id
points_as_one(const struct disjoint *t, st_id instance, uint32_t first, uint32_t end)
{
	const struct st *s = &t->p->st[instance];
	const struct tir_block *b = &t->p->blk[s->ref];
	struct ixv at = ixv_get(t->p->tx, s->at);
	struct tx *x = t->p->tx;
	ix_id all = ix_const(x, 0);

	for (uint32_t k = first; k < end; k++) {
		const struct tir_iter *it = &t->p->iter[b->iter0 + k];

		if (it->kind == ITER_SPACE)
			all = ix_add(x, ix_mulc(x, all, tx_axis_get(x, it->id)->hi + 1), at.i[k]);
	}
	return all;
}

/* Iterations from one value of i to the next, as far as quotients say it. */
static int64_t
period_of(const struct disjoint *t, ix_id i)
{
	const struct ix n = *ix_get(t->p->tx, i);
	int64_t least = INT64_MAX;

	if (n.kind == IX_AXIS)
		return n.a == t->p->st[t->loop].axis ? 1 : INT64_MAX;
	if (n.kind == IX_MOD)
		return period_of(t, n.a);
	if (n.kind == IX_DIV)
		return MIN_OF(period_of(t, n.a), INT64_MAX / n.c) * n.c;
	for (uint32_t k = 0; k < n.n_terms; k++)
		least = MIN_OF(least, period_of(t, n.terms[k].atom));
	return least;
}

struct numbers {
	ix_id digit[IX_MAX_TERMS]; /* the one that changes last comes first */
	uint32_t n;
};

static bool
add_digit(const struct disjoint *t, struct numbers *l, ix_id i)
{
	uint32_t k = l->n;

	if (l->n == COUNT_OF(l->digit) || ix_get(t->p->tx, i)->lo < 0)
		return false;
	for (; k > 0 && period_of(t, l->digit[k - 1]) < period_of(t, i); k--)
		l->digit[k] = l->digit[k - 1];
	l->digit[k] = i;
	l->n++;
	return true;
}

/* Is each term of the number a digit of it: more than all smaller ones make together? */
static bool
is_of_digits(const struct tx *x, const struct ix *number)
{
	for (uint32_t k = 0; k < number->n_terms; k++) {
		int64_t below = 0;

		for (uint32_t i = 0; i < number->n_terms; i++)
			if (i != k && number->terms[i].coef <= number->terms[k].coef)
				below += number->terms[i].coef * ix_get(x, number->terms[i].atom)->hi;
		if (number->terms[k].coef <= below || ix_get(x, number->terms[k].atom)->lo < 0)
			return false;
	}
	return number->kind == IX_LIN && number->c == 0;
}

static bool
add_number(const struct disjoint *t, struct numbers *l, ix_id number)
{
	const struct ix n = *ix_get(t->p->tx, number);

	if (!is_of_digits(t->p->tx, &n))
		return add_digit(t, l, number);
	for (uint32_t k = 0; k < n.n_terms; k++)
		if (!add_digit(t, l, n.terms[k].atom))
			return false;
	return true;
}

static ix_id
one_number(struct tx *x, const struct numbers *l)
{
	ix_id flat = ix_const(x, 0);

	for (uint32_t k = 0; k < l->n; k++)
		flat = ix_add(x, ix_mulc(x, flat, ix_get(x, l->digit[k])->hi + 1), l->digit[k]);
	return flat;
}

/* Does each iteration make such tiles, whose numbers as digits of one only rise?  So do two loops over tiles
 * that have become one.  Where two loops are one whose tiles go over the end of the inner one's, a tile has
 * several iterators: as few as will do, or as many. */
static bool
tiles_rise(const struct disjoint *t, st_id instance, bool few)
{
	const uint32_t n = t->p->blk[t->p->st[instance].ref].n_iter;
	struct tx *x = t->p->tx;
	struct numbers all = {.n = 0};
	ix_id flat, tile = IX_NONE;

	for (uint32_t first = 0, end; first < n; first = end) {
		uint32_t tried = 1;

		for (; tried <= n - first; tried++) {
			end = few ? first + tried : n + 1 - tried;
			if (tile_number(t, instance, points_as_one(t, instance, first, end), &tile))
				break;
		}
		if (tried > n - first || !add_number(t, &all, tile))
			return false;
	}
	flat = one_number(x, &all);
	return next_is_above(t, flat, flat);
}

/* Has each point the digits of the iteration's number in its indices? */
static bool
tiles_tell(const struct disjoint *t, st_id instance)
{
	struct tir_tiles tiles;

	if (!tir_tiles_at(t->p->tx, t->p->st[instance].at, t->p->st[t->loop].axis, &tiles))
		return false;
	for (uint32_t k = 0; k < tiles.n; k++)
		if (moves_inside(t, instance, tiles.digit[k].first) ||
		    t->p->iter[t->p->blk[t->p->st[instance].ref].iter0 + tiles.digit[k].dim].kind !=
			ITER_SPACE)
			return false;
	return true;
}

/* Do the indices that hang on the loop rise, as digits of one number, the one that changes last first? */
static bool
digits_rise(const struct disjoint *t, st_id instance)
{
	const struct st *s = &t->p->st[instance];
	const struct tir_block *b = &t->p->blk[s->ref];
	const struct ixv at = ixv_get(t->p->tx, s->at);
	struct tx *x = t->p->tx;
	struct numbers all = {.n = 0};

	for (uint32_t k = 0; k < b->n_iter; k++)
		if (t->p->iter[b->iter0 + k].kind == ITER_SPACE &&
		    ix_has(x, at.i[k], t->p->st[t->loop].axis) && !add_digit(t, &all, at.i[k]))
			return false;
	return rises(t, instance, one_number(x, &all));
}

/* Each point of the result by one iteration: one of its indices, or some in a row as digits of one, only
 * rise. */
static bool
is_told_apart(const struct disjoint *t, st_id instance)
{
	const struct st *s = &t->p->st[instance];
	const struct tir_block *b = &t->p->blk[s->ref];
	struct ixv at = ixv_get(t->p->tx, s->at);
	struct tx *x = t->p->tx;

	for (uint32_t first = 0; first < b->n_iter; first++) {
		ix_id flat = ix_const(x, 0);

		for (uint32_t k = first; k < b->n_iter; k++) {
			const struct tir_iter *it = &t->p->iter[b->iter0 + k];

			if (it->kind != ITER_SPACE)
				continue;
			flat = ix_add(x, ix_mulc(x, flat, tx_axis_get(x, it->id)->hi + 1), at.i[k]);
			if (rises(t, instance, flat))
				return true;
		}
	}
	return digits_rise(t, instance) || tiles_tell(t, instance) || tiles_rise(t, instance, true) ||
	    tiles_rise(t, instance, false);
}

bool
loop_is_disjoint(const struct tir *p, st_id loop, st_id instance)
{
	return is_told_apart(&(struct disjoint){p, loop}, instance);
}
