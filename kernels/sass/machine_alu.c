/* kernels/sass/machine_alu.c: integers.  A uniform instruction is one with a single lane, whose registers are
 * uniform ones: machine_operand.c knows the difference. */
#include "machine_int.h"

/* Signs as the adder has them: minus is the complement and a one, of three operands each. */
struct term {
	uint64_t value;
	uint32_t ones;
};

static struct term
term(uint32_t v, bool minus, bool extended)
{
	return (struct term){minus ? ~v : v, minus && !extended};
}

static void
carries(struct step *s, uint32_t lane, uint64_t sum)
{
	set_pred(s, field(s, 81, 3), lane, sum >> 32 >= 1);
	set_pred(s, field(s, 84, 3), lane, sum >> 32 >= 2);
}

void
op_mov(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, operand_of(s, &s->b, l));
}

void
op_iadd3(struct step *s)
{
	const bool x = bit(s, 74);

	for (EACH_LANE(l, s)) {
		const struct term a = term(operand_of(s, &s->a, l), bit(s, 72), x),
				  b = term(operand_of(s, &s->b, l), s->b.minus, x),
				  c = term(operand_of(s, &s->c, l), bit(s, 75), x);
		uint64_t sum = a.value + b.value + c.value + a.ones + b.ones + c.ones;

		if (x)
			sum += (uint64_t)pred_in(s, 87, 90, l) + pred_in(s, 77, 80, l);
		set_dest(s, 0, l, (uint32_t)sum);
		carries(s, l, sum);
	}
}

void
op_iadd3_64(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest_pair(
		    s, l, operand_pair(s, &s->a, l) + operand_pair(s, &s->b, l) + operand_pair(s, &s->c, l));
}

void
op_viadd(struct step *s)
{
	for (EACH_LANE(l, s)) {
		const uint32_t b = operand_of(s, &s->b, l), a = operand_of(s, &s->a, l);

		set_dest(s, 0, l, (bit(s, 72) ? 0 - a : a) + (s->b.minus ? 0 - b : b));
	}
}

/* a * b, of 64 bits. */
static uint64_t
product(const struct step *s, uint32_t lane)
{
	const uint32_t a = operand_of(s, &s->a, lane), b = operand_of(s, &s->b, lane);

	return bit(s, 73) ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) : (uint64_t)a * b;
}

void
op_imad(struct step *s)
{
	const bool x = bit(s, 74);

	for (EACH_LANE(l, s)) {
		const struct term c = term(operand_of(s, &s->c, l), bit(s, 75), x);
		const uint64_t sum =
		    (uint32_t)product(s, l) + c.value + c.ones + (x ? pred_in(s, 87, 90, l) : 0);

		set_dest(s, 0, l, (uint32_t)sum);
		set_pred(s, field(s, 81, 3), l, sum >> 32 != 0);
	}
}

/* The carry out of 64 bits. */
static uint64_t
wide_sum(struct step *s, uint32_t lane)
{
	const uint64_t c = operand_pair(s, &s->c, lane), p = product(s, lane),
		       more = bit(s, 74) && pred_in(s, 87, 90, lane),
		       sum = p + (bit(s, 75) ? 0 - c : c) + more;

	set_pred(s, field(s, 81, 3), lane, sum < p);
	return sum;
}

void
op_imad_wide(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest_pair(s, l, wide_sum(s, l));
}

void
op_imad_hi(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, (uint32_t)(wide_sum(s, l) >> 32));
}

/* (a << n) + b, or the high half of (c:a << n) and b. */
void
op_lea(struct step *s)
{
	const bool high = bit(s, 80), x = bit(s, 74), sx32 = bit(s, 73);
	const uint32_t n = field(s, 75, 5);

	for (EACH_LANE(l, s)) {
		const uint32_t a = operand_of(s, &s->a, l);
		const uint32_t top = !high ? 0 : sx32 ? 0 - (a >> 31) : operand_of(s, &s->c, l);
		uint64_t wide = ((uint64_t)top << 32 | a) << n;

		if (bit(s, 72))
			wide = x ? ~wide : 0 - wide;
		const struct term b = term(operand_of(s, &s->b, l), s->b.minus, x);
		const uint64_t sum =
		    (uint32_t)(high ? wide >> 32 : wide) + b.value + b.ones + (x ? pred_in(s, 87, 90, l) : 0);

		set_dest(s, 0, l, (uint32_t)sum);
		set_pred(s, field(s, 81, 3), l, sum >> 32 != 0);
	}
}

