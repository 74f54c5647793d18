/* kernels/schedule/lower_guard.c: indices in a guard's arm are what they are where the guard holds: behind
 * guard(0 <= j < 16, ..) `(48*i + j + 32) mod 1536` is a sum, which a schedule can make tiles of. */
#include "lower_int.h"

enum { MOST_NODES = 400 }; /* of a value as a tree: larger ones stay as they are */

static ix_id known_ix(const struct tir_facts *f, ix_id i);

/* i = g * *big + *small, with 0 <= *small < g where the guards hold? */
static bool
splits_by(const struct tir_facts *f, ix_id i, int64_t g, ix_id *big, ix_id *small)
{
	const struct ix n = *ix_get(f->x, i);
	int64_t lo, hi;

	*big = ix_const(f->x, floor_div(n.c, g));
	*small = ix_const(f->x, n.c - g * floor_div(n.c, g));
	for (uint32_t k = 0; k < n.n_terms; k++) {
		const struct ix_term t = n.terms[k];

		if (t.coef % g == 0)
			*big = ix_add(f->x, *big, ix_mulc(f->x, t.atom, t.coef / g));
		else
			*small = ix_add(f->x, *small, ix_mulc(f->x, t.atom, t.coef));
	}
	facts_bound(f, *small, &lo, &hi);
	return lo >= 0 && lo <= hi && hi < g;
}

/* (g*a + s) div (g*c) is a div c, its remainder g*(a mod c) + s. */
static bool
split_period(const struct tir_facts *f, const struct ix *n, ix_id a, ix_id *out)
{
	const struct ix sum = *ix_get(f->x, a);
	ix_id big, small;

	for (uint32_t k = 0; sum.kind == IX_LIN && k < sum.n_terms; k++) {
		const int64_t g = sum.terms[k].coef;

		if (g < 2 || n->c % g || !splits_by(f, a, g, &big, &small))
			continue;
		*out = n->kind == IX_DIV ? ix_div(f->x, big, n->c / g)
					 : ix_add(f->x, ix_mulc(f->x, ix_mod(f->x, big, n->c / g), g), small);
		return true;
	}
	return false;
}

/* A quotient or remainder whose operand is within one period, or of which a part is. */
static ix_id
known_period(const struct tir_facts *f, const struct ix *n)
{
	const ix_id a = known_ix(f, n->a);
	int64_t lo, hi;
	ix_id parts;

	facts_bound(f, a, &lo, &hi);
	if (lo <= hi && floor_div(lo, n->c) == floor_div(hi, n->c))
		return n->kind == IX_DIV ? ix_const(f->x, floor_div(lo, n->c))
					 : ix_addc(f->x, a, -n->c * floor_div(lo, n->c));
	if (split_period(f, n, a, &parts))
		return parts;
	return n->kind == IX_DIV ? ix_div(f->x, a, n->c) : ix_mod(f->x, a, n->c);
}

static ix_id
known_ix(const struct tir_facts *f, ix_id i)
{
	const struct ix n = *ix_get(f->x, i);
	ix_id sum = ix_const(f->x, n.c);

	if (n.kind == IX_DIV || n.kind == IX_MOD)
		return known_period(f, &n);
	if (n.kind != IX_LIN)
		return i;
	for (uint32_t k = 0; k < n.n_terms; k++)
		sum = ix_add(f->x, sum, ix_mulc(f->x, known_ix(f, n.terms[k].atom), n.terms[k].coef));
	return sum;
}

static ex_id
known_read(const struct tir_facts *f, const struct ex *n)
{
	const struct ixv at = ixv_get(f->x, n->at);
	ix_id to[IXV_MAX];

	for (uint32_t d = 0; d < at.n; d++)
		to[d] = known_ix(f, at.i[d]);
	return ex_load(f->x, n->type, n->tensor, ixv_make(f->x, at.n, to));
}

static ex_id
known_ex(struct tir_facts *f, ex_id e)
{
	const struct ex n = *ex_get(f->x, e);
	const uint32_t known = f->n_guard;
	const bool never = f->never;
	ex_id arg[3] = {EX_NONE, EX_NONE, EX_NONE};

	if (n.kind == EX_READ)
		return known ? known_read(f, &n) : e;
	for (uint32_t k = 0; k < n.n_arg; k++) {
		if (n.kind == EX_GUARD)
			facts_add(f, (struct tir_guard){n.ix, n.lo, n.hi}, k == 0);
		arg[k] = known_ex(f, n.arg[k]);
		f->n_guard = known;
		f->never = never;
	}
	if (n.kind == EX_GUARD)
		return ex_guard(f->x, known ? known_ix(f, n.ix) : n.ix, n.lo, n.hi, arg[0], arg[1]);
	return n.kind == EX_MAP ? ex_map(f->x, n.prim, n.type, n.n_arg, arg) : e;
}

ex_id
guarded_value(const struct tir *p, const struct tir_block *b, ex_id e)
{
	struct tir_facts f = {.x = p->tx};

	if (ex_get(p->tx, e)->size > MOST_NODES)
		return e;
	for (uint32_t k = 0; k < b->n_iter; k++) {
		axis_id a = p->iter[b->iter0 + k].id;

		f.range[f.n_range++] =
		    (struct tir_range){a, ix_const(p->tx, 0), ix_const(p->tx, tx_axis_get(p->tx, a)->hi + 1)};
	}
	return known_ex(&f, e);
}
