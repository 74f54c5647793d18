/* daemon/rewrite/rules_linear.c: scales into weights, and the canonical forms of the linear
 * primitives.  A weight is a constant right operand of a matmul or a convolution; results have
 * its last dimension as theirs. */
#include "rewrite_int.h"

static bool
is_linear(const struct node *n)
{
	return n && (n->prim == PRIM_matmul || n->prim == PRIM_conv);
}

/* A linear primitive by a weight whose data is known. */
static const struct node *
by_weight(const struct rw *r, tensor_id t)
{
	const struct node *n = rw_maker(r, t);

	return is_linear(n) && shape_has_data(r, n->in[1]) && rw_tensor(r, t)->type == DT_f32 ? n : NULL;
}

/* c as a factor of the weight's columns: only its last dimension may be longer than 1.  The
 * weight times it; NO_TENSOR where that is not so. */
static tensor_id
scaled_columns(struct rw *r, tensor_id weight, tensor_id c)
{
	const struct shape *s = rw_shape(r, c), *w = rw_shape(r, weight);
	struct shape row = {.rank = w->rank};

	for (int d = 0; d < s->rank - 1; d++)
		if (s->dim[d] != 1)
			return NO_TENSOR;
	for (int d = 0; d < row.rank; d++)
		row.dim[d] = 1;
	if (s->rank > 0)
		row.dim[row.rank - 1] = s->dim[s->rank - 1];
	return fold_map2(r, PRIM_mul, weight, rw_reshape(r, c, &row));
}

static tensor_id
with_weight(struct rw *r, const struct node *n, tensor_id x, tensor_id weight)
{
	return rw_op2_at(r, n->prim, x, weight, &n->at);
}

bool
rule_mul_into_linear(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *n = x->prim == PRIM_mul ? by_weight(r, x->in[0]) : NULL;
	tensor_id c;

	if (!n || !rw_const_under(r, x->in[1], &c) || !shape_has_data(r, c) || !rw_single(r, x->in[0]))
		return false;
	tensor_id w = scaled_columns(r, n->in[1], c);
	if (w.i == UINT32_MAX)
		return false;
	*out = with_weight(r, n, n->in[0], w);
	return true;
}

bool
rule_mul_add(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *a = x->prim == PRIM_mul ? rw_made_by(r, x->in[0], PRIM_add) : NULL;
	const struct node *n = a ? by_weight(r, a->in[0]) : NULL;
	tensor_id c, d;

	if (!n || !rw_single(r, x->in[0]) || !rw_single(r, a->in[0]) || !rw_const_under(r, a->in[1], &c) ||
	    !rw_const_under(r, x->in[1], &d) || !shape_has_data(r, c) || !shape_has_data(r, d))
		return false;
	tensor_id both = fold_map2(r, PRIM_mul, c, d);
	if (both.i == UINT32_MAX)
		return false;
	tensor_id scaled = rw_op2(r, PRIM_mul, a->in[0], x->in[1]);
	*out = rw_op2(r, PRIM_add, scaled, rw_bcast(r, both, &x->result.shape));
	return true;
}

/* linear(x*c) by a weight, c one number. */
bool
rule_scalar_into_linear(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *m;
	double v;
	tensor_id c;

	if ((x->prim != PRIM_matmul && x->prim != PRIM_conv) || x->result.type != DT_f32 ||
	    !shape_has_data(r, x->in[1]))
		return false;
	m = rw_made_by(r, x->in[0], PRIM_mul);
	if (!m || !rw_single(r, x->in[0]) || !rw_uniform(r, m->in[1], &v) || !rw_const_under(r, m->in[1], &c))
		return false;
	struct shape one = {.rank = 1, .dim = {1}};
	tensor_id w = scaled_columns(r, x->in[1], rw_reshape(r, c, &one));
	if (w.i == UINT32_MAX)
		return false;
	*out = rw_op2_at(r, x->prim, m->in[0], w, x->at);
	return true;
}

/* matmul(a,b)*c: on its way to the weight that made a. */
bool
rule_hoist_scale(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *n = x->prim == PRIM_mul ? rw_made_by(r, x->in[0], PRIM_matmul) : NULL;
	double v;
	tensor_id c;

	if (!n || x->result.type != DT_f32 || !rw_single(r, x->in[0]) || !rw_uniform(r, x->in[1], &v) ||
	    !rw_const_under(r, x->in[1], &c))
		return false;
	struct shape a = *rw_shape(r, n->in[0]), one = {.rank = a.rank};
	if (shape_count(&a) >= shape_count(&x->result.shape))
		return false;
	for (int d = 0; d < one.rank; d++)
		one.dim[d] = 1;
	tensor_id scale = rw_bcast(r, rw_reshape(r, c, &one), &a);
	*out = rw_op2(r, PRIM_matmul, rw_op2(r, PRIM_mul, n->in[0], scale), n->in[1]);
	return true;
}

/* (x * s) B = (x B) * s with s one number a row of x: fewer products when B is narrower than tall.
 * Softmax behind attention scores is the case. */
