/* daemon/planner/sure.h: how far from the best over all candidates a choice without a proof may be, with 95 %
 * confidence. */
#ifndef KORCH_PLANNER_SURE_H
#define KORCH_PLANNER_SURE_H

#include "tune.h"

struct sure {
	struct plan_sure claim;
	int64_t *cost; /* per kernel of the program that says so */
	struct blp_row *rows;
	uint32_t n_rows; /* with their duals */
};
/* Where the choice is not proved: what the best plan takes at least; fills in t->sure. */
bool sure_find(struct tune *t, struct err *e) MUST_CHECK;
/* Tells the plan, just made, and the job's progress. */
void sure_tell(struct tune *t, struct plan *plan);

#endif
