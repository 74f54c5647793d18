/* daemon/fission/layout.c: operators that move elements and compute nothing. */
#include "fission_int.h"

#include <string.h>

void
fiss_Concat_4(struct fission *f)
{
	uint32_t n = f_n_in(f);
	tensor_id *in = NEW_ARRAY(f->a, tensor_id, n);

	for (uint32_t i = 0; i < n; i++)
		in[i] = f_in(f, i);
	if (f->failed)
		return;
	f_out(f, 0, b_concat(f, in, n, f_axis(f, "axis", b_rank(f, in[0]))));
}

void
fiss_Expand_8(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	struct shape want = {0}, s;
	int n;
	const int64_t *dims = f_const_ints(f, 1, "shape", &n);

	if (n > MAX_RANK)
		f_fail(f, "operand 1 (shape) has %d numbers; at most %d are supported", n, MAX_RANK);
	for (int i = 0; i < n && !f->failed; i++) {
		if (dims[i] < 0)
			f_fail(f, "operand 1 (shape) holds %lld", (long long)dims[i]);
		want.dim[want.rank++] = dims[i];
	}
	if (!f->failed && b_common(f, b_shape(f, x), &want, &s))
		f_out(f, 0, b_expand(f, x, &s));
}

void
fiss_Flatten_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	int64_t axis = f_int(f, "axis"), flat[2] = {1, 1};

	if (axis != s.rank)
		axis = f_axis_of(f, axis, s.rank);
	for (int i = 0; i < s.rank; i++)
		flat[i >= axis] *= s.dim[i];
	f_out(f, 0, b_view(f, x, 2, flat));
}

/* Cuts off where pads are negative, pads where they are positive. */
static tensor_id
pad_or_crop(struct fission *f, tensor_id x, int64_t *lo, int64_t *hi, enum pad_mode mode, double value)
{
	for (int i = 0; i < b_rank(f, x) && !f->failed; i++) {
		int64_t front = MAX_OF(-lo[i], 0), back = MAX_OF(-hi[i], 0), n = b_dim(f, x, i);
		if (front > n || back > n - front) {
			f_fail(f, "pads cut off more than dimension %d has", i);
			break;
		}
		x = b_slice1(f, x, i, front, n - front - back);
		lo[i] = MAX_OF(lo[i], 0);
		hi[i] = MAX_OF(hi[i], 0);
	}
	return b_pad(f, x, lo, hi, mode, value);
}

/* A border whose value is known at run time only: padded with zeros, then chosen by a constant
 * mask that was padded the same way. */
static tensor_id
pad_with(struct fission *f, tensor_id x, const int64_t *lo, const int64_t *hi, tensor_id value)
{
	int64_t lo2[MAX_RANK], hi2[MAX_RANK];

	memcpy(lo2, lo, sizeof(lo2));
	memcpy(hi2, hi, sizeof(hi2));
	tensor_id inside = b_expand(f, b_num(f, DT_bool, 1), b_shape(f, x));
	inside = pad_or_crop(f, inside, lo2, hi2, PAD_CONSTANT, 0);
	memcpy(lo2, lo, sizeof(lo2));
	memcpy(hi2, hi, sizeof(hi2));
	return b_select(f, inside, pad_or_crop(f, x, lo2, hi2, PAD_CONSTANT, 0), b_view(f, value, 0, NULL));
}

/* pads: all beginnings, then all ends, of the n given axes (NULL: all); `border` is the operand
 * that holds the value, or none. */
