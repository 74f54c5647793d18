/* kernels/sass/machine_operand.c: operands by the form of an instruction, destinations, predicates; general
 * or uniform registers by its opcode. */
#include "machine_int.h"

/* Forms (bits 9..11): where b and c come from.  One of them is a register at 32..39 or stands in its place.
 */
enum { FORM_REG = 1, FORM_C_IMM, FORM_C_CONST, FORM_B_IMM, FORM_B_CONST, FORM_B_UNIFORM, FORM_C_UNIFORM };

bool
step_is_uniform(const struct sass_instr *i)
{
	const uint32_t code = i->lo & 0x1ff;

	return i->op && (code == 0x0b9 || code == 0x1c3 || (code >= 0x080 && code <= 0x0bf && code != 0x0ca));
}

uint32_t
constant_of(const struct machine *m, uint32_t bank, uint32_t offset)
{
	static const uint32_t no_param = 0;
	const struct machine_input *in = m->in;
	const uint32_t at = offset / 4, param = m->param_base / 4;

	if (bank == 0 && at < 3)
		return in->threads[at];
	if (bank == 0 && at < 6)
		return in->grid[at - 3];
	if (bank == 0 && offset == 0x28)
		return 0x00fffd00; /* the top of the stack */
	if (bank == 0 && at >= param)
		return at - param < in->n_param ? in->param[at - param] : no_param;
	return (uint32_t)mix64(in->seed ^ ((uint64_t)bank << 32 | offset));
}

static struct operand
special_at_32(const struct step *s, int form)
{
	struct operand o = {.kind = OPERAND_IMM, .minus = bit(s, 63), .magnitude = bit(s, 62)};

	if (form == FORM_B_IMM || form == FORM_C_IMM)
		return (struct operand){.kind = OPERAND_IMM, .value = field(s, 32, 32)};
	if (form == FORM_B_CONST || form == FORM_C_CONST) {
		o.value = constant_of(s->m, field(s, 54, 5), field(s, 38, 16));
		o.reg = (uint8_t)field(s, 54, 5);
	} else {
		o.kind = OPERAND_UREG;
		o.reg = (uint8_t)field(s, 32, 6);
	}
	return o;
}

static struct operand
register_at(const struct step *s, int at, bool uniform)
{
	struct operand o = {.kind = uniform ? OPERAND_UREG : OPERAND_REG, .reg = (uint8_t)field(s, at, 8)};

	if (uniform)
		o.reg &= 63;
	return o;
}

void
machine_fetch(struct step *s)
{
	const bool uniform = step_is_uniform(s->i);
	const int form = (int)field(s, 9, 3);

	s->a = register_at(s, 24, uniform);
	s->c = register_at(s, 64, uniform);
	if (form <= FORM_REG) {
		s->b = register_at(s, 32, uniform);
		s->b.minus = bit(s, 63);
		s->b.magnitude = bit(s, 62);
	} else if (form >= FORM_B_IMM && form <= FORM_B_UNIFORM) {
		s->b = special_at_32(s, form);
	} else { /* c is the odd one, and b has its place */
		s->b = s->c;
		s->c = special_at_32(s, form);
	}
}

uint32_t
operand_of(const struct step *s, const struct operand *o, uint32_t lane)
{
	switch (o->kind) {
	case OPERAND_REG:
		return reg_of(s->w, o->reg, lane);
	case OPERAND_UREG:
		return ureg_of(s->w, o->reg);
	case OPERAND_IMM:
		return o->value;
	case OPERAND_ZERO:
		break;
	}
	return 0;
}

/* The word behind it: of a constant that of its bank, of an immediate its sign. */
static uint32_t
high_of(const struct step *s, const struct operand *o, uint32_t lane)
{
	const int form = (int)field(s, 9, 3);

	if (o->kind == OPERAND_REG)
		return o->reg == SASS_RZ ? 0 : reg_of(s->w, o->reg + 1u, lane);
	if (o->kind == OPERAND_UREG)
		return o->reg == URZ ? 0 : ureg_of(s->w, o->reg + 1u);
	if (form == FORM_B_CONST || form == FORM_C_CONST)
		return constant_of(s->m, o->reg, field(s, 38, 16) + 4);
	return 0;
}

uint64_t
operand_pair(const struct step *s, const struct operand *o, uint32_t lane)
{
	return (uint64_t)high_of(s, o, lane) << 32 | operand_of(s, o, lane);
}

uint32_t
operand_narrow(uint32_t width, uint32_t v)
{
	switch (width) {
	case 0:
		return v & 0xff;
	case 1:
		return (uint32_t)(int8_t)v;
	case 2:
		return v & 0xffff;
	case 3:
		return (uint32_t)(int16_t)v;
	default:
		return v;
	}
}

