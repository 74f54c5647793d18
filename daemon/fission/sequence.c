/* daemon/fission/sequence.c: operators that walk along an axis, or move parts of tensors by
 * positions: CumSum, CumProd, ReverseSequence, TensorScatter, CenterCropPad, MaxUnpool. */
#include "fission_int.h"

static int
axis_operand(struct fission *f, uint32_t i)
{
	int n;
	const int64_t *axis = f_const_ints(f, i, "axis", &n);

	if (!f->failed && n != 1)
		f_fail(f, "operand %u (axis) has %d elements; one is needed", i, n);
	return f->failed ? 0 : f_axis_of(f, axis[0], b_rank(f, f_in(f, 0)));
}

void
fiss_CumSum_11(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	struct attrs at = {0};

	at_int(&at, ATTR_axis, axis_operand(f, 1));
	at_int(&at, ATTR_exclusive, f_int(f, "exclusive") != 0);
	at_int(&at, ATTR_reverse, f_int(f, "reverse") != 0);
	f_out(f, 0, b_prim(f, PRIM_cumsum, &x, 1, &at));
}

/* x moved by n along the axis (towards the end, or the beginning), ones coming in. */
static tensor_id
shifted(struct fission *f, tensor_id x, int axis, int64_t n, bool is_reverse)
{
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0}, extent = b_dim(f, x, axis);

	n = MIN_OF(n, extent);
	*(is_reverse ? &hi[axis] : &lo[axis]) = n;
	return b_pad(f, b_slice1(f, x, axis, is_reverse ? n : 0, extent - n), lo, hi, PAD_CONSTANT, 1);
}

/* Products of 1, 2, 4 ... neighbours: as many steps as the extent has binary digits. */
void
fiss_CumProd_26(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int axis = axis_operand(f, 1);
	bool is_reverse = f_int(f, "reverse") != 0;

	if (f->failed)
		return;
	if (f_int(f, "exclusive"))
		x = shifted(f, x, axis, 1, is_reverse);
	for (int64_t n = 1; n < b_dim(f, x, axis); n *= 2)
		x = b_map2(f, PRIM_mul, x, shifted(f, x, axis, n, is_reverse));
	f_out(f, 0, x);
}

/* Position t of a sequence of length l takes l-1-t while t < l, itself behind. */
void
fiss_ReverseSequence_10(struct fission *f)
{
	tensor_id x = f_in(f, 0), lens = b_cast(f, f_in(f, 1), DT_i64);
	const struct shape s = *b_shape(f, x);
	int64_t batch = f_int(f, "batch_axis"), time = f_int(f, "time_axis");
	struct shape ls = {.rank = s.rank};
	struct attrs at = {0};

	if (!f->failed && (s.rank < 2 || batch + time != 1 || batch < 0 || time < 0))
		f_fail(f, "batch axis %lld and time axis %lld are not 0 and 1", (long long)batch,
		    (long long)time);
	if (f->failed)
		return;
	for (int i = 0; i < s.rank; i++)
		ls.dim[i] = i == batch ? s.dim[i] : 1;
	lens = b_reshape(f, lens, &ls);
	tensor_id t = b_iota(f, &s, (int)time);
	tensor_id back = b_map2(f, PRIM_sub, b_map2n(f, PRIM_sub, lens, 1), t);
	tensor_id in[2] = {x, b_select(f, b_map2(f, PRIM_lt, t, lens), back, t)};
	at_int(&at, ATTR_axis, time);
	f_out(f, 0, b_prim(f, PRIM_gather_elements, in, 2, &at));
}

/* New entries of a cache, written from each batch's own position on. */
void
fiss_TensorScatter_24(struct fission *f)
{
	static const char *const words[] = {"linear", "circular", NULL};
	tensor_id cache = f_in(f, 0), update = f_in(f, 1);
	const struct shape s = *b_shape(f, update);
	int axis = f_axis(f, "axis", s.rank);
	struct shape ws = {.rank = s.rank};
	struct attrs at = {0};
	bool is_circular = f_choice(f, "mode", words) == 1;

	if (!f->failed && (s.rank < 2 || axis == 0 || b_rank(f, cache) != s.rank))
		f_fail(f, "axis %d of an update of %d dimensions is not supported", axis, s.rank);
	if (f->failed)
		return;
	tensor_id index = b_iota(f, &s, axis);
	if (f_has(f, 2)) {
		for (int i = 0; i < s.rank; i++)
			ws.dim[i] = i == 0 ? s.dim[0] : 1;
		index = b_map2(f, PRIM_add, index, b_reshape(f, b_cast(f, f_in(f, 2), DT_i64), &ws));
	}
	if (is_circular)
		index = b_map2n(f, PRIM_mod, index, (double)b_dim(f, cache, axis));
	tensor_id in[3] = {cache, b_expand(f, index, &s), update};
	at_int(&at, ATTR_axis, axis);
	at_int(&at, ATTR_mode, 0);
	f_out(f, 0, b_prim(f, PRIM_scatter_elements, in, 3, &at));
}

