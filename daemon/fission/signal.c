/* daemon/fission/signal.c: window functions, Fourier transforms, mel weights.  Angles depend on
 * positions alone, so a transform is a product with a constant matrix. */
#include "fission_int.h"

#include <math.h>

static const double pi = 3.14159265358979323846;
enum { MAX_TRANSFORM = 1 << 13 };

/* ---- windows ----------------------------------------------------------------------------- */
/* a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n); symmetric: n - 1 for n */
static void
window(struct fission *f, double a0, double a1, double a2)
{
	int n;
	const int64_t *size = f_const_ints(f, 0, "size", &n);
	enum dtype t = DT_f32;

	if (!f->failed &&
	    (n != 1 || size[0] < 0 ||
		!dtype_of_onnx((int)MIN_OF(MAX_OF(f_int(f, "output_datatype"), 0), 1000), &t)))
		f_fail(f, "operand 0 (size) or attribute 'output_datatype' is not usable");
	void *data = f->failed ? NULL : f_memory(f, size[0], dtype_size(t));
	if (!data)
		return;
	double period = f_int(f, "periodic") ? (double)size[0] : (double)(size[0] - 1);
	for (int64_t i = 0; i < size[0]; i++) {
		double at = period > 0 ? 2 * pi * (double)i / period : 0;
		elem_set(t, data, i, a0 - a1 * cos(at) + a2 * cos(2 * at));
	}
	struct shape s = {.rank = 1, .dim = {size[0]}};
	f_out(f, 0, b_table(f, t, &s, data));
}

void
fiss_BlackmanWindow_17(struct fission *f)
{
	window(f, 0.42, 0.5, 0.08);
}

void
fiss_HammingWindow_17(struct fission *f)
{
	window(f, 25.0 / 46, 1 - 25.0 / 46, 0);
}

void
fiss_HannWindow_17(struct fission *f)
{
	window(f, 0.5, 0.5, 0);
}

/* ---- Fourier ----------------------------------------------------------------------------- */
/* cos or sin of -+ 2 pi k j / n as [n_in, n_out], `scale` times */
static tensor_id
angles(struct fission *f, enum dtype t, int64_t n, int64_t n_in, int64_t n_out, bool is_sin, double scale)
{
	struct shape s = {.rank = 2, .dim = {n_in, n_out}};
	void *data = f_memory(f, n_in * n_out, dtype_size(t));

	if (!data)
		return f->blank;
	for (int64_t j = 0; j < n_in; j++)
		for (int64_t k = 0; k < n_out; k++) {
			double at = 2 * pi * (double)(j * k % n) / (double)n;
			elem_set(t, data, j * n_out + k, scale * (is_sin ? sin(at) : cos(at)));
		}
	return b_table(f, t, &s, data);
}

struct dft {
	int64_t n;                    /* length of the transform */
	int64_t n_out;                /* how many results: n, or n/2 + 1 */
	bool is_inverse, is_real_out; /* real out: the inverse of a one-sided transform */
};

/* [rows, n_in, 1 or 2] -> [rows, n_out, 2 (or 1)] */
static tensor_id
transform(struct fission *f, tensor_id x, const struct dft *d)
{
	enum dtype t = b_type(f, x);
	int64_t rows = b_dim(f, x, 0), n_in = MIN_OF(b_dim(f, x, 1), d->n), parts = b_dim(f, x, 2);
	double scale = d->is_inverse ? 1 / (double)d->n : 1, turn = d->is_inverse ? -1 : 1;

	if (!f->failed && (d->n < 1 || d->n > MAX_TRANSFORM || parts < 1 || parts > 2)) {
		f_fail(f, "a transform of length %lld over %lld parts is not supported", (long long)d->n,
		    (long long)parts);
		return f->blank;
	}
	x = b_slice1(f, x, 1, 0, n_in);
	tensor_id c = angles(f, t, d->n, n_in, d->n_out, false, scale),
		  s = angles(f, t, d->n, n_in, d->n_out, true, turn * scale);
	tensor_id re_in = b_view(f, b_slice1(f, x, 2, 0, 1), 2, (int64_t[]){rows, n_in});
	tensor_id re = fs_matmul(f, re_in, c), im = b_map1(f, PRIM_neg, fs_matmul(f, re_in, s));
	if (parts == 2) {
		/* (re + i im)(c - i s) */
		tensor_id im_in = b_view(f, b_slice1(f, x, 2, 1, 1), 2, (int64_t[]){rows, n_in});
		re = b_map2(f, PRIM_add, re, fs_matmul(f, im_in, s));
		im = b_map2(f, PRIM_add, im, fs_matmul(f, im_in, c));
	}
	re = b_view(f, re, 3, (int64_t[]){rows, d->n_out, 1});
	im = b_view(f, im, 3, (int64_t[]){rows, d->n_out, 1});
	return d->is_real_out ? re : b_concat(f, (tensor_id[]){re, im}, 2, 2);
}

