/* kernels/sass/decode.c: one word as an instruction, by the table of opcodes. */
#include "decode.h"

#include <stdio.h>
#include <string.h>

enum {
	FIRST_SM = 70,
	LAST_SM = 90,
	RZ = SASS_RZ,
	URZ = 63,
	PT = SASS_PT,
	DESCRIPTOR = 2, /* uniform registers that it takes */
};

struct row {
	struct sass_op op;
	int from, to; /* architectures */
	const char *operands;
};
static const struct row rows[] = {
#define SASS_OP(NAME, CODE, FROM, TO, PIPE, SPACE, FLAGS, OPERANDS)                                          \
	{{NAME, CODE, SASS_##PIPE, SASS_##SPACE, FLAGS}, FROM, TO, OPERANDS},
#include "sass_op.def"
#undef SASS_OP
};
static const struct row unknown = {
    {"?", 0, SASS_NONE, SASS_ANYWHERE, SASS_WALL | SASS_UNKNOWN}, FIRST_SM, LAST_SM, "*"};

/* ---- sets ---------------------------------------------------------------------------------------- */
bool
sass_set_meets(const struct sass_set *a, const struct sass_set *b)
{
	return (a->r[0] & b->r[0]) | (a->r[1] & b->r[1]) | (a->r[2] & b->r[2]) | (a->r[3] & b->r[3]) |
	    (a->u & b->u) | (uint64_t)(a->p & b->p) | (uint64_t)(a->up & b->up);
}

bool
sass_set_is_empty(const struct sass_set *a)
{
	return !(a->r[0] | a->r[1] | a->r[2] | a->r[3] | a->u | a->p | a->up);
}

void
sass_set_join(struct sass_set *a, const struct sass_set *b)
{
	for (int i = 0; i < 4; i++)
		a->r[i] |= b->r[i];
	a->u |= b->u;
	a->p |= b->p;
	a->up |= b->up;
}

const struct sass_set sass_everything = {
    .r = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX >> 1}, .u = UINT64_MAX >> 1, .p = 0x7f, .up = 0x7f};

void
sass_add_registers(struct sass_set *s, uint32_t first, uint32_t n)
{
	for (uint32_t r = first; r < first + n && r < RZ; r++)
		s->r[r >> 6] |= (uint64_t)1 << (r & 63);
}

void
sass_add_uniform(struct sass_set *s, uint32_t first, uint32_t n)
{
	for (uint32_t r = first; r < first + n && r < URZ; r++)
		s->u |= (uint64_t)1 << r;
}

/* ---- fields ---------------------------------------------------------------------------------------------
 */
uint32_t
sass_field(const struct sass_instr *i, int first, int n)
{
	const uint64_t low = first >= 64 ? 0 : i->lo >> first;
	const uint64_t high = first >= 64 ? i->hi >> (first - 64) : first ? i->hi << (64 - first) : 0;

	return (uint32_t)((low | high) & (((uint64_t)1 << n) - 1));
}

static uint32_t
form_of(const struct sass_instr *i)
{
	return sass_field(i, 9, 3);
}

/* Where a source stands: a bit, or nowhere for an immediate or a constant. */
enum { NOT_THERE = -1, AT_B = 32, AT_C = 64 };
struct slot {
	int at;
	bool is_uniform;
};
static const struct slot none = {NOT_THERE, false}, b_register = {AT_B, false}, c_register = {AT_C, false},
			 b_uniform = {AT_B, true};

/* Form:                           0  1  2  3  4  5  6  7 */
static struct slot
second_source(uint32_t form)
{
	return form == 1 ? b_register : form == 6 ? b_uniform : form == 4 || form == 5 ? none : c_register;
}

static struct slot
third_source(uint32_t form)
{
	return form == 7 ? b_uniform : form == 2 || form == 3 ? none : c_register;
}

static struct slot
only_as_third(uint32_t form)
{
	return form == 1 ? b_register : form == 7 ? b_uniform : none;
}

static struct slot
slot_of(char place, uint32_t form)
{
	switch (place) {
	case 'd':
	case 'D':
		return (struct slot){16, false};
	case 'a':
		return (struct slot){24, false};
	case 'b':
		return second_source(form);
	case 'c':
		return third_source(form);
	case 'k':
		return only_as_third(form);
	case 'z':
		return form == 1 ? c_register : b_register;
	case 'x':
		return form == 1 || form == 2 ? b_register : none;
	case 'y':
		return form == 1 || form == 4 ? c_register : none;
	case 'B':
		return b_register;
	case 'C':
		return c_register;
	default:
		return none;
	}
}

/* ---- operands -------------------------------------------------------------------------------------------
 */
/* By bits 73..75: u8 s8 u16 s16 32 64 128 */
static const uint8_t width_bytes[8] = {1, 1, 2, 2, 4, 8, 16, 16};

/* u32 s32 u64 f32 f16x2 s64 f64, f64 too from sm_90 on */
static const uint8_t atomic_registers[8] = {1, 1, 2, 1, 1, 2, 2, 2};

static uint32_t
registers_of(const struct sass_instr *i, char width)
{
	switch (width) {
	case '2':
	case '4':
		return (uint32_t)(width - '0');
	case 'w':
		return ((uint32_t)width_bytes[sass_field(i, 73, 3)] + 3) / 4;
	case 'g':
		return 1U << MIN_OF(sass_field(i, 72, 2), 2U);
	case 'a':
		return atomic_registers[sass_field(i, 73, 3)];
	case 't':
		return sass_field(i, 75, 2) == 3 ? 2 : 1;
	case 'f':
		return sass_field(i, 84, 2) == 3 ? 2 : 1;
	case 'v':
		return sass_field(i, 80, 1) ? 2 : 1;
	default:
		return 1;
	}
}

static void
add_slot(struct sass_instr *i, struct slot s, bool is_written, uint32_t n)
{
	struct sass_set *set = is_written ? &i->defs : &i->uses;

	if (s.at == NOT_THERE)
		return;
	if (s.is_uniform)
		sass_add_uniform(set, sass_field(i, s.at, 6), n);
	else
		sass_add_registers(set, sass_field(i, s.at, 8), n);
}

static void
add_predicate(struct sass_set *s, bool is_uniform, uint32_t p)
{
	if (p == PT)
		return;
	if (is_uniform)
		s->up |= (uint8_t)(1U << p);
	else
		s->p |= (uint8_t)(1U << p);
}

/* Bit 91 says that the address has a uniform part, bit 90 that the register is 64 bits wide beside it. */
static void
add_address(struct sass_instr *i, const struct sass_op *op)
{
	const bool has_uniform = sass_field(i, 91, 1),
		   is_atomic = op->flags & SASS_LOAD && op->flags & SASS_STORE;
	const bool is_wide = op->space == SASS_GLOBAL || op->space == SASS_ANYWHERE;
	const bool is_long = is_wide && sass_field(i, has_uniform && !is_atomic ? 90 : 72, 1);

	sass_add_registers(&i->uses, sass_field(i, 24, 8), is_long ? 2 : 1);
	if (has_uniform)
		sass_add_uniform(&i->uses, sass_field(i, op->flags & SASS_STORE ? AT_C : AT_B, 6),
		    is_wide ? DESCRIPTOR : 1);
}

static void
add_copy_address(struct sass_instr *i)
{
	sass_add_registers(&i->uses, sass_field(i, 24, 8), 2);
	if (sass_field(i, 91, 1))
		sass_add_uniform(&i->uses, sass_field(i, AT_C, 6), DESCRIPTOR);
}

/* Bytes from the next instruction on: a signed number of quarters in bits 34..81, with eight more below it in
 * bits 16..23 from sm_90 on. */
static int64_t
offset_of(const struct sass_instr *i, bool has_low)
{
	int64_t v = (int64_t)((i->hi & 0x3ffff) << 46 | i->lo >> 34 << 16) >> 16;

	return (has_low ? v * 256 + (int64_t)sass_field(i, 16, 8) : v) * 4;
}

static int32_t
target_of(int64_t offset, uint32_t at, uint32_t n)
{
	const int64_t to = offset % SASS_BYTES ? -1 : (int64_t)at + 1 + offset / SASS_BYTES;

	return to < 0 || to >= (int64_t)n ? -1 : (int32_t)to;
}

struct place {
	uint32_t at, n;
	int sm;
};

void
sass_make_unknown(struct sass_instr *i)
{
	i->flags |= SASS_WALL | SASS_UNKNOWN;
	i->defs = i->uses = sass_everything;
}

static void
add_operand(struct sass_instr *i, const struct sass_op *op, bool is_uniform, char place, char width,
    const struct place *where)
{
	struct slot s = slot_of(place, form_of(i));

	switch (place) {
	case 'p':
	case 'q':
		add_predicate(&i->defs, is_uniform, sass_field(i, place == 'p' ? 81 : 84, 3));
		break;
	case 's':
	case 't':
		add_predicate(&i->uses, is_uniform, sass_field(i, place == 's' ? 87 : 77, 3));
		break;
	case 'r':
		add_predicate(&i->uses, is_uniform || sass_field(i, 67, 1), sass_field(i, 68, 3));
		break;
	case 'm':
	case 'M':
		(place == 'm' ? &i->uses : &i->defs)->p |=
		    (uint8_t)(form_of(i) == 4 ? sass_field(i, AT_B, 7) : 0x7f);
		break;
	case 'R':
		if (sass_field(i, 78, 1))
			add_predicate(&i->uses, false, sass_field(i, 87, 3));
		break;
	case 'U':
		if (sass_field(i, 91, 1))
			sass_add_uniform(&i->uses, sass_field(i, 24, 6), 1);
		break;
	case 'A':
		add_address(i, op);
		break;
	case 'L':
		add_copy_address(i);
		break;
	case 'h':
		if (!sass_add_mma(i, op->code))
			sass_make_unknown(i);
		break;
	case '*':
		sass_set_join(&i->defs, &sass_everything);
		sass_set_join(&i->uses, &sass_everything);
		break;
	case 'j':
	case 'J':
		i->target = target_of(offset_of(i, where->sm >= 90 && place == 'j'), where->at, where->n);
		break;
	default:
		s.is_uniform |= is_uniform && s.at != NOT_THERE;
		add_slot(i, s, place == 'd', registers_of(i, width));
	}
}

static void
add_operands(struct sass_instr *i, const struct row *row, const struct place *where)
{
	for (const char *t = row->operands; *t; t++) {
		const bool is_uniform = *t == 'u';

		t += is_uniform;
		const char place = *t, width = t[1] && t[1] != ' ' ? t[1] : 0;

		add_operand(i, &row->op, is_uniform, place, width, where);
		t += width != 0;
		t += t[1] == ' ';
	}
}

/* ---- rows ------------------------------------------------------------------------------------------------
 */
static const struct row *
row_of(uint32_t code, int sm)
{
	for (uint32_t k = 0; k < COUNT_OF(rows); k++)
		if (rows[k].op.code == code && sm >= rows[k].from && sm <= rows[k].to)
			return &rows[k];
	return &unknown;
}

static void
read_control(struct sass_instr *i)
{
	i->stall = (uint8_t)sass_field(i, 105, 4);
	i->yields = !sass_field(i, 109, 1);
	i->write_barrier = (uint8_t)sass_field(i, 110, 3);
	i->read_barrier = (uint8_t)sass_field(i, 113, 3);
	i->wait = (uint8_t)sass_field(i, 116, 6);
	i->reuse = (uint8_t)sass_field(i, 122, 4);
}

static void
add_guard(struct sass_instr *i, bool is_uniform)
{
	i->guard = (uint8_t)sass_field(i, 12, 3);
	i->guard_negated = sass_field(i, 15, 1);
	if (i->guard != PT || i->guard_negated)
		sass_set_join(&i->uses, &i->defs);
	add_predicate(&i->uses, is_uniform, i->guard);
}

static uint16_t
bytes_of(const struct sass_instr *i, const char *operands)
{
	const bool is_matrix = strncmp(operands, "dg", 2) == 0;

	if (!(i->flags & (SASS_LOAD | SASS_STORE)))
		return 0;
	return is_matrix ? (uint16_t)(4 * registers_of(i, 'g')) : width_bytes[sass_field(i, 73, 3)];
}

void
sass_decode(uint64_t lo, uint64_t hi, int sm, uint32_t at, uint32_t n, struct sass_instr *out)
{
	*out = (struct sass_instr){.lo = lo, .hi = hi, .target = -1};
	const struct row *row = row_of(sass_field(out, 0, 9), sm);
	const struct place where = {at, n, sm};

	out->op = &row->op;
	out->flags = row->op.flags;
	read_control(out);
	add_operands(out, row, &where);
	add_guard(out, row->op.pipe == SASS_UNIFORM || row->operands[0] == 'G');
	out->bytes = bytes_of(out, row->operands);
}

void
sass_print_control(char out[32], const struct sass_instr *i)
{
	char wait[SASS_BARRIERS + 1] = "------", none_is[2][3] = {"R-", "W-"};

	for (int b = 0; b < SASS_BARRIERS; b++)
		if (i->wait >> b & 1)
			wait[b] = (char)('0' + b);
	if (i->read_barrier != SASS_NO_BARRIER)
		none_is[0][1] = (char)('0' + i->read_barrier);
	if (i->write_barrier != SASS_NO_BARRIER)
		none_is[1][1] = (char)('0' + i->write_barrier);
	(void)snprintf(out, 32, "B%s %s %s %c S%02u", wait, none_is[0], none_is[1], i->yields ? 'Y' : '-',
	    (unsigned)i->stall);
}
