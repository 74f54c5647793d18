/* daemon/orchestrate/lazy.h: lazy optimal profiling (D19): which specs to measure next, and when
 * the plan is the optimum over all candidates though few of them were measured.  Pure. */
#ifndef KORCH_LAZY_H
#define KORCH_LAZY_H

#include "blp.h"

enum lazy_state { LAZY_OPEN, LAZY_WAITING, LAZY_MEASURED, LAZY_FAILED };
struct lazy_in {
	const struct blp *blp;           /* costs: measured, or lower bounds where not; LAZY_FAILED
	                                  * ones are BLP_NEVER */
	const struct blp_result *choice; /* solved with those costs */
	const uint32_t *spec_of;         /* kernel -> spec */
	const enum lazy_state *state;    /* per spec */
	uint32_t n_specs;
	int64_t measured_cost; /* of the best plan known whose specs are all measured;
	                        * BLP_NEVER when there is none */
	uint32_t want;         /* specs that the farm can take now */
	/* Of each spec, where costs are lower bounds: what it is expected to take.  Then only so many of the
	 * chosen ones are asked for as are expected to lift the choice to measured_cost: the rest of it may
	 * never be looked at.  NULL: all of them. */
	const int64_t *expected;
};
struct lazy_out {
	uint32_t *measure; /* specs to measure next, most wanted first */
	uint32_t n_measure;
	bool done;              /* all that is chosen is measured: the choice is final */
	uint32_t n_chosen_open; /* chosen specs that are not measured yet */
	uint32_t n_useless;     /* specs that no optimal plan can hold: never measured */
};
/* Chosen and unmeasured specs come first, all of them or, with ->expected, those that lift the choice most;
 * then, to keep `want` busy, those of lowest reduced cost.  Never one with pi + reduced cost >=
 * measured_cost.  With `done`, the choice is optimal if choice->proved, else within its gap. */
void lazy_next(struct arena *a, const struct lazy_in *in, struct lazy_out *out);

#endif
