/* kernels/cost/whole.h: what a plan takes as a whole, beside the sum of its kernels: learned from plans of
 * the same class and threads that were timed whole.  A sum leaves out what kernels do to each other: a
 * barrier, a reader that finds its operand elsewhere than a rule said, code and tables that are cold when a
 * kernel begins.  Beside the proof, never in it: latency is the sum. */
#ifndef KORCH_WHOLE_H
#define KORCH_WHOLE_H

#include "../base/base.h"

enum { WHOLE_FEATURES = 5, WHOLE_ROWS_MAX = 512 };

struct whole_plan { /* what is known of a plan before it runs */
	double sum_ns;
	double kernels;  /* that run: no views */
	double bytes[3]; /* of their operands and results, by enum heat */
};
struct whole_row { /* one that was timed */
	struct whole_plan plan;
	double measured_ns;
	struct hash model; /* whose plan it was: of one model several look alike */
};
struct whole_fit {
	double w[WHOLE_FEATURES];
	double sigma; /* of ln(measured / expected), by models left out */
	uint32_t n;   /* rows that it stands on; 0: nothing is known */
	uint32_t n_models;
};
/* Ridge regression of ln(measured / sum), from no correction on; at most WHOLE_ROWS_MAX of the rows, the
 * first ones. Rows without a sum or a time are passed over.  Equal rows give an equal result. */
void whole_learn(const struct whole_row *rows, uint32_t n, struct whole_fit *out);

struct whole_time {
	int64_t ns, low_ns, high_ns; /* expected; nine of ten plans lie between the others */
};
/* unsure: standard deviation of ln(sum) itself, where kernels in it were never measured.  With nothing known
 * the sum itself. */
struct whole_time whole_expect(const struct whole_fit *f, const struct whole_plan *p, double unsure);

#endif
