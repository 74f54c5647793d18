/* daemon/fission/norm.c: softmax and the normalisations, in forms that neither overflow nor
 * cancel: the maximum is subtracted before exp, variances take two passes. */
#include "fission_int.h"

tensor_id
fs_softmax(struct fission *f, tensor_id x, int axis)
{
	tensor_id top = b_reduce1(f, PRIM_rmax, x, axis);
	tensor_id ex = b_map1(f, PRIM_exp, b_map2(f, PRIM_sub, x, top));

	return b_map2(f, PRIM_div, ex, b_reduce1(f, PRIM_sum, ex, axis));
}

/* x - max - log sum exp(x - max) */
static tensor_id
log_softmax(struct fission *f, tensor_id x, int axis)
{
	tensor_id d = b_map2(f, PRIM_sub, x, b_reduce1(f, PRIM_rmax, x, axis));
	tensor_id sum = b_reduce1(f, PRIM_sum, b_map1(f, PRIM_exp, d), axis);

	return b_map2(f, PRIM_sub, d, b_map1(f, PRIM_log, sum));
}

/* 1 at the first of the largest, 0 elsewhere */
static tensor_id
hardmax(struct fission *f, tensor_id x, int axis)
{
	tensor_id where = b_reduce1(f, PRIM_argmax, x, axis);

	return b_cast(f, b_map2(f, PRIM_eq, b_iota(f, b_shape(f, x), axis), where), b_type(f, x));
}

typedef tensor_id along_fn(struct fission *f, tensor_id x, int axis);

static void
along_axis(struct fission *f, along_fn *fn)
{
	tensor_id x = f_in(f, 0);

	f_out(f, 0, fn(f, x, f_axis(f, "axis", b_rank(f, x))));
}

/* Before opset 13: the dimensions before the axis are rows, the rest one row's elements. */
static void
along_flat(struct fission *f, along_fn *fn)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	int axis = s.rank == 0 ? 0 : f_axis(f, "axis", s.rank);
	int64_t flat[2] = {1, 1};

	for (int i = 0; i < s.rank; i++)
		flat[i >= axis] *= s.dim[i];
	if (axis == s.rank - 1) {
		f_out(f, 0, fn(f, x, axis));
		return;
	}
	f_out(f, 0, b_reshape(f, fn(f, b_view(f, x, 2, flat), 1), &s));
}

void
fiss_Softmax_1(struct fission *f)
{
	along_flat(f, fs_softmax);
}

void
fiss_Softmax_13(struct fission *f)
{
	along_axis(f, fs_softmax);
}

void
fiss_LogSoftmax_1(struct fission *f)
{
	along_flat(f, log_softmax);
}

void
fiss_LogSoftmax_13(struct fission *f)
{
	along_axis(f, log_softmax);
}

void
fiss_Hardmax_1(struct fission *f)
{
	along_flat(f, hardmax);
}

void
fiss_Hardmax_13(struct fission *f)
{
	along_axis(f, hardmax);
}

/* ---- standardising ------------------------------------------------------------------- */
struct standard {
	tensor_id mean, var, inv, y; /* inv = 1 / sqrt(var + eps), y = (x - mean) inv */
};

static struct standard
standardise(struct fission *f, tensor_id x, int n, const int64_t *axes, double eps)
{
	struct standard s = {.mean = b_mean(f, x, n, axes)};
	tensor_id d = b_map2(f, PRIM_sub, x, s.mean);

	s.var = b_mean(f, b_map2(f, PRIM_mul, d, d), n, axes);
	s.inv = b_map1(f, PRIM_recip, b_map1(f, PRIM_sqrt, b_map2n(f, PRIM_add, s.var, eps)));
	s.y = b_map2(f, PRIM_mul, d, s.inv);
	return s;
}

tensor_id
fs_standardise(struct fission *f, tensor_id x, int n, const int64_t *axes, double eps)
{
	return standardise(f, x, n, axes, eps).y;
}

