/* kernels/codegen/few.c: a loop over a few elements, which lie side by side and are all that the loop around
 * it does, becomes text:
 *
 *   for i in 0..50176                          for i in 0..50176
 *     for c in 0..3                       ->     store %1[3*i + 0] = mul(%0[3*i + 0], %2[0])
 *       store %1[3*i + c] =                      store %1[3*i + 1] = mul(%0[3*i + 1], %2[1])
 *           mul(%0[3*i + c], %2[c])              ..
 *
 * A compiler makes vectors of the loop around them, and none of three elements.  Of choices it stays a loop:
 * gcc 12 asks the condition of the wrong iterations then (kernels/generate/prelude.c, of -O3). */
#include "codegen_int.h"

enum { MOST_ELEMENTS = 4, LEAST_TRIPS = 8, LARGE = 48 };

static bool
lies_side_by_side(const struct tir *p, ixv_id at, const struct st *inner, const struct st *outer, int64_t n)
{
	const struct ixv v = ixv_get(p->tx, at);
	int64_t one, all;

	return v.n == 1 && ix_coef(p->tx, v.i[0], inner->axis, &one) && one == 1 &&
	    ix_coef(p->tx, v.i[0], outer->axis, &all) && all == n;
}

static bool
has_choice(const struct tir *p, ex_id e)
{
	const struct ex n = *ex_get(p->tx, e);
	bool has = n.kind == EX_GUARD || n.type == DT_bool || (n.kind == EX_MAP && n.prim == PRIM_select);

	for (uint32_t k = 0; k < n.n_arg && !has; k++)
		has = has_choice(p, n.arg[k]);
	return has;
}

/* Elements of the loop; 0: it is no such. */
static int64_t
few_elements(const struct tir *p, st_id i)
{
	const struct st *s = &p->st[i], *up, *store;
	int64_t from, to, begin, end;
	bool first;

	if (s->op != ST_for || s->bind != BIND_serial || s->end != i + 2 || s->up == ST_NONE ||
	    !ix_is_const(p->tx, s->from, &from) || from != 0 || !ix_is_const(p->tx, s->to, &to))
		return 0;
	up = &p->st[s->up];
	store = &p->st[i + 1];
	if (to < 2 || to > MOST_ELEMENTS || up->op != ST_for || s->up + 1 != i || up->end != s->end ||
	    !ix_is_const(p->tx, up->from, &begin) || !ix_is_const(p->tx, up->to, &end) ||
	    end - begin < LEAST_TRIPS || store->op != ST_store || joins(p, store, &first) != COMB_NONE ||
	    p->buf[store->ref].scope == SCOPE_reg || ex_get(p->tx, store->value)->size > LARGE ||
	    has_choice(p, store->value))
		return 0;
	return lies_side_by_side(p, store->at, s, up, to) ? to : 0;
}

static bool
as_text(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const int64_t n = few_elements(p, i);

	(void)self;
	if (n > 0)
		copy_each(out, p, i, 0, n);
	return n > 0;
}

void
codegen_few(const struct tir *p, struct tir *out)
{
	tir_rewrite(out, p, as_text, NULL);
}
