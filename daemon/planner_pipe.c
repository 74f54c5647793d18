/* daemon/planner_pipe.c: the pipe to a job's planner: a message to it, and its end. */
#include "loop.h"

void
planner_stop(struct job *j)
{
	if (!j->planner)
		return;
	child_forget(j->planner);
	j->planner = NULL;
}

void
planner_send(struct job *j, const struct msg *m)
{
	struct arena tmp = {0};
	struct bytes frame;
	struct err e = {0};

	if (!j->planner)
		return;
	if (!frame_pack(&tmp, m, &frame, &e))
		bug("a message to a planner: %s", e.msg);
	child_write(j->planner, frame);
	arena_fini(&tmp);
}
