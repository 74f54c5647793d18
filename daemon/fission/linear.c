/* daemon/fission/linear.c: convolutions and matrix products.
 *
 * Convolutions run channels-last: operand and result are transposed, the weight is laid out as
 * [kernel..., C/group, Co], which folds when it is constant.  The bias is added before the
 * transpose back, where it is contiguous. */
#include "fission_int.h"

/* [N, C, spatial...] -> [N, spatial..., C] */
tensor_id
fs_to_last(struct fission *f, tensor_id x)
{
	int64_t perm[MAX_RANK] = {0};
	int rank = b_rank(f, x);

	for (int i = 1; i < rank; i++)
		perm[i] = i + 1 < rank ? i + 1 : 1;
	return b_transpose(f, x, perm);
}

tensor_id
fs_from_last(struct fission *f, tensor_id x)
{
	int64_t perm[MAX_RANK] = {0};
	int rank = b_rank(f, x);

	for (int i = 1; i < rank; i++)
		perm[i] = i == 1 ? rank - 1 : i - 1;
	return b_transpose(f, x, perm);
}

/* The convolution primitive over channels-last x, bias (or NO_TENSOR) and transpose back. */
static tensor_id
convolve(struct fission *f, tensor_id x, tensor_id w, tensor_id bias, const struct window *win,
    const int64_t *ldil, int64_t group)
{
	struct attrs at = {0};
	tensor_id in[2] = {fs_to_last(f, x), w};

	at_list(&at, ATTR_lo, win->n, win->lo);
	at_list(&at, ATTR_hi, win->n, win->hi);
	at_list(&at, ATTR_stride, win->n, win->stride);
	at_list(&at, ATTR_dilation, win->n, win->dilation);
	at_list(&at, ATTR_ldil, win->n, ldil);
	at_int(&at, ATTR_group, group);
	tensor_id y = b_prim(f, PRIM_conv, in, 2, &at);
	if (bias.i != NO_TENSOR.i)
		y = b_map2(f, PRIM_add, y, bias);
	return fs_from_last(f, y);
}

static int64_t
read_group(struct fission *f, int64_t channels)
{
	int64_t group = f_int(f, "group");

	if (group < 1 || channels % group != 0) {
		f_fail(f, "attribute 'group' is %lld, which does not divide %lld channels", (long long)group,
		    (long long)channels);
		return 1;
	}
	return group;
}

static bool
check_conv(struct fission *f, tensor_id x, tensor_id w)
{
	if (!f->failed && (b_rank(f, x) < 3 || b_rank(f, w) != b_rank(f, x)))
		f_fail(f,
		    "operand and weight have %d and %d dimensions; both need the same number, at least 3",
		    b_rank(f, x), b_rank(f, w));
	return !f->failed;
}

tensor_id
fs_conv(struct fission *f, tensor_id x, tensor_id w, tensor_id bias)
{
	static const int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct window win;
	int64_t perm[MAX_RANK];
	int rank = b_rank(f, w);

	if (!check_conv(f, x, w))
		return f->blank;
	window_read(f, x, b_shape(f, w)->dim + 2, &win);
	int64_t group = read_group(f, b_dim(f, w, 0));
	if (b_dim(f, x, 1) != b_dim(f, w, 1) * group)
		f_fail(f, "operand 0 has %lld channels where the weight needs %lld",
		    (long long)b_dim(f, x, 1), (long long)(b_dim(f, w, 1) * group));
	for (int i = 0; i < rank; i++)
		perm[i] = i < rank - 2 ? i + 2 : rank - 1 - i;
	return convolve(f, x, b_transpose(f, w, perm), bias, &win, ones, group);
}

static tensor_id
bias_of(struct fission *f)
{
	return f_has(f, 2) ? f_in(f, 2) : NO_TENSOR;
}

void
fiss_Conv_1(struct fission *f)
{
	f_out(f, 0, fs_conv(f, f_in(f, 0), f_in(f, 1), bias_of(f)));
}

