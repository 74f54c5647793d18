/* daemon/job.c: jobs as state machines (job_state.def).  job_move is the only writer of a
 * state; what is over stays in the store.  Events are numbered through all lives of the daemon
 * (boot << 32), so that a client that reconnects asks for what came after the last it saw. */
#include "daemon.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	bool is_over;
} state_row[JOB_STATES] = {
#define JOB_STATE(N, OVER) [JOB_##N] = {#N, OVER},
#include "job_state.def"
};
static const bool legal[JOB_STATES][JOB_STATES] = {
#define JOB_MOVE(FROM, TO) [JOB_##FROM][JOB_##TO] = true,
#include "job_state.def"
};

const char *
job_state_text(enum job_state s)
{
	return state_row[s].name;
}

bool
job_state_is_over(enum job_state s)
{
	return state_row[s].is_over;
}

struct job *
job_find(const struct daemon *d, uint64_t id)
{
	struct job *j = d->jobs;

	while (j && j->rec.id != id)
		j = j->next;
	return j;
}

/* ---- saving ------------------------------------------------------------------------- */
struct save_op {
	struct store_op op;
	struct m_job rec;
};

static bool
run_save(struct db *db, struct store_op *op)
{
	return job_save(db, &((struct save_op *)(void *)op)->rec, &op->err);
}

static void
done_save(struct store_op *op)
{
	struct daemon *d = op->owner;

	if (!op->ok)
		daemon_log(d, "job.save_failed", "why=%s", op->err.msg);
	arena_fini(&op->arena);
	free(op);
}

static void
save(struct daemon *d, const struct job *j)
{
	struct save_op *s = heap_alloc(sizeof(*s));

	s->op.run = run_save;
	s->op.done = done_save;
	s->op.owner = d;
	s->rec = j->rec;
	rec_dup(&s->op.arena, "job", &s->rec);
	store_post(d->store, &s->op);
}

/* ---- events ------------------------------------------------------------------------- */
static bool
answer_watch(struct daemon *d, struct job *j, struct request *r)
{
	const struct m_job_watch *w = &r->m.job_watch;
	struct msg m = {.type = MSG_job_events};
	struct m_job_events *out = &m.job_events;
	uint64_t last = j->rec.seq, from = MAX_OF(w->after + 1, j->first_seq);
	bool over = job_state_is_over(j->state);

	if (last <= w->after && !over)
		return false;
	out->job = j->rec.id;
	out->is_final = over;
	out->report = STR("");
	if (last > w->after) {
		out->events = NEW_ARRAY(&r->arena, struct m_event, JOB_EVENTS);
		for (uint64_t seq = from; seq <= last && out->n_events < JOB_EVENTS; seq++)
			out->events[out->n_events++] = j->events[seq % JOB_EVENTS].e;
	}
	if (over) {
		out->plan = j->rec.plan;
		out->plan_bytes = j->rec.plan_bytes;
		out->report = j->rec.report;
	}
	answer(d, r, &m);
	return true;
}

static void
tell_watchers(struct daemon *d, struct job *j)
{
	struct request **at = &d->watches;

	while (*at) {
		struct request *r = *at;

		if (r->m.job_watch.job != j->rec.id) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		if (!answer_watch(d, j, r)) {
			r->next = *at;
			*at = r;
			at = &r->next;
		}
	}
}

void
job_event(struct daemon *d, struct job *j)
{
	struct job_event *ev;

	j->rec.seq = MAX_OF(d->instance << 32, j->rec.seq) + 1;
	/* within a life the numbers have no gaps, so the ring is found by number */
	if (j->first_seq == 0)
		j->first_seq = j->rec.seq;
	j->first_seq = MAX_OF(j->first_seq, j->rec.seq - MIN_OF(j->rec.seq, (uint64_t)JOB_EVENTS - 1));
	ev = &j->events[j->rec.seq % JOB_EVENTS];
	arena_fini(&ev->arena);
	ev->e = (struct m_event){.seq = j->rec.seq, .wall_ns = d->os->wall_ns(d->os->self),
	    .state = str_of(job_state_text(j->state)), .reason = j->rec.reason, .progress = j->rec.progress,
	    .code = j->rec.code};
	rec_dup(&ev->arena, "event", &ev->e);
	tell_watchers(d, j);
}

