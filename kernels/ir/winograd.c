/* kernels/ir/winograd.c: convolutions that Winograd's form may suit, by their attributes (Lavin and Gray,
 * arXiv 1509.09308): 3 x 3 by constants, one group, no stride. */
#include "ir.h"

enum { TAPS = 3 };

bool
node_winograd(const struct graph *g, const struct node *n)
{
	const struct tensor *w = n->prim == PRIM_conv ? graph_tensor(g, n->in[1]) : NULL;

	if (!w || w->role != ROLE_WEIGHT || w->type != DT_f32 || w->shape.rank != 4 ||
	    at_get(&n->at, ATTR_group) != 1)
		return false;
	for (int d = 0; d < 2; d++)
		if (w->shape.dim[d] != TAPS || at_ints(&n->at, ATTR_stride)[d] != 1 ||
		    at_ints(&n->at, ATTR_dilation)[d] != 1 || at_ints(&n->at, ATTR_ldil)[d] != 1)
			return false;
	return true;
}

bool
node_fills_winograd(const struct graph *g, const struct node *n, int64_t lanes)
{
	const struct shape *w = node_winograd(g, n) ? &graph_tensor(g, n->in[1])->shape : NULL;

	return w && w->dim[2] >= WINOGRAD_CHANNELS && w->dim[3] >= MAX_OF((int64_t)WINOGRAD_CHANNELS, lanes);
}

bool
spec_winograd(const struct spec *s)
{
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (node_winograd(&s->g, &s->g.nodes[i]))
			return true;
	return false;
}
