/* tests/fault/as_planner.h: a test program that is the planner too: korchd starts it once more, in the
 * planner's place, and there it plays a part. */
#ifndef KORCH_TEST_AS_PLANNER_H
#define KORCH_TEST_AS_PLANNER_H

#include "../../proto/pipe.h"
#include "farm_proc.h"

/* The planners of that korchd are this program; before it starts. */
void as_planner_use(struct farm_proc *f);
/* Has korchd started it?  Then main does nothing but as_planner_run. */
bool as_planner_is_it(void);
/* A part: what it says after it has heard what it is to plan.  Its result is the exit status; MUTE: korchd
 * does not listen. */
enum { AS_PLANNER_MUTE = 3 };
typedef int planner_part(struct pipe *p, struct arena *a, const struct m_plan_start *start);
int as_planner_run(planner_part *part);

/* For parts: the next message of that type, others are passed over; false: korchd has gone. */
bool as_planner_hear(struct pipe *p, struct arena *a, enum msg_type want, struct msg *m);
/* Ends the job by that error; the exit status. */
int as_planner_fail(struct pipe *p, enum err_code code, struct str text);

#endif