/* ---- transposed ---------------------------------------------------------------------- */
/* weight [C, M/g, kernel...] -> [kernel..., C/g, M], turned round along the kernel */
static tensor_id
turned_weight(struct fission *f, tensor_id w, int64_t group)
{
	const struct shape s = *b_shape(f, w);
	int n = s.rank - 2;
	int64_t split[MAX_RANK + 1] = {group, s.dim[0] / group, s.dim[1]}, perm[MAX_RANK + 1];
	int64_t start[MAX_RANK], step[MAX_RANK];
	struct shape out = {.rank = s.rank};

	if (s.rank + 1 > MAX_RANK) {
		f_fail(f, "a weight of %d dimensions is not supported", s.rank);
		return f->blank;
	}
	for (int i = 0; i < n; i++) {
		split[3 + i] = out.dim[i] = s.dim[2 + i];
		perm[i] = 3 + i;
		start[i] = s.dim[2 + i] - 1;
		step[i] = -1;
	}
	perm[n] = 1;
	perm[n + 1] = 0;
	perm[n + 2] = 2;
	out.dim[n] = s.dim[0] / group;
	out.dim[n + 1] = s.dim[1] * group;
	start[n] = start[n + 1] = 0;
	step[n] = step[n + 1] = 1;
	tensor_id t = b_reshape(f, b_transpose(f, b_view(f, w, s.rank + 1, split), perm), &out);
	return b_slice(f, t, start, step, &out);
}

/* Padding of the equivalent convolution over the operand with zeros put between: a tap at the
 * far end of the kernel reaches reach - 1 back.  output_shape fixes the result's extents. */
