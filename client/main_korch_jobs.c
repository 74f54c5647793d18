/* client/main_korch_jobs.c: korch-jobs: what runs on a daemon. */
#include "job_result.h"
#include "job_table.h"
#include "output.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct jobs {
	struct arena *arena;
	const struct opts *o;
	struct session session;
	uint64_t job; /* where the verb takes one */
};

static bool
ask(struct jobs *j, struct msg *m, struct msg *answer, enum msg_type want, struct err *e)
{
	if (!client_call(j->session.client, j->arena, m, 0, answer, e))
		return false;
	if (answer->type != want)
		return err_set(e, ERR_PROTO, "the daemon answered '%s' to '%s'", msg_name(answer->type),
		    msg_name(m->type));
	return true;
}

/* A table with a head for a person, an object a line for a program. */
static void
print_jobs(const struct jobs *j, const struct m_jobs *m)
{
	struct strbuf sb;

	sb_init(&sb, j->arena);
	if (m->n_jobs && !opt_flag(j->o, OPT_json))
		job_table_head(&sb);
	for (uint32_t i = 0; i < m->n_jobs; i++)
		if (!opt_flag(j->o, OPT_json))
			job_table_row(&sb, &m->jobs[i]);
		else {
			rec_json(&sb, "job", &m->jobs[i]);
			sb_addc(&sb, '\n');
		}
	(void)fputs(sb.n ? sb.p : "", stdout);
}

static bool
verb_list(struct jobs *j, struct err *e)
{
	struct msg m = {.type = MSG_job_list}, got;

	m.job_list.all = opt_flag(j->o, OPT_jobs_all);
	if (!ask(j, &m, &got, MSG_jobs, e))
		return false;
	print_jobs(j, &got.jobs);
	if (got.jobs.n_jobs == 0 && !opt_flag(j->o, OPT_json) && !opt_flag(j->o, OPT_quiet))
		(void)fprintf(stderr, "no jobs%s\n",
		    m.job_list.all ? "" : " running or waiting; --all shows ended ones");
	return true;
}

static bool
verb_show(struct jobs *j, struct err *e)
{
	struct msg m = {.type = MSG_job_show}, got;

	m.job_show.job = j->job;
	if (!ask(j, &m, &got, MSG_jobs, e))
		return false;
	if (got.jobs.n_jobs != 1)
		return err_set(e, ERR_USAGE, "there is no job %" PRIu64, j->job);
	print_jobs(j, &got.jobs);
	if (!opt_flag(j->o, OPT_json) && got.jobs.jobs[0].report.n)
		(void)printf("%.*s\n", STR_ARG(got.jobs.jobs[0].report));
	return true;
}

static bool
verb_watch(struct jobs *j, struct err *e)
{
	struct job_result r = {
	    .model = arena_printf(j->arena, "job %" PRIu64, j->job), .plan = "", .subject = "its plan"};
	struct m_event last;

	if (!session_follow(&j->session, j->arena, j->o, j->job, &last, e))
		return false;
	r.next = arena_printf(j->arena, "%s fetch %" PRIu64 " -o PLAN.korch%s",
	    output_program(j->arena, "korch-jobs"), j->job, session_words(&j->session, j->arena, j->o));
	r.progress = &last.progress;
	if (opt_flag(j->o, OPT_json))
		job_result_json(&r);
	else
		job_result_words(stdout, &r);
	return true;
}

static bool
verb_cancel(struct jobs *j, struct err *e)
{
	if (!client_cancel(j->session.client, j->job, e))
		return false;
	if (opt_flag(j->o, OPT_json))
		(void)printf("{\"job\":%" PRIu64 ",\"cancelled\":true}\n", j->job);
	return true;
}

static bool
verb_fetch(struct jobs *j, struct err *e)
{
	const char *to = opt_text(j->o, OPT_jobs_output);
	struct strbuf sb;

	if (!*to)
		return err_set(e, ERR_USAGE, "fetch: -o PLAN.korch is missing: where shall the plan go?");
	if (!output_check(j->o, to, e) || !client_fetch(j->session.client, j->job, to, e))
		return false;
	if (!opt_flag(j->o, OPT_json))
		return true;
	sb_init(&sb, j->arena);
	json_text(&sb, str_of(to));
	(void)printf("{\"job\":%" PRIu64 ",\"plan\":%s}\n", j->job, sb.p);
	return true;
}

/* The devices: their class is what korch-submit --device names. */
static bool
verb_workers(struct jobs *j, struct err *e)
{
	struct msg m = {.type = MSG_worker_list}, got;
	struct strbuf sb;

	if (!ask(j, &m, &got, MSG_workers, e))
		return false;
	sb_init(&sb, j->arena);
	if (got.workers.n_workers && !opt_flag(j->o, OPT_json))
		worker_table_head(&sb);
	for (uint32_t i = 0; i < got.workers.n_workers; i++)
		if (!opt_flag(j->o, OPT_json))
			worker_table_row(&sb, &got.workers.workers[i]);
		else {
			rec_json(&sb, "worker", &got.workers.workers[i]);
			sb_addc(&sb, '\n');
		}
	(void)fputs(sb.n ? sb.p : "", stdout);
	if (got.workers.n_workers == 0 && !opt_flag(j->o, OPT_json) && !opt_flag(j->o, OPT_quiet))
		(void)fprintf(stderr, "no workers; start one with: korch-worker --daemon %s --device cpu\n",
		    j->session.url);
	return true;
}

static const struct verb {
	const char *name;
	bool takes_job;
	bool (*run)(struct jobs *j, struct err *e);
} verbs[] = {
    {"list", false, verb_list},
    {"show", true, verb_show},
    {"watch", true, verb_watch},
    {"cancel", true, verb_cancel},
    {"fetch", true, verb_fetch},
    {"workers", false, verb_workers},
};

static const struct verb *
find_verb(const struct opts *o, struct err *e)
{
	if (o->n_args > 0)
		for (size_t i = 0; i < COUNT_OF(verbs); i++)
			if (strcmp(verbs[i].name, o->args[0]) == 0)
				return &verbs[i];
	(void)err_set(e, ERR_USAGE,
	    "wanted one of list, show, watch, cancel, fetch, workers%s%s; see korch-jobs --help",
	    o->n_args ? ", got " : "", o->n_args ? o->args[0] : "");
	return NULL;
}

static bool
read_job(struct jobs *j, const struct verb *v, struct err *e)
{
	int64_t id;

	if (j->o->n_args != (v->takes_job ? 2u : 1u))
		return err_set(
		    e, ERR_USAGE, "%s takes %s", v->name, v->takes_job ? "one job number" : "no argument");
	if (!v->takes_job)
		return true;
	if (!str_to_i64(str_of(j->o->args[1]), &id) || id < 1)
		return err_set(e, ERR_USAGE, "%s %s: wanted a job number; korch-jobs list shows them",
		    v->name, j->o->args[1]);
	j->job = (uint64_t)id;
	return true;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};
	struct jobs j = {.arena = &a, .o = &o, .session = {.signal_fd = -1}};
	int rc = opts_main(&a, PROG_JOBS, argc, argv, &o);

	if (rc < 0) {
		const struct verb *v = find_verb(&o, &e);
		bool ok =
		    v && read_job(&j, v, &e) && session_open(&j.session, &a, &o, NULL, &e) && v->run(&j, &e);

		rc = ok ? 0 : opts_fail(&o, &e);
		session_close(&j.session);
	}
	arena_fini(&a);
	return rc;
}
