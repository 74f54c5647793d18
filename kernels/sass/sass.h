/* kernels/sass/sass.h: machine code of NVIDIA GPUs (Volta to Hopper) decoded: what each instruction reads and
 * writes, its control bits, blocks, loops.  No disassembler is needed; what the table of opcodes
 * (sass_op.def) does not know is a wall: it touches everything, nothing moves over it, and its price is an
 * issue slot. */
#ifndef KORCH_SASS_H
#define KORCH_SASS_H

#include "../base/base.h"

enum { SASS_RZ = 255, SASS_PT = 7, SASS_NO_BARRIER = 7, SASS_BARRIERS = 6, SASS_BYTES = 16 };

/* Registers: R0..R254, UR0..UR62, P0..P6, UP0..UP6; RZ, PT and their like are in no set. */
struct sass_set {
	uint64_t r[4], u;
	uint8_t p, up;
};
bool sass_set_meets(const struct sass_set *a, const struct sass_set *b);
bool sass_set_is_empty(const struct sass_set *a);
void sass_set_join(struct sass_set *a, const struct sass_set *b);

/* Where an instruction is worked on; its rate by architecture is sm_rate.def's. */
enum sass_pipe {
	SASS_NONE, /* issue alone: branches, barriers, NOP, S2R */
	SASS_FMA,
	SASS_IMAD, /* the FMA pipe at the rate of integers */
	SASS_ALU,
	SASS_HALF,
	SASS_XU,
	SASS_UNIFORM,
	SASS_TENSOR,
	SASS_MEMORY, /* loads, stores, shuffles: one queue, in order */
	SASS_DOUBLE,
	SASS_PIPES
};
enum sass_space { SASS_NOWHERE, SASS_GLOBAL, SASS_SHARED, SASS_LOCAL, SASS_CONSTANT, SASS_ANYWHERE };

enum sass_flag {
	SASS_WALL = 1 << 0,     /* nothing may be moved over it */
	SASS_VARIABLE = 1 << 1, /* its latency is not fixed: it is waited for by a barrier */
	SASS_LOAD = 1 << 2,
	SASS_STORE = 1 << 3,
	SASS_BRANCH = 1 << 4, /* `target` is where it may go */
	SASS_ENDS = 1 << 5,   /* the instruction behind it begins a block */
	SASS_REUSES = 1 << 6, /* bits 122..124 are known to be reuse flags */
	SASS_UNKNOWN = 1 << 7
};

struct sass_op {          /* a row of sass_op.def */
	const char *name; /* without modifiers: "LDG" */
	uint16_t code;    /* low nine bits */
	enum sass_pipe pipe;
	enum sass_space space; /* that it loads from or stores to */
	uint32_t flags;
};

struct sass_instr {
	uint64_t lo, hi; /* the word */
	const struct sass_op *op;
	struct sass_set defs;
	struct sass_set
	    uses;       /* the guard among them; a guarded write also uses what it may leave as it was */
	uint32_t flags; /* of the row and of this instruction's modifiers */
	int32_t target; /* of a branch: index of an instruction, -1: none, or unknown */
	uint16_t bytes; /* memory: that a lane moves (LDSM: its share of the matrices) */
	uint8_t guard;  /* 0..7, 7: PT */
	bool guard_negated;
	uint8_t stall, write_barrier, read_barrier, wait, reuse;
	bool yields;
	bool is_pinned; /* its offset stands in .nv.info or a relocation */
	/* tensor cores: multiply-adds of the warp, inputs' kind */
	uint16_t mma_m, mma_n, mma_k;
	uint8_t mma_bits; /* of an input's element: 16, 32 (TF32), 8, 4, 64; 0: no MMA */
};

struct sass_block { /* instructions [first, end) */
	uint32_t first, end;
	uint32_t next[2]; /* numbers of blocks */
	uint32_t n_next;  /* an indirect branch or a call: 0, and leaves_unknown */
	bool leaves_unknown;
};
struct sass_loop { /* a backward branch: [first, last], last is the branch */
	uint32_t first, last;
};
struct sass_kernel {
	const char *name;
	int sm;
	struct sass_instr *instr;
	uint32_t n_instr;
	uint64_t at; /* of its first instruction in the cubin */
	struct sass_block *block;
	uint32_t n_blocks;
	struct sass_loop *loop; /* shortest first */
	uint32_t n_loops;
};

/* The kernel of that name (`.text.NAME`), in the arena; ERR_FORMAT naming what is wrong.  Any bytes. */
bool sass_read(
    struct arena *a, struct bytes cubin, const char *name, struct sass_kernel *out, struct err *e) MUST_CHECK;
/* The names of its kernels, in the order of its sections. */
bool sass_names(
    struct arena *a, struct bytes cubin, const char *const **out, uint32_t *n, struct err *e) MUST_CHECK;
/* One word; `at`: its index, `n`: of how many (targets outside are unknown). */
void sass_decode(uint64_t lo, uint64_t hi, int sm, uint32_t at, uint32_t n, struct sass_instr *out);
/* The innermost loop with most of the tensor cores' work; where there is none, of all work.  NULL: no loop.
 */
const struct sass_loop *sass_hot(const struct sass_kernel *k);
/* The block that holds the instruction. */
const struct sass_block *sass_block_of(const struct sass_kernel *k, uint32_t at);
/* Control bits as assemblers print them: "B--2--- R- W1 Y S04". */
void sass_print_control(char out[32], const struct sass_instr *i);

/* ---- what is under way (flow.c) --------------------------------------------------------------------- */
/* Before an instruction, for each register, bit i for barrier i, joined over all paths through the kernel.
 * `writes`: barriers that guard it because a load will still write it; each of them is to be waited for.  A
 *   load without a barrier of its own is guarded by the next one of its unit that has one.
 * `reads`: barriers that guard it because an instruction will still read it; waiting for one of them is
 * enough. Memory instructions take their operands in order: each barrier, of either kind, that a later one
 * sets guards those of all before it, and ptxas relies on each of these.  No memory instruction waits for
 * another's operands. */
struct sass_guards {
	uint8_t writes[256], reads[256];
	uint8_t uniform_writes[64], uniform_reads[64];
	uint8_t predicate_writes[8], predicate_reads[8];
};
struct sass_flow; /* states at the beginnings of all blocks */
struct sass_flow *sass_flow(struct arena *a, const struct sass_kernel *k);
void sass_guards_before(const struct sass_flow *f, uint32_t at, struct sass_guards *out);
/* The same for every instruction of a block in turn: the registers that each barrier guards. */
typedef void sass_pending_fn(void *self, uint32_t at, const struct sass_set writes[SASS_BARRIERS],
    const struct sass_set reads[SASS_BARRIERS]);
void sass_flow_each(const struct sass_flow *f, const struct sass_block *b, sass_pending_fn *each, void *self);

#endif
