/* daemon/fission/quant.c: quantised operators, as integer products between maps.
 *
 * y = saturate(round(x / scale) + zero).  Scales and zero points are one number, one a channel
 * along an axis, or one a block. */
#include "fission_int.h"

struct range {
	double lo, hi;
};

static struct range
range_of(struct fission *f, enum dtype t)
{
	switch (t) {
	case DT_u8:
		return (struct range){0, 255};
	case DT_i8:
		return (struct range){-128, 127};
	case DT_u16:
		return (struct range){0, 65535};
	case DT_i16:
		return (struct range){-32768, 32767};
	default:
		f_fail(f, "quantising to %s is not supported", dtype_name(t));
		return (struct range){0, 0};
	}
}

/* round(x) + zero, cut to the type's range, cast */
static tensor_id
saturate(struct fission *f, tensor_id x, tensor_id zero, enum dtype to)
{
	struct range r = range_of(f, to);
	tensor_id y = b_cast(f, b_map1(f, PRIM_round, x), DT_f32);

	if (zero.i != NO_TENSOR.i)
		y = b_map2(f, PRIM_add, y, b_cast(f, zero, DT_f32));
	y = b_map2n(f, PRIM_min, b_map2n(f, PRIM_max, y, r.lo), r.hi);
	return b_cast(f, y, to);
}

/* A scale or zero point, ready to broadcast over x. */
static tensor_id
spread(struct fission *f, tensor_id v, tensor_id x, int64_t axis, int64_t block)
{
	const struct shape sv = *b_shape(f, v), sx = *b_shape(f, x);
	struct shape s = {.rank = sx.rank};

	if (f->failed || shape_count(&sv) == 1)
		return f->failed ? f->blank : b_view(f, v, 0, NULL);
	int a = f_axis_of(f, axis, sx.rank);
	for (int i = 0; i < sx.rank; i++)
		s.dim[i] = i == a ? shape_count(&sv) : 1;
	if (sv.rank == 1 && block == 0)
		return b_reshape(f, v, &s);
	if (sv.rank != sx.rank || block < 1) {
		f_fail(f,
		    "a scale of %d dimensions needs attribute 'block_size' and as many dimensions as the "
		    "operand",
		    sv.rank);
		return f->blank;
	}
	/* each block's number `block` times, then as many as there are */
	struct shape cut = {.rank = 4, .dim = {1, sv.dim[a], 1, 1}}, wide = sv;
	for (int i = 0; i < sv.rank; i++)
		if (i != a)
			cut.dim[i < a ? 0 : 3] *= sv.dim[i];
	v = b_reshape(f, v, &cut);
	cut.dim[2] = block;
	wide.dim[a] = f_product(f, sv.dim[a], block);
	v = b_reshape(f, b_expand(f, v, &cut), &wide);
	if (!f->failed && wide.dim[a] < sx.dim[a])
		f_fail(f, "the blocks do not cover dimension %d", a);
	return f->failed ? f->blank : b_slice1(f, v, a, 0, sx.dim[a]);
}

static enum dtype
type_attr(struct fission *f, const char *name, enum dtype otherwise)
{
	int64_t type = f_int(f, name);
	enum dtype t = otherwise;

	if (type != 0 && !dtype_of_onnx((int)MIN_OF(MAX_OF(type, 0), 1000), &t))
		f_fail(f, "attribute '%s' is a type that is not supported", name);
	return t;
}

void
fiss_QuantizeLinear_10(struct fission *f)
{
	tensor_id x = f_in(f, 0), scale = f_in(f, 1), zero = f_has(f, 2) ? f_in(f, 2) : NO_TENSOR;
	int64_t axis = f_int(f, "axis"), block = f_int(f, "block_size");
	enum dtype to = type_attr(f, "output_dtype", f_has(f, 2) ? b_type(f, zero) : DT_u8);
	enum dtype precise = type_attr(f, "precision", b_type(f, scale));

	scale = b_cast(f, spread(f, scale, x, axis, block), precise);
	zero = f_has(f, 2) ? spread(f, zero, x, axis, block) : NO_TENSOR;
	f_out(f, 0, saturate(f, b_map2(f, PRIM_div, b_cast(f, x, precise), scale), zero, to));
}

void
fiss_DequantizeLinear_10(struct fission *f)
{
	tensor_id x = f_in(f, 0), scale = f_in(f, 1), y = b_cast(f, x, DT_i32);
	int64_t axis = f_int(f, "axis"), block = f_int(f, "block_size");
	enum dtype to = type_attr(f, "output_dtype", b_type(f, scale));

	if (f_has(f, 2))
		y = b_map2(f, PRIM_sub, y, b_cast(f, spread(f, f_in(f, 2), x, axis, block), DT_i32));
	f_out(f, 0, b_map2(f, PRIM_mul, b_cast(f, y, to), b_cast(f, spread(f, scale, x, axis, block), to)));
}

