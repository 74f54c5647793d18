/* kernels/sass/machine_int.h: what the files of the interpreter share: warps, an instruction being executed,
 * memory. */
#ifndef KORCH_MACHINE_INT_H
#define KORCH_MACHINE_INT_H

#include "machine.h"

enum { LANES = 32, MACHINE_WARPS = 4, URZ = 63, ALL_LANES = -1 };

/* ---- memory (machine_store.c) ---------------------------------------------------------------- */
enum { SPACE_GLOBAL, SPACE_LOCAL, SPACE_SHARED, SPACE_CONSTANT };
/* A byte of shared memory, and who had it last. */
struct shared_byte {
	uint16_t wrote_at, read_at; /* barrier intervals */
	uint8_t value;
	uint8_t writer;   /* warp + 1 */
	uint8_t readers;  /* warps, in the interval read_at */
	uint16_t flights; /* copies on their way to it */
	bool written;
};
enum {
	SHARED_BYTES = 1 << 18,
	PAGE_BYTES = 1 << 10,
	CELLS_MAX = 1 << 18,
	MACHINE_STEPS = 1 << 20,
	FLIGHTS_MAX = 1 << 14
};
struct cell { /* a word of global or local memory that was written; address 0 is kept as written too */
	uint64_t key;
	uint32_t value;
	bool used;
};
struct store {
	struct arena *a;
	struct shared_byte *page[SHARED_BYTES / PAGE_BYTES];
	struct cell *cell;
	uint32_t n_cells, cap_cells; /* cap: a power of two */
	uint64_t seed, loaded_mask;
	bool full;
};
uint32_t store_word(const struct store *m, uint64_t key);
void store_put(struct store *m, uint64_t key, uint32_t value);
struct shared_byte *store_shared(struct store *m, uint32_t at);
uint8_t store_shared_fresh(const struct store *m, uint32_t at);
uint64_t store_digest(const struct store *m);

/* ---- warps ----------------------------------------------------------------------------------- */
struct flight { /* bytes of an asynchronous copy of a lane */
	uint64_t from;
	uint32_t to, group;
	uint8_t bytes, kept; /* kept: of them that are read; the others are 0 */
	uint8_t lane;
};
enum lane_state { LANE_RUNS, LANE_JOINS, LANE_AT_BARRIER, LANE_ENDED };
struct warp {
	uint32_t r[256][LANES];
	uint32_t p[8]; /* a bit a lane; p[7]: all */
	uint32_t u[64];
	uint8_t up; /* bit 7: always */
	uint32_t pc[LANES];
	uint8_t state[LANES];
	uint32_t joins[16];  /* convergence barriers: lanes that will meet, */
	int32_t join_at[16]; /* and where; -1: behind the instruction */
	uint8_t join_of[LANES];
	uint32_t interval;
	uint32_t *taken;              /* of each instruction: how often it branched back */
	uint32_t groups, groups_done; /* of asynchronous copies */
	struct flight *flight;
	uint32_t n_flights, cap_flights;
	uint8_t number; /* among those that are run */
	uint32_t id;    /* in the block */
};
struct machine {
	struct arena *a;
	const struct sass_kernel *k;
	const struct machine_hazards *hazards;
	const struct machine_input *in;
	struct machine_trace *out;
	struct store store;
	struct warp *warp;
	const struct machine_op **op; /* of each instruction; NULL: not met yet */
	uint8_t *visited;
	uint32_t param_base;
};

/* ---- an instruction being executed ----------------------------------------------------------- */
enum operand_kind { OPERAND_ZERO, OPERAND_REG, OPERAND_IMM, OPERAND_UREG };
struct operand { /* an immediate, a constant: their value */
	enum operand_kind kind;
	uint8_t reg;
	uint32_t value;
	bool minus; /* its sign bit in the word: what it means is the operation's */
	bool magnitude;
};
struct step {
	struct machine *m;
	struct warp *w;
	const struct sass_instr *i;
	uint32_t at;
	uint32_t lanes; /* that execute it: active, and their guard holds */
	uint32_t active;
	struct operand a, b, c;
	const char *unknown; /* why this cannot be executed */
};
struct machine_op {
	uint16_t code; /* low nine bits */
	void (*run)(struct step *s);
};
/* NULL: none of its own. */
const struct machine_op *machine_op_of(const struct sass_instr *i, int sm);

