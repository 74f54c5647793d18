/* daemon/fission/resize.c: Resize and Upsample.
 *
 * Every mode is separable: along one dimension an output element is a weighted sum of a few
 * input elements (taps) whose places and weights depend on geometry alone.  So each dimension is
 *   a reshape, broadcast, reshape   for nearest by a whole factor,
 *   one gather by constant indices  for nearest otherwise,
 *   gathers times constant weights  for linear and cubic,
 *   a product with a constant matrix where there are many taps (antialiasing). */
#include "fission_int.h"

#include <math.h>
#include <string.h>

enum mode { NEAREST, LINEAR, CUBIC };
enum coord {
	HALF_PIXEL,
	HALF_PIXEL_SYMMETRIC,
	PYTORCH_HALF_PIXEL,
	ALIGN_CORNERS,
	ASYMMETRIC,
	TF_CROP,
	TF_HALF_PIXEL_NN
};
enum round { PREFER_FLOOR, PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL };
enum { MAX_TAPS = 4096, MAX_GATHERS = 4 };

struct resize {
	enum mode mode;
	enum coord coord;
	enum round round;
	double cubic_a, outside;
	bool is_antialias, drops_outside;
	bool is_axis[MAX_RANK];
	double scale[MAX_RANK], roi_lo[MAX_RANK], roi_hi[MAX_RANK];
	int64_t size[MAX_RANK];
};
/* The taps of all outputs of one dimension: n_taps each. */
struct taps {
	int n_taps;
	int64_t n_out;
	int64_t *at; /* [n_out][n_taps] */
	double *weight;
	bool *is_outside; /* [n_out]: takes the extrapolation value */
	bool has_outside;
};

/* Where output `o` lies in the input. */
static double
source_of(const struct resize *r, int axis, int64_t n, int64_t o)
{
	double s = r->scale[axis], x = (double)o, len = s * (double)n, in = (double)n;

	switch (r->coord) {
	case HALF_PIXEL:
		return (x + 0.5) / s - 0.5;
	case PYTORCH_HALF_PIXEL:
		return len == 1 ? -0.5 : (x + 0.5) / s - 0.5;
	case HALF_PIXEL_SYMMETRIC: {
		double adjust = (double)r->size[axis] / len;
		return in / 2 * (1 - adjust) + (x + 0.5) / s - 0.5;
	}
	case ALIGN_CORNERS:
		return len == 1 ? 0 : x * (in - 1) / (len - 1);
	case ASYMMETRIC:
		return x / s;
	case TF_HALF_PIXEL_NN:
		return (x + 0.5) / s;
	case TF_CROP: {
		double lo = r->roi_lo[axis], hi = r->roi_hi[axis];
		double at = len == 1 ? (hi - lo) * (in - 1) / 2 : x * (hi - lo) * (in - 1) / (len - 1);
		return at + lo * (in - 1);
	}
	}
	return 0;
}

