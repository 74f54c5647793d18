/* kernels/fuse/keep.c: which tensors get a stage of their own, and which live only in their
 * readers' expressions.
 *
 * Kept: results, long reductions, linear and opaque primitives, and maps that would be computed
 * again and again (an exp read by a sum and by a division, a scale read by a whole plane).  A map
 * of little arithmetic is recomputed: loading it would cost the same. */
#include "lower_int.h"

enum { INLINE_FLOPS = 4, UNROLL = 25, UNROLL_BORDER = 3, TREE_LIMIT = 400 };

static double
count_of(const struct lower *l, tensor_id t)
{
	return (double)shape_count(&graph_tensor(l->g, t)->shape);
}

/* Are the operand's last elements (its contiguous axis) left alone by the reduction? */
static bool
keeps_last_axis(const struct lower *l, const struct node *n)
{
	const struct shape *in = &graph_tensor(l->g, n->in[0])->shape;
	int last = in->rank - 1;

	while (last > 0 && in->dim[last] == 1)
		last--;
	if (prim_info[n->prim].class == CLASS_LINEAR || last < 0)
		return true;
	if (prim_info[n->prim].shape == SHAPE_WINDOW)
		return true;
	const struct attr *axes = at_find(&n->at, ATTR_axes);

	for (int i = 0; i < axes->n; i++)
		if (axes->i[i] == last)
			return false;
	return true;
}

/* A linear node with columns enough for the register tile (a depthwise convolution too). */
static bool
fills_tile(const struct lower *l, const struct node *n)
{
	const struct tensor *t = graph_tensor(l->g, n->out[0]);

	return prim_info[n->prim].class == CLASS_LINEAR && t->type == DT_f32 && !l->p->target->strict &&
	    t->shape.dim[t->shape.rank - 1] >= 8;
}

/* A window whose pads reach further than one element: an expression would ask at each tap whether it is
 * inside, a loop leaves out the taps that are not. */
static bool
has_wide_border(const struct node *n)
{
	if (prim_info[n->prim].class != CLASS_REDUCE || prim_info[n->prim].shape != SHAPE_WINDOW)
		return false;
	const struct attr *lo = at_find(&n->at, ATTR_lo), *hi = at_find(&n->at, ATTR_hi);

	for (int i = 0; i < lo->n; i++)
		if (lo->i[i] > 1 || hi->i[i] > 1)
			return true;
	return false;
}

bool
node_unrolls(const struct lower *l, const struct node *n)
{
	enum prim_class class = prim_info[n->prim].class;

	if (class != CLASS_REDUCE && class != CLASS_LINEAR)
		return false;
	int64_t depth = node_depth(l->g, n);

	if (depth <= 1)
		return true;
	if (n->prim == PRIM_argmax || n->prim == PRIM_argmin || node_is_anchor(l->g, n) || fills_tile(l, n))
		return false;
	return depth <= (has_wide_border(n) ? MIN_OF(l->unroll, (int64_t)UNROLL_BORDER) : l->unroll) &&
	    keeps_last_axis(l, n);
}

/* Must the node's result be a stage, whoever reads it? */
static bool
needs_stage(const struct lower *l, const struct node *n)
{
	switch (prim_info[n->prim].class) {
	case CLASS_REDUCE:
		if ((n->prim == PRIM_argmax || n->prim == PRIM_argmin))
			return true;
		return !node_unrolls(l, n);
	case CLASS_LINEAR:
		return !node_unrolls(l, n);
	case CLASS_OPAQUE:
		return n->prim != PRIM_gather_nd;
	default:
		return false;
	}
}

