/* kernels/codegen/team.c: a loop that joins an element of each thread of a block, outside of loops over
 * threads, is an instruction that these do together; what they hold is in a register of each:
 *
 *   for l in 0..128 lane                            for l in 0..128 lane
 *     store %1'p[l] = ..      (shared)                store %1'p[l] = ..      (spread)
 *   sync shared                              ->
 *   for l in 0..128
 *     store %1'r[0] = add(%1'r[0], %1'p[l])         call team_sum(%1'r[0], %1'p[0])
 *
 * In another order than the loop's, so not where that must be kept. */
#include "codegen_int.h"

struct team {
	const struct tir *p;
	uint8_t *spread; /* of each buffer */
};

/* The pass's range that statement i is under: the outermost statement. */
static st_id
root_of(const struct tir *p, st_id i)
{
	st_id path[TIR_DEPTH];

	return tir_path(p, i, path) ? path[0] : i;
}

/* Does loop i join all elements of an array of the block's threads into an element of their own? */
static bool
is_joined(const struct tir *p, st_id i, struct ex *held, struct ex *each, uint32_t *call)
{
	const struct st *loop = &p->st[i], *s = loop + 1;
	int64_t from, to;
	struct ex v;
	axis_id a;
	st_id lane;

	if (loop->op != ST_for || is_range(p, i) || loop->end != i + 2 || s->op != ST_store ||
	    p->buf[s->ref].scope != SCOPE_reg || threads_around(p, i, &lane) > 0)
		return false;
	v = *ex_get(p->tx, s->value);
	if (v.kind != EX_MAP || v.type != DT_f32 || v.n_arg != 2 || !is_fold(v.prim, true, call))
		return false;
	*held = *ex_get(p->tx, v.arg[0]);
	*each = *ex_get(p->tx, v.arg[1]);
	return held->kind == EX_READ && held->tensor == s->ref && held->at == s->at &&
	    !ixv_has(p->tx, s->at, loop->axis) && each->kind == EX_READ &&
	    p->buf[each->tensor].scope == SCOPE_shared && ix_is_const(p->tx, loop->from, &from) &&
	    from == 0 && ix_is_const(p->tx, loop->to, &to) && to == p->buf[each->tensor].dim[0] &&
	    ix_is_axis(p->tx, ixv_get(p->tx, each->at).i[0], &a) && a == loop->axis;
}

/* Whole warps, or halves down to one; of these there are as many elements. */
static bool
is_of_threads(const struct tir *p, st_id root, int64_t n)
{
	const struct threads t = threads_of(p, root, p->st[root].end);

	return t.warps == 1 && t.lanes == n && (n % 32 == 0 || (n < 32 && (n & (n - 1)) == 0));
}

/* Does each thread touch its own element alone, but for loops that join them all? */
static bool
is_private(const struct tir *p, st_id root, buf_id buf)
{
	struct accesses l = {.n = 0};
	struct ex held, each;
	uint32_t call;
	st_id lane;
	axis_id a;

	for (st_id i = root; i < p->st[root].end; i++) {
		if (is_joined(p, i, &held, &each, &call) && each.tensor == buf) {
			i++;
			continue;
		}
		list_accesses(p, i, &l);
		for (uint32_t k = 0; k < l.n; k++) {
			if (l.at[k].buf != buf)
				continue;
			if (l.at[k].goes_on || threads_around(p, i, &lane) != 1 ||
			    !ix_is_axis(p->tx, ixv_get(p->tx, l.at[k].place).i[0], &a) ||
			    a != p->st[lane].axis)
				return false;
		}
	}
	return true;
}

static bool
join(void *self, struct tir *out, const struct tir *p, st_id i)
{
	const struct team *t = self;
	const ix_id zero = ix_const(p->tx, 0);
	struct st call = {.op = ST_call, .n_arg = 2, .arg0 = out->n_arg};
	struct ex held, each;

	if (!is_joined(p, i, &held, &each, &call.ref) || !t->spread[each.tensor])
		return false;
	for (uint32_t k = 0; k < 2; k++) {
		GROW(out->arena, out->arg, out->n_arg, out->cap_arg);
		out->arg[out->n_arg++] = k ? ex_load(p->tx, DT_f32, each.tensor, ixv_make(p->tx, 1, &zero))
					   : ex_load(p->tx, DT_f32, held.tensor, held.at);
	}
	tir_add(out, call);
	return true;
}

void
codegen_team(const struct tir *p, struct tir *out)
{
	struct team t = {.p = p, .spread = NEW_ARRAY(p->arena, uint8_t, p->n_buf + 1)};
	struct ex held, each;
	uint32_t call;

	for (st_id i = 0; i < p->n_st && !tx_is_strict(p->tx); i++)
		if (is_joined(p, i, &held, &each, &call) &&
		    is_of_threads(p, root_of(p, i), p->buf[each.tensor].dim[0]))
			t.spread[each.tensor] = is_private(p, root_of(p, i), each.tensor);
	tir_rewrite(out, p, join, &t);
	for (buf_id b = 0; b < out->n_buf; b++)
		if (t.spread[b])
			out->buf[b].scope = SCOPE_spread;
}
