/* kernels/sass/price.h: what machine code costs on one quarter of a multiprocessor, without a device: a bound
 * that no run of these instructions beats, and the cycles that an in-order simulation of its warps takes.
 * Every figure is a function of the bytes and of sm_rate.def alone: two runs are equal. */
#ifndef KORCH_SASS_PRICE_H
#define KORCH_SASS_PRICE_H

#include "sass.h"

/* What runs side by side on the quarter, and what is known of its shared memory. */
struct sass_load {
	uint32_t warps;  /* 1 .. SASS_PRICE_WARPS */
	uint32_t blocks; /* that these warps belong to, 1 .. warps: each has barriers of its own */
	/* bank conflicts: times that a word takes longer, of LDS, LDSM, STS and LDGSTS; 0: 1, none */
	double load, matrix, store, copy;
};
enum { SASS_PRICE_WARPS = 16 };
/* Are there rates for this architecture?  Where not, nothing below may be asked. */
bool sass_price_knows(int sm);

enum sass_unit { /* what an instruction occupies, beside its issue slot */
	SASS_UNIT_NONE,
	SASS_UNIT_FMA,
	SASS_UNIT_ALU,
	SASS_UNIT_HALF,
	SASS_UNIT_XU,
	SASS_UNIT_UNIFORM,
	SASS_UNIT_TENSOR,
	SASS_UNIT_MEMORY, /* wavefronts of loads, stores, shuffles */
	SASS_UNIT_L2,     /* bytes to and from beyond the first cache */
	SASS_UNIT_DOUBLE,
	SASS_UNITS
};
const char *sass_unit_name(enum sass_unit u); /* "fma"; SASS_UNIT_NONE: "issue" */

/* Cycles of the quarter for all warps to go once through a piece of code. */
struct sass_bounds {
	double unit[SASS_UNITS]; /* [SASS_UNIT_NONE]: issue slots */
	double peak; /* of its tensor cores' work at their peak; where there is none, of its FFMA */
	uint64_t multiply_adds; /* of a warp on tensor cores; where there are none: of FFMA, 32 each */
};
/* Of instructions [first, end), each as if executed, guards or not: the figure to look at. */
void sass_bounds(const struct sass_kernel *k, uint32_t first, uint32_t end, const struct sass_load *l,
    struct sass_bounds *out);
/* Of an iteration of a loop, what is certain alone: blocks that no iteration goes around; of a guarded
 * instruction its issue slot; of memory one wavefront; tensor cores at their peak.  No device beats it. */
void sass_floor(
    const struct sass_kernel *k, const struct sass_loop *loop, uint32_t warps, struct sass_bounds *out);
double sass_bound_cycles(const struct sass_bounds *b); /* the greatest; and which it is: */
enum sass_unit sass_bound_unit(const struct sass_bounds *b);

/* ---- simulated ----------------------------------------------------------------------------------------- */
/* A loop made ready for being priced often: no call below allocates. */
struct sass_price;
struct sass_price *sass_price_make(
    struct arena *a, const struct sass_kernel *k, const struct sass_loop *loop, const struct sass_load *l);
/* Cycles of an iteration in steady state, all warps'; `instr`: the whole kernel's as they stand now (the
 * loop's places are the same).  Never below the bound of what it was made of.  INFINITY: it is `limit` or
 * more, found out as early as can be (limit INFINITY: never given up). */
double sass_price_loop(struct sass_price *p, const struct sass_instr *instr, double limit);
/* The same asked quickly, for the steps of a search: only what changed since the loop was taken last is run
 * again (sass_price_hurry, once, takes it as it is then), and where several blocks or many warps are side by
 * side a few stand for all.  Not the same figure: what counts in the end is asked of sass_price_loop. */
void sass_price_hurry(struct sass_price *p, struct arena *a, const struct sass_instr *instr);
double sass_price_near(struct sass_price *p, const struct sass_instr *instr, double limit);
void sass_price_take(struct sass_price *p, const struct sass_instr *instr);

/* Cycles of a kernel from its beginning to its end: instructions outside of the loop once, in their order,
 * and the loop so many times (NULL: it has none that is known). */
double sass_price_kernel(struct arena *tmp, const struct sass_kernel *k, const struct sass_loop *loop,
    double turns, const struct sass_load *l);

/* ---- on a GPU ------------------------------------------------------------------------------------------ */
struct sass_launch {
	double blocks;
	uint32_t threads, resident; /* of a block; blocks that a multiprocessor holds at once */
	uint32_t n_sm;
	double multiply_adds; /* of a block: the products of its main loop, which its text need not tell */
	struct sass_load conflict; /* its bank conflicts; warps and blocks do not count */
};
/* Cycles of the highest clock.  expected: rounds of blocks, each from its beginning to its end.  floor: no
 * run of this code takes less; 0 where nothing is certain.  Both 0: no loop with products, or no rates. */
struct sass_time {
	double expected, floor;
};
struct sass_time sass_price_launch(
    struct arena *tmp, const struct sass_kernel *k, const struct sass_launch *l);

#endif