/* The whole spectrum from its first half: the rest is the mirrored conjugate. */
static tensor_id
unfold(struct fission *f, tensor_id x, int64_t n)
{
	int64_t have = b_dim(f, x, 1), missing = n - have, start[3] = {0, missing, 0}, step[3] = {1, -1, 1};
	struct shape s = *b_shape(f, x);

	if (f->failed || missing <= 0 || missing >= have || s.dim[2] != 2) {
		if (missing != 0)
			f_fail(f, "a one-sided spectrum of %lld does not unfold to %lld", (long long)have,
			    (long long)n);
		return x;
	}
	s.dim[1] = missing;
	tensor_id back = b_slice(f, x, start, step, &s);
	tensor_id re = b_slice1(f, back, 2, 0, 1), im = b_map1(f, PRIM_neg, b_slice1(f, back, 2, 1, 1));
	return b_concat(f, (tensor_id[]){x, b_concat(f, (tensor_id[]){re, im}, 2, 2)}, 2, 1);
}

/* The axis goes beside the parts: [..., n, parts]. */
static void
dft(struct fission *f, int64_t axis64)
{
	tensor_id x = f_in(f, 0);
	struct shape s = *b_shape(f, x);
	int axis = f_axis_of(f, axis64, s.rank), n_len;
	bool is_onesided = f_int(f, "onesided") != 0, is_inverse = f_int(f, "inverse") != 0;
	int64_t perm[MAX_RANK], back[MAX_RANK], rows = 1;

	if (!f->failed && (s.rank < 2 || axis == s.rank - 1))
		f_fail(f, "operand 0 must have an axis to transform and, last, real and imaginary parts");
	if (f->failed)
		return;
	struct dft d = {.n = s.dim[axis], .is_inverse = is_inverse, .is_real_out = is_onesided && is_inverse};
	if (f_has(f, 1)) {
		const int64_t *len = f_const_ints(f, 1, "dft_length", &n_len);
		d.n = len && n_len == 1 ? len[0] : -1;
	} else if (d.is_real_out) {
		d.n = 2 * (s.dim[axis] - 1);
	}
	d.n_out = is_onesided && !is_inverse ? d.n / 2 + 1 : d.n;
	int k = 0;
	for (int i = 0; i < s.rank - 1; i++)
		if (i != axis)
			perm[k++] = i;
	perm[k++] = axis;
	perm[k] = s.rank - 1;
	for (int i = 0; i < s.rank; i++)
		back[perm[i]] = i;
	x = b_transpose(f, x, perm);
	struct shape moved = *b_shape(f, x);
	for (int i = 0; i < s.rank - 2; i++)
		rows *= moved.dim[i];
	x = b_view(f, x, 3, (int64_t[]){rows, s.dim[axis], s.dim[s.rank - 1]});
	if (d.is_real_out)
		x = unfold(f, x, d.n);
	tensor_id y = transform(f, x, &d);
	moved.dim[s.rank - 2] = d.n_out;
	moved.dim[s.rank - 1] = b_dim(f, y, 2);
	f_out(f, 0, b_transpose(f, b_reshape(f, y, &moved), back));
}

void
fiss_DFT_17(struct fission *f)
{
	dft(f, f_int(f, "axis"));
}

/* From opset 20 the axis is an operand, by default the last before the parts. */
void
fiss_DFT_20(struct fission *f)
{
	int n = 1;
	int64_t last = -2;
	const int64_t *axis = f_has(f, 2) ? f_const_ints(f, 2, "axis", &n) : &last;

	if (!f->failed && n != 1)
		f_fail(f, "operand 2 (axis) has %d elements; one is needed", n);
	if (!f->failed)
		dft(f, axis[0]);
}

