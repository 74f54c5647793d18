/* daemon/fission/index.c: constants, index arithmetic, gathering. */
#include "fission_int.h"

#include <math.h>
#include <string.h>

static void
out_floats(struct fission *f, const float *v, int n, int rank)
{
	struct shape s = {.rank = rank, .dim = {n}};

	f_out(f, 0, b_table(f, DT_f32, &s, arena_dup(f->a, v, (size_t)n * sizeof(*v))));
}

static void
out_ints(struct fission *f, const int64_t *v, int n, int rank)
{
	struct shape s = {.rank = rank, .dim = {n}};

	f_out(f, 0, b_table(f, DT_i64, &s, arena_dup(f->a, v, (size_t)n * sizeof(*v))));
}

void
fiss_Constant_1(struct fission *f)
{
	const struct model_tensor *t = f_tensor(f, "value");
	int n;

	if (t) {
		f_out(f, 0, b_weight(f, t, f->node->name));
	} else if (f_has_attr(f, "value_float")) {
		float v = (float)f_float(f, "value_float");
		out_floats(f, &v, 1, 0);
	} else if (f_has_attr(f, "value_int")) {
		int64_t v = f_int(f, "value_int");
		out_ints(f, &v, 1, 0);
	} else if (f_has_attr(f, "value_floats")) {
		const float *v = f_floats(f, "value_floats", &n);
		out_floats(f, v, n, 1);
	} else if (f_has_attr(f, "value_ints")) {
		const int64_t *v = f_ints(f, "value_ints", &n);
		out_ints(f, v, n, 1);
	} else {
		f_fail(f, "it has no value");
	}
}

/* Written out, so that a weight that is made this way folds like any other. */
static tensor_id
filled(struct fission *f, const struct shape *s, enum dtype t, const void *value)
{
	size_t size = dtype_size(t);

	if ((size_t)shape_count(s) > (f->m->max_tensor_bytes - f->folded_bytes) / size) {
		struct shape scalar = {0};
		return b_expand(f, b_table(f, t, &scalar, value), s);
	}
	size_t n = (size_t)shape_count(s);
	uint8_t *data = f_memory(f, shape_count(s), size);
	if (!data)
		return f->blank;
	for (size_t i = 0; i < n; i++)
		memcpy(data + i * size, value, size);
	return b_table(f, t, s, data);
}

void
fiss_ConstantOfShape_9(struct fission *f)
{
	static const float zero[1] = {0};
	const struct model_tensor *t = f_tensor(f, "value");
	struct shape s = {0};
	int n;
	const int64_t *dims = f_const_ints(f, 0, "shape", &n);

	if (n > MAX_RANK)
		f_fail(f, "the shape has %d dimensions; at most %d are supported", n, MAX_RANK);
	for (int i = 0; i < n && !f->failed; i++)
		s.dim[s.rank++] = dims[i];
	if (f->failed)
		return;
	if (t && t->n_bytes < dtype_size(t->type))
		f_fail(f, "attribute 'value' has no element");
	else if (f_check_shape(f, &s, DT_f64))
		f_out(f, 0, filled(f, &s, t ? t->type : DT_f32, t ? t->data : zero));
}

void
fiss_EyeLike_9(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	enum dtype t = b_type(f, x);
	int64_t k = f_int(f, "k");

	if (f_has_attr(f, "dtype") && !dtype_of_onnx((int)MIN_OF(f_int(f, "dtype"), 1000), &t))
		f_fail(f, "attribute 'dtype' is a type that is not supported");
	if (!f->failed && s.rank != 2)
		f_fail(f, "operand 0 has %d dimensions; a matrix is needed", s.rank);
	if (f->failed || k > INT32_MAX || k < -INT32_MAX)
		return;
	tensor_id diagonal = b_map2n(f, PRIM_add, b_iota(f, &s, 0), (double)k);
	f_out(f, 0, b_cast(f, b_map2(f, PRIM_eq, b_iota(f, &s, 1), diagonal), t));
}

