/* kernels/fuse/traced.c: which kernels the loop program makes (kernels/schedule), beside the tile program. */
#include "fuse.h"

/* Of products those of matrices on a CPU: borders of convolutions are slower, a GPU's were never timed. */
static bool
is_taken(enum prim p, const struct target *t)
{
	enum prim_class c = prim_info[p].class;

	return c != CLASS_OPAQUE && (c != CLASS_LINEAR || (p == PRIM_matmul && !t->is_cuda));
}

static bool
is_row_sum(enum prim p)
{
	return p == PRIM_sum || p == PRIM_rmax || p == PRIM_rmin || p == PRIM_prod;
}

bool
fuse_is_traced(const struct spec *s, const struct target *t)
{
	bool any = false; /* sums over whole axes: of a GPU's kernels what alone is better throughout */

	if (t->strict)
		return false;
	for (uint32_t i = 0; i < s->g.n_tensors; i++)
		if (graph_tensor(&s->g, (tensor_id){i})->type != DT_f32)
			return false;
	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		if (!is_taken(s->g.nodes[i].prim, t))
			return false;
		any |= is_row_sum(s->g.nodes[i].prim);
	}
	return any || !t->is_cuda;
}
