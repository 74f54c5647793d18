/* kernels/ir/elem.c: single elements of dense arrays, whatever their type; half floats. */
#include "ir.h"

#include <math.h>
#include <string.h>

float
half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t exp = (h >> 10) & 31, frac = h & 0x3ff, bits;
	float f;

	if (exp == 31) {
		bits = sign | 0x7f800000 | frac << 13;
	} else if (exp) {
		bits = sign | (exp + 112) << 23 | frac << 13;
	} else {
		f = ldexpf((float)frac, -24);
		return sign ? -f : f;
	}
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Shifts right by n > 0, rounding half to even. */
static uint32_t
shift_round(uint32_t x, uint32_t n)
{
	uint32_t kept, rest, half;

	if (n > 31)
		return 0;
	kept = x >> n;
	rest = x & ((1u << n) - 1);
	half = 1u << (n - 1);
	return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t
float_to_half(float f)
{
	uint32_t bits, sign, frac;
	int exp;

	memcpy(&bits, &f, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	exp = (int)(bits >> 23 & 255) - 112; /* the half's exponent field */
	frac = bits & 0x7fffff;
	if (exp == 255 - 112) /* infinity and NaN */
		return (uint16_t)(sign | 0x7c00 | (frac ? 0x200 : 0));
	if (exp <= 0) /* subnormal: the hidden one moves into the fraction */
		return (
		    uint16_t)(sign | (exp < -11 ? 0 : shift_round(frac | 0x800000, (uint32_t)(14 - exp))));
	if (exp >= 31)
		return (uint16_t)(sign | 0x7c00);
	/* Rounding up may carry into the exponent, up to infinity: that is right. */
	return (uint16_t)(sign | shift_round((uint32_t)exp << 23 | frac, 13));
}

float
bf16_to_float(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

uint16_t
float_to_bf16(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (f != f)
		return (uint16_t)(bits >> 16 | 0x40);
	bits += 0x7fff + (bits >> 16 & 1);
	return (uint16_t)(bits >> 16);
}

int64_t
elem_get_int(enum dtype t, const void *p, int64_t i)
{
	switch (t) {
	case DT_u8:
	case DT_bool:
		return ((const uint8_t *)p)[i];
	case DT_i8:
		return ((const int8_t *)p)[i];
	case DT_u16:
		return ((const uint16_t *)p)[i];
	case DT_i16:
		return ((const int16_t *)p)[i];
	case DT_u32:
		return ((const uint32_t *)p)[i];
	case DT_i32:
		return ((const int32_t *)p)[i];
	case DT_i64:
	case DT_u64:
		return ((const int64_t *)p)[i];
	case DT_f32:
	case DT_f16:
	case DT_bf16:
	case DT_f64:
	case DT_COUNT:
		break;
	}
	bug("an integer read from type %d", (int)t);
}

void
elem_set_int(enum dtype t, void *p, int64_t i, int64_t v)
{
	switch (t) {
	case DT_bool:
		((uint8_t *)p)[i] = v != 0;
		return;
	case DT_u8:
	case DT_i8:
		((uint8_t *)p)[i] = (uint8_t)v;
		return;
	case DT_u16:
	case DT_i16:
		((uint16_t *)p)[i] = (uint16_t)v;
		return;
	case DT_u32:
	case DT_i32:
		((uint32_t *)p)[i] = (uint32_t)v;
		return;
	case DT_i64:
	case DT_u64:
		((int64_t *)p)[i] = v;
		return;
	case DT_f32:
	case DT_f16:
	case DT_bf16:
	case DT_f64:
	case DT_COUNT:
		break;
	}
	bug("an integer written to type %d", (int)t);
}

double
elem_get(enum dtype t, const void *p, int64_t i)
{
	switch (t) {
	case DT_f32:
		return (double)((const float *)p)[i];
	case DT_f64:
		return ((const double *)p)[i];
	case DT_f16:
		return (double)half_to_float(((const uint16_t *)p)[i]);
	case DT_bf16:
		return (double)bf16_to_float(((const uint16_t *)p)[i]);
	case DT_u64:
		return (double)((const uint64_t *)p)[i];
	case DT_u8:
	case DT_i8:
	case DT_u16:
	case DT_i16:
	case DT_i32:
	case DT_i64:
	case DT_bool:
	case DT_u32:
		return (double)elem_get_int(t, p, i);
	case DT_COUNT:
		break;
	}
	bug("an element of type %d", (int)t);
}

int64_t
real_to_int(enum dtype t, double v)
{
	int bits = (int)dtype_size(t) * 8;
	double top = ldexp(1.0, dtype_is_signed(t) ? bits - 1 : bits);

	if (t == DT_bool)
		return v != 0; /* NaN is not 0 */
	if (v != v)
		return 0;
	v = trunc(v);
	if (!dtype_is_signed(t)) {
		v = fmin(fmax(v, 0), top);
		return v >= top ? (bits == 64 ? -1 : (int64_t)(top - 1)) : (int64_t)(uint64_t)v;
	}
	if (v >= top)
		return bits == 64 ? INT64_MAX : (int64_t)(top - 1);
	return v < -top ? (bits == 64 ? INT64_MIN : (int64_t)-top) : (int64_t)v;
}

void
elem_set(enum dtype t, void *p, int64_t i, double v)
{
	switch (t) {
	case DT_f32:
		((float *)p)[i] = (float)v;
		return;
	case DT_f64:
		((double *)p)[i] = v;
		return;
	case DT_f16:
		((uint16_t *)p)[i] = float_to_half((float)v);
		return;
	case DT_bf16:
		((uint16_t *)p)[i] = float_to_bf16((float)v);
		return;
	case DT_u8:
	case DT_i8:
	case DT_u16:
	case DT_i16:
	case DT_i32:
	case DT_i64:
	case DT_bool:
	case DT_u32:
	case DT_u64:
		elem_set_int(t, p, i, real_to_int(t, v));
		return;
	case DT_COUNT:
		break;
	}
	bug("an element of type %d", (int)t);
}
