/* kernels/run/certify.h: re-checks a plan's claims from the plan alone, without solver code (D18). */
#ifndef KORCH_CERTIFY_H
#define KORCH_CERTIFY_H

#include "plan.h"

/* What there is to choose from: candidates over numbered tensors. */
struct choice_facts {
	const struct plan_candidate *candidates;
	uint32_t n_candidates;
	uint32_t n_tensors; /* numbers in reads, makes, given and wanted are below it */
	const uint32_t *given, *wanted;
	uint32_t n_given, n_wanted;
};
/* Do candidates run in this order: each reads what is given or made before, and all that is wanted
 * is made? */
bool certify_order(const struct choice_facts *f, const uint32_t *order, uint32_t n, struct err *e) MUST_CHECK;
/* *bound: what the duals prove of every plan.  Each row must be one that no plan escapes (without
 * its candidates something wanted cannot be made), no dual negative, no candidate over-priced.
 * Candidates of a row ascend. */
bool certify_bound(const struct choice_facts *f, const struct plan_row *rows, uint32_t n_rows, double *bound,
    struct err *e) MUST_CHECK;

struct certificate {
	double dual_bound;   /* proved by the rows; every plan costs at least this many ns */
	bool is_by_duals;    /* that reaches bound_ns, so nothing rests on the search */
	double sure_bound;   /* the same of the confidence's program; 0: the plan claims none */
	uint32_t n_measured; /* of the chosen candidates */
	uint32_t n_chosen;
};
/* Everything: that steps are the chosen candidates in an executable order, that sums are right, that
 * each step reads what was put where it reads (places do not overlap while live), that sizes
 * fit the specs, the bound, and that of a confidence by the costs that it is said to rest on.  The plan has
 * passed plan_check(). */
bool plan_certify(const struct plan *p, struct certificate *out, struct err *e) MUST_CHECK;

#endif
