/* kernels/interp/program.h: what a loop program means.  Slow: it checks every access.  Elements are undefined
 * until they are stored; iterations that may run at the same time are run in an order of choice, and what one
 * stores and another touches without a barrier between is an error. */
#ifndef KORCH_INTERP_PROGRAM_H
#define KORCH_INTERP_PROGRAM_H

#include "../tir/tir.h"

enum program_order { ORDER_FORWARD, ORDER_BACKWARD, ORDER_SHUFFLED };
struct program_opts {
	enum program_order order; /* of iterations that are free of order */
	uint64_t seed;            /* ORDER_SHUFFLED */
	uint64_t max_steps;       /* statements run, each for each thread; 0: no limit */
};
/* Runs p, of either level.  operands[i], results[i]: dense, of the buffers with that index.  What it
 * needs lives in `a`.  ERR_WRONG names the rule and the statement: "undefined", "bounds", "race", "binding",
 * "barrier"; ERR_LIMIT: too many steps, or a form of buffer that only a printer understands. */
bool program_run(struct arena *a, const struct tir *p, const void *const *operands, void *const *results,
    const struct program_opts *o, struct err *e) MUST_CHECK;

#endif
