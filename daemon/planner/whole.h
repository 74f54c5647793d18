/* daemon/planner/whole.h: what a plan takes as a whole, beside the sum of its kernels (kernels/cost/whole.h).
 */
#ifndef KORCH_PLANNER_WHOLE_H
#define KORCH_PLANNER_WHOLE_H

#include "tune.h"

/* Notes a plan that was timed, for later jobs; one that rests on guesses teaches nothing and is passed over.
 */
void whole_note(struct tune *t, const uint32_t *chosen, uint32_t n, const struct hash *plan,
    const struct m_timing *timing);
/* What the choice is expected to take as a whole, into t->progress: by plans of before this job. */
void whole_say(struct tune *t);

#endif
