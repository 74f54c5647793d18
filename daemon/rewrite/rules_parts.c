/* daemon/rewrite/rules_parts.c: a few tensors are stacked, and reduced along the stack at once, as where
 * branches of a network are weighed against each other. */
#include "rewrite_int.h"

enum { MOST_PARTS = 8 };

/* What joins two of the reduction's elements; PRIM_COUNT: another primitive. */
static enum prim
joint_of(enum prim p)
{
	return p == PRIM_sum ? PRIM_add
	    : p == PRIM_rmax ? PRIM_max
	    : p == PRIM_rmin ? PRIM_min
	    : p == PRIM_prod ? PRIM_mul
			     : PRIM_COUNT;
}

static bool
reduces_along(const struct expr *x, int64_t axis)
{
	const struct attr *axes = at_find(x->at, ATTR_axes);

	for (int i = 0; i < axes->n; i++)
		if (axes->i[i] == axis)
			return true;
	return false;
}

/* A stack of few, along an axis that is reduced. */
static bool
is_stack(const struct rw *r, const struct expr *x, tensor_id t)
{
	const struct node *c = rw_made_by(r, t, PRIM_concat);
	int64_t axis;

	if (!c || c->n_in > MOST_PARTS)
		return false;
	axis = at_get(&c->at, ATTR_axis);
	for (uint32_t i = 0; i < c->n_in; i++)
		if (rw_shape(r, c->in[i])->dim[axis] != 1)
			return false;
	return reduces_along(x, axis);
}

/* The operand of t's map that is a stack; t itself where it is no map. */
static tensor_id
stack_behind(const struct rw *r, const struct expr *x, tensor_id t)
{
	const struct node *n = rw_maker(r, t);

	if (is_stack(r, x, t))
		return t;
	if (!n || prim_info[n->prim].class != CLASS_MAP || !rw_single(r, t))
		return NO_TENSOR;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (is_stack(r, x, n->in[i]))
			return n->in[i];
	return NO_TENSOR;
}

/* Element k of the tensor along the axis. */
static tensor_id
part(struct rw *r, tensor_id t, int axis, int64_t k)
{
	const struct node *c = rw_made_by(r, t, PRIM_concat);
	struct shape s = *rw_shape(r, t);
	int64_t start[MAX_RANK] = {0};
	struct attrs cut = {0};

	if (c && at_get(&c->at, ATTR_axis) == axis && c->n_in == s.dim[axis])
		return c->in[k];
	s.dim[axis] = 1;
	start[axis] = k;
	at_slice(&cut, &s, start, NULL);
	return rw_op1(r, PRIM_slice, t, &cut);
}

bool
rule_reduce_parts(struct rw *r, const struct expr *x, tensor_id *out)
{
	const enum prim joint = joint_of(x->prim);
	tensor_id stack, all = NO_TENSOR;

	if (joint == PRIM_COUNT)
		return false;
	stack = stack_behind(r, x, x->in[0]);
	if (stack.i == UINT32_MAX)
		return false;
	const struct node map = *rw_maker(r, x->in[0]), c = *rw_made_by(r, stack, PRIM_concat);
	const int axis = ck_int(at_get(&c.at, ATTR_axis));
	for (uint32_t k = 0; k < c.n_in; k++) {
		tensor_id one = c.in[k], in[3];

		if (stack.i != x->in[0].i) {
			for (uint32_t i = 0; i < map.n_in; i++)
				in[i] = part(r, map.in[i], axis, k);
			one = rw_op(r, map.prim, in, map.n_in, &map.at);
		}
		all = k ? rw_op2(r, joint, all, one) : one;
	}
	*out = rw_op1(r, x->prim, all, x->at);
	return true;
}
