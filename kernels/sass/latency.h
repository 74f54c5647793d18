/* kernels/sass/latency.h: distances in issue cycles that ptxas keeps between two instructions, the smallest
 * seen (latency.def, made by bench-sip --learn from finished kernels). */
#ifndef KORCH_SASS_LATENCY_H
#define KORCH_SASS_LATENCY_H

#include "sass.h"

enum {
	SASS_FAR = 64,      /* at this distance every fixed latency has passed */
	SASS_UNSEEN = 0,    /* that pair is not in the table */
	SASS_QUEUE_FAR = 16 /* at this distance an instruction does not meet another one of its pipe */
};
enum sass_lat_kind {
	SASS_LAT_raw,  /* the second reads what the first writes */
	SASS_LAT_war,  /* the second writes what the first reads */
	SASS_LAT_waw,  /* both write it */
	SASS_LAT_pipe, /* one pipe, and no third one of it stands between them */
	SASS_LAT_KINDS
};
/* Where the reader has the register: its place in the word, or what it is. */
enum sass_slot {
	SASS_SLOT_none,
	SASS_SLOT_a,
	SASS_SLOT_b,
	SASS_SLOT_c,
	SASS_SLOT_d,
	SASS_SLOT_guard,
	SASS_SLOT_predicate,
	SASS_SLOT_uniform,
	SASS_SLOT_upredicate
};

/* Registers of all kinds under one number. */
enum { SASS_R = 0, SASS_U = 256, SASS_P = 320, SASS_UP = 328, SASS_RESOURCES = 336 };
/* Ends at SASS_RESOURCES. */
uint32_t sass_set_next(const struct sass_set *s, uint32_t from);
#define SASS_SET_EACH(R, S)                                                                                  \
	for (uint32_t R = sass_set_next((S), 0); R < SASS_RESOURCES; R = sass_set_next((S), R + 1))

/* Whose queue it enters: integers multiplied share the pipe of floats. */
static inline enum sass_pipe
sass_queue(const struct sass_instr *i)
{
	return i->op->pipe == SASS_IMAD ? SASS_FMA : i->op->pipe;
}
/* What of an instruction decides its latency: opcode, and a tensor core's shape. */
uint16_t sass_lat_key(const struct sass_instr *i);
/* One instruction behind another, tied by a register.  Registers of a wide result come one after the other,
 * those of a wide operand are read so: `part` is four times the register's number in the first's, and that in
 * the second's. */
struct sass_tie {
	uint16_t first, second; /* keys */
	uint8_t kind, slot, part;
};
enum { SASS_TIES = 4 };
/* What the tie may be, more than one where the word does not tell; how many. */
uint32_t sass_ties(const struct sass_instr *first, const struct sass_instr *second, enum sass_lat_kind kind,
    uint32_t resource, struct sass_tie out[SASS_TIES]);
/* Of two instructions in one block; SASS_UNSEEN where one of the ties is not in the table. */
uint32_t sass_lat(int sm, const struct sass_instr *first, const struct sass_instr *second,
    enum sass_lat_kind kind, uint32_t resource);
/* Stall counts that ptxas writes with that yield bit (bit i for count i), and the least with an opcode. */
uint32_t sass_stalls(int sm, bool yields);
uint32_t sass_least_stall(int sm, uint16_t key);

/* ---- dependences of one block ------------------------------------------------------------------------- */
/* Every pair that follows from a register's last writer or last readers, or from the order in a pipe.
 * `cycles`: between their issues. */
struct sass_dep {
	uint32_t first, second; /* instructions */
	uint32_t cycles;
	enum sass_lat_kind kind;
	uint32_t resource; /* of SASS_LAT_pipe: none */
	bool keeps;        /* the reader reads, or only keeps, what its guard may leave as it was */
};
typedef void sass_dep_fn(void *self, const struct sass_dep *d);
void sass_deps_each(const struct sass_kernel *k, const struct sass_block *b, sass_dep_fn *each, void *self);
/* Issue cycles that an instruction takes. */
static inline uint32_t
sass_cycles(const struct sass_instr *i)
{
	return i->stall ? i->stall : 1;
}

#endif