/* How often operand k is read for one element of the node's result. */
static double
reads_of(const struct lower *l, const struct node *n, uint32_t k)
{
	enum prim_class class = prim_info[n->prim].class;

	if (class == CLASS_REDUCE || class == CLASS_LINEAR)
		return (double)node_depth(l->g, n);
	if (n->prim == PRIM_concat)
		return count_of(l, n->in[k]) / MAX_OF(count_of(l, n->out[0]), 1.0);
	if (n->prim == PRIM_pad)
		return MIN_OF(1.0, count_of(l, n->in[0]) / MAX_OF(count_of(l, n->out[0]), 1.0));
	return 1;
}

/* Arithmetic of one element, everything inlined down to what needs a stage. */
static void
sum_flops(const struct lower *l, double *cum)
{
	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		const struct node *n = &l->g->nodes[i];
		double c = prim_info[n->prim].flops, reads = 1;

		if (needs_stage(l, n))
			continue;
		if (node_unrolls(l, n)) {
			reads = (double)node_depth(l->g, n);
			c = reads * 2;
		}
		for (uint32_t k = 0; k < n->n_in; k++)
			c += cum[n->in[k].i] * reads;
		cum[n->out[0].i] = c;
	}
}

/* Readers come first: what they keep decides how often a tensor is evaluated. */
static void
decide_by_demand(struct lower *l, const double *cum, double *demand)
{
	int64_t flops = sched_get(l->p->sched, KNOB_inline_flops, INLINE_FLOPS);

	for (uint32_t i = l->g->n_nodes; i-- > 0;) {
		const struct node *n = &l->g->nodes[i];
		enum prim_class class = prim_info[n->prim].class;
		uint32_t t = n->out[0].i;
		double count = count_of(l, n->out[0]);
		bool computes = class == CLASS_MAP || class == CLASS_REDUCE || class == CLASS_LINEAR;

		if (needs_stage(l, n) || (computes && demand[t] > 1.5 * count && cum[t] > (double)flops))
			l->kept[t] = true;
		double evals = l->kept[t] ? count : demand[t];

		for (uint32_t k = 0; k < n->n_in; k++)
			demand[n->in[k].i] += evals * reads_of(l, n, k);
	}
}

/* Expressions that would grow beyond bounds are cut at their largest operand. */
static void
bound_trees(struct lower *l, double *size)
{
	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		const struct node *n = &l->g->nodes[i];
		bool chain = !needs_stage(l, n) && node_unrolls(l, n);
		double taps = chain ? (double)node_depth(l->g, n) : 1;

		for (;;) {
			double sum = 1;
			uint32_t big = 0;

			for (uint32_t k = 0; k < n->n_in; k++) {
				double s = l->kept[n->in[k].i] ? 1 : size[n->in[k].i];
				sum += taps * (s + 1);
				if (size[n->in[k].i] > size[n->in[big].i])
					big = k;
			}
			for (uint32_t k = 0; k < n->n_out; k++)
				size[n->out[k].i] = l->kept[n->out[k].i] ? 1 : sum;
			if (sum <= TREE_LIMIT || n->n_in == 0 || l->kept[n->in[big].i] ||
			    size[n->in[big].i] <= 2)
				break;
			l->kept[n->in[big].i] = true;
			size[n->in[big].i] = 1;
		}
	}
}

void
keep_decide(struct lower *l)
{
	const struct graph *g = l->g;
	double *cum = NEW_ARRAY(l->p->arena, double, g->n_tensors);
	double *demand = NEW_ARRAY(l->p->arena, double, g->n_tensors);
	double *size = NEW_ARRAY(l->p->arena, double, g->n_tensors);

	l->unroll = sched_get(l->p->sched, KNOB_unroll_red, UNROLL);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (l->maker[g->outputs[i].i] != NO_NODE)
			l->kept[g->outputs[i].i] = true;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 1; k < g->nodes[i].n_out; k++)
			l->kept[g->nodes[i].out[k].i] = true;
	for (uint32_t t = 0; t < g->n_tensors; t++)
		size[t] = 1;
	sum_flops(l, cum);
	decide_by_demand(l, cum, demand);
	bound_trees(l, size);
}