static void
pad(struct fission *f, const int64_t *pads, int n_pads, const int64_t *axes, int n_axes, tensor_id border,
    double value)
{
	static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
	static const enum pad_mode mode_of[] = {PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP};
	tensor_id x = f_in(f, 0);
	int n = axes ? n_axes : b_rank(f, x), mode = f_choice(f, "mode", modes);
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0};

	if (!f->failed && n_pads != 2 * n)
		f_fail(f, "pads has %d numbers; %d are needed", n_pads, 2 * n);
	for (int i = 0; i < n && !f->failed; i++) {
		int axis = axes ? f_axis_of(f, axes[i], b_rank(f, x)) : i;
		lo[axis] = pads[i];
		hi[axis] = pads[n + i];
		if (lo[axis] < -INT32_MAX || lo[axis] > INT32_MAX || hi[axis] < -INT32_MAX ||
		    hi[axis] > INT32_MAX)
			f_fail(f, "pads holds a number out of range");
	}
	if (!f->failed && mode == 0 && border.i != NO_TENSOR.i)
		f_out(f, 0, pad_with(f, x, lo, hi, border));
	else if (!f->failed)
		f_out(f, 0, pad_or_crop(f, x, lo, hi, mode_of[mode], value));
}

void
fiss_Pad_2(struct fission *f)
{
	int n;
	const int64_t *pads = f_ints(f, "pads", &n);

	pad(f, pads, n, NULL, 0, NO_TENSOR, f_float(f, "value"));
}

void
fiss_Pad_11(struct fission *f)
{
	int n_pads, n_axes = 0, n = 0;
	const int64_t *pads = f_const_ints(f, 1, "pads", &n_pads), *axes = NULL;
	tensor_id border = f_has(f, 2) ? f_in(f, 2) : NO_TENSOR;
	double value = 0;

	if (f_has(f, 2) && b_is_const(f, border)) {
		const double *v = f_const_nums(f, 2, "constant_value", &n);
		value = v && n > 0 ? v[0] : 0;
		border = NO_TENSOR;
	}
	if (f_has(f, 3))
		axes = f_const_ints(f, 3, "axes", &n_axes);
	if (!f->failed)
		pad(f, pads, n_pads, axes, n_axes, border, value);
}

void
fiss_Reshape_5(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	struct shape out = {0};
	int n, open = -1;
	const int64_t *dims = f_const_ints(f, 1, "shape", &n);
	int64_t known = 1;

	if (n > MAX_RANK)
		f_fail(f, "operand 1 (shape) has %d numbers; at most %d are supported", n, MAX_RANK);
	for (int i = 0; i < n && !f->failed; i++) {
		int64_t d = dims[i];
		if (d == 0 && !f_int(f, "allowzero") && i < s.rank)
			d = s.dim[i];
		if (d < -1 || (d == -1 && open >= 0) ||
		    (d == 0 && dims[i] == 0 && i >= s.rank && !f_int(f, "allowzero")))
			f_fail(f, "operand 1 (shape) holds %lld at %d, which has no meaning there",
			    (long long)d, i);
		if (d == -1)
			open = i;
		else if (!try_mul_i64(known, d, &known))
			f_fail(f, "operand 1 (shape) is too large");
		out.dim[out.rank++] = d;
	}
	if (open >= 0 && !f->failed) {
		int64_t count = shape_count(&s);
		if (known == 0 ? count != 0 : count % known != 0)
			f_fail(f, "%lld elements do not fill the shape", (long long)count);
		out.dim[open] = known == 0 ? 0 : count / known;
	}
	if (!f->failed)
		f_out(f, 0, b_reshape(f, x, &out));
}

/* ---- slices -------------------------------------------------------------------------- */
/* Start and count along one dimension, by the clamping rules of ONNX. */
static void
clamp_range(int64_t n, int64_t step, int64_t *start, int64_t end, int64_t *count)
{
	int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;

	*start = *start < 0 ? *start + n : *start;
	end = end < 0 ? MAX_OF(end, -n - 1) + n : end;
	*start = MIN_OF(MAX_OF(*start, (int64_t)0), hi);
	end = MIN_OF(MAX_OF(end, lo), step > 0 ? n : n - 1);
	if (step > 0)
		*count = end > *start ? (end - *start - 1) / step + 1 : 0;
	else
		*count = *start > end ? (*start - end - 1) / -step + 1 : 0;
	if (*count <= 0) {
		*count = 0;
		*start = 0;
	}
}

