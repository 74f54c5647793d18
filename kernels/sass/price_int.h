/* kernels/sass/price_int.h: the price of machine code from inside: what an instruction costs (price.c) and
 * how warps go through such (simulate.c).  For these alone. */
#ifndef KORCH_SASS_PRICE_INT_H
#define KORCH_SASS_PRICE_INT_H

#include "price.h"

enum { SASS_MANY_WARPS = 8 }; /* more than these even each other out */
enum { SASS_TICK = 1 << 10 }; /* of a cycle: times are whole numbers, equal on every machine */

enum sass_step_kind {
	STEP_PLAIN,
	STEP_BARRIER,    /* waits for all warps of its block */
	STEP_COPY,       /* shared memory is written some time: one of a group */
	STEP_GROUP_ENDS, /* of copies */
	STEP_GROUP_WAITS,
	STEP_MMA, /* runs beside the warp */
	STEP_MMA_WAITS,
};
/* An instruction as the simulation sees it. */
struct sass_step {
	int64_t cost[2]; /* ticks of unit[0] and unit[1] */
	int64_t latency; /* ticks behind its units until the result is there */
	uint8_t unit[2]; /* SASS_UNIT_NONE: one unit, or none */
	uint8_t gate[2]; /* the queues that must have room */
	uint8_t kind, stall, write_barrier, read_barrier, wait;
	uint8_t left; /* groups that may still be under way behind a wait */
};
/* A queue before each unit, and a longer one for what runs beside the warp. */
enum { GATE_DEEP = SASS_UNITS, GATES };

struct sass_rate {
	int sm;
	double fma, imad, alu, half, xu, uniform, dbl, l2, mma, sync;
};
const struct sass_rate *sass_rate_of(int sm); /* NULL: not known */
void sass_step_make(
    const struct sass_instr *i, const struct sass_rate *r, const struct sass_load *l, struct sass_step *out);

/* Cycles of one turn in steady state; cycles of a single turn, cold, to its end. */
double sass_simulate(const struct sass_step *steps, uint32_t n, const struct sass_load *l, double limit);
double sass_simulate_once(const struct sass_step *steps, uint32_t n, const struct sass_load *l);

/* A loop that has long been turning, whose steps change a little from one question to the next (steady.c).
 * `steps` are read at each call; `fold`: cycles that an instruction takes to issue, where each warp stands
 * for so many. */
struct sass_steady;
struct sass_steady *sass_steady_make(
    struct arena *a, const struct sass_step *steps, uint32_t n, const struct sass_load *l, double fold);
uint64_t sass_steady_part(const struct sass_steady *y, uint32_t place);
/* Cycles of a turn; changed: the parts whose steps are others than those of what was taken last.  INFINITY:
 * far above `limit`, and this is not to be taken. */
double sass_steady_ask(struct sass_steady *y, uint64_t changed, double limit);
void sass_steady_take(struct sass_steady *y); /* what was asked last */

#endif
