/* kernels/emit/traced.c: a kernel by way of the loop program: lowered, scheduled by a trace, printed by
 * kernels/codegen.  All of it stands on the prelude, as the others do. */
#include "gen_int.h"

#include "../codegen/codegen.h"
#include "../schedule/schedule.h"

#include <string.h>

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
scheduled(const struct tir *nest, struct str trace, const struct target *t, struct tir *out, struct err *e)
{
	const struct schedule_target st = emit_schedule_target(t);
	struct strbuf proposed;

	if (trace.n)
		return trace_apply(nest, trace, out, e) ||
		    err_set(e, ERR_INFEASIBLE, "schedule: %.*s: no trace", STR_ARG(trace));
	sb_init(&proposed, nest->arena);
	schedule_propose(nest, &st, &proposed, out);
	return true;
}

bool
emit_by_trace(struct arena *a, const struct spec *s, struct str trace, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct codegen_kernel *k = NEW(a, struct codegen_kernel);
	struct tir nest, bound, flat, p;

	*out = (struct kernel_code){.n_parts = 0};
	schedule_lower(a, s, t->strict, &nest);
	if (!scheduled(&nest, trace, t, &bound, e))
		return false;
	schedule_flat(&bound, &flat);
	if (!codegen_run(&flat, NULL, &p, e) ||
	    !(t->is_cuda ? codegen_cuda : codegen_c)(a, &p, s->g.n_inputs, symbol, k, e))
		return false;
	out->text = k->text;
	out->desc.n_passes = k->n_passes;
	memcpy(out->desc.range, k->range, sizeof(out->desc.range));
	for (uint32_t q = 0; q < k->n_passes && t->is_cuda; q++)
		out->desc.launch[q] =
		    (struct launch){.grid = {k->grid[q], 1, 1}, .block = {k->threads[q], 1, 1}};
	out->desc.shared_bytes = k->shared_bytes;
	out->desc.local_bytes = k->local_bytes;
	out->desc.overlaps = k->overlaps;
	out->desc.n_overlaps = k->n_overlaps;
	out->desc.packs = k->packs;
	out->desc.n_packs = k->n_packs;
	return true;
}

bool
emit_traced(struct gen *g, const struct spec *s, struct str schedule, const struct target *t,
    struct kernel_code *out, struct err *e)
{
	if (!fuse_is_traced(s, t) || !str_is(schedule, TRACED))
		return err_set(e, ERR_INFEASIBLE,
		    "schedule: trace=1 stands alone, and is for sums over whole axes, in f32, on a CPU that "
		    "need not be strict");
	if (!emit_by_trace(g->a, s, STR(""), t, g->symbol, out, e))
		return false;
	sb_init(&g->sb, g->a);
	gen_head(g, s, schedule);
	out->head_bytes = g->sb.n;
	sb_add(&g->sb, out->text);
	out->text = sb_str(&g->sb);
	return true;
}
