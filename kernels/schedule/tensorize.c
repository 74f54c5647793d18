/* kernels/schedule/tensorize.c: tensorize LOOP INSTRUCTION: the loop and all inside is one instruction, which
 * computes just that (kernels/tir/tensor.def).  The nest stays while there are blocks, so that all other
 * primitives see what it touches; each is asked again, and refused where the nest would be another
 * (step.c).  flat.c puts the call in its place. */
#include "step_int.h"

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
	if (!tensor_match(p, loop, s->intrin, arg, &rule, &why))
		return refuse(e, s, rule, why);
	tir_rewrite(out, p, NULL, NULL);
	out->st[loop].bind = BIND_call;
	out->st[loop].ref = s->intrin;
	return true;
}