void
job_move(struct daemon *d, struct job *j, enum job_state to, enum err_code code, const char *reason)
{
	if (!legal[j->state][to])
		bug("job %llu may not go from %s to %s", (unsigned long long)j->rec.id, job_state_text(j->state),
		    job_state_text(to));
	daemon_log(d, "job.move", "job=%llu from=%s to=%s%s%s", (unsigned long long)j->rec.id,
	    job_state_text(j->state), job_state_text(to), reason[0] ? " reason=" : "", reason);
	j->state = to;
	j->rec.state = str_of(job_state_text(to));
	j->rec.reason = str_of(arena_printf(&j->arena, "%.500s", reason));
	j->rec.code = (uint64_t)err_wire(code);
	j->rec.changed_ns = d->os->wall_ns(d->os->self);
	if (job_state_is_over(to)) {
		planner_stop(j);
		farm_drop(d->farm, j->rec.id, NULL, task_data_free);
	}
	job_event(d, j);
	save(d, j);
}

/* ---- birth -------------------------------------------------------------------------- */
static struct job *
job_new(struct daemon *d, const struct m_job *rec)
{
	struct job *j = heap_alloc(sizeof(*j));

	j->daemon = d;
	j->rec = *rec;
	rec_dup(&j->arena, "job", &j->rec);
	j->state = JOB_queued;
	j->next = d->jobs;
	d->jobs = j;
	return j;
}

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
		answer_error(d, s->r, &op->err);
	} else {
		if (s->is_new && !job_find(d, s->rec.id)) {
			j = job_new(d, &s->rec);
			job_event(d, j);
			daemon_log(d, "job.new", "job=%llu", (unsigned long long)j->rec.id);
		}
		m.submitted.job = s->rec.id;
		answer(d, s->r, &m);
		jobs_tick(d);
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
	if (m->options.threads == 0 || m->options.threads > 4096)
		return err_set(e, ERR_USAGE, "threads: 1 to 4096, not %llu", (unsigned long long)m->options.threads);
	for (uint32_t i = 0; i < m->n_files; i++) {
		struct str rest = m->files[i].name;

		if (rest.n == 0 || rest.n > 512 || rest.p[0] == '/' || memchr(rest.p, '\0', rest.n))
			return err_set(e, ERR_USAGE, "'%.*s' is not a relative file name", STR_ARG(m->files[i].name));
		while (rest.n)
			if (str_is(str_cut(&rest, '/'), ".."))
				return err_set(e, ERR_USAGE, "'%.*s' leads out of the model's folder", STR_ARG(m->files[i].name));
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
		answer_error(d, r, &e);
		return;
	}
	s = heap_alloc(sizeof(*s));
	s->op.run = run_submit;
	s->op.done = done_submit;
	s->op.owner = d;
	s->r = r;
	s->rec = (struct m_job){.name = m->name, .state = str_of(job_state_text(JOB_queued)), .reason = STR(""),
	    .created_ns = now, .changed_ns = now, .options = m->options, .report = STR("")};
	s->rec.progress.phase = STR("queued");
	store_post(d->store, &s->op);
}

struct load_op {
	struct store_op op;
	struct m_job *list;
	uint32_t n;
};

static bool
run_load(struct db *db, struct store_op *op)
{
	struct load_op *l = (struct load_op *)(void *)op;

	return job_list(db, &op->arena, false, 100000, &l->list, &l->n, &op->err);
}

