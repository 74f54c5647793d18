/* daemon/job.c: jobs as state machines (job_state.def).  job_move is the only writer of a
 * state; what is over stays in the store.  Events are numbered through all lives of the daemon
 * (boot << 32), so that a client that reconnects asks for what came after the last it saw. */
#include "task.h"

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

/* ---- saving ------------------------------------------------------------------------- */
/* How a job ended is told when it is on disk: as its row, or, where that cannot be written, as its last word
 * (schema/last_word.c).  What could not be saved is saved later. */
struct save_op {
	struct store_op op;
	struct m_job rec;
	bool tells; /* the end, when it is kept */
};

static bool
run_save(struct db *db, struct store_op *op)
{
	return job_save(db, &((struct save_op *)(void *)op)->rec, &op->err);
}

static bool
run_last_word(struct db *db, struct store_op *op)
{
	return last_word_put(db, &((struct save_op *)(void *)op)->rec, &op->err);
}

static void tell_event(struct daemon *d, struct job *j);

static void
tell_end(struct daemon *d, struct job *j)
{
	if (j->is_told)
		return;
	j->is_told = true;
	tell_event(d, j);
}

static void
free_save(struct store_op *op)
{
	arena_fini(&op->arena);
	free(op);
}

static void
done_last_word(struct store_op *op)
{
	struct daemon *d = op->owner;
	struct job *j = job_find(d, ((struct save_op *)(void *)op)->rec.id);

	if (!op->ok)
		daemon_log(d, job_save_failed, KVZ("why", op->err.msg));
	if (j) {
		j->n_ops--;
		tell_end(d, j);
	}
	free_save(op);
}

static void
done_save(struct store_op *op)
{
	struct save_op *s = (struct save_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = job_find(d, s->rec.id);

	if (!op->ok)
		daemon_log(d, job_save_failed, KVZ("why", op->err.msg));
	else if (s->tells)
		last_word_drop(d->conf->data, s->rec.id);
	if (j) {
		j->is_unsaved = !op->ok;
		j->saved_ns = daemon_now(d);
	}
	if (j && s->tells && !op->ok && !j->is_told) {
		op->run = run_last_word;
		op->done = done_last_word;
		store_post(d->store, op);
		return;
	}
	if (j) {
		j->n_ops--;
		if (s->tells)
			tell_end(d, j);
	}
	free_save(op);
}

static void
save(struct daemon *d, struct job *j)
{
	struct save_op *s = heap_alloc(sizeof(*s));

	s->op.run = run_save;
	s->op.done = done_save;
	s->op.owner = d;
	s->rec = j->rec;
	s->tells = job_state_is_over(j->state);
	rec_dup(&s->op.arena, "job", &s->rec);
	j->n_ops++;
	store_post(d->store, &s->op);
}

/* Once a second what could not be saved. */
static void
save_late(struct daemon *d)
{
	int64_t now = daemon_now(d);

	for (struct job *j = d->jobs; j; j = j->next)
		if (j->is_unsaved && now - j->saved_ns >= SECOND_NS) {
			j->is_unsaved = false;
			save(d, j);
		}
}

/* ---- events ------------------------------------------------------------------------- */
bool
job_answer_watch(struct daemon *d, struct job *j, struct request *r)
{
	const struct m_job_watch *w = &r->m.job_watch;
	struct msg m = {.type = MSG_job_events};
	struct m_job_events *out = &m.job_events;
	uint64_t last = j->last_seq, from = MAX_OF(w->after + 1, j->first_seq);
	bool over = job_state_is_over(j->state) && j->is_told;

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
		out->dump = j->rec.dump;
		out->dump_bytes = j->rec.dump_bytes;
	}
	reply(d, r, &m);
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
		if (!job_answer_watch(d, j, r)) {
			r->next = *at;
			*at = r;
			at = &r->next;
		}
	}
}

/* The number of its next event.  Within a life they have no gaps, so the ring is found by number. */
static void
next_number(struct daemon *d, struct job *j)
{
	j->rec.seq = MAX_OF(d->instance << 32, j->rec.seq) + 1;
	if (j->first_seq == 0)
		j->first_seq = j->rec.seq;
	j->first_seq = MAX_OF(j->first_seq, j->rec.seq - MIN_OF(j->rec.seq, (uint64_t)JOB_EVENTS - 1));
}

static void
tell_event(struct daemon *d, struct job *j)
{
	struct job_event *ev = &j->events[j->rec.seq % JOB_EVENTS];

	arena_fini(&ev->arena);
	ev->e = (struct m_event){.seq = j->rec.seq,
	    .wall_ns = d->os->wall_ns(d->os->self),
	    .state = str_of(job_state_text(j->state)),
	    .reason = j->rec.reason,
	    .progress = j->rec.progress,
	    .code = j->rec.code,
	    .class = j->rec.class};
	rec_dup(&ev->arena, "event", &ev->e);
	j->last_seq = j->rec.seq;
	tell_watchers(d, j);
}

