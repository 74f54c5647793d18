/* daemon/rewrite/fold.c: primitives over constants become constants.  Reshapes share the data,
 * permutations and matrix products have loops of their own (weights are large), all else is the
 * interpreter's.
 * Broadcasts stay: reading one costs nothing, storing it does. */
#include "rewrite_int.h"

#include "../../kernels/interp/interp.h"

#include <string.h>

enum { MAX_FOLD = 1 << 24 /* elements that the interpreter is asked for */ };

enum tensor_role
fold_role(int64_t count, bool from_weight)
{
	if (count <= 1)
		return ROLE_CONST;
	return from_weight || count > SPEC_MAX_CONST ? ROLE_WEIGHT : ROLE_CONST;
}

static void *
new_data(struct rw *r, const struct tensor *t)
{
	return arena_alloc(r->a, ck_add(ck_mul(ck_size(shape_count(&t->shape)), dtype_size(t->type)), 16));
}

/* Copies runs of the innermost result dimension, `stride` elements apart in the source. */
static void
copy_run(char *to, const char *from, int64_t n, int64_t stride, size_t size)
{
	if (size == 4) {
		for (int64_t i = 0; i < n; i++)
			memcpy(to + i * 4, from + i * stride * 4, 4);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(to + (size_t)i * size, from + (size_t)(i * stride) * size, size);
}

static void
permute(const struct tensor *from, const int64_t *perm, const struct shape *to, char *out)
{
	int64_t stride[MAX_RANK], at[MAX_RANK] = {0}, s = 1;
	size_t size = dtype_size(from->type);
	int rank = to->rank, last = rank - 1;
	int64_t n = shape_count(to);

	for (int i = rank - 1; i >= 0; i--) {
		stride[i] = s;
		s *= from->shape.dim[i];
	}
	for (int64_t done = 0; done < n; done += to->dim[last]) {
		int64_t base = 0;
		for (int i = 0; i < last; i++)
			base += at[i] * stride[perm[i]];
		copy_run(out + (size_t)done * size, (const char *)from->data + (size_t)base * size,
		    to->dim[last], stride[perm[last]], size);
		for (int i = last - 1; i >= 0 && ++at[i] == to->dim[i]; i--)
			at[i] = 0;
	}
}

/* The product of two float matrices, row by row, summed in double as the interpreter does. */
static void
multiply(struct rw *r, const struct tensor *a, const struct tensor *b, float *out)
{
	int64_t m = a->shape.dim[0], k = a->shape.dim[1], n = b->shape.dim[1];
	double *sum = NEW_ARRAY(r->tmp, double, n + 1);

	for (int64_t i = 0; i < m; i++) {
		for (int64_t j = 0; j < n; j++)
			sum[j] = 0;
		for (int64_t l = 0; l < k; l++) {
			double v = (double)((const float *)a->data)[i * k + l];
			const float *row = (const float *)b->data + l * n;
			for (int64_t j = 0; j < n; j++)
				sum[j] += v * (double)row[j];
		}
		for (int64_t j = 0; j < n; j++)
			out[i * n + j] = (float)sum[j];
	}
}

static bool
all_const(const struct rw *r, const struct expr *x, bool *from_weight, int64_t *elements)
{
	*from_weight = false;
	*elements = 0;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct tensor *t = rw_tensor(r, x->in[i]);
		if (!shape_has_data(r, x->in[i]))
			return false;
		*from_weight |= t->role == ROLE_WEIGHT;
		*elements += shape_count(&t->shape);
	}
	return true;
}

static bool
by_interpreter(struct rw *r, const struct expr *x, enum tensor_role role, tensor_id *out)
{
	const struct tensor **in = NEW_ARRAY(r->tmp, const struct tensor *, x->n_in + 1);
	const void **data = NEW_ARRAY(r->tmp, const void *, x->n_in + 1);
	const struct tensor *result = &x->result;
	void *to = new_data(r, result);
	struct err e = {0};

	for (uint32_t i = 0; i < x->n_in; i++) {
		in[i] = rw_tensor(r, x->in[i]);
		data[i] = in[i]->data;
	}
	if (!interp_prim(x->prim, x->at, x->n_in, in, data, 1, &result, &to, &e))
		return false; /* an index out of range: left for the run to report */
	*out = rw_const(r, role, result->type, &result->shape, to);
	return true;
}

