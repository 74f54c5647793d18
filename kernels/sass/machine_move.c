/* kernels/sass/machine_move.c: special registers, constants, shuffles, and what of floats the division of
 * integers needs (I2F, MUFU.RCP, F2I); HFMA2 as the move of a constant. */
#include "machine_int.h"

#include <math.h>
#include <string.h>

static uint32_t
thread_in(const struct warp *w, uint32_t lane)
{
	return w->id * LANES + lane;
}

static uint32_t
special(const struct step *s, uint32_t which, uint32_t lane)
{
	const struct machine_input *in = s->m->in;
	const uint32_t t = thread_in(s->w, lane), x = MAX_OF(in->threads[0], 1u),
		       y = MAX_OF(in->threads[1], 1u);

	switch (which) {
	case 0x00:
		return lane;
	case 0x21:
		return t % x;
	case 0x22:
		return t / x % y;
	case 0x23:
		return t / x / y;
	case 0x25:
		return in->block[0];
	case 0x26:
		return in->block[1];
	case 0x27:
		return in->block[2];
	case 0x38:
		return 1u << lane;
	case 0x39:
		return (1u << lane) - 1;
	case 0x3a:
		return (2u << lane) - 1;
	case 0x3b:
		return ~((2u << lane) - 1);
	case 0x3c:
		return ~((1u << lane) - 1);
	case 0x88: /* the block in its cluster */
	case 0xff:
		return 0;
	default:
		return (uint32_t)mix64(in->seed + which) & 0xff;
	}
}

void
op_s2r(struct step *s)
{
	const uint32_t first = (uint32_t)__builtin_ctz(s->active | 1u << 31);

	for (EACH_LANE(l, s))
		set_dest(s, 0, l, special(s, field(s, 72, 8), step_is_uniform(s->i) ? first : l));
}

void
op_cs2r(struct step *s)
{
	for (EACH_LANE(l, s)) {
		set_dest(s, 0, l, special(s, field(s, 72, 8), l));
		if (bit(s, 80))
			set_dest(s, 1, l, 0);
	}
}

/* A uniform register has the value of the first lane. */
void
op_r2ur(struct step *s)
{
	if (s->lanes)
		set_ureg(s->w, field(s, 16, 6), operand_of(s, &s->a, (uint32_t)__builtin_ctz(s->lanes)));
}

void
op_ldc(struct step *s)
{
	const uint32_t bank = field(s, 54, 5), width = field(s, 73, 3),
		       words = width == 6 ? 4
	    : width == 5                  ? 2
					  : 1;
	const bool uniform = step_is_uniform(s->i);

	for (EACH_LANE(l, s)) {
		const uint32_t at = field(s, 38, 16) + (uniform ? 0 : operand_of(s, &s->a, l));

		for (uint32_t n = 0; n < words; n++)
			set_dest(s, n, l,
			    operand_narrow(width, constant_of(s->m, bank, at + 4 * n) >> 8 * (at & 3)));
	}
}

/* ---- SHFL ------------------------------------------------------------------------------------ */
/* Forms: bit 9..11 of lane and clamp, each a register or an immediate. */
static uint32_t
shfl_lane(const struct step *s, uint32_t lane)
{
	const int form = (int)field(s, 9, 3);

	return form == 1 || form == 2 ? reg_of(s->w, field(s, 32, 8), lane) : field(s, 53, 5);
}

static uint32_t
shfl_clamp(const struct step *s, uint32_t lane)
{
	const int form = (int)field(s, 9, 3);

	return form == 1 || form == 4 ? reg_of(s->w, field(s, 64, 8), lane) : field(s, 40, 13);
}

static uint32_t
shfl_from(uint32_t how, uint32_t lane, uint32_t by, uint32_t c, bool *inside)
{
	const uint32_t segment = c >> 8 & 31, least = lane & segment, most = least | (c & 31 & ~segment);
	const uint32_t from = how == 0 ? least | (by & ~segment & 31)
	    : how == 1                 ? lane - by
	    : how == 2                 ? lane + by
				       : lane ^ by;

	*inside = how == 1 ? (int32_t)from >= (int32_t)most : from <= most;
	return *inside ? from & 31 : lane;
}

void
op_shfl(struct step *s)
{
	const uint32_t how = field(s, 58, 2), source = field(s, 24, 8);
	uint32_t old[LANES];

	for (uint32_t l = 0; l < LANES; l++)
		old[l] = reg_of(s->w, source, l);
	for (EACH_LANE(l, s)) {
		bool inside;
		const uint32_t from = shfl_from(how, l, shfl_lane(s, l) & 31, shfl_clamp(s, l), &inside);

		set_dest(s, 0, l, old[from]);
		set_pred(s, field(s, 81, 3), l, inside);
	}
}

/* ---- floats that addresses hang on ----------------------------------------------------------- */
static uint32_t
bits_of(float f)
{
	uint32_t v;

	memcpy(&v, &f, 4);
	return v;
}

