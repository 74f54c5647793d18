/* kernels/fuse/traced.c: which kernels the loop program makes (kernels/schedule), beside the tile program. */
#include "fuse.h"

/* A reduction over whole axes, with a combiner that lanes may join in any order. */
static bool
is_row_sum(enum prim p)
{
	return p == PRIM_sum || p == PRIM_rmax || p == PRIM_rmin || p == PRIM_prod;
}

static bool
is_light(enum prim p)
{
	enum prim_class c = prim_info[p].class;

	return c == CLASS_MAP || c == CLASS_BCAST || c == CLASS_LAYOUT;
}

bool
fuse_is_traced(const struct spec *s, const struct target *t)
{
	bool any = false;

	if (t->strict)
		return false;
	for (uint32_t i = 0; i < s->g.n_tensors; i++)
		if (graph_tensor(&s->g, (tensor_id){i})->type != DT_f32)
			return false;
	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		enum prim p = s->g.nodes[i].prim;

		if (!is_row_sum(p) && !is_light(p))
			return false;
		any |= is_row_sum(p);
	}
	return any;
}