struct bounds {
	const int64_t *starts, *ends, *axes, *steps;
	int n_starts, n_ends, n_axes, n_steps;
};

static void
slice(struct fission *f, const struct bounds *b)
{
	tensor_id x = f_in(f, 0);
	struct shape s = *b_shape(f, x);
	int64_t start[MAX_RANK] = {0}, step[MAX_RANK];

	for (int i = 0; i < MAX_RANK; i++)
		step[i] = 1;
	if (b->n_starts != b->n_ends || (b->axes && b->n_axes != b->n_starts) ||
	    (b->steps && b->n_steps != b->n_starts) || (!b->axes && b->n_starts > s.rank))
		f_fail(f, "starts, ends, axes and steps have different numbers of elements");
	for (int i = 0; i < b->n_starts && !f->failed; i++) {
		int axis = f_axis_of(f, b->axes ? b->axes[i] : i, s.rank);
		int64_t by = b->steps ? b->steps[i] : 1;
		if (by == 0 || by == INT64_MIN) {
			f_fail(f, "a step of %lld has no meaning", (long long)by);
			break;
		}
		/* a step beyond the extent reads one element, like the extent itself */
		step[axis] = MAX_OF(MIN_OF(by, MAX_OF(s.dim[axis], 1)), -MAX_OF(s.dim[axis], 1));
		start[axis] = MAX_OF(b->starts[i], -s.dim[axis] - 1);
		clamp_range(s.dim[axis], step[axis], &start[axis], b->ends[i], &s.dim[axis]);
	}
	f_out(f, 0, b_slice(f, x, start, step, &s));
}

void
fiss_Slice_1(struct fission *f)
{
	struct bounds b;

	b.starts = f_ints(f, "starts", &b.n_starts);
	b.ends = f_ints(f, "ends", &b.n_ends);
	b.axes = f_ints(f, "axes", &b.n_axes);
	b.steps = NULL;
	b.n_steps = 0;
	slice(f, &b);
}

void
fiss_Slice_10(struct fission *f)
{
	struct bounds b = {0};

	b.starts = f_const_ints(f, 1, "starts", &b.n_starts);
	b.ends = f_const_ints(f, 2, "ends", &b.n_ends);
	if (f_has(f, 3))
		b.axes = f_const_ints(f, 3, "axes", &b.n_axes);
	if (f_has(f, 4))
		b.steps = f_const_ints(f, 4, "steps", &b.n_steps);
	if (!f->failed)
		slice(f, &b);
}

/* Sizes given, or equal parts of which the last may be smaller. */
static int64_t
part_size(struct fission *f, const int64_t *sizes, uint32_t i, uint32_t n, int64_t extent, int64_t at)
{
	if (sizes)
		return sizes[i];
	int64_t each = (extent + n - 1) / n;
	if (!f_has_attr(f, "num_outputs") && extent % n != 0)
		f_fail(f, "%lld elements do not split into %u equal parts", (long long)extent, n);
	return MAX_OF(MIN_OF(each, extent - at), 0);
}

void
fiss_Split_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int axis = f_axis(f, "axis", b_rank(f, x)), n_sizes;
	const int64_t *sizes = f_list(f, 1, "split", &n_sizes);
	uint32_t n = f->node->n_out;
	int64_t at = 0;

	if (sizes && (uint32_t)n_sizes != n)
		f_fail(f, "%d sizes for %u results", n_sizes, n);
	if (f_has_attr(f, "num_outputs") && f_int(f, "num_outputs") != n)
		f_fail(f, "attribute 'num_outputs' is %lld; the node has %u results",
		    (long long)f_int(f, "num_outputs"), n);
	for (uint32_t i = 0; i < n && !f->failed; i++) {
		int64_t size = part_size(f, sizes, i, n, b_dim(f, x, axis), at);
		if (size < 0 || size > b_dim(f, x, axis) - at)
			f_fail(f, "the parts have more elements than dimension %d", axis);
		else
			f_out(f, i, b_slice1(f, x, axis, at, size));
		at += size;
	}
	if (!f->failed && at != b_dim(f, x, axis))
		f_fail(f, "the parts have %lld elements, dimension %d has %lld", (long long)at, axis,
		    (long long)b_dim(f, x, axis));
}

