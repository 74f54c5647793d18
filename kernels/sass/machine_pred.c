/* kernels/sass/machine_pred.c: comparisons, selections, predicates. */
#include "machine_int.h"

/* cmp: F LT EQ LE GT NE GE T.  `low`: of a comparison of high halves, what that of the low halves said. */
static bool
compared(uint32_t cmp, uint32_t a, uint32_t b, bool is_signed, bool extended, bool low)
{
	const bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	if (!extended || a != b)
		return (cmp & 1 && less) || (cmp & 2 && a == b) || (cmp & 4 && a != b && !less);
	return cmp == 0 ? false : cmp == 7 ? true : low;
}

static bool
joined(uint32_t how, bool a, bool b)
{
	return how == 0 ? a && b : how == 1 ? a || b : a != b;
}

void
op_isetp(struct step *s)
{
	for (EACH_LANE(l, s)) {
		const bool more = pred_in(s, 87, 90, l);
		const bool is = compared(field(s, 76, 3), operand_of(s, &s->a, l), operand_of(s, &s->b, l),
		    bit(s, 73), bit(s, 72), pred_third(s, l));

		set_pred(s, field(s, 81, 3), l, joined(field(s, 74, 2), is, more));
		set_pred(s, field(s, 84, 3), l, joined(field(s, 74, 2), !is, more));
	}
}

void
op_sel(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l, operand_of(s, pred_in(s, 87, 90, l) ? &s->a : &s->b, l));
}

static uint32_t
signed_float(uint32_t v, bool magnitude, bool minus)
{
	return (magnitude ? v & ~(1u << 31) : v) ^ (uint32_t)minus << 31;
}

void
op_fsel(struct step *s)
{
	for (EACH_LANE(l, s))
		set_dest(s, 0, l,
		    pred_in(s, 87, 90, l)
			? signed_float(operand_of(s, &s->a, l), bit(s, 73), bit(s, 72))
			: signed_float(operand_of(s, &s->b, l), s->b.magnitude, s->b.minus));
}

void
op_plop3(struct step *s)
{
	const uint32_t first = field(s, 64, 3) | field(s, 72, 5) << 3, second = field(s, 16, 8);

	for (EACH_LANE(l, s)) {
		const uint32_t at = (uint32_t)pred_in(s, 87, 90, l) << 2 |
		    (uint32_t)pred_in(s, 77, 80, l) << 1 | pred_third(s, l);

		set_pred(s, field(s, 81, 3), l, first >> at & 1);
		set_pred(s, field(s, 84, 3), l, second >> at & 1);
	}
}

/* The predicates named by the mask, in a byte of a register. */
void
op_p2r(struct step *s)
{
	const uint32_t by = 8 * field(s, 76, 2);

	for (EACH_LANE(l, s)) {
		const uint32_t mask = operand_of(s, &s->b, l) & 0x7f, old = operand_of(s, &s->a, l);
		uint32_t v = 0;

		for (uint32_t p = 0; p < 7; p++)
			v |= (s->w->p[p] >> l & 1) << p;
		set_dest(s, 0, l, (old & ~(mask << by)) | (v & mask) << by);
	}
}

void
op_r2p(struct step *s)
{
	const uint32_t by = 8 * field(s, 76, 2);

	for (EACH_LANE(l, s)) {
		const uint32_t mask = operand_of(s, &s->b, l) & 0x7f, v = operand_of(s, &s->a, l) >> by;

		for (uint32_t p = 0; p < 7; p++)
			if (mask >> p & 1)
				set_pred(s, p, l, v >> p & 1);
	}
}

/* Lanes whose predicate holds, and whether all, any or all alike do.  Without lanes of its own a uniform one
 * counts those of the warp. */
void
op_vote(struct step *s)
{
	const bool uniform = step_is_uniform(s->i);
	uint32_t yes = 0, of = uniform ? s->active : s->lanes;

	for (uint32_t l = 0; l < LANES; l++) {
		const uint32_t p = field(s, 87, 3);
		const bool is = (p == SASS_PT || (s->w->p[p] >> l & 1)) != bit(s, 90);

		yes |= (uint32_t)(is && of >> l & 1) << l;
	}
	const uint32_t how = field(s, 72, 2);
	const bool holds = how == 0 ? yes == of : how == 1 ? yes != 0 : yes == of || yes == 0;

	for (EACH_LANE(l, s)) {
		set_dest(s, 0, l, yes);
		set_pred(s, field(s, 81, 3), l, holds);
	}
}
