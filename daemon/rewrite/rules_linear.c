/* daemon/rewrite/rules_linear.c: scales into weights, and the canonical forms of the linear
 * primitives.  A weight is a constant right operand of a matmul or a convolution; results have
 * its last dimension as theirs. */
#include "rewrite_int.h"

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

/* e is the weight w, its columns times c. */
bool
columns_times(struct match *m, char c)
{
	return make(m, scaled_columns(m->r, named(m, 'w'), rw_under(m->r, named(m, c))));
}

/* a is smaller than the result.  "@", "@2": one number to be repeated to its shape, and that shape. */
bool
left_is_smaller(struct match *m)
{
	struct shape a = *shape_of(m, 'a'), one = a;

	for (int d = 0; d < one.rank; d++)
		one.dim[d] = 1;
	at_list(&m->slot[0], ATTR_shape, one.rank, one.dim);
	at_list(&m->slot[1], ATTR_shape, a.rank, a.dim);
	return shape_count(&a) < shape_count(result_shape(m));
}

/* s has one number a row, and the result fewer columns than x. */
bool
narrows_rows(struct match *m)
{
	int last = result_shape(m)->rank - 1;

	return shape_of(m, 's')->dim[last] == 1 && result_shape(m)->dim[last] < shape_of(m, 'x')->dim[last];
}

/* T within the dimensions that become columns.  e is the weight with its rows permuted instead.  Flattening
 * in front of a dense layer is the case. */
bool
moves_within_rows(struct match *m)
{
	const struct shape flat = *shape_of(m, 'y'), wide = *shape_of(m, 'z'), w = *shape_of(m, 'w');
	const int64_t *perm = at_ints(m->at[2], ATTR_perm);
	int64_t back[MAX_RANK + 1], rows = 1;
	int lead = 0;

	while (lead < wide.rank && perm[lead] == lead && rows * wide.dim[lead] <= flat.dim[0])
		rows *= wide.dim[lead++];
	if (flat.rank != 2 || rows != flat.dim[0] || lead == wide.rank || wide.rank - lead >= MAX_RANK)
		return false;
	struct shape tall = {.rank = wide.rank - lead + 1};
	for (int i = lead; i < wide.rank; i++) {
		tall.dim[i - lead] = wide.dim[i];
		back[perm[i] - lead] = i - lead;
	}
	tall.dim[tall.rank - 1] = w.dim[1];
	back[tall.rank - 1] = tall.rank - 1;
	at_list(&m->slot[0], ATTR_shape, flat.rank, flat.dim);
	tensor_id turned = rw_transpose(m->r, rw_reshape(m->r, named(m, 'w'), &tall), tall.rank, back);
	return make(m, rw_reshape(m->r, turned, &w));
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
