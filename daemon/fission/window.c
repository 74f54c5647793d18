/* daemon/fission/window.c: the geometry that convolutions and pools share, and the pools.
 * Pools run channels-last between transposes, like convolutions, so that the two meet. */
#include "fission_int.h"

#include <math.h>

/* Spatial numbers of an attribute, or `otherwise` for each when it is absent. */
static void
numbers(struct fission *f, const char *name, int n, int64_t otherwise, int64_t least, int64_t *out)
{
	int have;
	const int64_t *v = f_ints(f, name, &have);

	if (v && have != n) {
		f_fail(
		    f, "attribute '%s' has %d numbers; the operand has %d spatial dimensions", name, have, n);
		v = NULL;
	}
	for (int i = 0; i < n; i++) {
		out[i] = v ? v[i] : otherwise;
		if (out[i] < least || out[i] > INT32_MAX) {
			f_fail(f, "attribute '%s' holds %lld", name, (long long)out[i]);
			out[i] = 1;
		}
	}
}

static int64_t
reach_of(const struct window *w, int i)
{
	return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

int64_t
window_extent(const struct window *w, const struct shape *x, int i)
{
	return (x->dim[2 + i] + w->lo[i] + w->hi[i] - reach_of(w, i)) / w->stride[i] + 1;
}

static void
explicit_pads(struct fission *f, struct window *w)
{
	int n;
	const int64_t *v = f_ints(f, "pads", &n);

	if (v && n != 2 * w->n) {
		f_fail(f, "attribute 'pads' has %d numbers; %d are needed", n, 2 * w->n);
		v = NULL;
	}
	for (int i = 0; i < w->n; i++) {
		w->lo[i] = v ? v[i] : 0;
		w->hi[i] = v ? v[w->n + i] : 0;
		if (w->lo[i] < 0 || w->hi[i] < 0 || w->lo[i] > INT32_MAX || w->hi[i] > INT32_MAX)
			f_fail(f, "attribute 'pads' holds a number out of range");
	}
}

/* SAME: as many results as ceil(extent / stride); the odd one goes to the end (UPPER) or the
 * beginning (LOWER). */
static void
same_pads(struct window *w, const struct shape *x, bool is_lower)
{
	for (int i = 0; i < w->n; i++) {
		int64_t out = (x->dim[2 + i] + w->stride[i] - 1) / w->stride[i];
		int64_t total = MAX_OF((out - 1) * w->stride[i] + reach_of(w, i) - x->dim[2 + i], 0);
		w->lo[i] = is_lower ? total - total / 2 : total / 2;
		w->hi[i] = total - w->lo[i];
	}
}

void
window_read(struct fission *f, tensor_id x, const int64_t *kernel, struct window *w)
{
	static const char *const pads[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "", NULL};
	const struct shape s = *b_shape(f, x);

	*w = (struct window){.n = MAX_OF(s.rank - 2, 0)};
	if (!f->failed && (s.rank < 3 || s.rank > MAX_RANK))
		f_fail(f, "operand 0 has %d dimensions; it needs a batch, channels and at least one more",
		    s.rank);
	if (f->failed) {
		w->n = 0;
		return;
	}
	numbers(f, "strides", w->n, 1, 1, w->stride);
	numbers(f, "dilations", w->n, 1, 1, w->dilation);
	numbers(f, "kernel_shape", w->n, kernel ? 1 : 0, 1, w->kernel);
	for (int i = 0; i < w->n; i++) {
		if (kernel && f_has_attr(f, "kernel_shape") && kernel[i] != w->kernel[i])
			f_fail(f, "attribute 'kernel_shape' contradicts the weight");
		w->kernel[i] = kernel ? kernel[i] : w->kernel[i];
	}
	int choice = f_choice(f, "auto_pad", pads);
	if (choice == 0 || choice == 4)
		explicit_pads(f, w);
	else if (choice != 1)
		same_pads(w, &s, choice == 3);
	for (int i = 0; i < w->n && !f->failed; i++)
		if (w->kernel[i] < 1 || s.dim[2 + i] + w->lo[i] + w->hi[i] < reach_of(w, i))
			f_fail(f,
			    "the window of %lld along spatial dimension %d is larger than the padded operand",
			    (long long)reach_of(w, i), i);
}

/* Rounds the number of results up: more room at the end, unless the last window would begin
 * behind the operand and its front padding. */
static void
ceil_mode(struct window *w, const struct shape *x)
{
	for (int i = 0; i < w->n; i++) {
		int64_t room = x->dim[2 + i] + w->lo[i] + w->hi[i] - reach_of(w, i);
		int64_t out = (room + w->stride[i] - 1) / w->stride[i] + 1;
		if ((out - 1) * w->stride[i] >= x->dim[2 + i] + w->lo[i])
			out--;
		w->hi[i] =
		    MAX_OF((out - 1) * w->stride[i] + reach_of(w, i) - x->dim[2 + i] - w->lo[i], w->hi[i]);
	}
}

/* The window primitive over [N, spatial..., C]. */
static tensor_id
slide(struct fission *f, enum prim p, tensor_id last, const struct window *w)
{
	struct window full = {.n = w->n + 2};

	for (int i = 0; i < full.n; i++) {
		bool is_spatial = i > 0 && i <= w->n;
		full.kernel[i] = is_spatial ? w->kernel[i - 1] : 1;
		full.stride[i] = is_spatial ? w->stride[i - 1] : 1;
		full.dilation[i] = is_spatial ? w->dilation[i - 1] : 1;
		full.lo[i] = is_spatial ? w->lo[i - 1] : 0;
		full.hi[i] = is_spatial ? w->hi[i - 1] : 0;
	}
	return b_window(f, p, last, full.kernel, full.stride, full.dilation, full.lo, full.hi);
}

static void
pool_window(struct fission *f, tensor_id x, struct window *w)
{
	if (!f_has_attr(f, "kernel_shape"))
		f_fail(f, "attribute 'kernel_shape' is missing");
	window_read(f, x, NULL, w);
}

/* ---- positions of maxima ------------------------------------------------------------- */
/* Where tap k (an offset per spatial dimension) of every window lies: the position within the
 * spatial extents, as [1, 1, spatial results...]; positions in the padding are never chosen. */
static tensor_id
tap_positions(struct fission *f, const struct shape *x, const struct window *w, const int64_t *tap,
    bool is_column_major)
{
	struct shape out = {.rank = x->rank, .dim = {1, 1}};

	for (int i = 0; i < w->n; i++)
		out.dim[2 + i] = window_extent(w, x, i);
	int64_t n = shape_count(&out), *data = f_memory(f, n, sizeof(*data));
	if (!data)
		return f->blank;
	for (int64_t e = 0; e < n; e++) {
		int64_t rest = e, at[MAX_RANK] = {0}, flat = 0;
		for (int i = w->n - 1; i >= 0; i--) {
			at[i] = rest % out.dim[2 + i] * w->stride[i] - w->lo[i] + tap[i] * w->dilation[i];
			rest /= out.dim[2 + i];
		}
		for (int i = 0; i < w->n; i++) {
			int k = is_column_major ? w->n - 1 - i : i;
			flat = flat * x->dim[2 + k] + at[k];
		}
		data[e] = flat;
	}
	return b_table(f, DT_i64, &out, data);
}

/* The operand as tap k of every window sees it. */
static tensor_id
tap_values(
    struct fission *f, tensor_id padded, const struct shape *x, const struct window *w, const int64_t *tap)
{
	struct shape s = *b_shape(f, padded);
	int64_t start[MAX_RANK] = {0}, step[MAX_RANK];

	for (int i = 0; i < MAX_RANK; i++)
		step[i] = 1;
	for (int i = 0; i < w->n; i++) {
		start[2 + i] = tap[i] * w->dilation[i];
		step[2 + i] = w->stride[i];
		s.dim[2 + i] = window_extent(w, x, i);
	}
	return b_slice(f, padded, start, step, &s);
}

/* The first of the largest, tap by tap: position = larger than all before ? this tap : kept. */
static tensor_id
positions_of_max(struct fission *f, tensor_id x, const struct window *w)
{
	const struct shape s = *b_shape(f, x);
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0}, tap[MAX_RANK] = {0}, plane = 1, n_taps = 1;
	tensor_id best = f->blank, where = f->blank;

	for (int i = 0; i < w->n; i++) {
		lo[2 + i] = w->lo[i];
		hi[2 + i] = w->hi[i];
		plane *= s.dim[2 + i];
		n_taps *= w->kernel[i];
	}
	if (n_taps > 256) {
		f_fail(f, "positions over windows of %lld elements are not supported; at most 256",
		    (long long)n_taps);
		return f->blank;
	}
	tensor_id padded =
	    b_pad(f, x, lo, hi, PAD_CONSTANT, dtype_is_float(b_type(f, x)) ? -INFINITY : -1e30);
	for (int64_t k = 0; k < n_taps && !f->failed; k++) {
		int64_t rest = k;
		for (int i = w->n - 1; i >= 0; i--) {
			tap[i] = rest % w->kernel[i];
			rest /= w->kernel[i];
		}
		tensor_id v = tap_values(f, padded, &s, w, tap),
			  at = tap_positions(f, &s, w, tap, f_int(f, "storage_order") != 0);
		where = k == 0 ? at : b_select(f, b_map2(f, PRIM_lt, best, v), at, where);
		best = k == 0 ? v : b_map2(f, PRIM_max, best, v);
	}
	/* each plane of (batch, channel) begins at its own multiple of the plane's size */
	struct shape planes = {.rank = s.rank, .dim = {s.dim[0] * s.dim[1], 1, 1, 1, 1, 1, 1, 1}};
	tensor_id base = b_map2n(f, PRIM_mul, b_iota(f, &planes, 0), (double)plane);
	planes.dim[0] = s.dim[0];
	planes.dim[1] = s.dim[1];
	return b_map2(f, PRIM_add, b_reshape(f, base, &planes), where);
}