void
fiss_Range_11(struct fission *f)
{
	double v[3];
	enum dtype t = b_type(f, f_in(f, 0));
	struct shape s = {.rank = 1};

	for (uint32_t i = 0; i < 3 && !f->failed; i++) {
		int n;
		const double *p = f_const_nums(f, i, i == 0 ? "start" : i == 1 ? "limit" : "delta", &n);
		if (!f->failed && n != 1)
			f_fail(f, "operand %u has %d elements; one is needed", i, n);
		v[i] = f->failed ? 1 : p[0];
	}
	double count = ceil((v[1] - v[0]) / v[2]);
	if (!f->failed && (v[2] == 0 || !isfinite(count) || count > 1 << 30))
		f_fail(f, "the range from %g to %g by %g has no end or too many elements", v[0], v[1], v[2]);
	if (f->failed)
		return;
	s.dim[0] = f_whole(MAX_OF(count, 0));
	void *data = f_memory(f, s.dim[0], dtype_size(t));
	if (!data)
		return;
	for (int64_t i = 0; i < s.dim[0]; i++)
		elem_set(t, data, i, v[0] + (double)i * v[2]);
	f_out(f, 0, b_table(f, t, &s, data));
}

void
fiss_Shape_1(struct fission *f)
{
	const struct shape s = *b_shape(f, f_in(f, 0));
	int64_t from = f_int(f, "start"), to = f_has_attr(f, "end") ? f_int(f, "end") : s.rank;

	from = MAX_OF(MIN_OF(from < 0 ? MAX_OF(from, -s.rank) + s.rank : from, s.rank), 0);
	to = MAX_OF(MIN_OF(to < 0 ? MAX_OF(to, -s.rank) + s.rank : to, s.rank), from);
	out_ints(f, s.dim + from, (int)(to - from), 1);
}

void
fiss_Size_1(struct fission *f)
{
	int64_t n = shape_count(b_shape(f, f_in(f, 0)));

	out_ints(f, &n, 1, 0);
}

/* ---- gathering ----------------------------------------------------------------------- */
static bool
is_index(struct fission *f, tensor_id t)
{
	if (!f->failed && b_type(f, t) != DT_i64 && b_type(f, t) != DT_i32)
		f_fail(f, "indices have the type %s; i64 or i32 are needed", dtype_name(b_type(f, t)));
	return !f->failed;
}

/* One constant index is a slice; a table or run-time indices stay a gather. */
void
fiss_Gather_1(struct fission *f)
{
	tensor_id x = f_in(f, 0), index = f_in(f, 1);
	int axis = f_axis(f, "axis", b_rank(f, x));

	if (!is_index(f, index))
		return;
	const void *data = shape_count(b_shape(f, index)) == 1 ? b_data(f, index) : NULL;
	if (!data) {
		f_out(f, 0, b_gather(f, x, index, axis));
		return;
	}
	int64_t at = f_whole(elem_get(b_type(f, index), data, 0)), n = b_dim(f, x, axis);
	struct shape s = *b_shape(f, x), out = {0};
	if (at < -n || at >= n) {
		f_fail(f, "the index %lld lies outside an extent of %lld", (long long)at, (long long)n);
		return;
	}
	for (int i = 0; i < s.rank; i++)
		if (i != axis)
			out.dim[out.rank++] = s.dim[i];
		else
			for (int k = 0; k < b_rank(f, index) && out.rank < MAX_RANK; k++)
				out.dim[out.rank++] = 1;
	f_out(f, 0, b_reshape(f, b_slice1(f, x, axis, at < 0 ? at + n : at, 1), &out));
}

static tensor_id
with_axis(struct fission *f, enum prim p, int axis)
{
	struct attrs at = {0};
	tensor_id in[2] = {f_in(f, 0), f_in(f, 1)};

	at_int(&at, ATTR_axis, axis);
	return b_prim(f, p, in, 2, &at);
}

void
fiss_GatherElements_11(struct fission *f)
{
	int axis = f_axis(f, "axis", b_rank(f, f_in(f, 0)));

	if (is_index(f, f_in(f, 1)))
		f_out(f, 0, with_axis(f, PRIM_gather_elements, axis));
}