/* Range of the data with 0 in it, spread over 0 .. 255. */
void
fiss_DynamicQuantizeLinear_11(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int n = b_rank(f, x);

	for (int i = 0; i < n; i++)
		axes[i] = i;
	tensor_id top = b_view(f, b_map2n(f, PRIM_max, b_reduce(f, PRIM_rmax, x, n, axes), 0), 0, NULL);
	tensor_id bottom = b_view(f, b_map2n(f, PRIM_min, b_reduce(f, PRIM_rmin, x, n, axes), 0), 0, NULL);
	tensor_id scale = b_map2n(f, PRIM_div, b_map2(f, PRIM_sub, top, bottom), 255);
	tensor_id zero =
	    saturate(f, b_map2(f, PRIM_div, b_map1(f, PRIM_neg, bottom), scale), NO_TENSOR, DT_u8);
	f_out(f, 0, saturate(f, b_map2(f, PRIM_div, x, scale), zero, DT_u8));
	f_out(f, 1, scale);
	f_out(f, 2, zero);
}

/* ---- products -------------------------------------------------------------------------- */
/* A number a row (a column) of a matrix, or one for all, ready to broadcast. */
static tensor_id
per_row(struct fission *f, tensor_id v)
{
	int64_t n = shape_count(b_shape(f, v));

	if (!f->failed && b_rank(f, v) == 1 && n > 1)
		return b_view(f, v, 2, (int64_t[]){n, 1});
	return v;
}

/* Integers minus their zero point, which may be absent. */
static tensor_id
centred(struct fission *f, uint32_t x, uint32_t zero, bool is_row)
{
	tensor_id y = b_cast(f, f_in(f, x), DT_i32);

	if (!f_has(f, zero))
		return y;
	tensor_id z = b_cast(f, f_in(f, zero), DT_i32);
	return b_map2(f, PRIM_sub, y, is_row ? per_row(f, z) : z);
}

void
fiss_MatMulInteger_10(struct fission *f)
{
	f_out(f, 0, fs_matmul(f, centred(f, 0, 2, true), centred(f, 1, 3, false)));
}

void
fiss_QLinearMatMul_10(struct fission *f)
{
	tensor_id acc = fs_matmul(f, centred(f, 0, 2, true), centred(f, 3, 5, false));
	tensor_id sa = per_row(f, b_cast(f, f_in(f, 1), DT_f32)), sb = b_cast(f, f_in(f, 4), DT_f32);
	tensor_id by = b_map2(f, PRIM_div, b_map2(f, PRIM_mul, sa, sb), b_cast(f, f_in(f, 6), DT_f32));

	f_out(f, 0,
	    saturate(f, b_map2(f, PRIM_mul, b_cast(f, acc, DT_f32), by), f_in(f, 7), b_type(f, f_in(f, 7))));
}

/* A number an output channel as [M, 1, 1 ...], ready to meet a weight [M, C/g, kernel...]. */
static tensor_id
per_filter(struct fission *f, tensor_id v, int rank)
{
	return fs_per_channel(f, v, rank + 1);
}

static tensor_id
centred_weight(struct fission *f, uint32_t w, uint32_t zero)
{
	tensor_id y = b_cast(f, f_in(f, w), DT_i32);

	if (!f_has(f, zero))
		return y;
	return b_map2(f, PRIM_sub, y, per_filter(f, b_cast(f, f_in(f, zero), DT_i32), b_rank(f, y)));
}

void
fiss_ConvInteger_10(struct fission *f)
{
	f_out(f, 0, fs_conv(f, centred(f, 0, 2, false), centred_weight(f, 1, 3), NO_TENSOR));
}

void
fiss_QLinearConv_10(struct fission *f)
{
	tensor_id bias = f_has(f, 8) ? f_in(f, 8) : NO_TENSOR;
	tensor_id acc = fs_conv(f, centred(f, 0, 2, false), centred_weight(f, 3, 5), bias);
	tensor_id by = b_map2(f, PRIM_div, b_map2(f, PRIM_mul, f_in(f, 1), f_in(f, 4)), f_in(f, 6));

	by = fs_per_channel(f, by, b_rank(f, acc));
	f_out(f, 0,
	    saturate(f, b_map2(f, PRIM_mul, b_cast(f, acc, DT_f32), by), f_in(f, 7), b_type(f, f_in(f, 7))));
}