/* ---- extents of 1 -------------------------------------------------------------------- */
void
fiss_Squeeze_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	struct shape out = {0};
	bool drop[MAX_RANK] = {false};
	int n;
	const int64_t *axes = f_list(f, 1, "axes", &n);

	for (int i = 0; i < n && !f->failed; i++)
		drop[f_axis_of(f, axes[i], s.rank)] = true;
	for (int i = 0; i < s.rank; i++) {
		if (drop[i] && s.dim[i] != 1)
			f_fail(f, "dimension %d has the extent %lld; only 1 can be squeezed", i,
			    (long long)s.dim[i]);
		if (axes ? !drop[i] : s.dim[i] != 1)
			out.dim[out.rank++] = s.dim[i];
	}
	if (!f->failed)
		f_out(f, 0, b_reshape(f, x, &out));
}

void
fiss_Unsqueeze_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	struct shape out = {0};
	bool insert[MAX_RANK] = {false};
	int n, from = 0;
	const int64_t *axes = f_list(f, 1, "axes", &n);

	out.rank = s.rank + n;
	if (out.rank > MAX_RANK)
		f_fail(f, "the result has %d dimensions; at most %d are supported", out.rank, MAX_RANK);
	for (int i = 0; i < n && !f->failed; i++) {
		int axis = f_axis_of(f, axes[i], out.rank);
		if (insert[axis])
			f_fail(f, "axis %d is given twice", axis);
		insert[axis] = true;
	}
	for (int i = 0; i < out.rank && !f->failed; i++)
		out.dim[i] = insert[i] ? 1 : s.dim[from++];
	if (!f->failed)
		f_out(f, 0, b_reshape(f, x, &out));
}

/* One dimension at a time: [before, n, after] -> [before, times, n, after]. */
void
fiss_Tile_6(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	struct shape s = *b_shape(f, x);
	int n;
	const int64_t *times = f_const_ints(f, 1, "repeats", &n);

	if (!f->failed && n != s.rank)
		f_fail(f, "operand 1 (repeats) has %d numbers; the data has %d dimensions", n, s.rank);
	for (int i = 0; i < s.rank && !f->failed; i++) {
		struct shape cut = {.rank = 4, .dim = {1, 1, s.dim[i], 1}};
		int64_t extent;
		if (times[i] < 0 || !try_mul_i64(s.dim[i], times[i], &extent)) {
			f_fail(f, "operand 1 (repeats) holds %lld", (long long)times[i]);
			break;
		}
		for (int k = 0; k < s.rank; k++)
			if (k != i)
				cut.dim[k < i ? 0 : 3] *= s.dim[k];
		s.dim[i] = extent;
		if (times[i] == 1)
			continue;
		x = b_reshape(f, x, &cut);
		cut.dim[1] = times[i];
		x = b_reshape(f, b_expand(f, x, &cut), &s);
	}
	f_out(f, 0, x);
}

void
fiss_Transpose_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int n, rank = b_rank(f, x);
	const int64_t *given = f_ints(f, "perm", &n);
	int64_t perm[MAX_RANK] = {0};

	if (given && n != rank)
		f_fail(f, "attribute 'perm' has %d numbers; the operand has %d dimensions", n, rank);
	for (int i = 0; i < rank && !f->failed; i++)
		perm[i] = given ? given[i] : rank - 1 - i;
	if (!f->failed)
		f_out(f, 0, b_transpose(f, x, perm));
}

/* ---- space and depth ----------------------------------------------------------------- */
/* [N, C, spatial...] of n spatial dimensions and block extents; the channel axis splits into the
 * blocks before (DCR) or behind (CRD) the remaining channels. */
struct blocks {
	int n;
	int64_t of[MAX_RANK];
	bool is_crd;
};

