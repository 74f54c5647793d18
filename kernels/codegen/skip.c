/* kernels/codegen/skip.c: a row of elements that is joined where a guard holds which none of its lanes
 * changes is skipped by an if:
 *
 *   for c in 0..16 vector                              if 0 <= y + k - 2 < 4
 *     store %1[c] = add(%1[c],                   ->      for c in 0..16 vector
 *         guard(0 <= y + k - 2 < 4, .., 0))                store %1[c] = add(%1[c], ..)
 *
 * That is what neither bounds of loops (narrow.c) nor pieces of them (partition.c) have settled.  Of a
 * question in each lane a C compiler makes no vectors. */
#include "codegen_int.h"

enum { MOST_GUARDS = 8 };

static bool
is_row_of_store(const struct tir *p, st_id loop)
{
	return p->st[loop].op == ST_for && p->st[loop].bind == BIND_vector && p->st[loop].end == loop + 2 &&
	    p->st[loop + 1].op == ST_store;
}

bool
is_asked_of_tile(const struct tir *p, st_id i, ix_id asked)
{
	const st_id row = p->st[i].up;
	bool first;
	st_id around;

	if (row == ST_NONE || !is_row_of_store(p, row) || joins(p, &p->st[i], &first) == COMB_NONE ||
	    ix_has(p->tx, asked, p->st[row].axis))
		return false;
	around = p->st[row].up;
	return around != ST_NONE && p->st[around].op == ST_for && p->st[around].bind == BIND_serial &&
	    ix_has(p->tx, asked, p->st[around].axis) && !ixv_has(p->tx, p->st[i].at, p->st[around].axis);
}

struct skipped {
	struct tir_guard guard[MOST_GUARDS];
	uint32_t n;
	struct st store; /* without them */
};

/* Guards of what is joined whose other arm changes nothing, and whose answer is one for all of the row. */
static bool
find_skipped(const struct tir *p, st_id loop, struct skipped *k)
{
	bool first;
	const enum comb comb = joins(p, &k->store, &first);

	k->n = 0;
	if (comb == COMB_NONE)
		return false;
	struct ex v = *ex_get(p->tx, k->store.value);
	ex_id *elem = &v.arg[first ? 0 : 1];

	while (k->n < MOST_GUARDS) {
		const struct ex e = *ex_get(p->tx, *elem);

		if (e.kind != EX_GUARD || e.arg[1] != comb_identity(p->tx, comb, 0, e.type) ||
		    ix_has(p->tx, e.ix, p->st[loop].axis))
			break;
		k->guard[k->n++] = (struct tir_guard){e.ix, e.lo, e.hi};
		*elem = e.arg[0];
	}
	k->store.value = ex_map(p->tx, v.prim, v.type, v.n_arg, v.arg);
	return k->n > 0;
}

static bool
skip(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct st test = {.op = ST_if};
	struct skipped k;

	(void)self;
	if (!is_row_of_store(p, i))
		return false;
	k.store = p->st[i + 1];
	if (!find_skipped(p, i, &k))
		return false;
	tir_guards(out, &test, k.n, k.guard);
	tir_add(out, test);
	tir_add(out, *s);
	tir_add(out, k.store);
	tir_close(out);
	tir_close(out);
	return true;
}

void
codegen_skip(const struct tir *p, struct tir *out)
{
	tir_rewrite(out, p, skip, NULL);
}
