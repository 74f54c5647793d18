/* kernels/fuse/traced.c: which kernels the loop program makes (kernels/schedule), beside the tile program: of
 * a CPU all, of a GPU some. */
#include "fuse.h"

static bool
is_row_sum(enum prim p)
{
	return p == PRIM_sum || p == PRIM_rmax || p == PRIM_rmin || p == PRIM_prod;
}

static bool
is_f32(const struct spec *s)
{
	for (uint32_t i = 0; i < s->g.n_tensors; i++)
		if (graph_tensor(&s->g, (tensor_id){i})->type != DT_f32)
			return false;
	return true;
}

/* Sums over whole axes: of a GPU's kernels what alone issues fewer instructions throughout. */
static bool
is_taken_on_gpu(const struct spec *s)
{
	bool any = false;

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		if (prim_info[s->g.nodes[i].prim].class == CLASS_LINEAR)
			return false;
		any |= is_row_sum(s->g.nodes[i].prim);
	}
	return any && is_f32(s);
}

bool
fuse_is_traced(const struct spec *s, const struct target *t)
{
	return !t->is_cuda || is_taken_on_gpu(s);
}
