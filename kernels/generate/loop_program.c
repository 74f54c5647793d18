/* kernels/generate/loop_program.c: a spec's loop program as it is printed: lowered, scheduled by a trace,
 * through all passes of kernels/codegen. */
#include "generate.h"

#include "../codegen/codegen.h"
#include "../schedule/schedule.h"

bool
generate_loop_program(struct arena *a, const struct spec *s, struct str trace, const struct choices *chosen,
    const struct target *t, struct tir *out, struct err *e)
{
	struct tir nest, bound, flat;
	struct strbuf proposed;

	schedule_lower(a, s, t->strict, &nest);
	if (trace.n && !trace_apply(&nest, trace, &bound, e))
		return err_set(e, ERR_INFEASIBLE, "schedule: %.*s: no trace", STR_ARG(trace));
	sb_init(&proposed, a);
	if (!trace.n && !space_by_rules(&nest, chosen, t, &proposed, &bound, e))
		return false;
	schedule_flat(&bound, &flat);
	return codegen_run(&flat, NULL, out, e);
}
