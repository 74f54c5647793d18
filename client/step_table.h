/* client/step_table.h: the steps of a plan as a table: the same columns in korch-plan show, with recorded
 * times, and in korch-run --profile, with those of the run. */
#ifndef KORCH_STEP_TABLE_H
#define KORCH_STEP_TABLE_H

#include "../kernels/run/plan.h"

struct step_line {
	uint32_t step;
	int64_t ns;
	bool is_guess; /* never measured: ns is a bound */
	double share;  /* of all steps */
};
/* One line a step, in the plan's order; ns[i] is the time of step i. */
struct step_line *step_lines(struct arena *a, const struct plan *p, const int64_t *ns);
/* The `top` that take longest, longest first; all in order where top is 0.  How many. */
uint32_t step_lines_top(struct step_line *lines, uint32_t n, int64_t top);
/* Ends with what the column `bound` is of. */
void step_table_print(const struct plan *p, const struct step_line *lines, uint32_t n);

#endif
