/* daemon/planner/planner.h: what the program korch-planner does: a job over its pipe, or a recorded one
 * again. */
#ifndef KORCH_PLANNER_H
#define KORCH_PLANNER_H

#include "../../proto/pipe.h"

/* One job, from the first message to the last, recorded in its folder.  Returns the exit status. */
int planner_serve(struct arena *a, struct pipe *p);

/* korch-planner --replay DIR: what a planner that died left in the data folder (daemon/failed.c) is run
 * again. */
struct replay_call {
	const char *dir;
	const char *dump;     /* stages; NULL: those of then */
	const char *dump_dir; /* "": below dir */
};
/* Runs the tape in the folder again, with the memory that it had; tells on stderr how it ended.  False: how
 * it ended, or why it cannot be run.  Dies as the recorded run died, where it still does. */
bool replay_run(struct arena *a, const struct replay_call *call, struct err *e) MUST_CHECK;

#endif