void
job_event(struct daemon *d, struct job *j)
{
	next_number(d, j);
	tell_event(d, j);
}

void
job_move(struct daemon *d, struct job *j, enum job_state to, enum err_code code, const char *reason)
{
	if (!legal[j->state][to])
		bug("job %llu may not go from %s to %s", (unsigned long long)j->rec.id,
		    job_state_text(j->state), job_state_text(to));
	daemon_log(d, job_move, KVI("job", j->rec.id), KVZ("from", job_state_text(j->state)),
	    KVZ("to", job_state_text(to)), KVZ("reason", reason));
	j->state = to;
	j->rec.state = str_of(job_state_text(to));
	j->rec.reason = str_of(arena_printf(&j->arena, "%.500s", reason));
	j->rec.code = (uint64_t)err_wire(code);
	j->rec.changed_ns = d->os->wall_ns(d->os->self);
	if (to == JOB_planning)
		j->rec.started_ns = j->rec.changed_ns;
	if (job_state_is_over(to)) {
		planner_stop(j);
		farm_drop(d->farm, j->rec.id, NULL, task_data_free);
		next_number(d, j); /* saved with it: who asks the next korchd hears of nothing older */
	} else
		job_event(d, j);
	save(d, j);
}

void
job_note(struct daemon *d, struct job *j, const char *reason)
{
	if (str_is(j->rec.reason, reason))
		return;
	j->rec.reason = str_of(arena_printf(&j->arena, "%.500s", reason));
	job_event(d, j);
}

/* ---- birth -------------------------------------------------------------------------- */
struct job *
job_new(struct daemon *d, const struct m_job *rec)
{
	struct job *j = heap_alloc(sizeof(*j));

	j->daemon = d;
	j->rec = *rec;
	rec_dup(&j->arena, "job", &j->rec);
	j->found_ns = daemon_now(d);
	j->state = JOB_queued;
	j->next = d->jobs;
	d->jobs = j;
	return j;
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

	if (!job_list(db, &op->arena, false, 100000, &l->list, &l->n, &op->err))
		return false;
	last_words_sweep(db, l->list, l->n);
	return true;
}

/* It ended in an earlier life, and only its last word says so. */
static bool
take_ended(struct daemon *d, struct job *j)
{
	for (int s = 0; s < JOB_STATES; s++)
		if (state_row[s].is_over && str_is(j->rec.state, state_row[s].name)) {
			j->state = (enum job_state)s;
			next_number(d, j);
			tell_end(d, j);
			save(d, j);
			return true;
		}
	return false;
}

static void
done_load(struct store_op *op)
{
	struct load_op *l = (struct load_op *)(void *)op;
	struct daemon *d = op->owner;

	if (!op->ok)
		daemon_log(d, job_load_failed, KVZ("why", op->err.msg));
	for (uint32_t i = l->n;
	     op->ok && i-- > 0;) { /* newest come first; the oldest gets its planner first */
		struct job *j = job_new(d, &l->list[i]);

		if (take_ended(d, j))
			continue;
		if (job_is_unread(&j->rec)) { /* what was asked for is lost */
			job_move(d, j, JOB_failed, ERR_FORMAT,
			    arena_printf(&op->arena, "%.*s; submit the model again", STR_ARG(j->rec.reason)));
			continue;
		}
		if (!str_is(j->rec.state, job_state_text(JOB_queued)))
			j->rec.restarts++;
		j->rec.state = str_of(job_state_text(JOB_queued));
		daemon_log(d, job_resume, KVI("job", j->rec.id));
		job_event(d, j);
	}
	arena_fini(&op->arena);
	free(l);
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

static void
job_free(struct job *j)
{
	for (int i = 0; i < JOB_EVENTS; i++)
		arena_fini(&j->events[i].arena);
	arena_fini(&j->arena);
	arena_fini(&j->env_arena);
	arena_fini(&j->last_words_arena);
	free(j->in);
	free(j);
}

/* Jobs that have been over for a while are known to the store alone. */
static void
forget_old(struct daemon *d)
{
	struct job **at = &d->jobs;
	int64_t now = d->os->wall_ns(d->os->self);

	while (*at) {
		struct job *j = *at;

		if (!job_state_is_over(j->state) || j->n_ops || j->is_unsaved || j->planner ||
		    (now - j->rec.changed_ns < 600 * SECOND_NS && now >= j->rec.changed_ns)) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		job_free(j);
	}
}

void
jobs_tick(struct daemon *d)
{
	save_late(d);
	forget_old(d);
}

void
jobs_free(struct daemon *d)
{
	while (d->watches) {
		struct request *r = d->watches;

		d->watches = r->next;
		request_drop(d, r);
	}
	while (d->jobs) {
		struct job *j = d->jobs;

		d->jobs = j->next;
		planner_stop(j);
		job_free(j);
	}
}