static double
cubic_at(double x, double a)
{
	x = fabs(x);
	if (x <= 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Weight of an input at distance d (in inputs) under a filter stretched by 1 / scale. */
static double
weight_at(const struct resize *r, double d, double scale)
{
	if (r->mode == CUBIC)
		return cubic_at(d * scale, r->cubic_a);
	return MAX_OF(1 - fabs(d * scale), 0);
}

static int
taps_of(const struct resize *r, int axis)
{
	double s = r->is_antialias ? MIN_OF(r->scale[axis], 1) : 1;

	if (r->mode == NEAREST)
		return 1;
	return 2 - 2 * (int)f_whole(MAX_OF(floor(-(r->mode == CUBIC ? 2.0 : 1.0) / s) + 1, -MAX_TAPS));
}

static int64_t
nearest(enum round how, double x)
{
	double low = floor(x), part = x - low;

	switch (how) {
	case PREFER_FLOOR:
		return f_whole(low) + (part > 0.5);
	case PREFER_CEIL:
		return f_whole(low) + (part >= 0.5);
	case ROUND_FLOOR:
		return f_whole(low);
	case ROUND_CEIL:
		return f_whole(ceil(x));
	}
	return 0;
}

static int64_t
clamp_index(int64_t i, int64_t n)
{
	return MAX_OF(MIN_OF(i, n - 1), 0);
}

/* Taps of one output: neighbours of the input left of `x`, those beyond the border repeat it. */
static void
fill_taps(const struct resize *r, double x, double scale, int64_t n, int n_taps, int64_t *at, double *weight)
{
	int64_t left = f_whole(ceil(x)) - 1;
	double sum = 0;

	if (r->mode == NEAREST) {
		at[0] = clamp_index(nearest(r->round, x), n);
		weight[0] = 1;
		return;
	}
	for (int k = 0; k < n_taps; k++) {
		int64_t i = left - n_taps / 2 + 1 + k;
		weight[k] = weight_at(r, (double)i - x, scale);
		if (r->drops_outside && (i < 0 || i >= n))
			weight[k] = 0;
		at[k] = clamp_index(i, n);
		sum += weight[k];
	}
	for (int k = 0; k < n_taps && (r->is_antialias || r->drops_outside) && sum != 0; k++)
		weight[k] /= sum;
}

static bool
make_taps(struct fission *f, const struct resize *r, int axis, int64_t n, struct taps *t)
{
	double scale = r->is_antialias ? MIN_OF(r->scale[axis], 1) : 1;

	*t = (struct taps){.n_taps = taps_of(r, axis), .n_out = r->size[axis]};
	if (t->n_taps > MAX_TAPS) {
		f_fail(f, "a filter of %d taps is not supported", t->n_taps);
		return false;
	}
	t->at = f_memory(f, t->n_out * t->n_taps, sizeof(*t->at));
	t->weight = f_memory(f, t->n_out * t->n_taps, sizeof(*t->weight));
	t->is_outside = f_memory(f, t->n_out, sizeof(*t->is_outside));
	if (f->failed)
		return false;
	for (int64_t o = 0; o < t->n_out; o++) {
		double x = source_of(r, axis, n, o);
		t->is_outside[o] = r->coord == TF_CROP && (x < 0 || x > (double)(n - 1));
		t->has_outside = t->has_outside || t->is_outside[o];
		fill_taps(r, x, scale, n, t->n_taps, t->at + o * t->n_taps, t->weight + o * t->n_taps);
	}
	return true;
}

/* The whole factor by which every input element is repeated, or 0. */
static int64_t
repeat_factor(const struct taps *t, int64_t n)
{
	if (n == 0 || t->n_taps != 1 || t->n_out % n != 0)
		return 0;
	for (int64_t o = 0; o < t->n_out; o++)
		if (t->at[o] != o / (t->n_out / n))
			return 0;
	return t->n_out / n;
}

/* [.., n, ..] -> [.., n, 1, ..] -> [.., n, times, ..] -> [.., n times, ..]; the other dimensions are
 * merged only where the rank is at its limit, so that layouts can pass. */
static tensor_id
repeat(struct fission *f, tensor_id x, int axis, int64_t times)
{
	struct shape s = *b_shape(f, x), cut = {.rank = 4, .dim = {1, s.dim[axis], 1, 1}};
	int at = 2;

	if (times == 1)
		return x;
	if (s.rank < MAX_RANK) {
		cut.rank = s.rank + 1;
		at = axis + 1;
		for (int i = 0; i < s.rank; i++)
			cut.dim[i + (i > axis)] = s.dim[i];
		cut.dim[at] = 1;
	} else {
		for (int i = 0; i < s.rank; i++)
			if (i != axis)
				cut.dim[i < axis ? 0 : 3] *= s.dim[i];
	}
	x = b_reshape(f, x, &cut);
	cut.dim[at] = times;
	s.dim[axis] *= times;
	return b_reshape(f, b_expand(f, x, &cut), &s);
}

static tensor_id
take(struct fission *f, tensor_id x, int axis, const struct taps *t, int k)
{
	struct shape s = {.rank = 1, .dim = {t->n_out}};
	int64_t *at = f_memory(f, t->n_out, sizeof(*at));

	if (!at)
		return f->blank;
	for (int64_t o = 0; o < t->n_out; o++)
		at[o] = t->at[o * t->n_taps + k];
	return b_gather(f, x, b_table(f, DT_i64, &s, at), axis);
}

static tensor_id
weights_of(struct fission *f, enum dtype type, int axis, int rank, const struct taps *t, int k)
{
	struct shape s = {.rank = rank};
	void *data = f_memory(f, t->n_out, dtype_size(type));

	if (!data)
		return f->blank;
	for (int i = 0; i < rank; i++)
		s.dim[i] = i == axis ? t->n_out : 1;
	for (int64_t o = 0; o < t->n_out; o++)
		elem_set(type, data, o, t->weight[o * t->n_taps + k]);
	return b_table(f, type, &s, data);
}

static tensor_id
blend(struct fission *f, tensor_id x, int axis, const struct taps *t)
{
	tensor_id sum = f->blank;
	int rank = b_rank(f, x);

	for (int k = 0; k < t->n_taps; k++) {
		tensor_id part = b_map2(
		    f, PRIM_mul, take(f, x, axis, t, k), weights_of(f, b_type(f, x), axis, rank, t, k));
		sum = k == 0 ? part : b_map2(f, PRIM_add, sum, part);
	}
	return sum;
}

/* matrix [n_out, n] times x seen as [before, n, after] */
static tensor_id
by_matrix(struct fission *f, tensor_id x, int axis, const struct taps *t)
{
	struct shape s = *b_shape(f, x), cut = {.rank = 3, .dim = {1, s.dim[axis], 1}};
	struct shape m = {.rank = 2, .dim = {t->n_out, s.dim[axis]}};
	enum dtype type = b_type(f, x);
	size_t n;
	void *data =
	    shape_bytes(&m, type, &n) ? f_memory(f, shape_count(&m), dtype_size(type)) : f_memory(f, -1, 1);

	if (!data)
		return f->blank;
	for (int64_t o = 0; o < t->n_out; o++)
		for (int k = 0; k < t->n_taps; k++) {
			int64_t i = o * m.dim[1] + t->at[o * t->n_taps + k];
			elem_set(type, data, i, elem_get(type, data, i) + t->weight[o * t->n_taps + k]);
		}
	for (int i = 0; i < s.rank; i++)
		if (i != axis)
			cut.dim[i < axis ? 0 : 2] *= s.dim[i];
	tensor_id y = fs_matmul(f, b_table(f, type, &m, data), b_reshape(f, x, &cut));
	s.dim[axis] = t->n_out;
	return b_reshape(f, y, &s);
}

static tensor_id
mask_outside(struct fission *f, tensor_id y, int axis, const struct taps *t, double value)
{
	struct shape s = {.rank = b_rank(f, y)};

	for (int i = 0; i < s.rank; i++)
		s.dim[i] = i == axis ? t->n_out : 1;
	tensor_id mask = b_table(f, DT_bool, &s, t->is_outside);
	return b_select(f, mask, b_num(f, b_type(f, y), value), y);
}

static tensor_id
resize_axis(struct fission *f, const struct resize *r, tensor_id x, int axis, struct taps *t)
{
	int64_t n = b_dim(f, x, axis), times;

	if (n == r->size[axis] && r->scale[axis] == 1 && r->coord != TF_CROP)
		return x;
	if (n == 0 || !make_taps(f, r, axis, n, t)) {
		if (n == 0)
			f_fail(f, "dimension %d is empty", axis);
		return x;
	}
	times = repeat_factor(t, n);
	if (times > 0)
		return repeat(f, x, axis, times);
	if (t->n_taps == 1)
		return take(f, x, axis, t, 0);
	return t->n_taps <= MAX_GATHERS ? blend(f, x, axis, t) : by_matrix(f, x, axis, t);
}

/* Downscaled dimensions first would save work; the order does not change the value. */
static tensor_id
resize(struct fission *f, const struct resize *r, tensor_id x)
{
	struct taps t[MAX_RANK] = {{0}};
	enum dtype type = b_type(f, x);
	int rank = b_rank(f, x);
	bool is_narrow = r->mode != NEAREST && type != DT_f32 && type != DT_f64;

	x = is_narrow ? b_cast(f, x, DT_f32) : x;
	for (int i = 0; i < rank && !f->failed; i++)
		x = resize_axis(f, r, x, i, &t[i]);
	for (int i = 0; i < rank && !f->failed; i++)
		if (t[i].has_outside)
			x = mask_outside(f, x, i, &t[i], r->outside);
	return is_narrow ? b_cast(f, x, type) : x;
}

/* ---- attributes and operands ---------------------------------------------------------- */
static void
set_scale(struct fission *f, struct resize *r, tensor_id x, int axis, double scale)
{
	double size = floor(scale * (double)b_dim(f, x, axis));

	if (!(scale > 0) || !(size <= (double)(1 << 30))) {
		f_fail(f, "the scale %g is not usable", scale);
		return;
	}
	r->scale[axis] = scale;
	r->size[axis] = f_whole(size);
}

static void
scales_from(
    struct fission *f, struct resize *r, tensor_id x, const double *v, int n, const int *axes, int n_axes)
{
	if (n != n_axes) {
		f_fail(f, "scales has %d numbers; %d are needed", n, n_axes);
		return;
	}
	for (int i = 0; i < n; i++)
		set_scale(f, r, x, axes[i], v[i]);
}

/* Sizes given; a policy keeps the aspect ratio by one common scale. */
static void
sizes_from(
    struct fission *f, struct resize *r, tensor_id x, const int64_t *v, int n, const int *axes, int n_axes)
{
	static const char *const words[] = {"stretch", "not_larger", "not_smaller", NULL};
	int policy = f_choice(f, "keep_aspect_ratio_policy", words);
	double common = 0;

	if (n != n_axes)
		f_fail(f, "sizes has %d numbers; %d are needed", n, n_axes);
	for (int i = 0; i < n && !f->failed; i++) {
		double d = (double)b_dim(f, x, axes[i]), s = (double)v[i] / d;
		if (v[i] < 1 || v[i] > 1 << 30 || d < 1) {
			f_fail(f, "the size %lld is not usable", (long long)v[i]);
			return;
		}
		r->size[axes[i]] = v[i];
		r->scale[axes[i]] = s;
		common = i == 0 ? s : policy == 1 ? MIN_OF(common, s) : MAX_OF(common, s);
	}
	for (int i = 0; i < n && !f->failed && policy != 0; i++) {
		r->scale[axes[i]] = common;
		r->size[axes[i]] = f_whole(floor(common * (double)b_dim(f, x, axes[i]) + 0.5));
	}
}

static int
read_axes(struct fission *f, int rank, int *axes)
{
	int n;
	const int64_t *list = f_ints(f, "axes", &n);

	if (list && n > rank)
		f_fail(f, "attribute 'axes' has %d numbers; the operand has %d dimensions", n, rank);
	for (int i = 0; i < (list ? n : rank) && !f->failed; i++)
		axes[i] = list ? f_axis_of(f, list[i], rank) : i;
	return list ? n : rank;
}

static void
read_roi(struct fission *f, struct resize *r, const int *axes, int n_axes)
{
	int n;
	const double *v;

	if (r->coord != TF_CROP)
		return;
	v = f_const_nums(f, 1, "roi", &n);
	if (!f->failed && n != 2 * n_axes)
		f_fail(f, "operand 1 (roi) has %d numbers; %d are needed", n, 2 * n_axes);
	for (int i = 0; i < n_axes && !f->failed; i++) {
		r->roi_lo[axes[i]] = v[i];
		r->roi_hi[axes[i]] = v[n_axes + i];
	}
}

static void
identity(struct fission *f, struct resize *r, tensor_id x)
{
	for (int i = 0; i < b_rank(f, x); i++) {
		r->scale[i] = 1;
		r->size[i] = b_dim(f, x, i);
		r->roi_hi[i] = 1;
	}
}

static const char *const mode_words[] = {"nearest", "linear", "cubic", "bilinear", NULL};

static enum mode
read_mode(struct fission *f)
{
	int m = f_choice(f, "mode", mode_words);

	return m == 3 ? LINEAR : (enum mode)m;
}

/* An empty operand stands for one that is left out. */
static bool
has_numbers(struct fission *f, uint32_t i)
{
	return f_has(f, i) && shape_count(b_shape(f, f_in(f, i))) > 0;
}

void
fiss_Resize_11(struct fission *f)
{
	static const char *const coords[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
	    "align_corners", "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn", NULL};
	static const char *const rounds[] = {
	    "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
	tensor_id x = f_in(f, 0);
	struct resize r = {.mode = read_mode(f),
	    .cubic_a = f_float(f, "cubic_coeff_a"),
	    .outside = f_float(f, "extrapolation_value"),
	    .is_antialias = f_int(f, "antialias") != 0,
	    .drops_outside = f_int(f, "exclude_outside") != 0};
	int axes[MAX_RANK], n_axes = read_axes(f, b_rank(f, x), axes), n = 0;

	r.coord = (enum coord)f_choice(f, "coordinate_transformation_mode", coords);
	r.round = (enum round)f_choice(f, "nearest_mode", rounds);
	identity(f, &r, x);
	read_roi(f, &r, axes, n_axes);
	if (has_numbers(f, 3)) {
		const int64_t *sizes = f_const_ints(f, 3, "sizes", &n);
		sizes_from(f, &r, x, sizes, n, axes, n_axes);
	} else if (has_numbers(f, 2)) {
		const double *scales = f_const_nums(f, 2, "scales", &n);
		scales_from(f, &r, x, scales, n, axes, n_axes);
	} else {
		f_fail(f, "neither scales nor sizes are given");
	}
	if (!f->failed)
		f_out(f, 0, resize(f, &r, x));
}

/* Before opset 11: every output takes the input at o / scale, rounded down. */
static void
upsample(struct fission *f, const double *scales, int n)
{
	tensor_id x = f_in(f, 0);
	struct resize r = {.mode = read_mode(f), .coord = ASYMMETRIC, .round = ROUND_FLOOR};
	int axes[MAX_RANK];

	for (int i = 0; i < MAX_RANK; i++)
		axes[i] = i;
	identity(f, &r, x);
	scales_from(f, &r, x, scales, n, axes, b_rank(f, x));
	if (!f->failed)
		f_out(f, 0, resize(f, &r, x));
}

void
fiss_Resize_10(struct fission *f)
{
	int n;
	const double *scales = f_const_nums(f, 1, "scales", &n);

	if (!f->failed)
		upsample(f, scales, n);
}

void
fiss_Upsample_9(struct fission *f)
{
	fiss_Resize_10(f);
}

void
fiss_Upsample_7(struct fission *f)
{
	int n;
	const float *v = f_floats(f, "scales", &n);
	double scales[MAX_RANK];

	if (n > MAX_RANK)
		f_fail(f, "attribute 'scales' has %d numbers", n);
	for (int i = 0; i < n && !f->failed; i++)
		scales[i] = (double)v[i];
	if (!f->failed)
		upsample(f, scales, n);
}
