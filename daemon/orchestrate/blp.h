/* daemon/orchestrate/blp.h: the binary linear program: costs as an array in, the chosen
 * kernels out.  facts: covering program over lazily separated landmark rows. */
#ifndef KORCH_BLP_H
#define KORCH_BLP_H

#include "../../kernels/base/base.h"

struct blp_kernel {
	const uint32_t *in, *out;
	uint32_t n_in, n_out;
	int64_t cost; /* ns, >= 1 */
};
/* Tensors 0..n_tensors-1 are numbered topologically: a kernel that makes t from inputs all
 * smaller than t exists for every t a plan may need; alternatives only add makers. */
struct blp {
	uint32_t n_tensors, n_kernels;
	const struct blp_kernel *kernels;
	const uint32_t *given, *wanted; /* model inputs and constants; model outputs */
	uint32_t n_given, n_wanted;
};
struct blp_limits { /* counted work, never seconds (D21); zero means the default */
	uint32_t beam_width;
	uint64_t max_states;
	uint32_t max_rounds;
	const volatile bool *cancel; /* polled; may be NULL */
};
struct blp_row {
	uint32_t *kernels;
	uint32_t n;
	double dual;
};
struct blp_result {
	uint32_t *chosen; /* kernel numbers in an executable order */
	uint32_t n_chosen;
	int64_t cost;
	int64_t bound;    /* proven lower bound; == cost when proved */
	bool proved;
	double *reduced;  /* per kernel: any plan that uses k costs >= pi + reduced[k] */
	double pi;        /* sum of the safe duals */
	struct blp_row *rows;
	uint32_t n_rows;
	uint64_t n_states, n_simplex;
};
/* start: a known valid choice (may be NULL).  ERR_MODEL when some output cannot be made. */
bool blp_solve(struct arena *a, const struct blp *p, const uint32_t *start, uint32_t n_start,
    const struct blp_limits *lim, struct blp_result *out, struct err *e) MUST_CHECK;
/* Can the kernels run in this order and do they make all that is wanted?  No solver code. */
bool blp_check_order(const struct blp *p, const uint32_t *order, uint32_t n, struct err *e) MUST_CHECK;
/* Is `pi` (sum of duals of valid landmark rows, no kernel over-priced) right?  No solver code. */
bool blp_check_bound(const struct blp *p, const struct blp_row *rows, uint32_t n_rows, double *bound,
    struct err *e) MUST_CHECK;

#endif