/* What is too long is cut, what is too short padded, equally on both sides. */
void
fiss_CenterCropPad_18(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int n, n_axes, rank = b_rank(f, x);
	const int64_t *shape = f_const_ints(f, 1, "shape", &n), *axes = f_ints(f, "axes", &n_axes);
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0};

	if (!f->failed && n != (axes ? n_axes : rank))
		f_fail(f, "operand 1 (shape) has %d numbers; %d are needed", n, axes ? n_axes : rank);
	for (int i = 0; i < n && !f->failed; i++) {
		int axis = f_axis_of(f, axes ? axes[i] : i, rank);
		int64_t have = b_dim(f, x, axis), want = shape[i];
		if (want < 0 || want > INT32_MAX) {
			f_fail(f, "operand 1 (shape) holds %lld", (long long)want);
			break;
		}
		if (want < have)
			x = b_slice1(f, x, axis, (have - want) / 2, want);
		lo[axis] = MAX_OF(want - have, 0) / 2;
		hi[axis] = MAX_OF(want - have, 0) - lo[axis];
	}
	if (!f->failed)
		f_out(f, 0, b_pad(f, x, lo, hi, PAD_CONSTANT, 0));
}

/* Values back to the positions they came from, zeros elsewhere. */
void
fiss_MaxUnpool_9(struct fission *f)
{
	tensor_id x = f_in(f, 0), index = f_in(f, 1);
	const struct shape s = *b_shape(f, x);
	struct shape out = s, natural = s, flat = {.rank = 1, .dim = {1}},
		     from = {.rank = 1, .dim = {shape_count(&s)}};
	int n_kernel, n_strides, n_pads, n, spatial = MAX_OF(s.rank - 2, 0);
	const int64_t *kernel = f_ints(f, "kernel_shape", &n_kernel),
		      *strides = f_ints(f, "strides", &n_strides), *pads = f_ints(f, "pads", &n_pads);
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0};
	struct attrs at = {0};

	if (!f->failed &&
	    (spatial < 1 || !kernel || n_kernel != spatial || (strides && n_strides != spatial) ||
		(pads && n_pads != 2 * spatial)))
		f_fail(f, "kernel_shape, strides or pads do not fit %d spatial dimensions", spatial);
	for (int i = 0; i < spatial && !f->failed; i++) {
		int64_t by = strides ? strides[i] : 1;
		natural.dim[2 + i] =
		    f_product(f, s.dim[2 + i] - 1, by) + kernel[i] - (pads ? pads[i] + pads[spatial + i] : 0);
	}
	out = natural;
	if (f_has(f, 2)) {
		const int64_t *shape = f_const_ints(f, 2, "output_shape", &n);
		if (!f->failed && n != s.rank)
			f_fail(f, "operand 2 (output_shape) has %d numbers; %d are needed", n, s.rank);
		for (int i = 0; i < s.rank && !f->failed; i++)
			out.dim[i] = shape[i];
	}
	if (f->failed || !f_check_shape(f, &out, b_type(f, x)) || !f_check_shape(f, &natural, b_type(f, x)))
		return;
	/* positions count within the natural extents; a larger output has room behind them */
	for (int i = 0; i < s.rank; i++) {
		hi[i] = out.dim[i] - natural.dim[i];
		if (hi[i] < 0) {
			f_fail(f, "operand 2 (output_shape) is smaller than the pooled operand");
			return;
		}
	}
	flat.dim[0] = shape_count(&natural);
	tensor_id zeros = b_expand(f, b_num(f, b_type(f, x), 0), &flat);
	tensor_id in[3] = {zeros, b_reshape(f, index, &from), b_reshape(f, x, &from)};
	at_int(&at, ATTR_axis, 0);
	at_int(&at, ATTR_mode, 0);
	tensor_id y = b_reshape(f, b_prim(f, PRIM_scatter_elements, in, 3, &at), &natural);
	f_out(f, 0, b_pad(f, y, lo, hi, PAD_CONSTANT, 0));
}
