/* kernels/emit/loop_program.c: a spec's loop program as it is printed: lowered, scheduled by a trace, through
 * all passes of kernels/codegen. */
#include "emit.h"

#include "../codegen/codegen.h"
#include "../schedule/schedule.h"

/* Bytes: half of what a block may have without asking. */
enum { POINT_THREADS = 128, WARP = 32, SHARED_MOST = 40 << 10 };

struct schedule_target
emit_schedule_target(const struct target *t)
{
	if (t->is_cuda)
		return (struct schedule_target){.threads = POINT_THREADS,
		    .warp = WARP,
		    .has_mma = t->sm >= 80,
		    .shared_bytes = SHARED_MOST};
	return (struct schedule_target){
	    .lanes = t->simd_bytes / (int)sizeof(float), .n_vregs = t->n_vregs, .l1_bytes = t->l1_bytes};
}

static bool
by_rules(const struct tir *nest, const struct choices *chosen, const struct target *t, struct tir *out,
    struct err *e)
{
	struct schedule_target st = emit_schedule_target(t);
	struct strbuf proposed;

	st.chosen = *chosen;
	sb_init(&proposed, nest->arena);
	schedule_propose(nest, &st, &proposed, out);
	return chosen->wino == 0 || trace_has(sb_str(&proposed), STEP_winograd) ||
	    err_set(e, ERR_INFEASIBLE, "wino: the loop program's rule finds no convolution for it");
}

bool
emit_loop_program(struct arena *a, const struct spec *s, struct str trace, const struct choices *chosen,
    const struct target *t, struct tir *out, struct err *e)
{
	struct tir nest, bound, flat;

	schedule_lower(a, s, t->strict, &nest);
	if (trace.n && !trace_apply(&nest, trace, &bound, e))
		return err_set(e, ERR_INFEASIBLE, "schedule: %.*s: no trace", STR_ARG(trace));
	if (!trace.n && !by_rules(&nest, chosen, t, &bound, e))
		return false;
	schedule_flat(&bound, &flat);
	return codegen_run(&flat, NULL, out, e);
}
