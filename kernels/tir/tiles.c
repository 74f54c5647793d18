/* kernels/tir/tiles.c: tiles by which threads share out a buffer:
 *
 *     for l in 0..128 lane
 *       for i in 0..8          of the first index 8*(l div 16) + i: size 8, extent 8, weight 16
 *         for j in 0..4        of 16*j + (l mod 16):                size 1, extent 16, weight 1
 *           store %1[8*(l div 16) + i, 16*j + (l mod 16)] = .. */
#include "tiles.h"

/* By what the digit is multiplied in the number: (l div weight) mod extent.  0: it is none. */
static int64_t
weight_of(const struct tx *x, ix_id digit, axis_id lane)
{
	const struct ix *n = ix_get(x, digit);

	if (n->kind == IX_AXIS)
		return n->a == lane;
	if (n->kind != IX_DIV && n->kind != IX_MOD)
		return 0;
	const struct ix *inside = ix_get(x, n->a);

	if (inside->kind == IX_MOD && inside->c % n->c)
		return 0;
	return weight_of(x, n->a, lane) * (n->kind == IX_DIV ? n->c : 1);
}

static bool
add_digit(struct tx *x, ix_id i, ix_id atom, int64_t size, axis_id lane, struct tir_tiles *t, uint32_t dim)
{
	struct tir_digit d = {.dim = dim, .size = size, .weight = weight_of(x, atom, lane)};
	uint32_t k = t->n;

	if (t->n == MAX_RANK || size < 1 || d.weight < 1 || ix_get(x, atom)->lo != 0)
		return false;
	d.extent = ix_get(x, atom)->hi + 1;
	d.first = ix_mod(x, ix_div(x, ix_add(x, i, ix_mulc(x, atom, -size)), size), d.extent);
	for (; k > 0 && t->digit[k - 1].dim == dim && t->digit[k - 1].size < size; k--)
		t->digit[k] = t->digit[k - 1];
	t->digit[k] = d;
	t->n++;
	return !ix_has(x, d.first, lane);
}

static bool
add_digits(struct tx *x, ix_id i, axis_id lane, struct tir_tiles *t, uint32_t dim)
{
	const struct ix n = *ix_get(x, i);

	if (!ix_has(x, i, lane))
		return true;
	if (n.kind != IX_LIN)
		return add_digit(x, i, i, 1, lane, t, dim);
	for (uint32_t k = 0; k < n.n_terms; k++)
		if (ix_has(x, n.terms[k].atom, lane) &&
		    !add_digit(x, i, n.terms[k].atom, n.terms[k].coef, lane, t, dim))
			return false;
	return true;
}

/* Do the digits make the number, each once? */
static bool
is_number(const struct tx *x, const struct tir_tiles *t, axis_id lane)
{
	int64_t made = 1;

	for (uint32_t found = 0; found < t->n; found++) {
		uint32_t k = 0;

		while (k < t->n && t->digit[k].weight != made)
			k++;
		if (k == t->n)
			return false;
		made *= t->digit[k].extent;
	}
	return made == tx_axis_get(x, lane)->hi + 1;
}

bool
tir_tiles_at(struct tx *x, ixv_id place, axis_id lane, struct tir_tiles *out)
{
	const struct ixv v = ixv_get(x, place);

	*out = (struct tir_tiles){.n = 0};
	for (uint32_t d = 0; d < v.n; d++)
		if (!add_digits(x, v.i[d], lane, out, d))
			return false;
	return is_number(x, out, lane);
}

bool
tir_tiles_equal(const struct tir_tiles *a, const struct tir_tiles *b)
{
	bool equal = a->n == b->n;

	for (uint32_t k = 0; k < a->n && equal; k++)
		equal = a->digit[k].dim == b->digit[k].dim && a->digit[k].size == b->digit[k].size &&
		    a->digit[k].extent == b->digit[k].extent && a->digit[k].weight == b->digit[k].weight &&
		    a->digit[k].first == b->digit[k].first;
	return equal;
}

/* i without the digit. */
static ix_id
without(struct tx *x, ix_id i, const struct tir_digit *d)
{
	return ix_add(x, ix_mulc(x, ix_div(x, i, d->size * d->extent), d->size), ix_mod(x, i, d->size));
}

ixv_id
tir_tiles_own(struct tx *x, const struct tir_tiles *t, ixv_id place)
{
	struct ixv v = ixv_get(x, place);
	ix_id own[IXV_MAX];

	for (uint32_t d = 0; d < v.n; d++)
		own[d] = v.i[d];
	for (uint32_t k = 0; k < t->n; k++) /* what a smaller one divides is as it was */
		own[t->digit[k].dim] = without(x, own[t->digit[k].dim], &t->digit[k]);
	return ixv_make(x, v.n, own);
}

void
tir_tiles_shrink(const struct tir_tiles *t, int64_t *dim)
{
	for (uint32_t k = 0; k < t->n; k++) {
		int64_t *d = &dim[t->digit[k].dim];

		*d = ceil_div(*d, t->digit[k].size * t->digit[k].extent) * t->digit[k].size;
	}
}
