/* daemon/fission/act.c: activations and other maps that are more than one primitive. */
#include "fission_int.h"

static tensor_id
clamp(struct fission *f, tensor_id x, double lo, double hi)
{
	return b_map2n(f, PRIM_min, b_map2n(f, PRIM_max, x, lo), hi);
}

void
fiss_Cast_6(struct fission *f)
{
	enum dtype to;
	int64_t type = f_int(f, "to");

	if (!dtype_of_onnx((int)MIN_OF(type, 1000), &to)) {
		f_fail(f, "attribute 'to' is the type %lld, which is not supported", (long long)type);
		return;
	}
	f_out(f, 0, b_cast(f, f_in(f, 0), to));
}

/* The same bits read as another type.  Integers of one width differ only by their sign, so there
 * a cast does it; numbers that are constant are read anew; there is no primitive for the rest. */
void
fiss_BitCast_26(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	enum dtype from = b_type(f, x), to = from;
	int64_t type = f_int(f, "to");
	const void *data = f->failed ? NULL : b_data(f, x);

	if (!dtype_of_onnx((int)MIN_OF(MAX_OF(type, 0), 1000), &to) || dtype_size(from) != dtype_size(to))
		f_fail(f, "attribute 'to' is the type %lld, which is not supported for %s", (long long)type,
		    dtype_name(from));
	else if (data)
		f_out(f, 0, b_table(f, to, b_shape(f, x), data));
	else if (!dtype_is_float(from) && !dtype_is_float(to))
		f_out(f, 0, b_cast(f, x, to));
	else if (from == to)
		f_out(f, 0, x);
	else
		f_fail(
		    f, "bits of %s as %s are supported for constants only", dtype_name(from), dtype_name(to));
}

void
fiss_CastLike_15(struct fission *f)
{
	f_out(f, 0, b_cast(f, f_in(f, 0), b_type(f, f_in(f, 1))));
}

/* max(0,x) + min(0, alpha (exp(x/alpha) - 1)) */
void
fiss_Celu_12(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	double alpha = f_float(f, "alpha");

	if (alpha == 0)
		f_fail(f, "attribute 'alpha' is 0");
	tensor_id ex = b_map1(f, PRIM_exp, b_map2n(f, PRIM_mul, x, 1 / alpha));
	tensor_id low = b_map2n(f, PRIM_mul, b_map2n(f, PRIM_sub, ex, 1), alpha);
	f_out(f, 0, b_map2(f, PRIM_add, b_map1(f, PRIM_relu, x), b_map2n(f, PRIM_min, low, 0)));
}

void
fiss_Clip_1(struct fission *f)
{
	f_out(f, 0, clamp(f, f_in(f, 0), f_float(f, "min"), f_float(f, "max")));
}

/* min(max(x, lo), hi): where lo > hi the result is hi. */
void
fiss_Clip_11(struct fission *f)
{
	tensor_id x = f_in(f, 0);

	if (f_has(f, 1))
		x = b_map2(f, PRIM_max, x, f_in(f, 1));
	if (f_has(f, 2))
		x = b_map2(f, PRIM_min, x, f_in(f, 2));
	f_out(f, 0, x);
}

/* scale (exp(min(x,0)) - 1) below zero, `above` x otherwise */
static tensor_id
elu(struct fission *f, tensor_id x, double scale, double above)
{
	tensor_id ex = b_map1(f, PRIM_exp, b_map2n(f, PRIM_min, x, 0));
	tensor_id low = b_map2n(f, PRIM_mul, b_map2n(f, PRIM_sub, ex, 1), scale);
	tensor_id high = above == 1 ? x : b_map2n(f, PRIM_mul, x, above);

	return b_select(f, b_map2n(f, PRIM_lt, x, 0), low, high);
}

void
fiss_Elu_1(struct fission *f)
{
	f_out(f, 0, elu(f, f_in(f, 0), f_float(f, "alpha"), 1));
}

void
fiss_Selu_1(struct fission *f)
{
	double gamma = f_float(f, "gamma");

	f_out(f, 0, elu(f, f_in(f, 0), f_float(f, "alpha") * gamma, gamma));
}

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static tensor_id
gelu_tanh(struct fission *f, tensor_id x)
{
	tensor_id cube = b_map2(f, PRIM_mul, b_map2(f, PRIM_mul, x, x), x);
	tensor_id in = b_map2(f, PRIM_add, x, b_map2n(f, PRIM_mul, cube, 0.044715));
	tensor_id th = b_map1(f, PRIM_tanh, b_map2n(f, PRIM_mul, in, 0.79788456080286535588));

	return b_map2(f, PRIM_mul, b_map2n(f, PRIM_mul, x, 0.5), b_map2n(f, PRIM_add, th, 1));
}

