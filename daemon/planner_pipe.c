/* daemon/planner_pipe.c: the pipe to a job's planner: a message to it, and its end. */
#include "folder.h"
#include "loop.h"

#include <signal.h>

void
planner_stop(struct job *j)
{
	generate_stop(j);
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
	if (!child_write(j->planner, frame)) {
		j->is_deaf = true;
		child_kill(j->planner, SIGKILL); /* planner_ended follows */
	}
	arena_fini(&tmp);
}
