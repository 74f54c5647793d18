/* daemon/planner/main_korch_planner.c: the planner, a process of its own for each job.  korchd
 * starts it, its stdin and stdout are the pipe.  ONNX parsing, enumeration and the solver run
 * here and nowhere near leases and store (D28). */
#include "check.h"
#include "tune.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

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

static bool
plan(struct arena *a, struct pipe *p, const struct msg *m, struct err *e)
{
	if (m->type != MSG_plan_start)
		return err_set(e, ERR_PROTO, "wanted plan_start first, got '%s'", msg_name(m->type));
	return tune_run(a, p, &m->plan_start, e);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct pipe p;
	struct msg m;
	struct err e = {0};
	int rc = 0;

	(void)argv;
	if (argc > 1) {
		(void)fprintf(stderr,
		    "korch-planner: started by korchd, takes no arguments; see korch-submit --help\n");
		return err_exit_status(ERR_USAGE);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	/* a solver that runs on for a daemon that is gone only takes time from its successor */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!pipe_stdio(&p, &e)) {
		(void)fprintf(stderr, "korch-planner: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	switch (pipe_recv(&p, &a, -1, &m, &e)) {
	case PIPE_MSG:
		if (m.type == MSG_check_ask ? check_run(&a, &p, &m.check_ask, &e) : plan(&a, &p, &m, &e))
			break;
		rc = fail(&p, &e);
		break;
	case PIPE_ERR:
		rc = fail(&p, &e);
		break;
	case PIPE_TIMEOUT:
	case PIPE_END:
		break;
	}
	pipe_fini(&p);
	arena_fini(&a);
	return rc;
}
