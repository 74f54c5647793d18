/* kernels/sass/legal.c: the rules' names, and those that two instructions alone decide.  Such a pair keeps
 * its order for good: whether an order is legal does not depend on the way to it. */
#include "sched_int.h"

enum {
	CODE_LDG = 0x181,
	CODE_STG = 0x186,
	CODE_LDGSTS = 0x1ae, /* shared address in Rd's place, global one in Ra's */
	CODE_CS2R = 0x005,
	NO_SPECIAL = 0xff,   /* SRZ, which is zero; the others are clocks and counters */
	FIRST_WHOLE_SM = 75, /* before, a product was four HMMA, its steps */
	ORDER_CONSTANT = 4,  /* .CONSTANT, from sm_80 on; weak: 0 */
	ORDER_STRONG_BIT = 8 /* before */
};

const char *
sass_rule_name(enum sass_rule r)
{
	static const char *const name[SASS_RULES] = {
	    "legal",
#define RULE(N, NAME, TEXT) [N] = "L" #N,
#include "legal.def"
#undef RULE
	};

	return name[r];
}

const char *
sass_rule_text(enum sass_rule r)
{
	static const char *const text[SASS_RULES] = {
	    "",
#define RULE(N, NAME, TEXT) [N] = TEXT,
#include "legal.def"
#undef RULE
	};

	return text[r];
}

/* ---- one instruction ----------------------------------------------------------------------------------- */
static bool
is_memory(const struct sass_instr *i)
{
	return i->flags & (SASS_LOAD | SASS_STORE);
}

static bool
is_empty(const struct sass_instr *i)
{
	return i->guard == SASS_PT && i->guard_negated;
}

static unsigned
sets(const struct sass_instr *i)
{
	unsigned m = 0;

	if (i->write_barrier < SASS_BARRIERS)
		m |= 1u << i->write_barrier;
	if (i->read_barrier < SASS_BARRIERS)
		m |= 1u << i->read_barrier;
	return m;
}

/* Bits 77..80 of an access to global memory: what is volatile, or ordered with other threads, never moves. */
static bool
is_strong(const struct sass_instr *i, int sm)
{
	const unsigned order = (unsigned)(i->hi >> 13) & 0xf;

	if (i->op->code != CODE_LDG && i->op->code != CODE_STG)
		return false;
	return sm >= 80 ? order != 0 && order != ORDER_CONSTANT : order & ORDER_STRONG_BIT;
}

bool
sass_is_wall(const struct sass_instr *i)
{
	if (i->flags & (SASS_WALL | SASS_BRANCH | SASS_ENDS | SASS_UNKNOWN))
		return true;
	return i->op->code == CODE_CS2R && ((i->hi >> 8) & 0xff) != NO_SPECIAL;
}

/* Rules for which an instruction never leaves its place, bit i for rule i. */
uint32_t
sass_fixed(const struct sass_instr *i, int sm)
{
	return (sass_is_wall(i) ? 1u << SASS_RULE_block : 0) | (is_empty(i) ? 1u << SASS_RULE_empty : 0) |
	    (i->is_pinned ? 1u << SASS_RULE_pinned : 0) | (is_strong(i, sm) ? 1u << SASS_RULE_memory : 0);
}

/* ---- memory -------------------------------------------------------------------------------------------- */
static bool
spaces_meet(enum sass_space a, enum sass_space b)
{
	if (a == SASS_NOWHERE || b == SASS_NOWHERE || a == SASS_CONSTANT || b == SASS_CONSTANT)
		return false;
	return a == b || a == SASS_ANYWHERE || b == SASS_ANYWHERE;
}

static int32_t
offset_of(const struct sass_instr *i)
{
	return (int32_t)((int64_t)i->lo >> 40);
}

/* The same base register, and constant offsets that keep them apart.  What else enters an address (scale,
 * uniform register) must be equal, so both are of one opcode and width. */
static bool
are_apart(const struct sass_instr *a, const struct sass_instr *b)
{
	const struct sass_instr *low = offset_of(a) <= offset_of(b) ? a : b, *high = low == a ? b : a;
	const uint64_t base = UINT64_C(0xff) << 24 | 0xe00, control = ~UINT64_C(0) << 41;

	if (a->op != b->op || ((a->lo ^ b->lo) & base) || ((a->hi ^ b->hi) & ~control) || !a->bytes)
		return false;
	return (int64_t)offset_of(low) + low->bytes <= offset_of(high);
}

/* An asynchronous copy is not ordered with what follows until it is waited for, and that wait is a wall: what
 * reads shared memory behind it without one does not mean its bytes. */
static bool
copy_meets(const struct sass_instr *a, const struct sass_instr *b)
{
	const bool both = a->op->code == CODE_LDGSTS && b->op->code == CODE_LDGSTS;
	const uint64_t destination = UINT64_C(0xff) << 16 | ~UINT64_C(0) << 44; /* Rd, offset */

	if (both)
		return !((a->lo ^ b->lo) & destination);
	if ((a->op->code == CODE_LDGSTS ? b : a)->flags & SASS_STORE)
		return true;
	return b->op->code == CODE_LDGSTS && spaces_meet(a->op->space, SASS_SHARED);
}

static bool
memory_meets(const struct sass_instr *a, const struct sass_instr *b)
{
	const uint32_t both = SASS_LOAD | SASS_STORE;

	if (!is_memory(a) || !is_memory(b) || !((a->flags | b->flags) & SASS_STORE))
		return false;
	if (a->op->code == CODE_LDGSTS || b->op->code == CODE_LDGSTS)
		return copy_meets(a, b);
	if ((a->flags & both) == both || (b->flags & both) == both)
		return true; /* atomics */
	return spaces_meet(a->op->space, b->op->space) && !are_apart(a, b);
}

/* ---- pairs --------------------------------------------------------------------------------------------- */
/* Without a barrier of its own: its results wait for the next one that sets a write barrier, its operands for
 * any later access to memory that sets one. */
static bool
covers(const struct sass_instr *a, const struct sass_instr *b)
{
	const bool is_bare = a->write_barrier == SASS_NO_BARRIER && a->read_barrier == SASS_NO_BARRIER;

	if (!(a->flags & SASS_VARIABLE) || !(b->flags & SASS_VARIABLE) || !sets(b))
		return false;
	if (a->write_barrier == SASS_NO_BARRIER && b->write_barrier != SASS_NO_BARRIER &&
	    !sass_set_is_empty(&a->defs))
		return true;
	return is_memory(a) && is_bare && !sass_set_is_empty(&a->uses);
}

/* Tells which rules a and b, a before b in the base, keep in order: bit i for rule i. */
uint32_t
sass_pair(const struct sass_instr *a, const struct sass_instr *b, int sm)
{
	uint32_t m = 0;

	if (sass_set_meets(&a->defs, &b->uses) || sass_set_meets(&a->uses, &b->defs) ||
	    sass_set_meets(&a->defs, &b->defs))
		m |= 1u << SASS_RULE_data;
	if ((sets(a) & b->wait) || (sets(b) & a->wait))
		m |= 1u << SASS_RULE_waits;
	if (sets(a) & sets(b))
		m |= 1u << SASS_RULE_sets;
	if (covers(a, b))
		m |= 1u << SASS_RULE_covers;
	if (memory_meets(a, b))
		m |= 1u << SASS_RULE_memory;
	if (sm < FIRST_WHOLE_SM && a->op->pipe == SASS_TENSOR && b->op->pipe == SASS_TENSOR)
		m |= 1u << SASS_RULE_steps;
	return m;
}
