/* kernels/interp/map.c: the scalar functions.  Floating types are computed in double and rounded
 * once by the caller; integers in 64 bits and wrapped by the caller. */
#include "interp_int.h"

#include <math.h>

typedef int64_t int1(int64_t);
typedef int64_t int2(int64_t, int64_t);

static double
r_neg(double x)
{
	return -x;
}
static double
r_recip(double x)
{
	return 1 / x;
}
static double
r_sign(double x)
{
	return x != x ? x : (x > 0) - (x < 0);
}
static double
r_relu(double x)
{
	return x < 0 ? 0 : x;
}
static double
r_softplus(double x)
{
	return fmax(x, 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0);
}

static double
r_sigmoid(double x)
{
	double z = exp(-fabs(x));

	return x >= 0 ? 1 / (1 + z) : z / (1 + z);
}

static double
r_add(double x, double y)
{
	return x + y;
}
static double
r_sub(double x, double y)
{
	return x - y;
}
static double
r_mul(double x, double y)
{
	return x * y;
}
static double
r_div(double x, double y)
{
	return x / y;
}
static double
r_min(double x, double y)
{
	return x != x || x < y ? x : y;
}
static double
r_max(double x, double y)
{
	return x != x || x > y ? x : y;
}

static double
r_mod(double x, double y)
{
	double r = fmod(x, y);

	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static real1 *const real1_of[PRIM_COUNT] = {
    [PRIM_neg] = r_neg,
    [PRIM_abs] = fabs,
    [PRIM_exp] = exp,
    [PRIM_log] = log,
    [PRIM_sqrt] = sqrt,
    [PRIM_recip] = r_recip,
    [PRIM_tanh] = tanh,
    [PRIM_erf] = erf,
    [PRIM_floor] = floor,
    [PRIM_ceil] = ceil,
    [PRIM_round] = nearbyint,
    [PRIM_sign] = r_sign,
    [PRIM_sin] = sin,
    [PRIM_cos] = cos,
    [PRIM_tan] = tan,
    [PRIM_asin] = asin,
    [PRIM_acos] = acos,
    [PRIM_atan] = atan,
    [PRIM_sinh] = sinh,
    [PRIM_cosh] = cosh,
    [PRIM_asinh] = asinh,
    [PRIM_acosh] = acosh,
    [PRIM_atanh] = atanh,
    [PRIM_sigmoid] = r_sigmoid,
    [PRIM_softplus] = r_softplus,
    [PRIM_relu] = r_relu,
};
static real2 *const real2_of[PRIM_COUNT] = {
    [PRIM_add] = r_add,
    [PRIM_sub] = r_sub,
    [PRIM_mul] = r_mul,
    [PRIM_div] = r_div,
    [PRIM_min] = r_min,
    [PRIM_max] = r_max,
    [PRIM_mod] = r_mod,
    [PRIM_fmod] = fmod,
    [PRIM_sum] = r_add,
    [PRIM_prod] = r_mul,
    [PRIM_rmax] = r_max,
    [PRIM_rmin] = r_min,
    [PRIM_wsum] = r_add,
    [PRIM_wmax] = r_max,
};

/* Wrapping arithmetic goes through unsigned. */
static int64_t
i_neg(int64_t x)
{
	return (int64_t)(0 - (uint64_t)x);
}
static int64_t
i_abs(int64_t x)
{
	return x < 0 ? i_neg(x) : x;
}
static int64_t
i_sign(int64_t x)
{
	return (x > 0) - (x < 0);
}
static int64_t
i_relu(int64_t x)
{
	return x < 0 ? 0 : x;
}
static int64_t
i_not(int64_t x)
{
	return !x;
}
static int64_t
i_bitnot(int64_t x)
{
	return ~x;
}
static int64_t
i_add(int64_t x, int64_t y)
{
	return (int64_t)((uint64_t)x + (uint64_t)y);
}
static int64_t
i_sub(int64_t x, int64_t y)
{
	return (int64_t)((uint64_t)x - (uint64_t)y);
}
static int64_t
i_mul(int64_t x, int64_t y)
{
	return (int64_t)((uint64_t)x * (uint64_t)y);
}
static int64_t
i_div(int64_t x, int64_t y)
{
	return y == 0 ? 0 : y == -1 ? i_neg(x) : x / y;
}
static int64_t
i_min(int64_t x, int64_t y)
{
	return x < y ? x : y;
}
static int64_t
i_max(int64_t x, int64_t y)
{
	return x > y ? x : y;
}
static int64_t
i_fmod(int64_t x, int64_t y)
{
	return y == 0 || y == -1 ? 0 : x % y;
}
static int64_t
i_and(int64_t x, int64_t y)
{
	return x & y;
}
static int64_t
i_or(int64_t x, int64_t y)
{
	return x | y;
}
static int64_t
i_xor(int64_t x, int64_t y)
{
	return x ^ y;
}
static int64_t
i_shl(int64_t x, int64_t y)
{
	return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}
static int64_t
i_shr(int64_t x, int64_t y)
{
	return x >> (y < 0 || y > 63 ? 63 : y);
}

static int64_t
i_mod(int64_t x, int64_t y)
{
	int64_t r = i_fmod(x, y);

	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* The same for u64, where the sign bit is a digit. */
static int64_t
u_div(int64_t x, int64_t y)
{
	return y ? (int64_t)((uint64_t)x / (uint64_t)y) : 0;
}
static int64_t
u_mod(int64_t x, int64_t y)
{
	return y ? (int64_t)((uint64_t)x % (uint64_t)y) : 0;
}
static int64_t
u_min(int64_t x, int64_t y)
{
	return (uint64_t)x < (uint64_t)y ? x : y;
}
static int64_t
u_max(int64_t x, int64_t y)
{
	return (uint64_t)x > (uint64_t)y ? x : y;
}
static int64_t
u_shr(int64_t x, int64_t y)
{
	return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x >> y);
}
static int64_t
u_same(int64_t x)
{
	return x;
}
static int64_t
u_sign(int64_t x)
{
	return x != 0;
}

static int1 *const int1_of[PRIM_COUNT] = {
    [PRIM_neg] = i_neg,
    [PRIM_abs] = i_abs,
    [PRIM_sign] = i_sign,
    [PRIM_relu] = i_relu,
    [PRIM_not] = i_not,
    [PRIM_bitnot] = i_bitnot,
};
static int1 *const big1_of[PRIM_COUNT] = {
    [PRIM_abs] = u_same,
    [PRIM_sign] = u_sign,
    [PRIM_relu] = u_same,
};
static int2 *const int2_of[PRIM_COUNT] = {
    [PRIM_add] = i_add,
    [PRIM_sub] = i_sub,
    [PRIM_mul] = i_mul,
    [PRIM_div] = i_div,
    [PRIM_min] = i_min,
    [PRIM_max] = i_max,
    [PRIM_mod] = i_mod,
    [PRIM_fmod] = i_fmod,
    [PRIM_and] = i_and,
    [PRIM_or] = i_or,
    [PRIM_xor] = i_xor,
    [PRIM_shl] = i_shl,
    [PRIM_shr] = i_shr,
    [PRIM_sum] = i_add,
    [PRIM_prod] = i_mul,
    [PRIM_rmax] = i_max,
    [PRIM_rmin] = i_min,
    [PRIM_wsum] = i_add,
    [PRIM_wmax] = i_max,
};
static int2 *const big2_of[PRIM_COUNT] = {
    [PRIM_div] = u_div,
    [PRIM_mod] = u_mod,
    [PRIM_fmod] = u_mod,
    [PRIM_min] = u_min,
    [PRIM_max] = u_max,
    [PRIM_rmin] = u_min,
    [PRIM_rmax] = u_max,
    [PRIM_wmax] = u_max,
    [PRIM_shr] = u_shr,
};

static int1 *
int1_for(enum prim p, enum dtype t)
{
	return t == DT_u64 && big1_of[p] ? big1_of[p] : int1_of[p];
}

static int2 *
int2_for(enum prim p, enum dtype t)
{
	return t == DT_u64 && big2_of[p] ? big2_of[p] : int2_of[p];
}

static double
as_real(enum dtype t, union val v)
{
	if (dtype_is_float(t))
		return v.f;
	return t == DT_u64 ? (double)(uint64_t)v.i : (double)v.i;
}

static union val
cast(enum dtype from, enum dtype to, union val x)
{
	if (dtype_is_float(to))
		return (union val){.f = as_real(from, x)};
	if (dtype_is_float(from))
		return (union val){.i = real_to_int(to, x.f)};
	return to == DT_bool ? (union val){.i = x.i != 0} : x;
}

/* Whole powers of integers are exact (and wrap); the rest goes through double. */
static union val
power(const enum dtype *types, const union val *x)
{
	uint64_t base = (uint64_t)x[0].i, y = 1;
	double r;

	if (dtype_is_float(types[0]))
		return (union val){.f = pow(x[0].f, as_real(types[1], x[1]))};
	if (!dtype_is_float(types[1]) && x[1].i >= 0) {
		for (uint64_t n = (uint64_t)x[1].i; n; n >>= 1, base *= base)
			y *= n & 1 ? base : 1;
		return (union val){.i = (int64_t)y};
	}
	r = pow(as_real(types[0], x[0]), as_real(types[1], x[1]));
	return (union val){.i = real_to_int(types[0], r)};
}

bool
val_less(enum dtype t, union val a, union val b)
{
	if (dtype_is_float(t))
		return a.f < b.f;
	return t == DT_u64 ? (uint64_t)a.i < (uint64_t)b.i : a.i < b.i;
}

static bool
val_equal(enum dtype t, union val a, union val b)
{
	return dtype_is_float(t) ? a.f == b.f : a.i == b.i;
}

static union val
binary(enum prim p, enum dtype t, union val a, union val b)
{
	if (dtype_is_float(t))
		return (union val){.f = real2_of[p](a.f, b.f)};
	return (union val){.i = int2_for(p, t)(a.i, b.i)};
}

real1 *
real1_for(enum prim p)
{
	return real1_of[p];
}

real2 *
real2_for(enum prim p)
{
	return real2_of[p];
}

union val
map_scalar(enum prim p, const enum dtype *types, enum dtype out, const union val *x)
{
	enum dtype t = types[0];

	switch (p) {
	case PRIM_cast:
		return cast(t, out, x[0]);
	case PRIM_pow:
		return power(types, x);
	case PRIM_select:
		return x[0].i ? x[1] : x[2];
	case PRIM_isnan:
		return (union val){.i = x[0].f != x[0].f};
	case PRIM_isinf:
		return (union val){.i = isinf(x[0].f) != 0};
	case PRIM_eq:
		return (union val){.i = val_equal(t, x[0], x[1])};
	case PRIM_lt:
		return (union val){.i = val_less(t, x[0], x[1])};
	case PRIM_le:
		return (union val){.i = val_less(t, x[0], x[1]) || val_equal(t, x[0], x[1])};
	default:
		break;
	}
	if (prim_info[p].n_in == 2)
		return binary(p, t, x[0], x[1]);
	if (dtype_is_float(t))
		return (union val){.f = real1_of[p](x[0].f)};
	return (union val){.i = int1_for(p, t)(x[0].i)};
}

union val
join_scalar(enum prim p, enum dtype t, union val a, union val b)
{
	return binary(p, t, a, b);
}

/* What an empty reduction gives: the neutral element. */
union val
join_start(enum prim p, enum dtype t)
{
	bool lowest = p == PRIM_rmax || p == PRIM_wmax, highest = p == PRIM_rmin;

	if (dtype_is_float(t))
		return (union val){.f = lowest ? -INFINITY : highest ? INFINITY : p == PRIM_prod};
	if (t == DT_bool)
		return (union val){.i = highest || p == PRIM_prod};
	if (lowest)
		return (union val){.i = real_to_int(t, -INFINITY)};
	if (highest)
		return (union val){.i = real_to_int(t, INFINITY)};
	return (union val){.i = p == PRIM_prod};
}
