/* kernels/codegen/guards.c: guards whose answer is known at their place, by the loops and guards around, are
 * gone: the arm that is taken stands there; so are ifs, and loops that nothing is left in. */
#include "codegen_int.h"

struct known {
	struct tir_facts f;
	struct tx *x;
	bool changed;
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

static bool
asks(const struct tx *x, ex_id e)
{
	const struct ex *n = ex_get(x, e);
	bool found = n->kind == EX_GUARD;

	for (uint32_t i = 0; i < n->n_arg && !found; i++)
		found = asks(x, n->arg[i]);
	return found;
}

enum { MOST_NODES = 4000 }; /* of a tree: larger ones keep their guards */

static bool
simplify(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct st s = p->st[i];
	struct known *k = self;

	if ((s.op != ST_store && s.op != ST_let) || ex_get(p->tx, s.value)->size > MOST_NODES ||
	    !asks(p->tx, s.value))
		return false;
	k->x = p->tx;
	tir_facts_at(p, i, &k->f);
	s.value = resolve(k, s.value);
	tir_add(out, s);
	return true;
}

/* ---- statements ---------------------------------------------------------------------------------------- */
/* What is left to ask; false: it never holds. */
static bool
ask(struct known *k, const struct tir *p, st_id i, struct tir_guard *left, uint32_t *n)
{
	const struct st *s = &p->st[i];
	int64_t lo, hi;

	*n = 0;
	tir_facts_at(p, i, &k->f);
	for (uint32_t q = 0; q < s->n_guard; q++) {
		struct tir_guard g = p->guard[s->guard0 + q];

		facts_bound(&k->f, g.i, &lo, &hi);
		if (hi < g.lo || lo >= g.hi)
			return false;
		if (lo < g.lo || hi >= g.hi)
			left[(*n)++] = g;
	}
	return true;
}

static bool
drop(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i];
	struct known *k = self;
	struct tir_guard left[TIR_DEPTH];
	struct st test = *s;
	uint32_t n;

	if (st_info[s->op].body && s->end == i + 1)
		return k->changed = true;
	if (s->op != ST_if || s->n_guard > TIR_DEPTH)
		return false;
	if (!ask(k, p, i, left, &n))
		return k->changed = true;
	if (n == s->n_guard)
		return false;
	k->changed = true;
	if (n) {
		tir_guards(out, &test, n, left);
		tir_add(out, test);
	}
	for (st_id q = i + 1; q < s->end; q = p->st[q].end)
		tir_copy(out, p, q, NULL);
	if (n)
		tir_close(out);
	return true;
}

void
codegen_guards(const struct tir *p, struct tir *out)
{
	struct known *k = NEW(p->arena, struct known);
	struct tir was = *p;

	k->changed = true;
	for (int n = 0; n < TIR_DEPTH && k->changed; n++) { /* outer ones first, then what stands in them */
		k->changed = false;
		tir_rewrite(out, &was, drop, k);
		was = *out;
	}
	tir_rewrite(out, &was, simplify, k);
}