/* x/2 (1 + erf(x / sqrt 2)) */
void
fiss_Gelu_20(struct fission *f)
{
	static const char *const forms[] = {"none", "tanh", NULL};
	tensor_id x = f_in(f, 0);

	if (f_choice(f, "approximate", forms) == 1) {
		f_out(f, 0, gelu_tanh(f, x));
		return;
	}
	tensor_id er = b_map1(f, PRIM_erf, b_map2n(f, PRIM_mul, x, 0.70710678118654752440));
	tensor_id y = b_map2(f, PRIM_mul, x, b_map2n(f, PRIM_add, er, 1));
	f_out(f, 0, b_map2n(f, PRIM_mul, y, 0.5));
}

static tensor_id
hard_sigmoid(struct fission *f, tensor_id x, double alpha, double beta)
{
	return clamp(f, b_map2n(f, PRIM_add, b_map2n(f, PRIM_mul, x, alpha), beta), 0, 1);
}

void
fiss_HardSigmoid_1(struct fission *f)
{
	f_out(f, 0, hard_sigmoid(f, f_in(f, 0), f_float(f, "alpha"), f_float(f, "beta")));
}

void
fiss_HardSwish_14(struct fission *f)
{
	tensor_id x = f_in(f, 0);

	f_out(f, 0, b_map2(f, PRIM_mul, x, hard_sigmoid(f, x, 1.0 / 6, 0.5)));
}

void
fiss_Identity_1(struct fission *f)
{
	f_out(f, 0, f_in(f, 0));
}

void
fiss_IsInf_10(struct fission *f)
{
	tensor_id x = f_in(f, 0), y = b_map1(f, PRIM_isinf, x), zero = b_num(f, b_type(f, x), 0);

	if (!f_int(f, "detect_negative"))
		y = b_map2(f, PRIM_and, y, b_map2(f, PRIM_lt, zero, x));
	if (!f_int(f, "detect_positive"))
		y = b_map2(f, PRIM_and, y, b_map2(f, PRIM_lt, x, zero));
	f_out(f, 0, y);
}

/* For slopes up to 1 the larger of x and alpha x: one branch-free map less. */
void
fiss_LeakyRelu_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	double alpha = f_float(f, "alpha");
	tensor_id low = b_map2n(f, PRIM_mul, x, alpha);

	if (alpha > 0 && alpha <= 1)
		f_out(f, 0, b_map2(f, PRIM_max, x, low));
	else
		f_out(f, 0, b_select(f, b_map2n(f, PRIM_lt, x, 0), low, x));
}

void
fiss_PRelu_7(struct fission *f)
{
	tensor_id x = f_in(f, 0), low = b_map2(f, PRIM_mul, x, f_in(f, 1));

	f_out(f, 0, b_select(f, b_map2n(f, PRIM_lt, x, 0), low, x));
}

void
fiss_Mish_18(struct fission *f)
{
	tensor_id x = f_in(f, 0);

	f_out(f, 0, b_map2(f, PRIM_mul, x, b_map1(f, PRIM_tanh, b_map1(f, PRIM_softplus, x))));
}

/* x + bias below -lambd, x - bias above lambd, 0 between */
void
fiss_Shrink_9(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	double bias = f_float(f, "bias"), lambd = f_float(f, "lambd");
	tensor_id high = b_map2(f, PRIM_lt, b_num(f, b_type(f, x), lambd), x);
	tensor_id inner = b_select(f, high, b_map2n(f, PRIM_sub, x, bias), b_num(f, b_type(f, x), 0));

	f_out(f, 0, b_select(f, b_map2n(f, PRIM_lt, x, -lambd), b_map2n(f, PRIM_add, x, bias), inner));
}

void
fiss_Softsign_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);

	f_out(f, 0, b_map2(f, PRIM_div, x, b_map2n(f, PRIM_add, b_map1(f, PRIM_abs, x), 1)));
}

tensor_id
fs_swish(struct fission *f, tensor_id x, double alpha)
{
	tensor_id in = alpha == 1 ? x : b_map2n(f, PRIM_mul, x, alpha);

	return b_map2(f, PRIM_mul, x, b_map1(f, PRIM_sigmoid, in));
}

void
fiss_Swish_24(struct fission *f)
{
	f_out(f, 0, fs_swish(f, f_in(f, 0), f_float(f, "alpha")));
}

