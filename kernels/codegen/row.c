/* kernels/codegen/row.c: a row of elements of a buffer, which a loop goes through one by one: what stands in
 * it, what is apart from it. */
#include "row.h"

/* Does the guard ask something of a loop, from `loop` down to the test, that the place does not hang on? */
static bool
asks_of_another(const struct tir *p, st_id loop, st_id test, const struct tir_guard *g, ixv_id at)
{
	for (st_id k = p->st[test].up; k != ST_NONE && k >= loop; k = p->st[k].up)
		if (p->st[k].op == ST_for && ix_has(p->tx, g->i, p->st[k].axis) &&
		    !ixv_has(p->tx, at, p->st[k].axis))
			return true;
	return false;
}

/* Does the test leave out what is joined to the row, a window's elements in a border, and nothing of the row?
 */
static bool
is_of_joined(const struct tir *p, st_id loop, st_id test, ixv_id at)
{
	const struct st *s = &p->st[test];

	for (uint32_t k = 0; k < s->n_guard; k++)
		if (!asks_of_another(p, loop, test, &p->guard[s->guard0 + k], at))
			return false;
	return true;
}

/* The one loop between `loop` and statement i that the place hangs on; ST_NONE: none, or several, or a test
 * stands between, so that not all of the row is there. */
st_id
row_loop(const struct tir *p, st_id loop, st_id i, ixv_id at)
{
	st_id found = ST_NONE;

	for (st_id k = p->st[i].up; k != ST_NONE && k >= loop; k = p->st[k].up) {
		if (p->st[k].op == ST_if && (found == ST_NONE || !is_of_joined(p, loop, k, at)))
			return ST_NONE;
		if (p->st[k].op != ST_for || !ixv_has(p->tx, at, p->st[k].axis))
			continue;
		if (found != ST_NONE)
			return ST_NONE;
		found = k;
	}
	return found;
}

bool
row_is_inside(const struct tir *p, st_id loop, buf_id buf, ixv_id at)
{
	const struct ixv v = ixv_get(p->tx, at);

	for (uint32_t d = 0; d < v.n; d++)
		if (!tir_prove(p, loop, v.i[d], 0, p->buf[buf].dim[d]))
			return false;
	return true;
}

/* The place with the row's axis for that of the loop it stands in. */
static ixv_id
over_lane(const struct tir *p, const struct row *r, axis_id a, ixv_id at)
{
	const ix_id to = ix_axis(p->tx, r->lane);
	const struct tx_subst sub = {.to = &to, .first = a, .n = 1};

	return ixv_subst(p->tx, &sub, at);
}

/* Is the access one of the row's, by a loop over all of it or a part? */
bool
row_has(const struct tir *p, const struct row *r, st_id loop, st_id i, ixv_id at)
{
	st_id l = row_loop(p, loop, i, at);
	int64_t from, to;

	return l != ST_NONE && ix_is_const(p->tx, p->st[l].from, &from) &&
	    ix_is_const(p->tx, p->st[l].to, &to) && from >= 0 && to <= r->count &&
	    over_lane(p, r, p->st[l].axis, at) == r->at;
}

/* Is the place always in another row: so many rows, or planes, further on? */
bool
row_is_apart(const struct tir *p, const struct row *r, ixv_id place)
{
	struct ixv a = ixv_get(p->tx, place), b = ixv_get(p->tx, r->at);
	int64_t by;

	for (int d = 0; d < (int)a.n; d++)
		if (d != r->dim &&
		    ix_is_const(p->tx, ix_add(p->tx, a.i[d], ix_mulc(p->tx, b.i[d], -1)), &by) && by != 0)
			return true;
	return false;
}

bool
row_leaves(const struct tir *p, const struct row *r, const struct access *a)
{
	return a->buf != r->buf || (!a->goes_on && row_is_apart(p, r, a->place));
}

/* The dimension that counts the row's elements one by one. */
bool
row_find_dim(const struct tir *p, struct row *r)
{
	struct ixv at = ixv_get(p->tx, r->at);
	int64_t coef;

	for (r->dim = 0; r->dim < (int)at.n; r->dim++) {
		if (!ix_coef(p->tx, at.i[r->dim], r->lane, &coef) || coef != 1)
			continue;
		r->base = ix_add(p->tx, at.i[r->dim], ix_mulc(p->tx, ix_axis(p->tx, r->lane), -1));
		return true;
	}
	return false;
}

ixv_id
row_lane(const struct tir *p, const struct row *r, ixv_id at)
{
	struct tx *x = p->tx;
	ix_id i = ix_add(x, ixv_get(x, at).i[r->dim], ix_mulc(x, r->base, -1));

	return ixv_make(x, 1, &i);
}
