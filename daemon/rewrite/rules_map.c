/* daemon/rewrite/rules_map.c: arithmetic on maps, reductions and constants. */
#include "rewrite_int.h"

#include <math.h>

static bool
commutes(enum prim p)
{
	return p == PRIM_add || p == PRIM_mul || p == PRIM_eq || p == PRIM_and || p == PRIM_or ||
	    p == PRIM_xor;
}

bool
rule_one_operand_first(struct rw *r, const struct expr *x, tensor_id *out)
{
	tensor_id c;

	if (!commutes(x->prim) || !rw_const_under(r, x->in[0], &c) || rw_const_under(r, x->in[1], &c))
		return false;
	*out = rw_op2(r, x->prim, x->in[1], x->in[0]);
	return true;
}

bool
rule_cast_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (x->prim != PRIM_cast || rw_tensor(r, x->in[0])->type != x->result.type)
		return false;
	*out = x->in[0];
	return true;
}

bool
rule_map_neutral(struct rw *r, const struct expr *x, tensor_id *out)
{
	bool neutral = false;
	double v;

	if (x->prim == PRIM_relu)
		neutral = rw_made_by(r, x->in[0], PRIM_relu) != NULL;
	else if (x->prim == PRIM_mul || x->prim == PRIM_div)
		neutral = rw_uniform(r, x->in[1], &v) && v == 1;
	else if (x->prim == PRIM_sub)
		neutral = rw_uniform(r, x->in[1], &v) && v == 0 && !signbit(v);
	else if (x->prim == PRIM_add)
		neutral = rw_uniform(r, x->in[1], &v) && v == 0 && signbit(v);
	if (neutral)
		*out = x->in[0];
	return neutral;
}

bool
rule_add_zero(struct rw *r, const struct expr *x, tensor_id *out)
{
	double v;

	if (x->prim != PRIM_add || !rw_uniform(r, x->in[1], &v) || v != 0)
		return false;
	*out = x->in[0];
	return true;
}

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

/* ---- constants as the second operand ---------------------------------------------------------- */
/* c with a map of one operand applied, broadcast as `like` is. */
static tensor_id
const_map1(struct rw *r, enum prim p, tensor_id c, tensor_id like)
{
	struct shape to = *rw_shape(r, like);

	return rw_bcast(r, rw_op1(r, p, c, NULL), &to);
}

static bool
is_f32(const struct expr *x)
{
	return x->result.type == DT_f32;
}

bool
rule_sub_const(struct rw *r, const struct expr *x, tensor_id *out)
{
	tensor_id c, d;

	if (x->prim != PRIM_sub || !is_f32(x) || !rw_const_under(r, x->in[1], &c) || !shape_has_data(r, c) ||
	    rw_const_under(r, x->in[0], &d))
		return false;
	*out = rw_op2(r, PRIM_add, x->in[0], const_map1(r, PRIM_neg, c, x->in[1]));
	return true;
}