void
set_dest(struct step *s, uint32_t n, uint32_t lane, uint32_t v)
{
	const uint32_t r = field(s, 16, 8);

	if (step_is_uniform(s->i)) {
		if ((r & 63) != URZ)
			set_ureg(s->w, (r & 63) + n, v);
	} else if (r != SASS_RZ) {
		set_reg(s->w, r + n, lane, v);
	}
}

void
set_dest_pair(struct step *s, uint32_t lane, uint64_t v)
{
	set_dest(s, 0, lane, (uint32_t)v);
	set_dest(s, 1, lane, (uint32_t)(v >> 32));
}

bool
pred_in(const struct step *s, int at, int negate_at, uint32_t lane)
{
	const uint32_t p = field(s, at, 3);
	const uint32_t uniform = s->w->up;
	const uint32_t v = step_is_uniform(s->i) ? uniform >> p : s->w->p[p] >> lane;

	return (p == SASS_PT || (v & 1)) != bit(s, negate_at);
}

/* The one at bit 68: where bit 67 is set, of the uniform ones. */
bool
pred_third(const struct step *s, uint32_t lane)
{
	const uint32_t p = field(s, 68, 3);

	if (!bit(s, 67) || p == SASS_PT)
		return pred_in(s, 68, 71, lane);
	return (s->w->up >> p & 1) != bit(s, 71);
}

void
set_pred(const struct step *s, uint32_t p, uint32_t lane, bool v)
{
	if (p == SASS_PT)
		return;
	if (step_is_uniform(s->i))
		s->w->up = (uint8_t)((s->w->up & ~(1u << p)) | (uint32_t)v << p);
	else
		s->w->p[p] = (s->w->p[p] & ~(1u << lane)) | (uint32_t)v << lane;
}

/* ---- what has no function of its own --------------------------------------------------------- */
/* The word without guard, registers and control bits: two instructions that differ in them alone do the same.
 */
uint64_t
step_shape(const struct step *s)
{
	const int form = (int)field(s, 9, 3);
	const uint64_t registers = form == FORM_REG ? 0xffffff0000ull : 0xffff0000ull;
	const uint64_t lo = s->i->lo & ~(registers | 0xf000ull),
		       hi = s->i->hi & ((1ull << 41) - 1) & ~0xffull;

	return mix64(lo ^ mix64(hi));
}

static uint64_t
hash_uses(const struct step *s, uint32_t lane)
{
	const struct sass_set *u = &s->i->uses;
	uint64_t h = step_shape(s);

	for (uint32_t q = 0; q < 4; q++)
		for (uint64_t left = u->r[q]; left; left &= left - 1)
			h = mix64(h ^ reg_of(s->w, 64 * q + (uint32_t)__builtin_ctzll(left), lane));
	for (uint64_t left = u->u; left; left &= left - 1)
		h = mix64(h ^ ureg_of(s->w, (uint32_t)__builtin_ctzll(left)));
	for (uint32_t p = 0; p < 7; p++) {
		if (u->p >> p & 1)
			h = mix64(h ^ (2 | (s->w->p[p] >> lane & 1)));
		if (u->up >> p & 1)
			h = mix64(h ^ (4 | ((uint32_t)s->w->up >> p & 1)));
	}
	const int form = (int)field(s, 9, 3);

	if (form == FORM_B_CONST || form == FORM_C_CONST)
		h = mix64(h ^ special_at_32(s, form).value);
	return h;
}

void
step_hash(struct step *s)
{
	const struct sass_set *d = &s->i->defs;

	for (EACH_LANE(l, s)) {
		uint64_t h = hash_uses(s, l);

		for (uint32_t q = 0; q < 4; q++)
			for (uint64_t left = d->r[q]; left; left &= left - 1)
				set_reg(s->w, 64 * q + (uint32_t)__builtin_ctzll(left), l,
				    (uint32_t)(h = mix64(h)));
		for (uint64_t left = d->u; left; left &= left - 1)
			set_ureg(s->w, (uint32_t)__builtin_ctzll(left), (uint32_t)(h = mix64(h)));
		for (uint32_t p = 0; p < 7; p++) {
			if (d->p >> p & 1)
				s->w->p[p] = (s->w->p[p] & ~(1u << l)) | (uint32_t)((h = mix64(h)) & 1) << l;
			if (d->up >> p & 1)
				s->w->up = (uint8_t)((s->w->up & ~(1u << p)) | ((h = mix64(h)) & 1) << p);
		}
	}
}