bool
rule_fold(struct rw *r, const struct expr *x, tensor_id *out)
{
	int64_t elements, count = shape_count(&x->result.shape);
	bool from_weight;

	if (x->prim == PRIM_bcast || x->prim == PRIM_topk || !all_const(r, x, &from_weight, &elements))
		return false;
	if (count > MAX_OF(elements, (int64_t)SPEC_MAX_CONST) && x->prim != PRIM_iota)
		return false;
	enum tensor_role role = fold_role(count, from_weight);
	const struct tensor *t = x->n_in ? rw_tensor(r, x->in[0]) : NULL;
	if (x->prim == PRIM_reshape) {
		*out = rw_const(r, role, t->type, &x->result.shape, t->data);
		return true;
	}
	if (x->prim == PRIM_transpose && t->shape.rank > 0) {
		char *to = new_data(r, t);
		if (count > 0)
			permute(t, at_ints(x->at, ATTR_perm), &x->result.shape, to);
		*out = rw_const(r, role, t->type, &x->result.shape, to);
		return true;
	}
	if (count > MAX_FOLD || elements > MAX_FOLD)
		return false;
	if (x->prim == PRIM_matmul && t->type == DT_f32 && t->shape.rank == 2) {
		float *to = new_data(r, &x->result);
		multiply(r, t, rw_tensor(r, x->in[1]), to);
		*out = rw_const(r, role, DT_f32, &x->result.shape, to);
		return true;
	}
	return by_interpreter(r, x, role, out);
}

/* ---- two constants ------------------------------------------------------------------------- */
static void
strides_of(const struct shape *s, int64_t *stride)
{
	int64_t n = 1;

	for (int i = s->rank - 1; i >= 0; i--) {
		stride[i] = s->dim[i] == 1 ? 0 : n;
		n *= s->dim[i];
	}
}

/* Sums or products of floats over the common shape; a weight may be large, so nothing is expanded. */
static void
combine(bool product, const struct tensor *t, const struct tensor *u, const struct shape *s, float *out)
{
	int64_t st[MAX_RANK] = {0}, su[MAX_RANK] = {0}, at[MAX_RANK] = {0};
	int64_t n = shape_count(s), wide = s->rank ? s->dim[s->rank - 1] : 1;
	int last = s->rank - 1;

	strides_of(&t->shape, st);
	strides_of(&u->shape, su);
	for (int64_t done = 0; done < n; done += wide) {
		const float *x = t->data, *y = u->data;
		for (int i = 0; i < last; i++) {
			x += at[i] * st[i];
			y += at[i] * su[i];
		}
		int64_t dx = last < 0 ? 0 : st[last], dy = last < 0 ? 0 : su[last];
		for (int64_t k = 0; k < wide; k++)
			out[done + k] = product ? x[k * dx] * y[k * dy] : x[k * dx] + y[k * dy];
		for (int i = last - 1; i >= 0 && ++at[i] == s->dim[i]; i--)
			at[i] = 0;
	}
}

tensor_id
fold_map2(struct rw *r, enum prim p, tensor_id c, tensor_id d)
{
	const struct tensor *t = rw_tensor(r, c), *u = rw_tensor(r, d);
	struct tensor big = {.type = DT_f32, .shape = t->shape};

	if (!t->data || !u->data || t->type != DT_f32 || u->type != DT_f32 || big.shape.rank != u->shape.rank)
		return NO_TENSOR;
	for (int i = 0; i < big.shape.rank; i++) {
		int64_t *n = &big.shape.dim[i];
		if (*n != u->shape.dim[i] && *n != 1 && u->shape.dim[i] != 1)
			return NO_TENSOR;
		*n = *n == 1 ? u->shape.dim[i] : *n;
	}
	int64_t count = shape_count(&big.shape);
	if (count > MAX_FOLD && count > shape_count(&t->shape))
		return NO_TENSOR;
	float *to = new_data(r, &big);
	combine(p == PRIM_mul, t, u, &big.shape, to);
	bool from_weight = t->role == ROLE_WEIGHT || u->role == ROLE_WEIGHT;
	return rw_const(r, fold_role(count, from_weight), DT_f32, &big.shape, to);
}
