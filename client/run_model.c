/* client/run_model.c: see run_model.h.  The job is korch-submit's, with its options and a budget of 0. */
#include "run_model.h"
#include "job_ask.h"
#include "job_result.h"
#include "job_view.h"
#include "output.h"

#include "../kernels/base/utf8.h"
#include "../kernels/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool
run_model_is(const char *path, bool *is_model, struct err *e)
{
	static const char plan[16] = "SQLite format 3"; /* with its NUL */
	uint8_t b[sizeof(plan)] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, b, sizeof(b)) : -1;

	if (fd >= 0)
		(void)close(fd);
	/* ModelProto: field 1, a varint below 128 */
	*is_model = n >= 2 && b[0] == 0x08 && b[1] > 0 && b[1] < 128;
	return n < 0 || *is_model || memcmp(b, plan, sizeof(b)) == 0 ||
	    err_set(e, ERR_FORMAT,
		"%s: is neither a plan made by korch-submit nor, by how it begins, an ONNX model", path);
}

bool
run_model_no_options(const struct opts *o, struct err *e)
{
	static const struct {
		enum opt_id id;
		const char *flag;
	} row[] = {{OPT_shape, "shape"}, {OPT_value, "value"}, {OPT_run_output, "output"},
	    {OPT_daemon, "daemon"}, {OPT_device, "device"}, {OPT_tolerance, "tolerance"},
	    {OPT_precision, "precision"}, {OPT_strict, "strict"}, {OPT_fusion, "fusion"},
	    {OPT_rewrites, "rewrites"}, {OPT_winograd, "winograd"}};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (o->value[row[i].id].source == FROM_FLAG)
			return err_set(e, ERR_USAGE,
			    "--%s is for a model, and %s is none: its plan was made with what it was made "
			    "with; give MODEL.onnx, or make another plan with korch-submit",
			    row[i].flag, o->args[0]);
	return true;
}

/* ---- the options of the job -------------------------------------------------------------------- */
/* Those of korch-submit, as far as they were given here; the model is to be run now, so what it leaves open
 * is 1. */
static bool
submit_options(struct arena *a, const struct opts *o, struct opts *out, struct err *e)
{
	static char open[] = "--open-extents=1", quiet[] = "--quiet";
	int n, n_args = 1;
	char **words = opts_pass(a, o, PROG_SUBMIT, &n), **argv = NEW_ARRAY(a, char *, n + 4);

	argv[0] = (char *)(uintptr_t)program_name(PROG_RUN);
	argv[n_args++] = open;
	if (opt_flag(o, OPT_json)) /* one object, at the end */
		argv[n_args++] = quiet;
	for (int i = 0; i < n; i++)
		argv[n_args++] = words[i];
	if (!opts_read(a, PROG_SUBMIT, n_args, argv, out, e))
		return false;
	out->value[OPT_json].n = 0;
	out->program = PROG_RUN; /* for what is said */
	return true;
}

static bool
plan_place(struct run_model *m, struct arena *a, const struct opts *o, struct err *e)
{
	struct run_folder *dir;

	m->plan = opt_text(o, OPT_run_output);
	m->is_kept = *m->plan != '\0';
	if (m->is_kept)
		return output_check(o, m->plan, e);
	dir = NEW(a, struct run_folder);
	if (!run_folder_make(dir, e))
		return false;
	m->made = dir;
	m->plan = arena_printf(a, "%s/plan.korch", dir->path);
	return true;
}

/* ---- the job ------------------------------------------------------------------------------------ */
/* Nobody waits for it: it ends, also on a daemon that stays. */
static bool
interrupted(struct run_model *m, uint64_t job, struct err *e)
{
	struct err why = {0};

	m->session.n_forgiven = m->session.n_stops;
	if (!client_cancel(m->session.client, job, &why))
		return err_set(
		    e, ERR_INTERRUPTED, "left before job %" PRIu64 " was cancelled (%.200s)", job, why.msg);
	return err_set(e, ERR_INTERRUPTED, "interrupted before there was a plan");
}

