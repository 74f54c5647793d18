/* client/main_korch_submit.c: korch-submit: tunes a model and writes its plan.  Without a daemon
 * it starts a private one; the programs and the protocol are the same. */
#include "dump.h"
#include "job_ask.h"
#include "job_result.h"
#include "model_check.h"
#include "output.h"
#include "plan_away.h"
#include "report.h"

#include "../kernels/base/out.h"
#include "../kernels/jail/jail.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct submit {
	struct arena *arena;
	const struct opts *o;
	const char *model, *plan;
	int status; /* of a check: 1 where the model would not be tuned */
	uint64_t job;
	struct session session;
};

/* A price alone writes no plan, and who leaves does not wait for one; else it is named after the model. */
static const char *
where_to(const struct submit *s)
{
	const char *given = opt_text(s->o, OPT_output);

	if (opt_flag(s->o, OPT_check_model))
		return "";
	if (*given || opt_flag(s->o, OPT_detach) || opt_n(s->o, OPT_forbid) || opt_n(s->o, OPT_force))
		return given;
	return output_of_model(s->arena, s->model);
}

/* The place of the plan is looked at now rather than after ten minutes of tuning. */
static bool
read_call(struct submit *s, struct err *e)
{
	if (s->o->n_args != 1)
		return err_set(
		    e, ERR_USAGE, "wanted one MODEL.onnx, got %u; see korch-submit --help", s->o->n_args);
	if (!report_check(s->o, e))
		return false;
	s->model = s->o->args[0];
	s->plan = where_to(s);
	if (opt_flag(s->o, OPT_detach) && !*opt_text(s->o, OPT_daemon))
		return err_set(e, ERR_USAGE,
		    "-d needs --daemon: a private korchd leaves when its clients have left, and ends their "
		    "jobs");
	if (access(s->model, R_OK) != 0)
		return err_set(e, ERR_IO, "%s: cannot read: %s", s->model, strerror(errno));
	return !*s->plan || output_check(s->o, s->plan, e);
}

/* A daemon that stays goes on with the job; a private one has no other reason to live. */
static bool
left_running(const struct submit *s, uint64_t job, struct err *e)
{
	char *jobs = output_program(s->arena, "korch-jobs"),
	     *where = session_words(&s->session, s->arena, s->o);
	const char *plan = *s->plan ? s->plan : output_of_model(s->arena, s->model);

	return err_set(e, ERR_INTERRUPTED,
	    "job %" PRIu64 " goes on without you; come back with: %s watch %" PRIu64
	    "%s, take its plan with: %s fetch %" PRIu64 " -o %s%s, end it with: %s cancel %" PRIu64 "%s",
	    job, jobs, job, where, jobs, job, output_shell(s->arena, plan), where, jobs, job, where);
}

/* A second Ctrl-C ends that too. */
static bool
cancelled(struct submit *s, uint64_t job, struct err *e)
{
	struct err why = {0};

	if (!opt_flag(s->o, OPT_quiet))
		(void)fprintf(
		    stderr, "korch-submit: cancelling job %" PRIu64 "; Ctrl-C again leaves at once\n", job);
	s->session.n_forgiven = s->session.n_stops;
	if (!client_cancel(s->session.client, job, &why))
		return err_set(e, ERR_INTERRUPTED,
		    "left before job %" PRIu64
		    " was cancelled (%.200s); its private korchd ends it when it leaves, after 10 s",
		    job, why.msg);
	return err_set(e, ERR_INTERRUPTED,
	    "job %" PRIu64 " is cancelled; what was measured is kept, so the same command goes on from here",
	    job);
}

/* What runs the plan: a folder that was named for this call alone has the key that signed it. */
static char *
next_command(const struct submit *s)
{
	const char *data = opt_text(s->o, OPT_data);
	bool is_told = !s->session.is_named && s->o->value[OPT_data].source == FROM_FLAG;

	return arena_printf(s->arena, "%s %s%s%s", output_program(s->arena, "korch-run"),
	    output_shell(s->arena, s->plan), is_told ? " --data " : "",
	    is_told ? output_shell(s->arena, data) : "");
}

