/* daemon/planner/wanted.h: what a search asks for next. */
#ifndef KORCH_PLANNER_WANTED_H
#define KORCH_PLANNER_WANTED_H

#include "tune.h"

/* Until there is a measured plan, kernels that would make one without anything that has to be guessed. */
bool wanted_incumbent(struct tune *t, struct err *e) MUST_CHECK;
/* Of the last solution what is not measured: to expect, or to prove. */
struct lazy_out wanted_next(struct tune *t, enum tune_aim aim, struct arena *tmp);
/* What the plan is expected to spend most on first. */
void wanted_sort(const struct tune *t, struct arena *tmp, struct lazy_out *want);
/* The aim is reached by what is known.  Asks, where it may, for schedules that were left out and that the
 * plan may gain by; *done: there are none, and none is out. */
bool wanted_closer(struct tune *t, bool may_ask, bool *done, struct err *e) MUST_CHECK;

#endif
