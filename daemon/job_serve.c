/* daemon/job_serve.c: what clients ask of jobs: submit, list, show, watch, cancel. */
#include "planner_process.h"
#include "learn.h"

#include <stdlib.h>
#include <string.h>

/* ---- submit ------------------------------------------------------------------------- */
struct submit_op {
	struct store_op op;
	struct request *r;
	struct m_job rec;
	bool is_new;
};

static bool
run_submit(struct db *db, struct store_op *op)
{
	struct submit_op *s = (struct submit_op *)(void *)op;
	const struct m_submit *m = &s->r->m.submit;
	char hex[65];
	uint64_t bytes;

	for (uint32_t i = 0; i < m->n_files; i++) {
		hash_hex(&m->files[i].digest, hex);
		if (!blob_size(db, &m->files[i].digest, &bytes))
			return err_set(&op->err, ERR_FAILED, "'%.*s' (%.16s) is not here; upload it first",
			    STR_ARG(m->files[i].name), hex);
	}
	return job_add(db, m->request, &s->rec, m->files, m->n_files, &s->rec.id, &s->is_new, &op->err);
}

static void
done_submit(struct store_op *op)
{
	struct submit_op *s = (struct submit_op *)(void *)op;
	struct daemon *d = op->owner;
	struct msg m = {.type = MSG_submitted};
	struct job *j;

	if (!op->ok) {
		reply_error(d, s->r, &op->err);
	} else {
		if (s->is_new && !job_find(d, s->rec.id)) {
			learn_stop(d, "a job has come");
			j = job_new(d, &s->rec);
			job_event(d, j);
			daemon_log(d, job_new, KVI("job", j->rec.id));
		}
		m.submitted.job = s->rec.id;
		reply(d, s->r, &m);
		planners_tick(d);
	}
	arena_fini(&op->arena);
	free(s);
}

static bool
check_submit(const struct m_submit *m, struct err *e)
{
	if (m->request.n < 16)
		return err_set(e, ERR_PROTO, "a submit names itself by 16 random bytes or more");
	if (m->n_files == 0)
		return err_set(e, ERR_USAGE, "a submit without a model");
	if (m->options.device.n == 0)
		return err_set(e, ERR_USAGE, "a submit without a device class");
	if (m->options.threads > 4096)
		return err_set(e, ERR_USAGE, "threads: 1 to 4096, or 0 for the device's cores, not %llu",
		    (unsigned long long)m->options.threads);
	for (uint32_t i = 0; i < m->n_files; i++) {
		struct str rest = m->files[i].name;

		if (rest.n == 0 || rest.n > 512 || rest.p[0] == '/' || memchr(rest.p, '\0', rest.n))
			return err_set(
			    e, ERR_USAGE, "'%.*s' is not a relative file name", STR_ARG(m->files[i].name));
		while (rest.n)
			if (str_is(str_cut(&rest, '/'), ".."))
				return err_set(e, ERR_USAGE, "'%.*s' leads out of the model's folder",
				    STR_ARG(m->files[i].name));
	}
	return true;
}

void
serve_submit(struct daemon *d, struct request *r)
{
	const struct m_submit *m = &r->m.submit;
	struct submit_op *s;
	struct err e = {0};
	int64_t now = d->os->wall_ns(d->os->self);

	if (!check_submit(m, &e)) {
		reply_error(d, r, &e);
		return;
	}
	s = heap_alloc(sizeof(*s));
	s->op.run = run_submit;
	s->op.done = done_submit;
	s->op.owner = d;
	s->r = r;
	s->rec = (struct m_job){.name = m->name,
	    .title = m->title,
	    .state = str_of(job_state_text(JOB_queued)),
	    .reason = STR(""),
	    .created_ns = now,
	    .changed_ns = now,
	    .options = m->options,
	    .report = STR("")};
	s->rec.progress.phase = STR("queued");
	store_post(d->store, &s->op);
}

/* ---- lists -------------------------------------------------------------------------- */
static bool
run_job_list(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	struct m_jobs *m = &a->m.jobs;

	a->m = (struct msg){.type = MSG_jobs};
	if (!job_list(db, &op->arena, a->r->m.job_list.all, 256, &m->jobs, &m->n_jobs, &op->err))
		return false;
	for (uint32_t i = 0; i < m->n_jobs; i++) /* a list needs no reports */
		m->jobs[i].report = STR("");
	return true;
}

/* As a list or a person is told of it. */
static void
note_running(const struct daemon *d, struct m_job *rec)
{
	bool runs = str_is(rec->state, job_state_text(JOB_planning));
	int64_t until = runs ? d->os->wall_ns(d->os->self) : rec->changed_ns;

	rec->running_ns = rec->started_ns ? MAX_OF(until - rec->started_ns, (int64_t)0) : 0;
}

