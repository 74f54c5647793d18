/* daemon/planner/finish.h: the last words of a job (finish.c), also where its plan was there before
 * (again.c). */
#ifndef KORCH_PLANNER_FINISH_H
#define KORCH_PLANNER_FINISH_H

#include "tune.h"

/* Into the progress: what the plan is. */
void finish_note(struct tune *t, uint32_t n_steps, int64_t latency_ns, int64_t bound_ns, bool proved);
/* Into the plan: what the progress says of whole plans. */
void finish_times(const struct tune *t, struct plan *plan);
/* Sends `done`: with the plan at `path`, or with that of an earlier job. */
bool finish_say(struct tune *t, struct str path, const struct hash *earlier, struct err *e) MUST_CHECK;
/* ---- again.c */
/* With ->taken, another job's plan, which was the fastest: its certificate and its account are of that job's
 * candidates, as its options say. */
bool finish_taken(struct tune *t, struct err *e) MUST_CHECK;
/* With the plan that this job ended with before, whatever others ended with since. */
bool finish_as_before(struct tune *t, struct err *e) MUST_CHECK;

#endif