static float
float_of(uint32_t v)
{
	float f;

	memcpy(&f, &v, 4);
	return f;
}

/* Rounding (bits 78, 79): nearest, down, up, to zero. */
static float
rounded(double exact, uint32_t how)
{
	const float f = (float)exact;

	if (how == 1 && f > exact)
		return nextafterf(f, -INFINITY);
	if (how == 2 && f < exact)
		return nextafterf(f, INFINITY);
	if (how == 3 && fabs((double)f) > fabs(exact))
		return nextafterf(f, 0);
	return f;
}

void
op_i2f(struct step *s)
{
	if (field(s, 75, 2) != 2 || field(s, 84, 2) != 2) { /* of 32 bits to 32 bits */
		step_hash(s);
		return;
	}
	for (EACH_LANE(l, s)) {
		const uint32_t v = operand_of(s, &s->b, l);
		const double exact = bit(s, 74) ? (double)(int32_t)v : (double)v;

		set_dest(s, 0, l, bits_of(rounded(exact, field(s, 78, 2))));
	}
}

static uint32_t
to_integer(float f, bool is_signed)
{
	if (isnan(f))
		return is_signed ? 0x80000000u : 0xffffffffu;
	const double t = trunc((double)f);

	if (is_signed)
		return t >= 2147483648.0 ? 0x7fffffffu
		    : t < -2147483648.0  ? 0x80000000u
					 : (uint32_t)(int32_t)t;
	return t >= 4294967296.0 ? 0xffffffffu : t <= 0 ? 0 : (uint32_t)t;
}

void
op_f2i(struct step *s)
{
	if (field(s, 75, 2) != 2 || field(s, 84, 2) != 2) {
		step_hash(s);
		return;
	}
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, to_integer(float_of(operand_of(s, &s->b, l)), bit(s, 72)));
}

void
op_mufu(struct step *s)
{
	enum { RCP = 4 };

	if (field(s, 74, 4) != RCP || s->b.minus || s->b.magnitude) {
		step_hash(s);
		return;
	}
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, bits_of(1.0f / float_of(operand_of(s, &s->b, l))));
}

/* 0 * 0 + a constant is how the compiler moves one. */
void
op_hfma2(struct step *s)
{
	if (field(s, 9, 3) != 2 || field(s, 24, 8) != SASS_RZ || field(s, 64, 8) != SASS_RZ) {
		step_hash(s);
		return;
	}
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, s->c.value);
}

/* A product of a warp group from shared memory: here of its descriptors, its registers and what was there. */
void
op_hgmma(struct step *s)
{
	const uint32_t n = 4 * (field(s, 53, 6) + 1), rd = field(s, 16, 8), ra = field(s, 24, 8);
	const uint32_t u = field(s, 24, 6);

	for (EACH_LANE(l, s)) {
		uint64_t h = step_shape(s) ^ mix64(ureg_of(s->w, u)) ^ mix64(ureg_of(s->w, u + 2u) + 1ull);

		for (uint32_t i = 0; i < 4 && field(s, 9, 3) != 4; i++)
			h = mix64(h ^ reg_of(s->w, ra + i, l));
		for (uint32_t i = 0; i < n && rd + i < SASS_RZ; i++)
			set_reg(s->w, rd + i, l,
			    (uint32_t)mix64(h ^ ((uint64_t)i << 32 | reg_of(s->w, rd + i, l))));
	}
}

/* ---- doubles --------------------------------------------------------------------------------- */
static uint64_t
hash_pairs(const struct step *s, uint32_t lane)
{
	uint64_t h = step_shape(s);

	h = mix64(h ^ operand_pair(s, &s->a, lane));
	h = mix64(h ^ operand_pair(s, &s->b, lane));
	return mix64(h ^ operand_pair(s, &s->c, lane));
}

void
op_double(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest_pair(s, l, hash_pairs(s, l));
}

void
op_dsetp(struct step *s)
{
	for (EACH_LANE(l, s)) {
		const uint64_t h = hash_pairs(s, l) ^ (uint64_t)pred_in(s, 87, 90, l) << 1;

		set_pred(s, field(s, 81, 3), l, h & 1);
		set_pred(s, field(s, 84, 3), l, h & 2);
	}
}

/* Sizes of 8 to 64 bits: 0 to 3. */
void
op_f2f(struct step *s)
{
	const bool to64 = field(s, 75, 2) == 3, from64 = field(s, 84, 2) == 3;

	for (EACH_LANE(l, s)) {
		const uint64_t from = from64 ? operand_pair(s, &s->b, l) : operand_of(s, &s->b, l),
			       v = mix64(step_shape(s) ^ mix64(from));

		set_dest(s, 0, l, (uint32_t)v);
		if (to64)
			set_dest(s, 1, l, (uint32_t)(v >> 32));
	}
}
