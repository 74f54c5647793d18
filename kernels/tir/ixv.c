/* kernels/tir/ixv.c: tuples of index expressions, hash-consed: where an n-dimensional read or store
 * is, and what the iterators of a block are bound to. */
#include "tx_int.h"

#include <string.h>

static uint64_t
tuple_hash(uint32_t n, const ix_id *i)
{
	return hash64(i, n * sizeof(*i), n);
}

static void
rehash(struct tx *x)
{
	uint32_t cap = x->ixv_slots ? x->ixv_slots * 2 : 256;
	uint32_t *slot = NEW_ARRAY(x->arena, uint32_t, cap);

	for (uint32_t v = 0; v < x->n_ixv; v++) {
		uint32_t k = (uint32_t)tuple_hash(x->ixv[v].n, x->ixv[v].i) & (cap - 1);

		while (slot[k])
			k = (k + 1) & (cap - 1);
		slot[k] = v + 1;
	}
	x->ixv_slot = slot;
	x->ixv_slots = cap;
}

ixv_id
ixv_make(struct tx *x, uint32_t n, const ix_id *i)
{
	if (n > IXV_MAX)
		bug("a tuple of %u indices", n);
	if (x->n_ixv * 2 >= x->ixv_slots)
		rehash(x);
	uint32_t k = (uint32_t)tuple_hash(n, i) & (x->ixv_slots - 1);

	for (; x->ixv_slot[k]; k = (k + 1) & (x->ixv_slots - 1)) {
		const struct ixv *v = &x->ixv[x->ixv_slot[k] - 1];

		if (v->n == n && (n == 0 || memcmp(v->i, i, n * sizeof(*i)) == 0))
			return x->ixv_slot[k] - 1;
	}
	GROW(x->arena, x->ixv, x->n_ixv, x->cap_ixv);
	x->ixv[x->n_ixv] = (struct ixv){.n = n, .i = n ? arena_dup(x->arena, i, n * sizeof(*i)) : NULL};
	x->ixv_slot[k] = ++x->n_ixv;
	return x->n_ixv - 1;
}

struct ixv
ixv_get(const struct tx *x, ixv_id v)
{
	if (v == IXV_NONE)
		return (struct ixv){0};
	if (v >= x->n_ixv)
		bug("tuple %u of %u", v, x->n_ixv);
	return x->ixv[v];
}

bool
ixv_has(const struct tx *x, ixv_id v, axis_id a)
{
	struct ixv t = ixv_get(x, v);

	for (uint32_t k = 0; k < t.n; k++)
		if (ix_has(x, t.i[k], a))
			return true;
	return false;
}
