/* kernels/schedule/pipeline.c: pipeline LOOP N: copies at the begin of the loop's body run N - 1 iterations
 * ahead of the rest (kernels/tir/pipeline.h).  A mark on the loop; each later step is asked whether it still
 * holds (step.c), and a pass of kernels/codegen makes prologue, loop, epilogue and versions of the buffers.
 */
#include "step_int.h"

enum { MOST_DEPTH = 8 };

bool
step_pipeline(const struct tir *p, const struct step *s, struct tir *out, struct err *e)
{
	st_id loop, path[TIR_DEPTH];
	struct pipeline l;
	const char *rule, *why;

	if (!find_loop(p, s, 0, &loop, e))
		return false;
	if (p->st[loop].bind != BIND_serial)
		return refuse(e, s, "binding", "the loop is bound");
	if (s->number[0] < 2 || s->number[0] > MOST_DEPTH)
		return refuse(e, s, "depth", "not from two to eight iterations");
	for (uint32_t k = tir_path(p, loop, path); k-- > 0;)
		if (p->st[path[k]].op == ST_for && !binds_nest(p->st[path[k]].bind, BIND_pipeline))
			return refuse(e, s, "nested", "a pipeline stands in no vector");
	tir_rewrite(out, p, NULL, NULL);
	out->st[loop].bind = BIND_pipeline;
	out->st[loop].depth = (uint32_t)s->number[0];
	return pipeline_find(out, loop, &l, &rule, &why) || refuse(e, s, rule, why);
}
