/* kernels/sass/machine_hazard.h: what the judge of one instruction (machine_hazard.c) and the walk over all
 * paths (machine_walk.c) share. */
#ifndef KORCH_MACHINE_HAZARD_H
#define KORCH_MACHINE_HAZARD_H

#include "machine_int.h"

enum producer {
	P_ALU,
	P_FMA,
	P_HFMA2,
	P_MMA,
	P_MMA_SHORT,
	P_UNIFORM,
	P_UMOV,
	P_DOUBLE,
	P_PRED,
	P_FMA_PRED,
	P_UPRED,
	PRODUCERS
};
enum consumer { C_ALU, C_FMA, C_TENSOR, C_MEMORY, C_OTHER, C_UNIFORM, C_GUARD, C_WRITE, CONSUMERS, C_ANY };
enum queue { /* that return in order */
	QUEUE_NONE,
	QUEUE_SHARED, /* LDS, LDSM, SHFL, STS, ATOMS */
	QUEUE_XU,
	QUEUE_CONSTANT,
	QUEUE_DOUBLE,
	QUEUE_REDUX,
	QUEUE_READS, /* of all memory instructions their operands */
};
/* Registers of all files, one behind the other. */
enum { FILE_U = 256, FILE_P = 320, FILE_Q = 328, FILE_END = 336 };
enum { SET_TO_WAIT = 2, HALF_LATER = 2 };

/* A result on its way, or a read to come.  It is over when one of its barriers was waited for: its own or a
 * later one's of its queue.  Paths that meet may each have one, so this is a set of sets of barriers: bit s
 * of `terms` for the set s, each of which has to be over. */
struct pending {
	uint64_t terms;
	uint8_t queue; /* enum queue */
};
struct register_state {
	int16_t ready[CONSUMERS]; /* the cycle from which it can be used */
	struct pending write, read;
	uint32_t by, read_by; /* the last instruction that writes, that reads late */
};
struct state {
	struct register_state reg[FILE_END];
	int16_t settable[SASS_BARRIERS]; /* the cycle from which a barrier may be waited for */
	bool reached;
};
struct machine_flow {
	const struct sass_kernel *k;
	struct state *begin, *end; /* of each block; NULL: too many, or none */
	struct state now;
	struct machine_hazard first;
	uint32_t n;
	uint8_t *poisoned;
	uint64_t
	    *called; /* of each block: functions it may be part of, a bit for each block that is called */
	bool gave_up;
};

/* Checks the instruction and notes what it begins, `now` cycles behind the beginning of its block. */
void hazard_step(struct machine_flow *f, uint32_t at, int now);

#endif