/* Frames of the signal, `step` apart, times the window, transformed. */
void
fiss_STFT_17(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	struct shape s = *b_shape(f, x);
	int n = 0;
	const int64_t *step = f_const_ints(f, 1, "frame_step", &n), *len = NULL;
	int64_t frame = f_has(f, 2) ? shape_count(b_shape(f, f_in(f, 2))) : 0;

	if (f_has(f, 3)) {
		len = f_const_ints(f, 3, "frame_length", &n);
		frame = len && n == 1 ? len[0] : -1;
	}
	if (!f->failed && s.rank == 2) {
		s.dim[s.rank++] = 1;
		x = b_reshape(f, x, &s);
	}
	if (!f->failed &&
	    (s.rank != 3 || step[0] < 1 || frame < 1 || frame > s.dim[1] || frame > MAX_TRANSFORM))
		f_fail(f, "a signal of %d dimensions in frames of %lld is not supported", s.rank,
		    (long long)frame);
	if (f->failed)
		return;
	int64_t n_frames = (s.dim[1] - frame) / step[0] + 1;
	int64_t *at = f_memory(f, f_product(f, n_frames, frame), sizeof(*at));
	if (!at)
		return;
	for (int64_t i = 0; i < n_frames * frame; i++)
		at[i] = i / frame * step[0] + i % frame;
	struct shape places = {.rank = 2, .dim = {n_frames, frame}};
	x = b_gather(f, x, b_table(f, DT_i64, &places, at), 1);
	if (f_has(f, 2))
		x = b_map2(f, PRIM_mul, x, b_view(f, f_in(f, 2), 2, (int64_t[]){frame, 1}));
	struct dft d = {.n = frame, .n_out = f_int(f, "onesided") ? frame / 2 + 1 : frame};
	x = b_view(f, x, 3, (int64_t[]){s.dim[0] * n_frames, frame, s.dim[2]});
	f_out(f, 0, b_view(f, transform(f, x, &d), 4, (int64_t[]){s.dim[0], n_frames, d.n_out, 2}));
}

/* ---- mel weights ------------------------------------------------------------------------- */
static double
mel_of(double hertz)
{
	return 2595 * log10(1 + hertz / 700);
}

void
fiss_MelWeightMatrix_17(struct fission *f)
{
	double v[5];
	enum dtype t = DT_f32;

	for (uint32_t i = 0; i < 5 && !f->failed; i++) {
		int n;
		const double *p = f_const_nums(f, i, "number", &n);
		if (!f->failed && n != 1)
			f_fail(f, "operand %u has %d elements; one is needed", i, n);
		v[i] = f->failed ? 1 : p[0];
	}
	if (!dtype_of_onnx((int)MIN_OF(MAX_OF(f_int(f, "output_datatype"), 0), 1000), &t))
		f_fail(f, "attribute 'output_datatype' is a type that is not supported");
	if (!f->failed && (v[0] < 1 || v[0] > 1 << 16 || v[1] < 1 || v[1] > 1 << 24 || v[2] <= 0))
		f_fail(f, "the numbers of bins are not usable");
	if (f->failed)
		return;
	int64_t n_mel = f_whole(v[0]), n_fft = f_whole(v[1]), n_bins = n_fft / 2 + 1;
	struct shape s = {.rank = 2, .dim = {n_bins, n_mel}};
	void *data = f_memory(f, f_product(f, n_bins, n_mel), dtype_size(t));
	if (!data)
		return;
	double low = mel_of(v[3]), high = mel_of(v[4]), step = (high - low) / (double)(n_mel + 2);
	for (int64_t m = 0; m < n_mel; m++) {
		int64_t at[3];
		for (int k = 0; k < 3; k++) {
			double hertz = 700 * (pow(10, ((double)(m + k) * step + low) / 2595) - 1);
			at[k] = f_whole(floor((double)(n_fft + 1) * hertz / v[2]));
		}
		if (at[1] == at[0] && at[1] >= 0 && at[1] < n_bins)
			elem_set(t, data, at[1] * n_mel + m, 1);
		for (int64_t i = MAX_OF(at[0], 0); at[1] != at[0] && i <= MIN_OF(at[1], n_bins - 1); i++)
			elem_set(t, data, i * n_mel + m, (double)(i - at[0]) / (double)(at[1] - at[0]));
		for (int64_t i = MAX_OF(at[1], 0); at[2] != at[1] && i < MIN_OF(at[2], n_bins); i++)
			elem_set(t, data, i * n_mel + m, (double)(at[2] - i) / (double)(at[2] - at[1]));
	}
	f_out(f, 0, b_table(f, t, &s, data));
}