static int
axes_from(int from, int rank, int64_t *axes)
{
	for (int i = from; i < rank; i++)
		axes[i - from] = i;
	return rank - from;
}

/* Half-width floats are computed in float32 when the operator says so (stash_type 1). */
static tensor_id
stash(struct fission *f, tensor_id x)
{
	enum dtype t = b_type(f, x);

	return f_int(f, "stash_type") == 1 && (t == DT_f16 || t == DT_bf16) ? b_cast(f, x, DT_f32) : x;
}

void
fiss_LayerNormalization_17(struct fission *f)
{
	tensor_id x = f_in(f, 0), wide = stash(f, x);
	int64_t axes[MAX_RANK];
	int n = axes_from(f_axis(f, "axis", b_rank(f, x)), b_rank(f, x), axes);
	struct standard s = standardise(f, wide, n, axes, f_float(f, "epsilon"));
	tensor_id y = b_map2(f, PRIM_mul, b_cast(f, s.y, b_type(f, x)), f_in(f, 1));

	if (f_has(f, 2))
		y = b_map2(f, PRIM_add, y, f_in(f, 2));
	f_out(f, 0, y);
	f_out(f, 1, s.mean);
	f_out(f, 2, s.inv);
}

void
fiss_RMSNormalization_23(struct fission *f)
{
	tensor_id x = f_in(f, 0), wide = stash(f, x);
	int64_t axes[MAX_RANK];
	int n = axes_from(f_axis(f, "axis", b_rank(f, x)), b_rank(f, x), axes);
	tensor_id ms = b_mean(f, b_map2(f, PRIM_mul, wide, wide), n, axes);
	tensor_id inv =
	    b_map1(f, PRIM_recip, b_map1(f, PRIM_sqrt, b_map2n(f, PRIM_add, ms, f_float(f, "epsilon"))));
	tensor_id y = b_cast(f, b_map2(f, PRIM_mul, wide, inv), b_type(f, x));

	f_out(f, 0, b_map2(f, PRIM_mul, y, f_in(f, 1)));
}

/* A vector over channels as [C, 1, 1 ...]: ready to broadcast over [N, C, ...]. */
tensor_id
fs_per_channel(struct fission *f, tensor_id v, int rank)
{
	struct shape s = {.rank = MAX_OF(rank - 1, 1)};

	for (int i = 1; i < s.rank; i++)
		s.dim[i] = 1;
	s.dim[0] = shape_count(b_shape(f, v));
	return b_reshape(f, v, &s);
}

static bool
has_channels(struct fission *f, tensor_id x, int least)
{
	if (!f->failed && b_rank(f, x) < least)
		f_fail(f, "operand 0 has %d dimensions; at least %d are needed", b_rank(f, x), least);
	return !f->failed;
}

void
fiss_InstanceNormalization_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int rank = b_rank(f, x);

	if (!has_channels(f, x, 3))
		return;
	tensor_id y = fs_standardise(f, x, axes_from(2, rank, axes), axes, f_float(f, "epsilon"));
	y = b_map2(f, PRIM_mul, y, fs_per_channel(f, f_in(f, 1), rank));
	f_out(f, 0, b_map2(f, PRIM_add, y, fs_per_channel(f, f_in(f, 2), rank)));
}

/* [N, C, ...] seen as [N, G, C/G ...]; *n extents of one group */
static tensor_id
group_view(struct fission *f, tensor_id x)
{
	const struct shape s = *b_shape(f, x);
	int64_t groups = f_int(f, "num_groups"), dims[3] = {s.dim[0], groups, 1};

	if (groups < 1 || s.dim[1] % groups != 0) {
		f_fail(f, "attribute 'num_groups' is %lld, which does not divide %lld channels",
		    (long long)groups, (long long)s.dim[1]);
		return f->blank;
	}
	for (int i = 1; i < s.rank; i++)
		dims[2] *= i == 1 ? s.dim[1] / groups : s.dim[i];
	return b_view(f, x, 3, dims);
}