static void
done_load(struct store_op *op)
{
	struct load_op *l = (struct load_op *)(void *)op;
	struct daemon *d = op->owner;

	if (!op->ok)
		daemon_log(d, "job.load_failed", "why=%s", op->err.msg);
	for (uint32_t i = l->n; op->ok && i-- > 0;) { /* newest come first; the oldest gets its planner first */
		struct job *j = job_new(d, &l->list[i]);

		if (!str_is(j->rec.state, job_state_text(JOB_queued)))
			j->rec.restarts++;
		j->rec.state = str_of(job_state_text(JOB_queued));
		daemon_log(d, "job.resume", "job=%llu", (unsigned long long)j->rec.id);
		job_event(d, j);
	}
	arena_fini(&op->arena);
	free(l);
	jobs_tick(d);
}

bool
jobs_load(struct daemon *d, struct err *e)
{
	struct load_op *l = heap_alloc(sizeof(*l));

	(void)e;
	l->op.run = run_load;
	l->op.done = done_load;
	l->op.owner = d;
	store_post(d->store, &l->op);
	return true;
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

void
serve_job_list(struct daemon *d, struct request *r)
{
	ask_store(d, r, run_job_list);
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

/* A job of this life is shown as it is now, another as it was stored. */
void
serve_job_show(struct daemon *d, struct request *r)
{
	struct job *j = job_find(d, r->m.job_show.job);
	struct msg m = {.type = MSG_jobs};

	if (!j) {
		ask_store(d, r, run_job_show);
		return;
	}
	m.jobs.jobs = &j->rec;
	m.jobs.n_jobs = 1;
	answer(d, r, &m);
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
	*ev = (struct m_event){.seq = job.seq, .wall_ns = job.changed_ns, .state = job.state, .reason = job.reason,
	    .progress = job.progress, .code = job.code};
	a->m = (struct msg){.type = MSG_job_events};
	a->m.job_events = (struct m_job_events){.job = job.id, .events = ev, .n_events = 1, .is_final = true,
	    .plan = job.plan, .plan_bytes = job.plan_bytes, .report = job.report};
	return true;
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
	if (answer_watch(d, j, r))
		return;
	w->wait_ns = MIN_OF(MAX_OF(w->wait_ns, (int64_t)0), 20 * SECOND_NS);
	r->until_ns = daemon_now(d) + w->wait_ns;
	r->next = d->watches;
	d->watches = r;
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
		answer_error(d, r, &e);
		return;
	}
	answer_ok(d, r, 0, "");
}

/* ---- time --------------------------------------------------------------------------- */
static void
expire_watches(struct daemon *d)
{
	struct request **at = &d->watches;
	int64_t now = daemon_now(d);

	while (*at) {
		struct request *r = *at;
		struct msg m = {.type = MSG_job_events};

		if (r->until_ns > now) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		m.job_events.job = r->m.job_watch.job;
		m.job_events.report = STR("");
		answer(d, r, &m);
	}
}

/* Jobs that have been over for a while are known to the store alone. */
static void
forget_old(struct daemon *d)
{
	struct job **at = &d->jobs;
	int64_t now = d->os->wall_ns(d->os->self);

	while (*at) {
		struct job *j = *at;

		if (!job_state_is_over(j->state) || j->n_ops || j->planner ||
		    (now - j->rec.changed_ns < 600 * SECOND_NS && now >= j->rec.changed_ns)) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		for (int i = 0; i < JOB_EVENTS; i++)
			arena_fini(&j->events[i].arena);
		arena_fini(&j->arena);
		arena_fini(&j->env_arena);
		arena_fini(&j->last_words_arena);
		free(j->in);
		free(j);
	}
}

void
jobs_tick(struct daemon *d)
{
	expire_watches(d);
	planners_tick(d);
	forget_old(d);
}

void
jobs_free(struct daemon *d)
{
	while (d->watches) {
		struct request *r = d->watches;

		d->watches = r->next;
		request_drop(r);
	}
	while (d->jobs) {
		struct job *j = d->jobs;

		d->jobs = j->next;
		planner_stop(j);
		for (int i = 0; i < JOB_EVENTS; i++)
			arena_fini(&j->events[i].arena);
		arena_fini(&j->arena);
		arena_fini(&j->env_arena);
		arena_fini(&j->last_words_arena);
		free(j->in);
		free(j);
	}
}