static inline uint32_t
next_lane(const struct step *s, uint32_t from)
{
	const uint32_t left = from >= LANES ? 0 : s->lanes & ~0u << from;

	return left ? (uint32_t)__builtin_ctz(left) : LANES;
}
/* for (EACH_LANE(l, s)): those that execute it */
#define EACH_LANE(l, s)                                                                                      \
	uint32_t l = next_lane((s), 0);                                                                      \
	l < LANES;                                                                                           \
	l = next_lane((s), l + 1)

static inline uint64_t
field_of(const struct sass_instr *i, int first, int n)
{
	const uint64_t v =
	    first >= 64 ? i->hi >> (first - 64) : i->lo >> first | (first ? i->hi << (64 - first) : 0);

	return n >= 64 ? v : v & (((uint64_t)1 << n) - 1);
}
static inline uint32_t
field(const struct step *s, int first, int n)
{
	return (uint32_t)field_of(s->i, first, n);
}
static inline bool
bit(const struct step *s, int at)
{
	return field_of(s->i, at, 1) != 0;
}
static inline int32_t
signed_field(const struct step *s, int first, int n)
{
	return (int32_t)(field(s, first, n) << (32 - n)) >> (32 - n);
}
static inline uint32_t
reg_of(const struct warp *w, uint32_t r, uint32_t lane)
{
	return r >= SASS_RZ ? 0 : w->r[r][lane];
}
static inline void
set_reg(struct warp *w, uint32_t r, uint32_t lane, uint32_t v)
{
	if (r < SASS_RZ)
		w->r[r][lane] = v;
}
static inline uint32_t
ureg_of(const struct warp *w, uint32_t r)
{
	return r >= URZ ? 0 : w->u[r];
}
static inline void
set_ureg(struct warp *w, uint32_t r, uint32_t v)
{
	if (r < URZ)
		w->u[r] = v;
}
uint32_t operand_of(const struct step *s, const struct operand *o, uint32_t lane);
uint64_t operand_pair(const struct step *s, const struct operand *o, uint32_t lane);
/* What a load or store of `width` (bits 73..75: 8 or 16 bits, without or with sign, or whole words) makes of
 * a word. */
uint32_t operand_narrow(uint32_t width, uint32_t v);
/* The instruction's destination, `n` registers behind its first. */
void set_dest(struct step *s, uint32_t n, uint32_t lane, uint32_t v);
void set_dest_pair(struct step *s, uint32_t lane, uint64_t v);
/* A predicate with its sign (`at`: of its three bits, the fourth negates), in a lane. */
bool pred_in(const struct step *s, int at, int negate_at, uint32_t lane);
bool pred_third(const struct step *s, uint32_t lane);
void set_pred(const struct step *s, uint32_t p, uint32_t lane, bool v);
/* The word of bank `bank` at a byte offset. */
uint32_t constant_of(const struct machine *m, uint32_t bank, uint32_t offset);
void machine_fetch(struct step *s); /* operands a, b, c by the instruction's form */
/* A digest of the operation apart from its registers and control bits. */
uint64_t step_shape(const struct step *s);
bool step_is_uniform(const struct sass_instr *i);
void step_hash(struct step *s); /* each register that it defines: a hash of those that it uses */

void trace_add(struct step *s, uint32_t lane, uint32_t kind, uint64_t at, uint64_t value);
void trace_race(struct step *s);

/* Lanes that run at one place; 0: none runs. */
uint32_t warp_front(struct warp *w, uint32_t *at);
void warp_jump(struct step *s, uint32_t lanes, int64_t to);
/* Copies that were committed: all but the newest `left` groups land. */
void flights_land(struct step *s, uint32_t left);

/* ---- operations, by file: rows of machine_op.def --------------------------------------------- */
#define MACHINE_OP(CODE, FUNCTION) void FUNCTION(struct step *s);
#include "machine_op.def"
#undef MACHINE_OP

#endif