/* Scale and bias are one number a group here, one a channel from opset 21 on. */
void
fiss_GroupNormalization_18(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	int64_t axis = 2;

	if (!has_channels(f, x, 2))
		return;
	tensor_id y = fs_standardise(f, group_view(f, x), 1, &axis, f_float(f, "epsilon"));
	y = b_map2(f, PRIM_mul, y, fs_per_channel(f, f_in(f, 1), 3));
	y = b_map2(f, PRIM_add, y, fs_per_channel(f, f_in(f, 2), 3));
	f_out(f, 0, b_reshape(f, y, &s));
}

void
fiss_GroupNormalization_21(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	const struct shape s = *b_shape(f, x);
	int64_t axis = 2;

	if (!has_channels(f, x, 2))
		return;
	tensor_id y = fs_standardise(f, stash(f, group_view(f, x)), 1, &axis, f_float(f, "epsilon"));
	y = b_reshape(f, b_cast(f, y, b_type(f, x)), &s);
	y = b_map2(f, PRIM_mul, y, fs_per_channel(f, f_in(f, 1), s.rank));
	f_out(f, 0, b_map2(f, PRIM_add, y, fs_per_channel(f, f_in(f, 2), s.rank)));
}

/* A vector over channels, kept at extent 1 elsewhere, as the running statistic of a batch that has it:
 * before * momentum + now * (1 - momentum). */
static tensor_id
running(struct fission *f, tensor_id before, tensor_id now)
{
	double momentum = f_float(f, "momentum");
	enum dtype t = b_type(f, before);

	now = b_cast(f, b_reshape(f, now, b_shape(f, before)), t);
	return b_map2(
	    f, PRIM_add, b_map2n(f, PRIM_mul, before, momentum), b_map2n(f, PRIM_mul, now, 1 - momentum));
}

/* Mean and variance are those of x itself, as where weights are standardised in the graph. */
static void
batch_norm_by_itself(struct fission *f, tensor_id x)
{
	int64_t axes[MAX_RANK] = {0};
	int rank = b_rank(f, x);
	enum dtype t = b_type(f, x);

	if (!has_channels(f, x, 2))
		return;
	struct standard s = standardise(f, x, 1 + axes_from(2, rank, axes + 1), axes, f_float(f, "epsilon"));
	tensor_id y = b_map2(f, PRIM_mul, s.y, fs_per_channel(f, b_cast(f, f_in(f, 1), t), rank));
	f_out(f, 0, b_map2(f, PRIM_add, y, fs_per_channel(f, b_cast(f, f_in(f, 2), t), rank)));
	if (f_wants(f, 1))
		f_out(f, 1, running(f, f_in(f, 3), s.mean));
	if (f_wants(f, 2))
		f_out(f, 2, running(f, f_in(f, 4), s.var));
}

/* x a + b with a = scale / sqrt(var + eps), b = bias - mean a: one multiplication and one
 * addition, whose vectors fold when they are constant. */
void
fiss_BatchNormalization_7(struct fission *f)
{
	tensor_id x = f_in(f, 0), scale = f_in(f, 1), bias = f_in(f, 2), mean = f_in(f, 3), var = f_in(f, 4);
	int rank = b_rank(f, x);

	if (!f_int(f, "spatial"))
		f_fail(f, "attribute 'spatial' 0 is not supported");
	if (f_int(f, "training_mode")) {
		batch_norm_by_itself(f, x);
		return;
	}
	tensor_id inv =
	    b_map1(f, PRIM_recip, b_map1(f, PRIM_sqrt, b_map2n(f, PRIM_add, var, f_float(f, "epsilon"))));
	if (!f->failed && b_type(f, inv) != b_type(f, scale))
		inv = b_cast(f, inv, b_type(f, scale));
	tensor_id a = b_map2(f, PRIM_mul, scale, inv);
	tensor_id b = b_map2(f, PRIM_sub, bias, b_map2(f, PRIM_mul, b_cast(f, mean, b_type(f, a)), a));
	enum dtype t = b_type(f, x);
	tensor_id y = b_map2(f, PRIM_mul, x, fs_per_channel(f, b_cast(f, a, t), rank));
	f_out(f, 0, b_map2(f, PRIM_add, y, fs_per_channel(f, b_cast(f, b, t), rank)));
}