static void
say_result(const struct submit *s, const struct m_progress *p, bool runs)
{
	struct job_result r = {.model = s->model,
	    .plan = s->plan,
	    .subject = *s->plan && out_is_stdout(s->plan) ? "the plan"
		: *s->plan                                ? s->plan
							  : "nothing written (-o writes that plan): it",
	    .next = "",
	    .progress = p};
	FILE *to = output_words(s->plan);
	struct stat st;

	if (!opt_flag(s->o, OPT_quiet))
		job_result_assumed(stderr, program_name(s->o->program), p);
	if (runs && *s->plan && stat(s->plan, &st) == 0 && S_ISREG(st.st_mode))
		r.next = next_command(s);
	if (opt_flag(s->o, OPT_json))
		job_result_json(&r);
	else
		job_result_words(to, &r);
}

/* Of a job that failed: the stages before its end are what one wants to see. */
static bool
save_what_there_is(struct submit *s, uint64_t job)
{
	struct err why = {0};

	if (!dump_save(s->session.client, s->o, job, s->model, &why) && why.code != ERR_FAILED)
		(void)fprintf(stderr, "korch-submit: %s\n", why.msg);
	return false;
}

/* *why: why the plan has no code, where it was predicted and nobody could make it. */
static bool
fetch(struct submit *s, uint64_t job, const char **why, struct err *e)
{
	return opt_flag(s->o, OPT_predict)
	    ? plan_away_fetch(s->session.client, s->o, s->arena, job, s->plan, why, e)
	    : client_fetch(s->session.client, job, s->plan, e);
}

static bool
follow(struct submit *s, uint64_t job, struct err *e)
{
	struct m_event last;
	const char *why = "";
	bool ok = session_follow(&s->session, s->arena, s->o, job, &last, e);

	if (!ok)
		return e->code != ERR_INTERRUPTED ? save_what_there_is(s, job)
		    : s->session.stays            ? left_running(s, job, e)
						  : cancelled(s, job, e);
	if (!dump_save(s->session.client, s->o, job, s->model, e) || (*s->plan && !fetch(s, job, &why, e)))
		return false;
	say_result(s, &last.progress, !*why);
	if (*why && !opt_flag(s->o, OPT_quiet))
		(void)fprintf(stderr,
		    "korch-submit: the plan has no machine code (%s); korch-plan rebuild makes it on a host "
		    "of that "
		    "device\n",
		    why);
	return last.progress.measured + last.progress.cached > 0 || !last.progress.trouble.n ||
	    err_set(e, ERR_PARTIAL, "nothing could be measured, so the plan rests on bounds alone: %.*s",
		STR_ARG(last.progress.trouble));
}

static bool
check(struct submit *s, const struct m_options *options, struct err *e)
{
	bool would_tune;

	if (!model_check(s->arena, s->o, s->model, options, &would_tune, e))
		return false;
	s->status = would_tune ? 0 : err_exit_status(ERR_MODEL);
	return true;
}

static bool
run(struct submit *s, struct err *e)
{
	struct m_options options;
	struct session_want want;

	if (!jail_settings(opt_text(s->o, OPT_sandbox), opt_text(s->o, OPT_sandbox_read), e) ||
	    !read_call(s, e) || !job_ask_read(s->arena, s->o, *s->plan, &options, &want, e))
		return false;
	if (opt_flag(s->o, OPT_check_model))
		return check(s, &options, e);
	if (!session_open(&s->session, s->arena, s->o, &want, e) ||
	    !job_ask_send(&s->session, s->arena, s->model, &options, &s->job, e))
		return false;
	if (opt_flag(s->o, OPT_detach)) {
		(void)printf(opt_flag(s->o, OPT_json) ? "{\"job\": %" PRIu64 "}\n" : "%" PRIu64 "\n", s->job);
		return true;
	}
	return follow(s, s->job, e);
}

/* Of any end but that of a wrong call.  Its own failure is told beside the call's. */
static int
report(struct submit *s, const struct err *end, int status)
{
	struct report r = {
	    .model = s->model, .plan = s->plan, .session = &s->session, .job = s->job, .end = end};
	struct err e = {0};

	if (!*opt_text(s->o, OPT_report) || (end->code == ERR_USAGE && !s->job) || report_write(s->o, &r, &e))
		return status;
	(void)err_in(&e, "--report");
	return status ? status : opts_fail(s->o, &e);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};
	struct submit s = {.arena = &a, .o = &o, .session = {.signal_fd = -1}};
	int rc = opts_main(&a, PROG_SUBMIT, argc, argv, &o);

	if (rc < 0) {
		rc = run(&s, &e) ? s.status : opts_fail(&o, &e);
		rc = report(&s, &e, rc);
		session_close(&s.session);
	}
	arena_fini(&a);
	return rc;
}
