/* kernels/codegen/guards.c: guards whose answer is known at their place, by the loops and guards around, are
 * gone: the arm that is taken stands there. */
#include "codegen_int.h"

struct known {
	struct tir_facts f;
	struct tx *x;
};

static ex_id
resolve(struct known *k, ex_id e)
{
	const struct ex n = *ex_get(k->x, e);
	const uint32_t n_guard = k->f.n_guard, n_range = k->f.n_range;
	ex_id arg[3] = {EX_NONE, EX_NONE, EX_NONE};
	bool same = true;
	int64_t lo, hi;

	if (n.kind == EX_GUARD) {
		facts_bound(&k->f, n.ix, &lo, &hi);
		if (lo >= n.lo && hi < n.hi)
			return resolve(k, n.arg[0]);
		if (hi < n.lo || lo >= n.hi)
			return resolve(k, n.arg[1]);
	}
	for (uint32_t i = 0; i < n.n_arg; i++) {
		if (n.kind == EX_GUARD)
			facts_add(&k->f, (struct tir_guard){n.ix, n.lo, n.hi}, i == 0);
		arg[i] = resolve(k, n.arg[i]);
		k->f.n_guard = n_guard;
		k->f.n_range = n_range;
		same = same && arg[i] == n.arg[i];
	}
	if (same)
		return e;
	return n.kind == EX_GUARD ? ex_guard(k->x, n.ix, n.lo, n.hi, arg[0], arg[1])
				  : ex_map(k->x, n.prim, n.type, n.n_arg, arg);
}

enum { MOST_NODES = 4000 }; /* of a tree: larger ones keep their guards */

static bool
simplify(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct st s = p->st[i];
	struct known *k = self;

	if ((s.op != ST_store && s.op != ST_let) || ex_get(p->tx, s.value)->size > MOST_NODES)
		return false;
	k->x = p->tx;
	tir_facts_at(p, i, &k->f);
	s.value = resolve(k, s.value);
	tir_add(out, s);
	return true;
}

void
codegen_guards(const struct tir *p, struct tir *out)
{
	struct known *k = NEW(p->arena, struct known);

	tir_rewrite(out, p, simplify, k);
}
