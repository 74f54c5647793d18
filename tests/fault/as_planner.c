/* tests/fault/as_planner.c: see as_planner.h. */
#include "as_planner.h"

#include <stdlib.h>
#include <unistd.h>

static const char VARIABLE[] = "KORCH_TEST_PLANNER";

void
as_planner_use(struct farm_proc *f)
{
	static char self[OS_PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0 || setenv(VARIABLE, "1", 1) != 0)
		bug("the test does not find itself");
	self[n] = '\0';
	f->planner = self;
}

bool
as_planner_is_it(void)
{
	return getenv(VARIABLE) != NULL;
}

int
as_planner_run(planner_part *part)
{
	struct arena a = {0};
	struct pipe p;
	struct msg m;
	struct err e = {0};
	int status = AS_PLANNER_MUTE;

	if (!pipe_stdio(&p, &e))
		return status;
	if (as_planner_hear(&p, &a, MSG_plan_start, &m))
		status = part(&p, &a, &m.plan_start);
	arena_fini(&a);
	pipe_fini(&p);
	return status;
}

bool
as_planner_hear(struct pipe *p, struct arena *a, enum msg_type want, struct msg *m)
{
	struct err e = {0};

	while (pipe_recv(p, a, -1, m, &e) == PIPE_MSG)
		if (m->type == want)
			return true;
	return false;
}

int
as_planner_fail(struct pipe *p, enum err_code code, struct str text)
{
	struct msg m = {.type = MSG_failed};
	struct err e = {0};

	m.failed.code = (uint64_t)err_wire(code);
	m.failed.text = text;
	return pipe_send(p, &m, &e) ? 0 : AS_PLANNER_MUTE;
}