static bool
plan_by(struct run_model *m, struct arena *a, const struct opts *so, struct err *e)
{
	struct m_options options;
	struct session_want want;
	struct m_event last;
	uint64_t job;

	if (!job_ask_read(a, so, true, &options, &want, e))
		return false;
	options.budget_ns = 0;
	options.prove = options.offline = false;
	want.at_once = true;
	if (!session_open(&m->session, a, so, &want, e) ||
	    !job_ask_send(&m->session, a, m->model, &options, &job, e))
		return false;
	if (!session_follow(&m->session, a, so, job, &last, e))
		return e->code == ERR_INTERRUPTED && interrupted(m, job, e);
	m->progress = last.progress;
	return client_fetch(m->session.client, job, m->plan, e);
}

bool
run_model_plan(struct run_model *m, struct arena *a, const struct opts *o, const char *path, struct err *e)
{
	struct opts so;
	bool ok;

	*m = (struct run_model){.model = path, .session = {.signal_fd = -1}};
	if (!submit_options(a, o, &so, e) ||
	    !jail_settings(opt_text(o, OPT_sandbox), opt_text(o, OPT_sandbox_read), e) ||
	    !plan_place(m, a, o, e))
		return false;
	m->budget_s = opt_real(&so, OPT_budget);
	ok = plan_by(m, a, &so, e);
	session_close(&m->session);
	if (ok && !opt_flag(&so, OPT_quiet))
		job_result_assumed(stderr, program_name(o->program), &m->progress);
	return ok;
}

void
run_model_end(struct run_model *m)
{
	if (m->made)
		run_folder_drop(m->made);
	if (m->model)
		session_signals_back();
	m->made = NULL;
}

/* ---- the end ------------------------------------------------------------------------------------ */
/* What korch-submit is to be told beyond the model: what was said here, and what was assumed. */
static char *
submit_command(const struct run_model *m, struct arena *a, const struct opts *o)
{
	struct strbuf sb;
	int n;
	char **words = opts_pass(a, o, PROG_SUBMIT, &n);

	sb_init(&sb, a);
	sb_addf(&sb, "%s %s", output_program(a, "korch-submit"), output_shell(a, m->model));
	for (int i = 0; i < n; i++)
		if (strcmp(words[i], "--quiet") != 0)
			sb_addf(&sb, " %s", output_shell(a, words[i]) + 2); /* its ./ */
	for (uint32_t i = 0; i < m->progress.n_assumed; i++) {
		const struct m_assumed *x = &m->progress.assumed[i];
		struct strbuf word;

		sb_init(&word, a);
		utf8_add_plain(&word, x->name.n ? x->name : x->input);
		sb_addc(&word, '=');
		utf8_add_plain(&word, x->value);
		sb_addf(&sb, " --shape %s", output_shell(a, word.p));
	}
	return sb.p;
}

static void
add_cost(struct strbuf *sb, const struct run_model *m)
{
	const struct m_progress *p = &m->progress;

	sb_addf(sb,
	    "tuning would time %" PRIu64
	    " kernels of this plan that never were, about %.0f s, and go on while others "
	    "are expected to pay, %.0f s at most (--budget)\n",
	    p->untimed, p->first_seconds, m->budget_s);
	if (p->bound_ns > 0) {
		sb_addz(sb, "what it would gain is not known before; the kernels of no plan take less than ");
		print_ns(sb, p->bound_ns);
		sb_addz(sb, " in sum\n");
	}
}

void
run_model_words(const struct run_model *m, struct arena *a, const struct opts *o)
{
	const struct m_progress *p = &m->progress;
	struct strbuf sb;

	sb_init(&sb, a);
	if (p->untimed)
		add_cost(&sb, m);
	else if (p->proved || p->stop.n)
		sb_addf(&sb, "all %" PRIu64 " kernels were measured before: nothing to tune%s%.*s\n",
		    p->chosen, p->stop.n ? "; " : "", STR_ARG(p->stop));
	else
		sb_addf(&sb,
		    "all %" PRIu64 " kernels were measured before, and a search may find better ones\n",
		    p->chosen);
	if (p->untimed || !(p->proved || p->stop.n))
		sb_addf(&sb, "to tune it, type: %s\n", submit_command(m, a, o));
	(void)fputs(sb.p, stdout);
}

void
run_model_json(struct strbuf *sb, const struct run_model *m)
{
	struct job_result r = {.model = m->model,
	    .plan = m->is_kept ? m->plan : "",
	    .subject = "",
	    .next = "",
	    .progress = &m->progress};

	job_result_add(sb, &r);
}
