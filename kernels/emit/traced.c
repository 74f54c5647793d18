/* kernels/emit/traced.c: a kernel by way of the loop program (loop_program.c), printed by kernels/codegen.
 * All of it stands on the prelude, as the others do. */
#include "gen_int.h"

#include "../codegen/codegen.h"

#include <string.h>

static bool
make_kernel(struct arena *a, const struct spec *s, struct str trace, const struct choices *chosen,
    const struct target *t, const char *symbol, struct kernel_code *out, struct err *e)
{
	struct codegen_kernel *k = NEW(a, struct codegen_kernel);
	struct tir p;

	*out = (struct kernel_code){.head_bytes = 0};
	if (!emit_loop_program(a, s, trace, chosen, t, &p, e) ||
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
emit_by_trace(struct arena *a, const struct spec *s, struct str trace, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	return make_kernel(a, s, trace, &(struct choices){.wino = 0}, t, symbol, out, e);
}

bool
emit_traced(struct gen *g, const struct spec *s, struct str schedule, const struct target *t,
    struct kernel_code *out, struct err *e)
{
	struct choices chosen;

	if (!fuse_choices(s, schedule, t, &chosen, e) ||
	    !make_kernel(g->a, s, STR(""), &chosen, t, g->symbol, out, e))
		return false;
	sb_init(&g->sb, g->a);
	gen_head(g, s, schedule);
	out->head_bytes = g->sb.n;
	sb_add(&g->sb, out->text);
	out->text = sb_str(&g->sb);
	return true;
}