void
fiss_MaxPool_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	struct window w;

	pool_window(f, x, &w);
	if (f_int(f, "ceil_mode"))
		ceil_mode(&w, b_shape(f, x));
	f_out(f, 0, fs_from_last(f, slide(f, PRIM_wmax, fs_to_last(f, x), &w)));
	if (f_wants(f, 1))
		f_out(f, 1, positions_of_max(f, x, &w));
}

/* ---- averages ------------------------------------------------------------------------ */

/* Elements that the window at `o` reads along one dimension, of those in [-lo, extent + hi). */
static int64_t
taps(const struct window *w, int i, int64_t o, int64_t extent, int64_t lo, int64_t hi)
{
	int64_t n = 0;

	for (int64_t k = 0; k < w->kernel[i]; k++) {
		int64_t at = o * w->stride[i] - w->lo[i] + k * w->dilation[i];
		n += at >= -lo && at < extent + hi;
	}
	return n;
}

/* 1 / (number of elements that take part), as a tensor over [1, spatial..., 1], or one number
 * when it is the same everywhere. */
static tensor_id
share_map(struct fission *f, tensor_id x, const struct window *w, const struct window *counted)
{
	const struct shape s = *b_shape(f, x);
	struct shape out = {.rank = s.rank};
	bool is_same = true;

	for (int i = 0; i < s.rank; i++)
		out.dim[i] = i > 0 && i <= w->n ? window_extent(w, &s, i - 1) : 1;
	int64_t count = shape_count(&out);
	void *data = f_memory(f, count, dtype_size(b_type(f, x)));
	if (!data)
		return f->blank;
	double first = 0;
	for (int64_t e = 0; e < count; e++) {
		int64_t rest = e;
		double n = 1;
		for (int i = w->n - 1; i >= 0; i--) {
			int64_t o = rest % out.dim[1 + i];
			rest /= out.dim[1 + i];
			n *= (double)taps(w, i, o, s.dim[2 + i], counted->lo[i], counted->hi[i]);
		}
		elem_set(b_type(f, x), data, e, 1 / n);
		first = e == 0 ? n : first;
		is_same = is_same && n == first;
	}
	return is_same ? b_num(f, b_type(f, x), 1 / first) : b_table(f, b_type(f, x), &out, data);
}