/* The pair c:a shifted by b; type: S64, U64, S32, U32. */
static uint64_t
shifted(const struct step *s, uint64_t v, uint32_t by)
{
	const uint32_t type = field(s, 73, 2), most = type < 2 ? 64 : 32;

	by = bit(s, 75) ? by & (most - 1) : MIN_OF(by, most);
	if (!bit(s, 76))
		return by >= 64 ? 0 : v << by;
	if (type % 2 == 0) {
		const uint64_t sign = 0 - (v >> 63);

		return by >= 64 ? sign : by == 0 ? v : v >> by | sign << (64 - by);
	}
	return by >= 64 ? 0 : v >> by;
}

void
op_shf(struct step *s)
{
	for (EACH_LANE(l, s)) {
		const uint64_t pair = (uint64_t)operand_of(s, &s->c, l) << 32 | operand_of(s, &s->a, l),
			       v = shifted(s, pair, operand_of(s, &s->b, l));

		set_dest(s, 0, l, (uint32_t)(bit(s, 80) ? v >> 32 : v));
	}
}

static uint32_t
by_lut(uint32_t lut, uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t v = 0;

	for (int i = 0; i < 8; i++)
		if (lut >> i & 1)
			v |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	return v;
}

void
op_lop3(struct step *s)
{
	const uint32_t lut = field(s, 72, 8);

	for (EACH_LANE(l, s)) {
		const uint32_t v =
		    by_lut(lut, operand_of(s, &s->a, l), operand_of(s, &s->b, l), operand_of(s, &s->c, l));
		const bool p = pred_in(s, 87, 90, l);

		set_dest(s, 0, l, v);
		set_pred(s, field(s, 81, 3), l, bit(s, 80) ? v != 0 && p : v != 0 || p);
	}
}

void
op_iabs(struct step *s)
{
	for (EACH_LANE(l, s)) {
		const uint32_t v = operand_of(s, &s->b, l);

		set_dest(s, 0, l, v >> 31 ? 0 - v : v);
	}
}

/* The bit at `sign_at`: signed; the predicate chooses: true is the lesser. */
static uint32_t
lesser(const struct step *s, uint32_t x, uint32_t y, uint32_t lane, int sign_at)
{
	const bool less = bit(s, sign_at) ? (int32_t)x < (int32_t)y : x < y;

	return less == pred_in(s, 87, 90, lane) ? x : y;
}

void
op_imnmx(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, lesser(s, operand_of(s, &s->a, l), operand_of(s, &s->b, l), l, 73));
}

void
op_vimnmx(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, lesser(s, operand_of(s, &s->a, l), operand_of(s, &s->b, l), l, 72));
}

void
op_viaddmnmx(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l,
		    lesser(s, operand_of(s, &s->a, l) + operand_of(s, &s->b, l), operand_of(s, &s->c, l), l,
			72));
}

/* A byte for each of four selectors: 0..3 of a, 4..7 of c; the eighth spreads its sign. */
static uint32_t
permuted(uint32_t a, uint32_t select, uint32_t c)
{
	const uint64_t all = (uint64_t)c << 32 | a;
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		const uint32_t n = select >> 4 * i & 15, byte = (uint32_t)(all >> 8 * (n & 7)) & 0xff;

		v |= (n & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
	}
	return v;
}

void
op_prmt(struct step *s)
{
	if (field(s, 72, 3)) {
		step_hash(s); /* the modes with names: not met */
		return;
	}
	for (EACH_LANE(l, s))
		set_dest(s, 0, l,
		    permuted(operand_of(s, &s->a, l), operand_of(s, &s->b, l), operand_of(s, &s->c, l)));
}

/* The low b bits of a, signed or not. */
void
op_sgxt(struct step *s)
{
	for (EACH_LANE(l, s)) {
		const uint32_t v = operand_of(s, &s->a, l), n = MIN_OF(operand_of(s, &s->b, l), 32u);
		const uint32_t low = n == 32 ? v : v & ((1u << n) - 1);
		const bool minus = bit(s, 73) && n > 0 && n < 32 && low >> (n - 1) & 1;

		set_dest(s, 0, l, minus ? low | ~((1u << n) - 1) : low);
	}
}
