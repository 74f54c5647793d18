/* daemon/planner/serve.c: one job over the pipe. */
#include "check.h"
#include "planner.h"
#include "tune.h"

#include <stdio.h>

static int
fail(struct pipe *p, const struct err *e)
{
	struct msg m = {.type = MSG_failed};
	struct err ignored = {0};

	m.failed = (struct m_failed){.code = (uint64_t)err_wire(e->code), .text = str_of(e->msg)};
	if (!pipe_send(p, &m, &ignored))
		(void)fprintf(stderr, "korch-planner: %s\n", e->msg);
	return err_exit_status(e->code);
}

/* On tape from now on, in the job's folder; the first message has come already. */
static void
record(struct pipe *p, const struct msg *start)
{
	struct arena tmp = {0};
	char *dir = str_dup(&tmp, start->plan_start.work_dir);
	char *own = arena_printf(&tmp, "%.*s/model", STR_ARG(start->plan_start.job_dir));
	struct bytes packed;
	struct err none = {0};

	p->tape = *dir ? tape_record(arena_printf(&tmp, "%s/" TAPE_NAME, dir), own) : NULL;
	if (p->tape && msg_pack(&tmp, start, PIPE_MAX_BYTES, &packed, &none))
		tape_note(p->tape, TAPE_MSG, packed);
	arena_fini(&tmp);
}

/* A job, or the question whether there could be one. */
static bool
first(struct arena *a, struct pipe *p, const struct msg *m, struct err *e)
{
	if (m->type == MSG_check_ask)
		return check_run(a, p, &m->check_ask, e);
	if (m->type != MSG_plan_start)
		return err_set(e, ERR_PROTO, "wanted plan_start first, got '%s'", msg_name(m->type));
	record(p, m);
	return tune_run(a, p, &m->plan_start, NULL, os_real(), e);
}

int
planner_serve(struct arena *a, struct pipe *p)
{
	struct msg m;
	struct err e = {0};

	switch (pipe_recv(p, a, -1, &m, &e)) {
	case PIPE_MSG:
		return first(a, p, &m, &e) ? 0 : fail(p, &e);
	case PIPE_ERR:
		return fail(p, &e);
	case PIPE_TIMEOUT:
	case PIPE_END:
		break;
	}
	return 0;
}
