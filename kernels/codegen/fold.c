/* kernels/codegen/fold.c: a loop that joins all lanes of an array of registers is an instruction that folds
 * halves onto each other:
 *
 *   for l in 0..32                               call fold_sum(%1'r[0], %1'p[0])
 *     store %1'r[0] = add(%1'r[0], %1'p[l])  ->
 *
 * In another order than the loop's, so not where that must be kept. */
#include "codegen_int.h"

#include <string.h>

enum { LEAST_FOLDED = 8, MOST_FOLDED = 64 };

bool
is_fold(enum prim p, bool team, uint32_t *out)
{
	for (*out = 0; *out < INTRIN_COUNT; ++*out)
		if (strcmp(intrin_info[*out].args, team ? "ut" : "ur") == 0 &&
		    comb_prim(intrin_info[*out].comb) == p)
			return true;
	return false;
}

/* A power of two, all of an array in registers. */
static bool
folds_whole(const struct tir *p, const struct st *loop, const struct ex *lane)
{
	const struct tir_buf *b = &p->buf[lane->tensor];
	int64_t from, to;
	axis_id a;

	return ix_is_const(p->tx, loop->from, &from) && from == 0 && ix_is_const(p->tx, loop->to, &to) &&
	    to >= LEAST_FOLDED && to <= MOST_FOLDED && (to & (to - 1)) == 0 && b->scope == SCOPE_reg &&
	    b->dim[0] == to && ix_is_axis(p->tx, ixv_get(p->tx, lane->at).i[0], &a) && a == loop->axis;
}

static bool
fold(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct st *loop = &p->st[i], *s = loop + 1;
	const ix_id zero = ix_const(p->tx, 0);
	struct ex v, held, lane;
	struct st call = {.op = ST_call, .n_arg = 2};

	(void)self;
	if (loop->op != ST_for || loop->bind == BIND_parallel || loop->end != i + 2 || s->op != ST_store)
		return false;
	v = *ex_get(p->tx, s->value);
	if (v.kind != EX_MAP || v.type != DT_f32 || v.n_arg != 2 || !is_fold(v.prim, false, &call.ref))
		return false;
	held = *ex_get(p->tx, v.arg[0]);
	lane = *ex_get(p->tx, v.arg[1]);
	if (held.kind != EX_READ || held.tensor != s->ref || held.at != s->at ||
	    ixv_has(p->tx, s->at, loop->axis) || lane.kind != EX_READ || lane.tensor == s->ref ||
	    !folds_whole(p, loop, &lane))
		return false;
	call.arg0 = out->n_arg;
	for (uint32_t k = 0; k < 2; k++) {
		GROW(out->arena, out->arg, out->n_arg, out->cap_arg);
		out->arg[out->n_arg++] =
		    k ? ex_load(p->tx, DT_f32, lane.tensor, ixv_make(p->tx, 1, &zero)) : v.arg[0];
	}
	tir_add(out, call);
	return true;
}

void
codegen_fold(const struct tir *p, struct tir *out)
{
	if (tx_is_strict(p->tx))
		*out = *p;
	else
		tir_rewrite(out, p, fold, NULL);
}
