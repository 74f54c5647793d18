/* kernels/schedule/tensorize.c: tensorize LOOP INSTRUCTION: the loop and all inside is one instruction, which
 * computes just that (kernels/tir/tensor.def).  The nest stays while there are blocks, so that all other
 * primitives see what it touches; each is asked again, and refused where the nest would be another
 * (step.c).  flat.c puts the call in its place. */
#include "step_int.h"

/* What a warp's instruction joins lies in its lanes' registers: of a block's, or what its warps share and
 * deal out. */
static void
spread_result(struct tir *out, st_id loop, enum intrin what)
{
	const struct tensor_row *t = tensor_row_of(what);
	const struct st *leaf = &out->st[out->st[loop].end - 1];

	if (t && t->team == BIND_warp && leaf->op == ST_block &&
	    (out->buf[out->blk[leaf->ref].out[0]].scope == SCOPE_local ||
		out->buf[out->blk[leaf->ref].out[0]].scope == SCOPE_shared))
		out->buf[out->blk[leaf->ref].out[0]].scope = SCOPE_spread;
}

bool
step_tensorize(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	st_id loop, path[TIR_DEPTH];
	ex_id arg[TENSOR_ARGS];
	const char *rule, *why;

	if (!find_loop(p, s, 0, &loop, e))
		return false;
	if (p->st[loop].bind != BIND_serial)
		return refuse(e, s, "binding", "the loop is bound");
	for (uint32_t k = tir_path(p, loop, path); k-- > 0;)
		if (p->st[path[k]].op == ST_for && !binds_nest(p->st[path[k]].bind, BIND_call))
			return refuse(
			    e, s, "nested", "an instruction stands in no vector and no other instruction");
	tir_rewrite(out, p, NULL, NULL);
	out->st[loop].bind = BIND_call;
	out->st[loop].ref = s->intrin;
	spread_result(out, loop, s->intrin);
	return tensor_match(out, loop, s->intrin, arg, &rule, &why) || refuse(e, s, rule, why);
}