void
fiss_GatherND_11(struct fission *f)
{
	struct attrs at = {0};
	tensor_id in[2] = {f_in(f, 0), f_in(f, 1)};

	at_int(&at, ATTR_k, f_int(f, "batch_dims"));
	f_out(f, 0, b_prim(f, PRIM_gather_nd, in, 2, &at));
}

/* ---- comparisons with positions ------------------------------------------------------- */
/* on where the index equals the position along the new axis, off elsewhere; negative indices
 * count from the end, those outside match nowhere */
void
fiss_OneHot_9(struct fission *f)
{
	tensor_id index = f_in(f, 0), values = f_in(f, 2);
	struct shape s = *b_shape(f, index), wide;
	int n, axis = f_axis(f, "axis", s.rank + 1);
	const double *depth = f_const_nums(f, 1, "depth", &n);

	if (!f->failed && (n != 1 || depth[0] < 0 || depth[0] > 1 << 30 || s.rank == MAX_RANK))
		f_fail(f, "operand 1 (depth) has no usable value");
	if (f->failed)
		return;
	wide = (struct shape){.rank = s.rank + 1};
	for (int i = 0; i < wide.rank; i++)
		wide.dim[i] = i == axis ? 1 : s.dim[i < axis ? i : i - 1];
	index = b_reshape(f, b_cast(f, index, DT_i64), &wide);
	tensor_id from_end = b_map2n(f, PRIM_add, index, depth[0]);
	index = b_select(f, b_map2n(f, PRIM_lt, index, 0), from_end, index);
	wide.dim[axis] = f_whole(depth[0]);
	tensor_id hit = b_map2(f, PRIM_eq, b_iota(f, &wide, axis), index);
	tensor_id off = b_view(f, b_slice1(f, values, 0, 0, 1), 0, NULL);
	tensor_id on = b_view(f, b_slice1(f, values, 0, 1, 1), 0, NULL);
	f_out(f, 0, b_select(f, hit, on, off));
}

/* The part of a matrix on and above (below) the k-th diagonal: a constant mask. */
void
fiss_Trilu_14(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	int n = 1;
	int64_t k = 0;

	if (f_has(f, 1)) {
		const int64_t *v = f_const_ints(f, 1, "k", &n);
		k = v && n == 1 ? v[0] : 0;
	}
	if (!f->failed && (s.rank < 2 || n != 1))
		f_fail(f, "operand 0 must be a matrix or a batch of them, operand 1 one number");
	if (f->failed)
		return;
	struct shape plane = {.rank = 2, .dim = {s.dim[s.rank - 2], s.dim[s.rank - 1]}};
	k = MAX_OF(MIN_OF(k, plane.dim[1]), -plane.dim[0]);
	tensor_id column = b_iota(f, &plane, 1);
	tensor_id edge = b_map2n(f, PRIM_add, b_iota(f, &plane, 0), (double)k);
	tensor_id keep =
	    f_int(f, "upper") ? b_map2(f, PRIM_le, edge, column) : b_map2(f, PRIM_le, column, edge);
	f_out(f, 0, b_select(f, keep, x, b_num(f, b_type(f, x), 0)));
}

/* ---- along an axis ------------------------------------------------------------------- */
static void
topk(struct fission *f, int64_t k, bool is_largest)
{
	tensor_id x = f_in(f, 0), out[2];
	struct attrs at = {0};
	struct err e = {0};

	at_int(&at, ATTR_axis, f_axis(f, "axis", b_rank(f, x)));
	at_int(&at, ATTR_k, k);
	at_int(&at, ATTR_largest, is_largest);
	if (f->failed)
		return;
	if (!graph_add(f->g, PRIM_topk, &x, 1, &at, f->origin, out, &e))
		f_fail(f, "%s", e.msg);
	f_out(f, 0, out[0]);
	f_out(f, 1, out[1]);
}

void
fiss_TopK_1(struct fission *f)
{
	topk(f, f_int(f, "k"), true);
}

void
fiss_TopK_10(struct fission *f)
{
	int n;
	const int64_t *k = f_const_ints(f, 1, "k", &n);

	if (!f->failed && n != 1)
		f_fail(f, "operand 1 (k) has %d elements; one is needed", n);
	if (!f->failed)
		topk(f, k[0], f_int(f, "largest") != 0);
}