/* swish(a) * b */
void
fiss_SwiGLU_28(struct fission *f)
{
	f_out(f, 0, b_map2(f, PRIM_mul, fs_swish(f, f_in(f, 0), f_float(f, "alpha")), f_in(f, 1)));
}

void
fiss_ThresholdedRelu_10(struct fission *f)
{
	tensor_id x = f_in(f, 0), zero = b_num(f, b_type(f, x), 0);

	f_out(f, 0, b_select(f, b_map2(f, PRIM_lt, b_num(f, b_type(f, x), f_float(f, "alpha")), x), x, zero));
}

/* ---- two and more operands ----------------------------------------------------------- */
void
fiss_BitShift_11(struct fission *f)
{
	static const char *const words[] = {"LEFT", "RIGHT", NULL};

	f_out(f, 0, b_map2(f, f_choice(f, "direction", words) ? PRIM_shr : PRIM_shl, f_in(f, 0), f_in(f, 1)));
}

void
fiss_Greater_7(struct fission *f)
{
	f_out(f, 0, b_map2(f, PRIM_lt, f_in(f, 1), f_in(f, 0)));
}

void
fiss_GreaterOrEqual_12(struct fission *f)
{
	f_out(f, 0, b_map2(f, PRIM_le, f_in(f, 1), f_in(f, 0)));
}

static tensor_id
chain(struct fission *f, enum prim p)
{
	tensor_id x = f_in(f, 0);

	for (uint32_t i = 1; i < f_n_in(f); i++)
		x = b_map2(f, p, x, f_in(f, i));
	return x;
}

void
fiss_Max_1(struct fission *f)
{
	f_out(f, 0, chain(f, PRIM_max));
}

void
fiss_Min_1(struct fission *f)
{
	f_out(f, 0, chain(f, PRIM_min));
}

void
fiss_Sum_1(struct fission *f)
{
	f_out(f, 0, chain(f, PRIM_add));
}

void
fiss_Mean_1(struct fission *f)
{
	f_out(f, 0, b_map2n(f, PRIM_mul, chain(f, PRIM_add), 1.0 / f_n_in(f)));
}

void
fiss_Mod_10(struct fission *f)
{
	f_out(f, 0, b_map2(f, f_int(f, "fmod") ? PRIM_fmod : PRIM_mod, f_in(f, 0), f_in(f, 1)));
}

/* Both branches must be there, and alike, where only the run tells which one is wanted. */
static void
check_branches(struct fission *f, tensor_id c, uint32_t n)
{
	const char *cause = NULL;

	for (uint32_t i = 1; i <= 2 * n && !cause; i++)
		if (f_has(f, i) && f->of_value[f->node->in[i]].i == NO_TENSOR.i) {
			cause = f->why_absent[f->node->in[i]];
			f_fail(f,
			    "its condition depends on %s, so both branches are computed, and the %s cannot "
			    "be: %s",
			    f_hangs_on(f, c), i <= n ? "then_branch" : "else_branch",
			    cause ? cause : "a result is not supported");
			return;
		}
	for (uint32_t i = 0; i < n && !f->failed; i++) {
		tensor_id x = f_in(f, 1 + i), y = f_in(f, 1 + n + i);

		if (!f->failed && (!shape_eq(b_shape(f, x), b_shape(f, y)) || b_type(f, x) != b_type(f, y)))
			f_fail(f,
			    "its branches give different shapes or types, and its condition depends on %s",
			    f_hangs_on(f, c));
	}
}

/* A constant condition takes one branch; else both are computed and one is chosen. */
void
fiss_If_1(struct fission *f)
{
	uint32_t n = f->node->n_out;
	tensor_id c = f_in(f, 0);
	const void *data = f->failed ? NULL : b_data(f, c);

	if (f->failed || f_n_in(f) != 1 + 2 * n || shape_count(b_shape(f, c)) != 1) {
		f_fail(f, "its operands must be a condition of one element and the results of two branches");
		return;
	}
	if (!data)
		check_branches(f, c, n);
	for (uint32_t i = 0; i < n && !f->failed; i++) {
		if (data)
			f_out(f, i, f_in(f, elem_get(b_type(f, c), data, 0) != 0 ? 1 + i : 1 + n + i));
		else
			f_out(f, i, b_select(f, b_view(f, c, 0, NULL), f_in(f, 1 + i), f_in(f, 1 + n + i)));
	}
}

void
fiss_Where_9(struct fission *f)
{
	f_out(f, 0, b_select(f, f_in(f, 0), f_in(f, 1), f_in(f, 2)));
}