void
fiss_AveragePool_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	struct window w, counted;

	pool_window(f, x, &w);
	counted = w;
	if (!f_int(f, "count_include_pad"))
		for (int i = 0; i < w.n; i++)
			counted.lo[i] = counted.hi[i] = 0;
	if (f_int(f, "ceil_mode"))
		ceil_mode(&w, b_shape(f, x));
	if (f->failed)
		return;
	tensor_id sum = slide(f, PRIM_wsum, fs_to_last(f, x), &w);
	f_out(f, 0, fs_from_last(f, b_map2(f, PRIM_mul, sum, share_map(f, x, &w, &counted))));
}

/* (sum |x|^p)^(1/p) */
static tensor_id
power(struct fission *f, tensor_id x, int64_t p)
{
	tensor_id y = b_map1(f, PRIM_abs, x);

	if (p == 2)
		return b_map2(f, PRIM_mul, x, x);
	return p == 1 ? y : b_map2n(f, PRIM_pow, y, (double)p);
}

static tensor_id
root(struct fission *f, tensor_id x, int64_t p)
{
	if (p == 2)
		return b_map1(f, PRIM_sqrt, x);
	return p == 1 ? x : b_map2n(f, PRIM_pow, x, 1 / (double)p);
}

static int64_t
read_p(struct fission *f)
{
	int64_t p = f_int(f, "p");

	if (p < 1)
		f_fail(f, "attribute 'p' is %lld", (long long)p);
	return MAX_OF(p, 1);
}

void
fiss_LpPool_2(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t p = read_p(f);
	struct window w;

	pool_window(f, x, &w);
	if (f_int(f, "ceil_mode"))
		ceil_mode(&w, b_shape(f, x));
	f_out(f, 0, fs_from_last(f, root(f, slide(f, PRIM_wsum, power(f, fs_to_last(f, x), p), &w), p)));
}

static int
spatial_axes(struct fission *f, tensor_id x, int64_t *axes)
{
	int rank = b_rank(f, x);

	if (!f->failed && rank < 3)
		f_fail(f, "operand 0 has %d dimensions; at least 3 are needed", rank);
	for (int i = 2; i < rank; i++)
		axes[i - 2] = i;
	return MAX_OF(rank - 2, 0);
}

void
fiss_GlobalAveragePool_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int n = spatial_axes(f, x, axes);

	f_out(f, 0, b_mean(f, x, n, axes));
}

void
fiss_GlobalMaxPool_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int n = spatial_axes(f, x, axes);

	f_out(f, 0, b_reduce(f, PRIM_rmax, x, n, axes));
}

void
fiss_GlobalLpPool_2(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK], p = read_p(f);
	int n = spatial_axes(f, x, axes);

	f_out(f, 0, root(f, b_reduce(f, PRIM_sum, power(f, x, p), n, axes), p));
}
