/* kernels/fuse/traced.c: which kernels the loop program makes (kernels/schedule), beside the tile program. */
#include "fuse.h"

static bool
is_taken(enum prim p)
{
	enum prim_class c = prim_info[p].class;

	return c != CLASS_LINEAR && c != CLASS_OPAQUE;
}

bool
fuse_is_traced(const struct spec *s, const struct target *t)
{
	if (t->is_cuda || t->strict)
		return false;
	for (uint32_t i = 0; i < s->g.n_tensors; i++)
		if (graph_tensor(&s->g, (tensor_id){i})->type != DT_f32)
			return false;
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (!is_taken(s->g.nodes[i].prim))
			return false;
	return true;
}
