/* kernels/emit/traced.c: a kernel by way of the loop program: lowered, scheduled by the trace that the rules
 * propose, printed by kernels/codegen.  All of it stands on the prelude, as the others do. */
#include "gen_int.h"

#include "../codegen/codegen.h"
#include "../schedule/schedule.h"

#include <string.h>

bool
emit_traced(struct gen *g, const struct spec *s, struct str schedule, const struct target *t,
    struct kernel_code *out, struct err *e)
{
	const struct schedule_target st = {
	    .lanes = t->simd_bytes / (int)sizeof(float), .n_vregs = t->n_vregs, .l1_bytes = t->l1_bytes};
	struct codegen_kernel *k = NEW(g->a, struct codegen_kernel);
	struct tir nest, scheduled, flat, p;
	struct strbuf trace;

	if (!fuse_is_traced(s, t) || !str_is(schedule, TRACED))
		return err_set(e, ERR_INFEASIBLE,
		    "schedule: trace=1 stands alone, and is for sums over whole axes, in f32, on a CPU that "
		    "need not be strict");
	sb_init(&trace, g->a);
	schedule_lower(g->a, s, t->strict, &nest);
	schedule_propose(&nest, &st, &trace, &scheduled);
	schedule_flat(&scheduled, &flat);
	if (!codegen_run(&flat, NULL, &p, e) || !codegen_c(g->a, &p, s->g.n_inputs, g->symbol, k, e))
		return false;
	sb_init(&g->sb, g->a);
	gen_head(g, s, schedule);
	out->head_bytes = g->sb.n;
	sb_add(&g->sb, k->text);
	out->text = sb_str(&g->sb);
	out->desc.n_passes = k->n_passes;
	memcpy(out->desc.range, k->range, sizeof(out->desc.range));
	out->desc.shared_bytes = k->shared_bytes;
	out->desc.local_bytes = k->local_bytes;
	return true;
}