/* What this life knows of a job is newer than its row, which a full disk may have kept from being written. */
static void
done_job_list(struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	struct m_jobs *m = &a->m.jobs;
	uint32_t n = 0;

	for (uint32_t i = 0; op->ok && i < m->n_jobs; i++) {
		const struct job *j = job_find(op->owner, m->jobs[i].id);

		if (j) {
			m->jobs[i] = j->rec;
			m->jobs[i].report = STR("");
		}
		note_running(op->owner, &m->jobs[i]);
		if (!j || a->r->m.job_list.all || !job_state_is_over(j->state))
			m->jobs[n++] = m->jobs[i];
	}
	if (op->ok)
		m->n_jobs = n;
	ask_end_op(op);
}

void
serve_job_list(struct daemon *d, struct request *r)
{
	ask_store_then(d, r, run_job_list, done_job_list);
}

static bool
run_job_show(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;

	a->m = (struct msg){.type = MSG_jobs};
	a->m.jobs.jobs = NEW(&op->arena, struct m_job);
	a->m.jobs.n_jobs = 1;
	return job_get(db, &op->arena, a->r->m.job_show.job, a->m.jobs.jobs, &op->err);
}

static void
done_job_show(struct store_op *op)
{
	if (op->ok)
		note_running(op->owner, ((struct ask_op *)(void *)op)->m.jobs.jobs);
	ask_end_op(op);
}

/* A job of this life is shown as it is now, another as it was stored. */
void
serve_job_show(struct daemon *d, struct request *r)
{
	struct job *j = job_find(d, r->m.job_show.job);
	struct msg m = {.type = MSG_jobs};

	if (!j) {
		ask_store_then(d, r, run_job_show, done_job_show);
		return;
	}
	note_running(d, &j->rec);
	m.jobs.jobs = &j->rec;
	m.jobs.n_jobs = 1;
	reply(d, r, &m);
}

static bool
run_watch_old(struct db *db, struct store_op *op)
{
	struct ask_op *a = (struct ask_op *)(void *)op;
	struct m_job job;
	struct m_event *ev = NEW(&op->arena, struct m_event);

	a->r->m.job_show.job = a->r->m.job_watch.job;
	if (!run_job_show(db, op))
		return false;
	job = a->m.jobs.jobs[0];
	*ev = (struct m_event){.seq = job.seq,
	    .wall_ns = job.changed_ns,
	    .state = job.state,
	    .reason = job.reason,
	    .progress = job.progress,
	    .code = job.code,
	    .class = job.class};
	a->m = (struct msg){.type = MSG_job_events};
	a->m.job_events = (struct m_job_events){.job = job.id,
	    .events = ev,
	    .n_events = 1,
	    .is_final = true,
	    .plan = job.plan,
	    .plan_bytes = job.plan_bytes,
	    .dump = job.dump,
	    .dump_bytes = job.dump_bytes,
	    .report = job.report};
	return true;
}

static void
answer_no_news(struct daemon *d, struct request *r)
{
	struct msg m = {.type = MSG_job_events};

	m.job_events.job = r->m.job_watch.job;
	m.job_events.report = STR("");
	reply(d, r, &m);
}

void
serve_job_watch(struct daemon *d, struct request *r)
{
	struct m_job_watch *w = &r->m.job_watch;
	struct job *j = job_find(d, w->job);

	if (!j) {
		ask_store(d, r, run_watch_old);
		return;
	}
	if (job_answer_watch(d, j, r))
		return;
	w->wait_ns = MIN_OF(MAX_OF(w->wait_ns, (int64_t)0), 20 * SECOND_NS);
	r->until_ns = daemon_now(d) + w->wait_ns;
	r = park(&d->watches, r);
	if (r)
		answer_no_news(d, r);
}

void
serve_job_cancel(struct daemon *d, struct request *r)
{
	struct job *j = job_find(d, r->m.job_cancel.job);
	struct err e = {0};

	if (j && !job_state_is_over(j->state))
		job_move(d, j, JOB_cancelled, ERR_CANCELLED, "cancelled on request");
	else if (!j) {
		(void)err_set(&e, ERR_USAGE, "there is no unfinished job %llu here",
		    (unsigned long long)r->m.job_cancel.job);
		reply_error(d, r, &e);
		return;
	}
	reply_ok(d, r, 0, "");
}

/* ---- time --------------------------------------------------------------------------- */
void
watches_tick(struct daemon *d)
{
	struct request **at = &d->watches;
	int64_t now = daemon_now(d);

	while (*at) {
		struct request *r = *at;

		bool is_alone = !session_find(d, r->session_id); /* its client has gone */

		if (r->until_ns > now && !is_alone) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		if (is_alone)
			request_drop(d, r);
		else
			answer_no_news(d, r);
	}
}
