/* kernels/tir/ixv.c: tuples of index expressions, hash-consed: where an n-dimensional read or store
 * is, and what the iterators of a block are bound to. */
#include "tx_int.h"

#include <string.h>

static uint64_t
tuple_hash(uint32_t n, const ix_id *i)
{
	return hash64(i, n * sizeof(*i), n);
}

ixv_id
ixv_make(struct tx *x, uint32_t n, const ix_id *i)
{
	struct tx_table *t = &x->ixv_met;
	uint32_t hash = (uint32_t)tuple_hash(n, i), k;

	if (n > IXV_MAX)
		bug("a tuple of %u indices", n);
	tx_table_room(x->arena, t, x->n_ixv);
	for (k = hash & (t->n - 1); t->slot[k].id; k = (k + 1) & (t->n - 1)) {
		const struct ixv *v = &x->ixv[t->slot[k].id - 1];

		if (t->slot[k].hash == hash && v->n == n && (n == 0 || memcmp(v->i, i, n * sizeof(*i)) == 0))
			return t->slot[k].id - 1;
	}
	GROW(x->arena, x->ixv, x->n_ixv, x->cap_ixv);
	x->ixv[x->n_ixv] = (struct ixv){.n = n, .i = n ? arena_dup(x->arena, i, n * sizeof(*i)) : NULL};
	t->slot[k] = (struct tx_slot){.id = ++x->n_ixv, .hash = hash};
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