/* At inference the data passes; the mask says that all of it did. */
void
fiss_Dropout_7(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int n;

	if (f_has(f, 2)) {
		const int64_t *training = f_const_ints(f, 2, "training_mode", &n);
		if (training && n == 1 && training[0])
			f_fail(f, "training mode is not supported");
	}
	f_out(f, 0, x);
	if (f_wants(f, 1))
		f_out(f, 1,
		    b_expand(f, b_num(f, f->node->opset < 10 ? b_type(f, x) : DT_bool, 1), b_shape(f, x)));
}

/* x / (bias + alpha/size * sum of squares over neighbouring channels) ^ beta */
void
fiss_LRN_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t size = f_int(f, "size"), one[MAX_RANK], lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0},
		kernel[MAX_RANK];

	if (!has_channels(f, x, 2))
		return;
	if (size < 1 || size > 1 << 20) {
		f_fail(f, "attribute 'size' is %lld", (long long)size);
		return;
	}
	for (int i = 0; i < MAX_RANK; i++)
		one[i] = kernel[i] = 1;
	kernel[1] = size;
	lo[1] = (size - 1) / 2;
	hi[1] = size - 1 - lo[1];
	tensor_id sum = b_window(f, PRIM_wsum, b_map2(f, PRIM_mul, x, x), kernel, one, one, lo, hi);
	sum = b_map2n(f, PRIM_mul, sum, f_float(f, "alpha") / (double)size);
	sum = b_map2n(f, PRIM_add, sum, f_float(f, "bias"));
	f_out(f, 0, b_map2(f, PRIM_div, x, b_map2n(f, PRIM_pow, sum, f_float(f, "beta"))));
}

/* x / norm; a row of zeros stays zero */
void
fiss_LpNormalization_1(struct fission *f)
{
	tensor_id x = f_in(f, 0), norm;
	int axis = f_axis(f, "axis", b_rank(f, x));
	int64_t p = f_int(f, "p");

	if (p != 1 && p != 2)
		f_fail(f, "attribute 'p' is %lld; 1 and 2 are supported", (long long)p);
	if (p == 1)
		norm = b_reduce1(f, PRIM_sum, b_map1(f, PRIM_abs, x), axis);
	else
		norm = b_map1(f, PRIM_sqrt, b_reduce1(f, PRIM_sum, b_map2(f, PRIM_mul, x, x), axis));
	tensor_id zero = b_num(f, b_type(f, x), 0);
	norm = b_select(f, b_map2(f, PRIM_eq, norm, zero), b_num(f, b_type(f, x), 1), norm);
	f_out(f, 0, b_map2(f, PRIM_div, x, norm));
}

void
fiss_MeanVarianceNormalization_9(struct fission *f)
{
	static const int64_t usual[] = {0, 2, 3};
	tensor_id x = f_in(f, 0);
	int n, rank = b_rank(f, x);
	const int64_t *list = f_ints(f, "axes", &n);
	int64_t axes[MAX_RANK];
	bool wanted[MAX_RANK] = {false};

	if (!list) {
		list = usual;
		n = 3;
	}
	for (int i = 0; i < n && !f->failed; i++)
		wanted[f_axis_of(f, list[i], rank)] = true;
	n = 0;
	for (int i = 0; i < rank; i++)
		if (wanted[i])
			axes[n++] = i;
	tensor_id d = b_map2(f, PRIM_sub, x, b_mean(f, x, n, axes));
	tensor_id dev = b_map1(f, PRIM_sqrt, b_mean(f, b_map2(f, PRIM_mul, d, d), n, axes));
	f_out(f, 0, b_map2(f, PRIM_div, d, b_map2n(f, PRIM_add, dev, 1e-9)));
}