static bool
read_blocks(struct fission *f, tensor_id x, struct blocks *b)
{
	static const char *const modes[] = {"DCR", "CRD", NULL};
	int n_list, rank = b_rank(f, x);
	const int64_t *list = f_ints(f, "blocks", &n_list);

	b->n = rank - 2;
	b->is_crd = f_choice(f, "mode", modes) == 1;
	if (!f->failed &&
	    (rank < 3 || 2 * b->n + 2 > MAX_RANK || (!list && rank != 4 && f->node->opset < 28)))
		f_fail(f, "operand 0 has %d dimensions, which is not supported", rank);
	if (list && n_list != b->n)
		f_fail(f, "attribute 'blocks' has %d numbers for %d spatial dimensions", n_list, b->n);
	if (!str_is(f_text(f, "data_format"), "") && !f_text_is(f, "data_format", "NCHW"))
		f_fail(f, "attribute 'data_format' other than channels-first is not supported");
	for (int i = 0; i < b->n && !f->failed; i++) {
		b->of[i] = list ? list[i] : f_int(f, "blocksize");
		if (b->of[i] < 1 || b->of[i] > 1 << 20)
			f_fail(f, "a block of %lld has no meaning", (long long)b->of[i]);
	}
	return !f->failed;
}

void
fiss_DepthToSpace_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	struct shape cut = {.rank = 0}, out = {.rank = s.rank, .dim = {s.dim[0]}};
	struct blocks b;
	int64_t perm[MAX_RANK] = {0}, all = 1;

	if (!read_blocks(f, x, &b))
		return;
	for (int i = 0; i < b.n; i++)
		all = f_product(f, all, b.of[i]);
	if (s.dim[1] % all != 0) {
		f_fail(f, "%lld channels do not divide into blocks of %lld", (long long)s.dim[1],
		    (long long)all);
		return;
	}
	int c_at = b.is_crd ? 1 : 1 + b.n, b_at = b.is_crd ? 2 : 1;
	cut.rank = 2 * b.n + 2;
	cut.dim[0] = s.dim[0];
	cut.dim[c_at] = out.dim[1] = s.dim[1] / all;
	perm[1] = c_at;
	for (int i = 0; i < b.n; i++) {
		cut.dim[b_at + i] = b.of[i];
		cut.dim[2 + b.n + i] = s.dim[2 + i];
		perm[2 + 2 * i] = 2 + b.n + i;
		perm[3 + 2 * i] = b_at + i;
		out.dim[2 + i] = f_product(f, s.dim[2 + i], b.of[i]);
	}
	f_out(f, 0, b_reshape(f, b_transpose(f, b_reshape(f, x, &cut), perm), &out));
}

void
fiss_SpaceToDepth_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	struct shape cut = {.rank = 0}, out = {.rank = s.rank, .dim = {s.dim[0], s.dim[1]}};
	struct blocks b;
	int64_t perm[MAX_RANK] = {0};

	if (!read_blocks(f, x, &b))
		return;
	cut.rank = 2 * b.n + 2;
	cut.dim[0] = s.dim[0];
	cut.dim[1] = s.dim[1];
	perm[b.is_crd ? 1 : 1 + b.n] = 1;
	for (int i = 0; i < b.n && !f->failed; i++) {
		if (s.dim[2 + i] % b.of[i] != 0)
			f_fail(
			    f, "dimension %d does not divide into blocks of %lld", 2 + i, (long long)b.of[i]);
		cut.dim[2 + 2 * i] = out.dim[2 + i] = s.dim[2 + i] / b.of[i];
		cut.dim[3 + 2 * i] = b.of[i];
		perm[(b.is_crd ? 2 : 1) + i] = 3 + 2 * i;
		perm[2 + b.n + i] = 2 + 2 * i;
		out.dim[1] = f_product(f, out.dim[1], b.of[i]);
	}
	if (!f->failed)
		f_out(f, 0, b_reshape(f, b_transpose(f, b_reshape(f, x, &cut), perm), &out));
}
