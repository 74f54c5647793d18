/* tests/harness/loops.c: see the header. */
#include "loops.h"

struct schedule_target
loops_target(const struct target *t)
{
	return (struct schedule_target){
	    .lanes = t->simd_bytes / 4, .n_vregs = t->n_vregs, .l1_bytes = t->l1_bytes};
}

static bool
scheduled(const struct tir *nest, struct str schedule, const struct target *t, struct tir *out, struct err *e)
{
	const struct schedule_target st = loops_target(t);
	struct strbuf trace;

	if (schedule.n)
		return trace_apply(nest, schedule, out, e) ||
		    err_set(e, ERR_INFEASIBLE, "schedule: %.*s: no trace", STR_ARG(schedule));
	sb_init(&trace, nest->arena);
	schedule_propose(nest, &st, &trace, out);
	return true;
}

bool
loops_c(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct codegen_kernel *k = NEW(a, struct codegen_kernel);
	struct tir nest, bound, flat, p;

	*out = (struct kernel_code){.desc.n_packs = 0};
	schedule_lower(a, s, t->strict, &nest);
	if (!scheduled(&nest, schedule, t, &bound, e))
		return false;
	schedule_flat(&bound, &flat);
	if (!codegen_run(&flat, NULL, &p, e) || !codegen_c(a, &p, s->g.n_inputs, symbol, k, e))
		return false;
	out->text = k->text;
	out->desc.n_passes = k->n_passes;
	for (uint32_t i = 0; i < k->n_passes; i++)
		out->desc.range[i] = k->range[i];
	out->desc.shared_bytes = k->shared_bytes;
	out->desc.local_bytes = k->local_bytes;
	return true;
}