bool
rule_row_scale(struct rw *r, const struct expr *x, tensor_id *out)
{
	bool floats = x->prim == PRIM_matmul && x->result.type == DT_f32;
	const struct node *m = floats ? rw_made_by(r, x->in[0], PRIM_mul) : NULL;
	int last = x->result.shape.rank - 1;

	if (!m || !rw_single(r, x->in[0]) || x->result.shape.dim[last] >= rw_shape(r, x->in[0])->dim[last])
		return false;
	for (int i = 0; i < 2; i++) {
		const struct node *b = rw_made_by(r, m->in[i], PRIM_bcast);
		if (!b || rw_shape(r, b->in[0])->dim[last] != 1)
			continue;
		tensor_id y = rw_op2(r, PRIM_matmul, m->in[1 - i], x->in[1]);
		*out = rw_op2(r, PRIM_mul, y, rw_bcast(r, b->in[0], &x->result.shape));
		return true;
	}
	return false;
}

/* matmul(reshape(T x), W) with T within the dimensions that become columns: the weight's rows are
 * permuted instead.  Flattening in front of a dense layer is the case. */
bool
rule_transpose_into_weight(struct rw *r, const struct expr *x, tensor_id *out)
{
	bool known = x->prim == PRIM_matmul && x->result.shape.rank == 2 && shape_has_data(r, x->in[1]);
	const struct node *v = known ? rw_made_by(r, x->in[0], PRIM_reshape) : NULL;
	const struct node *t = v ? rw_made_by(r, v->in[0], PRIM_transpose) : NULL;
	int64_t back[MAX_RANK + 1], rows = 1;
	int lead = 0;

	if (!t)
		return false;
	const int64_t *perm = at_ints(&t->at, ATTR_perm);
	const struct shape flat = *rw_shape(r, x->in[0]), wide = *rw_shape(r, v->in[0]),
			   w = *rw_shape(r, x->in[1]);
	while (lead < wide.rank && perm[lead] == lead && rows * wide.dim[lead] <= flat.dim[0])
		rows *= wide.dim[lead++];
	if (rows != flat.dim[0] || lead == wide.rank || wide.rank - lead >= MAX_RANK)
		return false;
	struct shape tall = {.rank = wide.rank - lead + 1};
	for (int i = lead; i < wide.rank; i++) {
		tall.dim[i - lead] = wide.dim[i];
		back[perm[i] - lead] = i - lead;
	}
	tall.dim[tall.rank - 1] = w.dim[1];
	back[tall.rank - 1] = tall.rank - 1;
	tensor_id turned = rw_transpose(r, rw_reshape(r, x->in[1], &tall), tall.rank, back);
	tensor_id rows_of_x = rw_reshape(r, t->in[0], &flat);
	*out = rw_op2(r, PRIM_matmul, rows_of_x, rw_reshape(r, turned, &w));
	return true;
}

/* ---- canonical matmul ------------------------------------------------------------------------- */
static int64_t
product(const int64_t *dim, int n)
{
	int64_t p = 1;

	for (int i = 0; i < n; i++)
		p *= dim[i];
	return p;
}

/* b is one matrix in all batches: the matrix (rank 2), or NO_TENSOR. */
static tensor_id
one_matrix(struct rw *r, tensor_id b)
{
	const struct node *n = rw_made_by(r, b, PRIM_bcast);
	tensor_id low = n ? n->in[0] : b;
	const struct shape *s = rw_shape(r, low), *big = rw_shape(r, b);
	int rank = s->rank;

	if (product(s->dim, rank - 2) != 1)
		return NO_TENSOR;
	struct shape m = {.rank = 2, .dim = {s->dim[rank - 2], s->dim[rank - 1]}};
	struct shape full = {.rank = 2, .dim = {big->dim[rank - 2], big->dim[rank - 1]}};
	return rw_bcast(r, rw_reshape(r, low, &m), &full);
}

bool
rule_matmul_rank(struct rw *r, const struct expr *x, tensor_id *out)
{
	int rank = x->result.shape.rank;

	if (x->prim != PRIM_matmul || rank < 3)
		return false;
	struct shape a = *rw_shape(r, x->in[0]), b = *rw_shape(r, x->in[1]);
	int64_t batch = product(a.dim, rank - 2), rows = a.dim[rank - 2];
	tensor_id m = one_matrix(r, x->in[1]);
	if (m.i != UINT32_MAX) {
		struct shape tall = {.rank = 2, .dim = {batch * rows, a.dim[rank - 1]}};
		tensor_id y = rw_op2(r, PRIM_matmul, rw_reshape(r, x->in[0], &tall), m);
		*out = rw_reshape(r, y, &x->result.shape);
		return true;
	}
	if (rank == 3)
		return false;
	struct shape a3 = {.rank = 3, .dim = {batch, rows, a.dim[rank - 1]}};
	struct shape b3 = {.rank = 3, .dim = {batch, b.dim[rank - 2], b.dim[rank - 1]}};
	tensor_id left = rw_reshape(r, x->in[0], &a3), right = rw_reshape(r, x->in[1], &b3);
	*out = rw_reshape(r, rw_op2(r, PRIM_matmul, left, right), &x->result.shape);
	return true;
}
