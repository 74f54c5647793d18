/* kernels/ir/node.c: what is known of a node from its shapes: arithmetic, and its part in a
 * kernel. */
#include "ir.h"

static double
count_of(const struct graph *g, tensor_id t)
{
	return (double)shape_count(&graph_tensor(g, t)->shape);
}

/* Multiply-adds that one result element takes, twice; borders count as if they took part. */
static double
linear_depth(const struct graph *g, const struct node *n)
{
	const struct shape *a = &graph_tensor(g, n->in[0])->shape, *b = &graph_tensor(g, n->in[1])->shape;
	double k = 1;

	if (n->prim == PRIM_matmul)
		return 2 * (double)a->dim[a->rank - 1];
	for (int d = 0; d < b->rank - 1; d++)
		k *= (double)b->dim[d];
	/* A transposed convolution meets a zero at all but one of ldil taps. */
	for (int d = 0; d < b->rank - 2; d++)
		k /= (double)at_ints(&n->at, ATTR_ldil)[d];
	return 2 * MAX_OF(k, 1.0);
}

double
node_flops(const struct graph *g, const struct node *n)
{
	const struct prim_info *p = &prim_info[n->prim];
	double made = count_of(g, n->out[0]), k = p->flops;

	switch (p->class) {
	case CLASS_MAP:
		return k * made;
	case CLASS_REDUCE:
		if (p->shape == SHAPE_REDUCE)
			return k * count_of(g, n->in[0]);
		for (int d = 0; d < graph_tensor(g, n->out[0])->shape.rank; d++)
			k *= (double)at_ints(&n->at, ATTR_kernel)[d];
		return k * made;
	case CLASS_LINEAR:
		return linear_depth(g, n) * made;
	case CLASS_OPAQUE:
		return count_of(g, n->in[0]);
	case CLASS_BCAST:
	case CLASS_LAYOUT:
		return 0;
	}
	bug("primitive %s has no class", p->name);
}

/* A matrix-vector product reads each weight once and a depthwise convolution has no contraction
 * over channels: both are bound by memory like a reduction.  The border is one operation a byte
 * (of float32 operands), which three rows of a large product reach. */
bool
node_is_anchor(const struct graph *g, const struct node *n)
{
	double bytes;

	if (prim_info[n->prim].class != CLASS_LINEAR)
		return false;
	if (n->prim == PRIM_conv) {
		const struct shape *w = &graph_tensor(g, n->in[1])->shape;

		if (w->dim[w->rank - 2] == 1 && at_get(&n->at, ATTR_group) > 1)
			return false;
	}
	bytes = 4 * (count_of(g, n->in[0]) + count_of(g, n->in[1]) + count_of(g, n->out[0]));
	return node_flops(g, n) > bytes;
}

bool
node_is_view(const struct graph *g, const struct node *n)
{
	(void)g;
	return n->prim == PRIM_reshape;
}