static bool
powers_of_two(const struct tensor *t)
{
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
static bool
invertible(const struct tensor *t)
{
	int64_t n = shape_count(&t->shape);

	for (int64_t i = 0; i < n; i++) {
		float v = fabsf(((const float *)t->data)[i]);
		if (!(v > 0x1p-120f && v < 0x1p120f))
			return false;
	}
	return true;
}

static bool
div_by_const(struct rw *r, const struct expr *x, bool exact, tensor_id *out)
{
	tensor_id c;

	if (x->prim != PRIM_div || !is_f32(x) || !rw_const_under(r, x->in[1], &c) || !shape_has_data(r, c))
		return false;
	if (!(exact ? powers_of_two : invertible)(rw_tensor(r, c)))
		return false;
	*out = rw_op2(r, PRIM_mul, x->in[0], const_map1(r, PRIM_recip, c, x->in[1]));
	return true;
}

bool
rule_div_const(struct rw *r, const struct expr *x, tensor_id *out)
{
	return div_by_const(r, x, false, out);
}

bool
rule_div_const_exact(struct rw *r, const struct expr *x, tensor_id *out)
{
	return div_by_const(r, x, true, out);
}

bool
rule_pow_small(struct rw *r, const struct expr *x, tensor_id *out)
{
	double v;

	if (x->prim != PRIM_pow || !is_f32(x) || !rw_uniform(r, x->in[1], &v))
		return false;
	if (v == 1)
		*out = x->in[0];
	else if (v == 2)
		*out = rw_op2(r, PRIM_mul, x->in[0], x->in[0]);
	else if (v == 3)
		*out = rw_op2(r, PRIM_mul, rw_op2(r, PRIM_mul, x->in[0], x->in[0]), x->in[0]);
	else if (v == 0.5)
		*out = rw_op1(r, PRIM_sqrt, x->in[0], NULL);
	else
		return false;
	return true;
}

/* (x op c) op d, both constant: x op (c op d). */
static bool
join_constants(struct rw *r, const struct expr *x, enum prim p, tensor_id *out)
{
	const struct node *m = x->prim == p && is_f32(x) ? rw_made_by(r, x->in[0], p) : NULL;
	tensor_id c, d;

	if (!m || !rw_const_under(r, m->in[1], &c) || !rw_const_under(r, x->in[1], &d))
		return false;
	tensor_id both = fold_map2(r, p, c, d);
	if (both.i == UINT32_MAX)
		return false;
	*out = rw_op2(r, p, m->in[0], rw_bcast(r, both, &x->result.shape));
	return true;
}

bool
rule_mul_mul(struct rw *r, const struct expr *x, tensor_id *out)
{
	return join_constants(r, x, PRIM_mul, out);
}

bool
rule_add_add(struct rw *r, const struct expr *x, tensor_id *out)
{
	return join_constants(r, x, PRIM_add, out);
}

/* (x * B(a)) * B(c) = x * B(a * c) where a and c together are smaller than x. */
bool
rule_mul_bcasts(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *c = x->prim == PRIM_mul && is_f32(x) ? rw_made_by(r, x->in[1], PRIM_bcast) : NULL;
	const struct node *m = c ? rw_made_by(r, x->in[0], PRIM_mul) : NULL;
	const struct node *a = m && rw_single(r, x->in[0]) ? rw_made_by(r, m->in[1], PRIM_bcast) : NULL;

	if (!a)
		return false;
	struct shape low = *rw_shape(r, a->in[0]);
	const struct shape *s = rw_shape(r, c->in[0]);
	for (int d = 0; d < low.rank; d++)
		low.dim[d] = MAX_OF(low.dim[d], s->dim[d]);
	if (2 * shape_count(&low) > shape_count(&x->result.shape))
		return false;
	tensor_id left = rw_bcast(r, a->in[0], &low), right = rw_bcast(r, c->in[0], &low);
	*out = rw_op2(r, PRIM_mul, m->in[0], rw_bcast(r, rw_op2(r, PRIM_mul, left, right), &x->result.shape));
	return true;
}

/* y/n per row becomes y*(1/n): one division a row instead of one an element. */
bool
rule_div_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *b = x->prim == PRIM_div && is_f32(x) ? rw_made_by(r, x->in[1], PRIM_bcast) : NULL;

	if (!b)
		return false;
	tensor_id inverse = rw_op1(r, PRIM_recip, b->in[0], NULL);
	*out = rw_op2(r, PRIM_mul, x->in[0], rw_bcast(r, inverse, &x->result.shape));
	return true;
}

/* ---- centring ---------------------------------------------------------------------------------- */
/* Is c, broadcast to x, the same along all these axes? */
static bool
constant_along(const struct rw *r, tensor_id c, const struct attr *axes)
{
	for (int i = 0; i < axes->n; i++)
		if (rw_shape(r, c)->dim[axes->i[i]] != 1)
			return false;
	return true;
}

/* x - broadcast(sum(x)*(1/n)) with x = y + c: the constant falls out. */
bool
rule_centre_bias(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *b = x->prim == PRIM_sub && is_f32(x) ? rw_made_by(r, x->in[1], PRIM_bcast) : NULL;
	const struct node *a = b ? rw_made_by(r, x->in[0], PRIM_add) : NULL;
	const struct node *m = a ? rw_made_by(r, b->in[0], PRIM_mul) : NULL;
	const struct node *s = m ? rw_made_by(r, m->in[0], PRIM_sum) : NULL;
	double scale, n = 1;
	tensor_id c;

	if (!s || s->in[0].i != x->in[0].i || !rw_uniform(r, m->in[1], &scale) ||
	    !rw_const_under(r, a->in[1], &c) || r->uses[x->in[0].i] != 2)
		return false;
	const struct attr *axes = at_find(&s->at, ATTR_axes);
	for (int i = 0; i < axes->n; i++)
		n *= (double)rw_shape(r, x->in[0])->dim[axes->i[i]];
	if (!constant_along(r, c, axes) || fabs(scale * n - 1) > 1e-6)
		return false;
	tensor_id mean = rw_op2(r, PRIM_mul, rw_op1(r, PRIM_sum, a->in[0], &s->at), m->in[1]);
	*out = rw_op2(r, PRIM_sub, a->in[0], rw_bcast(r, mean, &x->result.shape));
	return true;
}
