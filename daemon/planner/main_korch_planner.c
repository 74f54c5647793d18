/* daemon/planner/main_korch_planner.c: the planner, a process of its own for each job.  korchd
 * starts it without arguments, its stdin and stdout are the pipe.  ONNX parsing, enumeration and the
 * solver run here and nowhere near leases and store (D28). */
#include "planner.h"

#include "../../kernels/base/opt.h"

#include "../../kernels/jail/jail.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static void
say_no_memory(void)
{
	bug("out of memory in the solver; set a larger limit or use a larger machine");
}

/* The solver is C++, whose operator new asks std::set_new_handler's function before it throws what nobody
 * catches: so what it cannot have is said as it is elsewhere.  By name, as nothing else here needs a C++
 * library to link. */
static void
name_lack_of_memory(void)
{
	void *(*set)(void (*)(void));
	void *found = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");

	if (!found)
		return;
	memcpy(&set, &found, sizeof(set));
	(void)set(say_no_memory);
}

/* Typed by a person. */
static int
run_again(struct arena *a, int argc, char **argv)
{
	struct replay_call call;
	struct opts o;
	struct err e = {0};
	int status = opts_main(a, PROG_PLANNER, argc, argv, &o);

	if (status >= 0)
		return status;
	call = (struct replay_call){.dir = opt_text(&o, OPT_replay),
	    .dump = opt_given(&o, OPT_dump) ? opt_text(&o, OPT_dump) : NULL,
	    .dump_dir = opt_text(&o, OPT_dump_dir)};
	if (!*call.dir || o.n_args)
		(void)err_set(&e, ERR_USAGE,
		    "korchd starts it for a job; --replay DIR runs one again that died; see --help");
	else if (replay_run(a, &call, &e))
		return 0;
	return opts_fail(&o, &e);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct pipe p;
	struct err e = {0};
	int rc;

	name_lack_of_memory();
	if (argc > 1) {
		rc = run_again(&a, argc, argv);
		arena_fini(&a);
		return rc;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	jail_lock();
	/* a solver that runs on for a daemon that is gone only takes time from its successor */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!pipe_stdio(&p, &e)) {
		(void)fprintf(stderr, "korch-planner: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	rc = planner_serve(&a, &p);
	tape_close(p.tape);
	pipe_fini(&p);
	arena_fini(&a);
	return rc;
}
