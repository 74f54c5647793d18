/* kernels/vendor/view.c: tensors in memory by extents and strides, seen through layout primitives. */
#include "library_int.h"

static void
unstride_single(struct call_view *v)
{
	for (int i = 0; i < v->shape.rank; i++)
		if (v->shape.dim[i] == 1)
			v->stride[i] = 0;
}

void
view_dense(struct call_view *v, const struct tensor *t)
{
	int64_t n = 1;

	v->type = t->type;
	v->shape = t->shape;
	for (int i = t->shape.rank; i-- > 0; n *= t->shape.dim[i])
		v->stride[i] = n;
	unstride_single(v);
}

static void
permute(struct call_view *v, const int64_t *perm, bool inverse)
{
	struct call_view from = *v;

	for (int i = 0; i < from.shape.rank; i++) {
		int to = inverse ? (int)perm[i] : i, of = inverse ? i : (int)perm[i];

		v->shape.dim[to] = from.shape.dim[of];
		v->stride[to] = from.stride[of];
	}
}

/* The next extents of both shapes whose products agree; false at the end. */
struct group {
	int from_lo, from_hi, to_lo, to_hi;
};
static bool
next_group(const struct shape *from, const struct shape *to, struct group *g)
{
	int64_t a = 1, b = 1;

	g->from_lo = g->from_hi;
	g->to_lo = g->to_hi;
	if (g->from_lo == from->rank && g->to_lo == to->rank)
		return false;
	if (g->from_hi < from->rank)
		a = from->dim[g->from_hi++];
	if (g->to_hi < to->rank)
		b = to->dim[g->to_hi++];
	while (a != b) {
		if (a < b && g->from_hi < from->rank)
			a *= from->dim[g->from_hi++];
		else if (b < a && g->to_hi < to->rank)
			b *= to->dim[g->to_hi++];
		else
			return false;
	}
	return true;
}

/* The stride of what the extents lo..hi of v make as one; false where their elements do not follow evenly. */
static bool
one_stride(const struct call_view *v, int lo, int hi, int64_t *stride)
{
	int64_t n = 1;
	bool any = false;

	*stride = 0;
	for (int i = hi; i-- > lo;) {
		if (v->shape.dim[i] == 1)
			continue;
		if (!any)
			*stride = v->stride[i];
		else if (v->stride[i] != *stride * n)
			return false;
		any = true;
		n *= v->shape.dim[i];
	}
	return true;
}

static bool
reshape(struct call_view *v, const struct shape *to, struct err *e)
{
	struct call_view from = *v;
	struct group g = {0};

	v->shape = *to;
	if (shape_count(to) == 0)
		return err_set(e, ERR_INFEASIBLE, "library: a tensor is empty");
	while (next_group(&from.shape, to, &g)) {
		int64_t stride;

		if (!one_stride(&from, g.from_lo, g.from_hi, &stride))
			return err_set(e, ERR_INFEASIBLE,
			    "library: a reshape joins what does not follow evenly in memory");
		for (int i = g.to_hi; i-- > g.to_lo; stride *= to->dim[i])
			v->stride[i] = stride;
	}
	unstride_single(v);
	return true;
}

static bool
not_a_view(const struct node *n, struct err *e)
{
	return err_set(e, ERR_INFEASIBLE, "library: '%s' is no view", prim_info[n->prim].name);
}

bool
view_through(struct call_view *v, const struct graph *g, const struct node *n, struct err *e)
{
	const struct shape *to = &graph_tensor(g, n->out[0])->shape;

	switch (n->prim) {
	case PRIM_transpose:
		permute(v, at_ints(&n->at, ATTR_perm), false);
		return true;
	case PRIM_reshape:
		return reshape(v, to, e);
	case PRIM_bcast:
		v->shape = *to; /* what is repeated had extent 1, so stride 0 */
		return true;
	default:
		return not_a_view(n, e);
	}
}

bool
view_back(struct call_view *v, const struct graph *g, const struct node *n, struct err *e)
{
	switch (n->prim) {
	case PRIM_transpose:
		permute(v, at_ints(&n->at, ATTR_perm), true);
		return true;
	case PRIM_reshape:
		return reshape(v, &graph_tensor(g, n->in[0])->shape, e);
	default:
		return not_a_view(n, e);
	}
}

bool
view_is_row(const struct call_view *v)
{
	for (int i = 0; i + 1 < v->shape.rank; i++)
		if (v->stride[i] != 0)
			return false;
	return v->shape.rank > 0 &&
	    (v->stride[v->shape.rank - 1] == 1 || v->shape.dim[v->shape.rank - 1] == 1);
}

bool
view_is_dense(const struct call_view *v)
{
	int64_t n = 1;

	for (int i = v->shape.rank; i-- > 0; n *= v->shape.dim[i])
		if (v->shape.dim[i] != 1 && v->stride[i] != n)
			return false;
	return true;
}
