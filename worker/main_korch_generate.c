/* worker/main_korch_generate.c: the texts of a plan's kernels, and what describes them, for a device that is
 * not here: korchd starts it for a job that predicts, so that whoever makes the plan generates nothing.
 *
 * stdin: one frame, `build_ask` with a target.  stdout: one frame, `build_have`; where it says no failure,
 * the packed record `artefact` is in the file that is named.  Nothing is compiled. */
#include "build.h"

#include "../kernels/jail/jail.h"
#include "../proto/pipe.h"
#include "../proto/range.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

static bool
emit_text(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e)
{
	struct str moves;

	(void)sip_split(schedule, &schedule, &moves); /* they are of machine code */
	return generate_kernel(a, s, schedule, t, symbol, out, e);
}

static bool
has_no_call(void *self, struct arena *a, const struct m_kernel *k, struct str schedule, struct err *e)
{
	(void)self;
	(void)a;
	(void)k;
	return err_set(
	    e, ERR_INFEASIBLE, "'%.*s': whether it is there is known on its device alone", STR_ARG(schedule));
}

static bool
generate(struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e)
{
	struct device away = {.class = "away"};
	const struct build_how how = {.device = &away, .emit = emit_text, .has_call = has_no_call};
	struct build b;

	if (!target_read(ask->target, &away.target, e) || !target_check(&away.target, e) ||
	    !build_make(a, ask, &how, &b, e))
		return false;
	return build_describe(
	    a, &b, b.target.is_cuda ? prelude_cuda(a, false) : prelude_c(a, &b.target), out, e);
}

static bool
serve(struct arena *a, struct pipe *p, const char *path, struct err *e)
{
	struct msg ask, have = {.type = MSG_build_have};
	struct built built = {0};
	struct err why = {0};

	if (pipe_recv(p, a, -1, &ask, e) != PIPE_MSG)
		return e->code != ERR_NONE || err_set(e, ERR_LINKLOST, "nothing was asked for");
	if (ask.type != MSG_build_ask || !ask.build_ask.target.n)
		return err_set(e, ERR_PROTO, "asked %s, not build_ask with a target", msg_name(ask.type));
	have.build_have = (struct m_build_have){.path = STR(""),
	    .cause = STR(""),
	    .log = STR(""),
	    .worker = STR(""),
	    .description_path = STR("")};
	if (!generate(a, &ask.build_ask, &built, &why)) {
		have.build_have.fail = (uint64_t)err_wire(why.code);
		have.build_have.cause = str_of(why.msg);
	} else if (!os_write_file(os_real(), path, built.description, e))
		return false;
	have.build_have.took = built.took;
	return pipe_send(p, &have, e);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct pipe p;
	struct err e = {0};
	int rc = 0;

	if (argc != 2 || argv[1][0] == '-') {
		(void)fprintf(stderr, "korch-generate: is started by korchd, for a plan that is predicted\n");
		return err_exit_status(ERR_USAGE);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	jail_lock();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!pipe_stdio(&p, &e)) {
		(void)fprintf(stderr, "korch-generate: %s\n", e.msg);
		return err_exit_status(e.code);
	}
	if (!serve(&a, &p, argv[1], &e)) {
		(void)fprintf(stderr, "korch-generate: %s\n", e.msg);
		rc = err_exit_status(e.code);
	}
	pipe_fini(&p);
	arena_fini(&a);
	return rc;
}