static void
transposed_pads(struct fission *f, const struct shape *x, const int64_t *kernel, struct window *win)
{
	static const char *const pads[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", NULL};
	int n_more, n_shape;
	const int64_t *more = f_ints(f, "output_padding", &n_more),
		      *shape = f_ints(f, "output_shape", &n_shape);
	int choice = f_choice(f, "auto_pad", pads);

	if ((more && n_more != win->n) || (shape && n_shape != win->n && n_shape != win->n + 2))
		f_fail(f, "attribute 'output_padding' or 'output_shape' does not fit %d spatial dimensions",
		    win->n);
	for (int i = 0; i < win->n && !f->failed; i++) {
		int64_t reach = (kernel[i] - 1) * win->dilation[i] + 1, extra = more ? more[i] : 0;
		int64_t all = (x->dim[2 + i] - 1) * win->stride[i] + extra + reach;
		int64_t want = shape ? shape[n_shape - win->n + i] : x->dim[2 + i] * win->stride[i];
		if (shape || choice >= 2) {
			int64_t total = all - want, half = total >> 1;
			win->lo[i] = choice == 2 ? half : total - half;
			win->hi[i] = total - win->lo[i];
		}
		if (extra < 0 || extra > INT32_MAX || want < 0 || want > INT32_MAX)
			f_fail(f, "attribute 'output_padding' or 'output_shape' holds a number out of range");
		win->lo[i] = reach - 1 - win->lo[i];
		win->hi[i] = reach - 1 - win->hi[i] + extra;
	}
}

static void
transposed_window(struct fission *f, tensor_id x, const int64_t *kernel, struct window *win)
{
	const struct shape s = *b_shape(f, x);
	static const char *const attrs[] = {"strides", "dilations", "pads"};
	int64_t *const to[] = {win->stride, win->dilation, win->lo};

	*win = (struct window){.n = s.rank - 2};
	for (int k = 0; k < 3; k++) {
		int n;
		const int64_t *v = f_ints(f, attrs[k], &n);
		if (v && n != (k == 2 ? 2 : 1) * win->n) {
			f_fail(f, "attribute '%s' has %d numbers", attrs[k], n);
			v = NULL;
		}
		for (int i = 0; i < win->n; i++) {
			to[k][i] = v ? v[i] : k < 2;
			if (k == 2 && v)
				win->hi[i] = v[win->n + i];
			if (to[k][i] < (k < 2) || to[k][i] > INT32_MAX || win->hi[i] < 0 ||
			    win->hi[i] > INT32_MAX)
				f_fail(f, "attribute '%s' holds a number out of range", attrs[k]);
		}
	}
	transposed_pads(f, &s, kernel, win);
}

void
fiss_ConvTranspose_1(struct fission *f)
{
	static const int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
	tensor_id x = f_in(f, 0), w = f_in(f, 1);
	struct window win;
	int64_t ldil[MAX_RANK];

	if (!check_conv(f, x, w))
		return;
	int64_t group = read_group(f, b_dim(f, w, 0));
	if (b_dim(f, x, 1) != b_dim(f, w, 0))
		f_fail(f, "operand 0 has %lld channels where the weight needs %lld",
		    (long long)b_dim(f, x, 1), (long long)b_dim(f, w, 0));
	transposed_window(f, x, b_shape(f, w)->dim + 2, &win);
	for (int i = 0; i < win.n; i++) {
		ldil[i] = win.stride[i];
		win.stride[i] = ones[i];
	}
	f_out(f, 0, convolve(f, x, turned_weight(f, w, group), bias_of(f), &win, ldil, group));
}

/* ---- matrix products ----------------------------------------------------------------- */
static tensor_id
expand_batch(struct fission *f, tensor_id x, const struct shape *batch)
{
	struct shape s = *batch;
	int rank = b_rank(f, x);

	if (s.rank + 2 > MAX_RANK) {
		f_fail(f, "a product of %d dimensions is not supported", s.rank + 2);
		return f->blank;
	}
	s.dim[s.rank++] = b_dim(f, x, rank - 2);
	s.dim[s.rank++] = b_dim(f, x, rank - 1);
	return b_expand(f, x, &s);
}

/* [B..., M, K] x [K, N]: one product of B M rows. */
static tensor_id
collapsed(struct fission *f, tensor_id x, tensor_id y)
{
	struct shape s = *b_shape(f, x);
	int64_t rows = 1;

	for (int i = 0; i < s.rank - 1; i++)
		rows *= s.dim[i];
	tensor_id z = b_matmul(f, b_view(f, x, 2, (int64_t[]){rows, s.dim[s.rank - 1]}), y);
	s.dim[s.rank - 1] = b_dim(f, z, 1);
	return b_reshape(f, z, &s);
}

static tensor_id
batched(struct fission *f, tensor_id x, tensor_id y)
{
	struct shape sx = *b_shape(f, x), sy = *b_shape(f, y), batch;

	sx.rank -= 2;
	sy.rank -= 2;
	if (!b_common(f, &sx, &sy, &batch))
		return f->blank;
	return b_matmul(f, expand_batch(f, x, &batch), expand_batch(f, y, &batch));
}

tensor_id
fs_matmul(struct fission *f, tensor_id x, tensor_id y)
{
	struct shape sx = *b_shape(f, x), sy = *b_shape(f, y);

	if (!f->failed && (sx.rank == 0 || sy.rank == 0))
		f_fail(f, "a scalar has no matrix product");
	if (f->failed)
		return f->blank;
	/* vectors are a row on the left, a column on the right; the extent 1 goes away again */
	tensor_id a = sx.rank == 1 ? b_view(f, x, 2, (int64_t[]){1, sx.dim[0]}) : x;
	tensor_id b = sy.rank == 1 ? b_view(f, y, 2, (int64_t[]){sy.dim[0], 1}) : y;
	tensor_id z;
	if (b_rank(f, a) > 2 && b_rank(f, b) == 2)
		z = collapsed(f, a, b);
	else
		z = batched(f, a, b);
	struct shape s = *b_shape(f, z);
	if (sy.rank == 1)
		s.rank--;
	if (sx.rank == 1) {
		s.dim[s.rank - (sy.rank == 1 ? 1 : 2)] = s.dim[s.rank - 1];
		s.rank--;
	}
	return f->failed ? f->blank : b_reshape(f, z, &s);
}

void
fiss_MatMul_1(struct fission *f)
{
	f_out(f, 0, fs_matmul(f, f_in(f, 0), f_in(f, 1)));
}

static tensor_id
scaled(struct fission *f, tensor_id x, double by)
{
	return by == 1 ? x : b_map2n(f, PRIM_mul, x, by);
}

/* alpha A B + beta C; alpha goes to a constant operand, where it folds. */
void
fiss_Gemm_7(struct fission *f)
{
	static const int64_t turn[] = {1, 0};
	tensor_id x = f_in(f, 0), y = f_in(f, 1);
	double alpha = f_float(f, "alpha");

	if (!f->failed && (b_rank(f, x) != 2 || b_rank(f, y) != 2))
		f_fail(f, "both operands must be matrices; they have %d and %d dimensions", b_rank(f, x),
		    b_rank(f, y));
	if (f->failed)
		return;
	x = f_int(f, "transA") ? b_transpose(f, x, turn) : x;
	y = f_int(f, "transB") ? b_transpose(f, y, turn) : y;
	bool into_weight = b_is_const(f, y);
	tensor_id z = b_matmul(f, x, into_weight ? scaled(f, y, alpha) : y);
	z = into_weight ? z : scaled(f, z, alpha);
	if (f_has(f, 2))
		z = b_map2(f, PRIM_add, z, scaled(f, f_in(f, 2), f_float(f, "beta")));
	f_out(f, 0, z);
}
