/* daemon/rewrite/rules_map.c: arithmetic on maps, reductions and constants: guards, and what is said of axes.
 */
#include "rewrite_int.h"

#include <math.h>

/* Axes that matter; none: the operand (the sum of one element is that element). */
bool
rule_reduce_ones(struct rw *r, const struct expr *x, tensor_id *out)
{
	struct attrs at = *x->at;
	int64_t axes[MAX_RANK];
	int n = 0;

	if (x->prim != PRIM_sum && x->prim != PRIM_rmax && x->prim != PRIM_rmin && x->prim != PRIM_prod)
		return false;
	const struct attr *was = at_find(x->at, ATTR_axes);
	for (int i = 0; i < was->n; i++)
		if (rw_shape(r, x->in[0])->dim[was->i[i]] != 1)
			axes[n++] = was->i[i];
	if (n == was->n && n > 0)
		return false;
	at_list(&at, ATTR_axes, n, axes);
	*out = n ? rw_op1(r, x->prim, x->in[0], &at) : x->in[0];
	return true;
}

/* ---- divisors ---------------------------------------------------------------------------------- */
bool
powers_of_two(struct match *m)
{
	const struct tensor *t = rw_tensor(m->r, rw_under(m->r, named(m, 'd')));
	int64_t n = shape_count(&t->shape);

	for (int64_t i = 0; i < n; i++) {
		int e;
		float v = ((const float *)t->data)[i];
		if (!isfinite(v) || fabsf(frexpf(v, &e)) != 0.5f || e < -125 || e > 126)
			return false;
	}
	return n > 0;
}

/* Reciprocals that are normal numbers too. */
bool
invertible(struct match *m)
{
	const struct tensor *t = rw_tensor(m->r, rw_under(m->r, named(m, 'd')));
	int64_t n = shape_count(&t->shape);

	for (int64_t i = 0; i < n; i++) {
		float v = fabsf(((const float *)t->data)[i]);
		if (!(v > 0x1p-120f && v < 0x1p120f))
			return false;
	}
	return true;
}

/* ---- broadcasts -------------------------------------------------------------------------------- */
/* "@" is the common shape of a and b, where that is smaller than the result. */
bool
scales_are_small(struct match *m)
{
	struct shape low = *shape_of(m, 'a');

	for (int d = 0; d < low.rank; d++)
		low.dim[d] = MAX_OF(low.dim[d], shape_of(m, 'b')->dim[d]);
	at_list(&m->slot[0], ATTR_shape, low.rank, low.dim);
	return 2 * shape_count(&low) <= shape_count(result_shape(m));
}

/* k is one over the number of elements that s sums, and c the same for all of them. */
bool
is_mean(struct match *m)
{
	const struct attr *axes = at_find(&rw_maker(m->r, named(m, 's'))->at, ATTR_axes);
	const struct shape *c = rw_shape(m->r, rw_under(m->r, named(m, 'c')));
	double scale, n = 1;

	for (int i = 0; i < axes->n; i++) {
		if (c->dim[axes->i[i]] != 1)
			return false;
		n *= (double)result_shape(m)->dim[axes->i[i]];
	}
	return rw_uniform(m->r, named(m, 'k'), &scale) && fabs(scale * n - 1) <= 1e-6;
}
