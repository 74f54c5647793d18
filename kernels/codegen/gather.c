/* kernels/codegen/gather.c: ifs one behind the other that ask the same are one:
 *
 *   if 0 <= i < 546                   if 0 <= i < 546
 *     store %1[i] = -inf                store %1[i] = -inf
 *   if 0 <= i < 546           ->        store %1[i] = max(%1[i], %0[i])
 *     store %1[i] = max(..)
 *
 * (A split's tail is asked of every instance.)  Nothing that a guard reads is stored by a program. */
#include "codegen_int.h"

static bool
ask_alike(const struct tir *p, st_id a, st_id b)
{
	const struct st *x = &p->st[a], *y = &p->st[b];

	if (x->op != ST_if || y->op != ST_if || x->n_guard != y->n_guard)
		return false;
	for (uint32_t k = 0; k < x->n_guard; k++) {
		const struct tir_guard *g = &p->guard[x->guard0 + k], *h = &p->guard[y->guard0 + k];

		if (g->i != h->i || g->lo != h->lo || g->hi != h->hi)
			return false;
	}
	return true;
}

/* Statement i asks what the one before it in its body asks. */
static bool
is_taken(const struct tir *p, st_id i)
{
	for (st_id k = i; k-- > 0;)
		if (p->st[k].end == i && ask_alike(p, k, i) && same_body(p, k, i))
			return true;
	return false;
}

/* What stands in the if, then in the next ones. */
static bool
gather(void *self, struct tir *out, const struct tir *p, st_id i)
{
	struct st test = p->st[i];
	const st_id next = test.end;

	if (test.op != ST_if)
		return false;
	if (is_taken(p, i))
		return true;
	if (next >= p->n_st || !ask_alike(p, i, next) || !same_body(p, i, next))
		return false;
	*(bool *)self = true;
	tir_guards(out, &test, test.n_guard, &p->guard[test.guard0]);
	tir_add(out, test);
	for (st_id k = i; k == i || (k < p->n_st && ask_alike(p, i, k) && same_body(p, i, k));
	     k = p->st[k].end)
		for (st_id q = k + 1; q < p->st[k].end; q = p->st[q].end)
			tir_copy(out, p, q, NULL);
	tir_close(out);
	return true;
}

void
codegen_gather(const struct tir *p, struct tir *out)
{
	rewrite_all(out, p, gather);
}
