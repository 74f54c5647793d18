/* worker/work.c: the work thread: takes batches in order, does their tasks on the device, hands
 * the outcomes back one by one (measurements of a batch together: they are raced). */
#include "worker.h"

#include "../proto/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REQUEST_MAX = 1 << 26, LEAST_BATCH = 4 /* something for two compilers, of which one may be long */ };
static const int64_t batch_ns = 5000000000;

static void
give(struct work *w, const struct m_outcome *o)
{
	struct result *r = heap_alloc(sizeof(*r));

	r->outcome = *o;
	rec_dup(&r->arena, "outcome", &r->outcome);
	(void)pthread_mutex_lock(&w->lock);
	*w->out_tail = r;
	w->out_tail = &r->next;
	(void)pthread_mutex_unlock(&w->lock);
	w->wake(w->self);
}

static void
outcome_fail(struct m_outcome *o, struct arena *a, const struct err *e)
{
	o->fail = (uint64_t)err_wire(e->code);
	o->cause = str_of(str_dup(a, str_of(e->msg)));
}

/* ---- blobs -------------------------------------------------------------------------- */
static bool
open_client(const struct work *w, uint64_t session, struct client **c, struct err *e)
{
	struct client_conf conf = {.url = w->conf->url,
	    .cred = w->conf->cred,
	    .is_worker = true,
	    .session = session,
	    .patience_ns = 20000000000};

	return client_open(c, &conf, e);
}

/* A file with the blob's content: where the daemon has it when that is this host, else fetched, until the
 * task ends. */
static bool
need_file(struct work *w, struct arena *a, uint64_t session, const struct hash *digest, struct str path,
    const char **out, struct err *e)
{
	struct client *c;
	char hex[65];
	bool ok;

	*out = str_dup(a, path);
	if (path.n && access(*out, R_OK) == 0)
		return true;
	hash_hex(digest, hex);
	if (!w->dir[0] && !os_temp_dir("worker", w->dir, e)) {
		w->dir[0] = '\0';
		return false;
	}
	*out = arena_printf(a, "%s/%s", w->dir, hex);
	if (access(*out, R_OK) == 0)
		return true;
	if (!open_client(w, session, &c, e))
		return false;
	ok = client_get_file(c, digest, *out, e);
	client_close(c);
	return ok;
}

static bool
need_request(struct work *w, struct arena *a, uint64_t session, const struct m_task *t, enum msg_type type,
    struct msg *m, struct err *e)
{
	const char *path;
	struct bytes b;

	if (!need_file(w, a, session, &t->payload, t->payload_path, &path, e) ||
	    !os_read_file(os_real(), a, path, REQUEST_MAX, &b, e) || !msg_unpack(a, b, m, e))
		return false;
	return m->type == type || err_set(e, ERR_PROTO, "the task's request is %s", msg_name(m->type));
}

/* ---- tasks -------------------------------------------------------------------------- */
static bool
do_build(struct work *w, struct arena *a, uint64_t session, const struct m_task *t, struct m_outcome *o,
    struct err *e)
{
	struct built b = {0};
	struct client *c;
	struct msg m;
	bool ok;

	if (!need_request(w, a, session, t, MSG_build_ask, &m, e) ||
	    !w->device->build(w->device->self, a, &m.build_ask, &b, e))
		return false;
	if (!open_client(w, session, &c, e))
		return false;
	ok = client_put_bytes(c, b.object, "artefact", &o->artefact, e) &&
	    client_put_bytes(c, b.description, "artefact", &o->description, e);
	client_close(c);
	o->log = (struct str){b.log.p ? b.log.p : "", MIN_OF(b.log.n, (size_t)60000)};
	o->took = b.took;
	return ok;
}

static bool
do_time(struct work *w, struct arena *a, uint64_t session, const struct m_task *t, struct m_outcome *o,
    struct err *e)
{
	const char *paths[16];
	struct msg m;
	uint32_t n;

	if (!need_request(w, a, session, t, MSG_time_ask, &m, e))
		return false;
	n = MIN_OF(m.time_ask.n_plans, (uint32_t)COUNT_OF(paths));
	for (uint32_t i = 0; i < n; i++)
		if (!need_file(w, a, session, &m.time_ask.plans[i].digest,
			t->payload_path.n ? m.time_ask.plans[i].path : STR(""), &paths[i], e))
			return false;
	o->timings = NEW_ARRAY(a, struct m_timing, MAX_OF(n, 1u));
	if (!w->device->time_plans(w->device->self, a, paths, n, (uint32_t)m.time_ask.threads,
		MAX_OF(m.time_ask.budget_ns, (int64_t)0), o->timings, e))
		return false;
	o->n_timings = n;
	return true;
}

/* Kernels of many specs: a row and the spec's digest for each that was timed, or failed by itself. */
static bool
do_race(struct work *w, struct arena *a, uint64_t session, const struct m_task *t, struct m_outcome *o,
    struct err *e)
{
	struct m_task *tasks;
	struct m_outcome *out;
	struct msg m;
	uint32_t n;

	if (!need_request(w, a, session, t, MSG_race_ask, &m, e))
		return false;
	n = m.race_ask.n_kernels;
	tasks = NEW_ARRAY(a, struct m_task, MAX_OF(n, 1u));
	out = NEW_ARRAY(a, struct m_outcome, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		tasks[i] = (struct m_task){.kind = TASK_MEASURE,
		    .spec = m.race_ask.kernels[i].spec,
		    .schedule = m.race_ask.kernels[i].schedule,
		    .effort = 1,
		    .threads = m.race_ask.threads,
		    .precision = m.race_ask.precision,
		    .heat = m.race_ask.kernels[i].heat,
		    .payload_path = STR("")};
		out[i] = task_outcome(&tasks[i]);
	}
	if (w->device->race)
		w->device->race(w->device->self, a, tasks, n, m.race_ask.budget_ns, out);
	else
		w->device->measure(w->device->self, a, tasks, n, out);
	o->rows = NEW_ARRAY(a, struct m_row, MAX_OF(n, 1u));
	o->specs = NEW_ARRAY(a, struct m_digest, MAX_OF(n, 1u));
	for (uint32_t i = 0; i < n; i++) {
		/* another generator's schedule is no reason to time the others again and again */
		if (out[i].fail && err_of_wire(out[i].fail) != ERR_INFEASIBLE)
			return err_set(e, err_of_wire(out[i].fail), "%.*s", STR_ARG(out[i].cause));
		for (uint32_t k = 0; k < out[i].n_rows && k < 1; k++) {
			o->specs[o->n_specs++] = (struct m_digest){out[i].spec, out[i].heat, 0};
			o->rows[o->n_rows++] = out[i].rows[k];
		}
	}
	return true;
}

static bool
do_perturb(struct work *w, struct arena *a, uint64_t session, const struct m_task *t, struct m_outcome *o,
    struct err *e)
{
	struct m_task task;
	struct msg m;

	if (!need_request(w, a, session, t, MSG_perturb_ask, &m, e))
		return false;
	if (m.perturb_ask.n_kernels != 1)
		return err_set(
		    e, ERR_PROTO, "one kernel is perturbed at a time, and not %u", m.perturb_ask.n_kernels);
	task = (struct m_task){.kind = TASK_MEASURE,
	    .spec = m.perturb_ask.kernels[0].spec,
	    .schedule = m.perturb_ask.kernels[0].schedule,
	    .effort = 1,
	    .threads = m.perturb_ask.threads,
	    .precision = m.perturb_ask.precision,
	    .payload_path = STR("")};
	o->spec = hash_bytes(task.spec.p, task.spec.n);
	o->perturbed = (struct m_perturbed){.spec = o->spec,
	    .base = task.schedule,
	    .schedule = STR(""),
	    .precision = STR(""),
	    .worker = STR(""),
	    .asked_ns = m.perturb_ask.asked_ns};
	if (!w->device->perturb)
		return err_set(e, ERR_INFEASIBLE, "device %s has no machine code that could be perturbed",
		    w->device->class);
	return w->device->perturb(w->device->self, a, &task, &m.perturb_ask, o, e);
}

static void
do_other(struct work *w, struct arena *a, uint64_t session, const struct m_task *t)
{
	struct m_outcome o = task_outcome(t);
	struct err e = {0};
	bool ok = false;

	switch (t->kind) {
	case TASK_BUILD:
		ok = do_build(w, a, session, t, &o, &e);
		break;
	case TASK_TIME:
		ok = do_time(w, a, session, t, &o, &e);
		break;
	case TASK_RACE:
		ok = do_race(w, a, session, t, &o, &e);
		break;
	case TASK_PERTURB:
		ok = do_perturb(w, a, session, t, &o, &e);
		break;
	case TASK_CANARY:
		ok = w->device->canary(w->device->self, &e);
		break;
	default:
		(void)err_set(
		    &e, ERR_PROTO, "task kind %llu is not known to this worker", (unsigned long long)t->kind);
	}
	if (w->dir[0])
		os_remove_tree(w->dir);
	w->dir[0] = '\0';
	if (!ok)
		outcome_fail(&o, a, &e);
	give(w, &o);
}

static void
note_speed(struct work *w, uint32_t n, int64_t took_ns)
{
	int64_t each = MAX_OF(took_ns / n, (int64_t)1);

	w->task_ns = w->task_ns ? (3 * w->task_ns + each) / 4 : each;
	atomic_store(&w->batch,
	    (uint32_t)MIN_OF(MAX_OF(batch_ns / w->task_ns, (int64_t)LEAST_BATCH), (int64_t)w->device->batch));
}

uint32_t
work_batch(struct work *w)
{
	return atomic_load(&w->batch);
}

/* ---- batches -------------------------------------------------------------------------- */
/* Those tasks are the device's now; false: nobody wants any of them, or it is time to leave. */
static bool
take_piece(struct work *w, uint32_t from, uint32_t to)
{
	bool is_wanted = false;

	(void)pthread_mutex_lock(&w->lock);
	for (uint32_t i = from; i < to; i++)
		is_wanted = is_wanted || !w->busy->is_off[i];
	is_wanted = is_wanted && !w->is_leaving;
	w->from = from;
	w->to = to;
	w->cancel = !is_wanted;
	(void)pthread_mutex_unlock(&w->lock);
	return is_wanted;
}

/* Gives the tasks back; true: they were done to the end. */
static bool
end_piece(struct work *w)
{
	bool is_whole;

	(void)pthread_mutex_lock(&w->lock);
	is_whole = !w->cancel;
	w->to = w->from;
	w->cancel = w->is_leaving;
	(void)pthread_mutex_unlock(&w->lock);
	return is_whole;
}

static void
stop_unwanted(struct work *w)
{
	for (uint32_t i = w->from; i < w->to; i++)
		if (!w->busy->is_off[i])
			return;
	if (w->from < w->to)
		w->cancel = true;
}

static void
drop_from(struct batch *b, const struct hash *key, uint64_t gen)
{
	for (uint32_t i = 0; b && i < b->n; i++)
		if (b->tasks[i].gen == gen && hash_eq(&b->tasks[i].key, key))
			b->is_off[i] = true;
}

void
work_drop(struct work *w, const struct hash *key, uint64_t gen)
{
	(void)pthread_mutex_lock(&w->lock);
	drop_from(w->busy, key, gen);
	for (struct batch *b = w->in; b; b = b->next)
		drop_from(b, key, gen);
	stop_unwanted(w);
	(void)pthread_mutex_unlock(&w->lock);
}

static void
give_up(struct work *w, const struct m_task *t)
{
	struct m_outcome o = task_outcome(t);

	o.fail = (uint64_t)err_wire(ERR_LINKLOST);
	o.cause = STR("nobody waits for it any more");
	give(w, &o);
}

/* As many as a few seconds will do; nearer to the moment at which nobody waits any more fewer, because what
 * is not done then was done in vain. */
static uint32_t
piece_of(struct work *w, const struct batch *b, uint32_t from)
{
	int64_t left = b->tasks[from].limit_ns
	    ? b->since_ns + b->tasks[from].limit_ns - os_real()->mono_ns(NULL)
	    : INT64_MAX;
	uint32_t n = work_batch(w);

	if (left < 4 * batch_ns)
		n = w->task_ns ? (uint32_t)MIN_OF(MAX_OF(left / 4 / w->task_ns, (int64_t)1), (int64_t)n)
			       : MIN_OF(n, (uint32_t)LEAST_BATCH);
	return MIN_OF(n, b->n - from);
}

/* Measurements from..to: in pieces, so that rows are safe and seen early. */
static void
do_measure(struct work *w, struct batch *b, uint32_t from, uint32_t to)
{
	struct m_outcome *out = NEW_ARRAY(&b->arena, struct m_outcome, to - from);

	for (uint32_t i = from, some; i < to && !w->is_leaving; i += some) {
		int64_t began = os_real()->mono_ns(NULL);

		some = MIN_OF(piece_of(w, b, i), to - i);
		for (uint32_t k = 0; k < some; k++)
			out[k] = task_outcome(&b->tasks[i + k]);
		if (!take_piece(w, i, i + some)) {
			for (uint32_t k = 0; k < some; k++)
				give_up(w, &b->tasks[i + k]);
			continue;
		}
		w->device->measure(w->device->self, &b->arena, b->tasks + i, some, out);
		if (end_piece(w))
			note_speed(w, some, os_real()->mono_ns(NULL) - began);
		for (uint32_t k = 0; k < some && !w->is_leaving; k++)
			give(w, &out[k]);
	}
}

static void
do_batch(struct work *w, struct batch *b)
{
	os_seam("work.batch");
	for (uint32_t i = 0, to; i < b->n && !w->is_leaving; i = to) {
		to = i + 1;
		if (b->tasks[i].kind == TASK_MEASURE) {
			while (to < b->n && b->tasks[to].kind == TASK_MEASURE)
				to++;
			do_measure(w, b, i, to);
		} else if (take_piece(w, i, to)) {
			do_other(w, &b->arena, b->session, &b->tasks[i]);
			(void)end_piece(w);
		} else
			give_up(w, &b->tasks[i]);
	}
}

static void *
work_thread(void *arg)
{
	struct work *w = arg;

	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		struct batch *b;

		while (!w->in && !w->is_closing)
			(void)pthread_cond_wait(&w->posted, &w->lock);
		if (w->is_closing)
			break;
		b = w->in;
		w->in = b->next;
		if (!w->in)
			w->in_tail = &w->in;
		w->busy = b;
		w->from = w->to = 0;
		(void)pthread_mutex_unlock(&w->lock);
		do_batch(w, b);
		(void)pthread_mutex_lock(&w->lock);
		w->busy = NULL;
		arena_fini(&b->arena);
		free(b);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

void
work_start(
    struct work *w, const struct device *d, const struct worker_conf *conf, void (*wake)(void *), void *self)
{
	w->device = d;
	atomic_store(&w->batch, d->batch);
	w->conf = conf;
	w->wake = wake;
	w->self = self;
	w->in_tail = &w->in;
	w->out_tail = &w->out;
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->posted, NULL);
	if (pthread_create(&w->thread, NULL, work_thread, w) != 0)
		bug("the work thread cannot start");
}

void
work_post(struct work *w, struct batch *b)
{
	b->next = NULL;
	b->is_off = NEW_ARRAY(&b->arena, bool, MAX_OF(b->n, 1u));
	b->since_ns = os_real()->mono_ns(NULL);
	(void)pthread_mutex_lock(&w->lock);
	*w->in_tail = b;
	w->in_tail = &b->next;
	(void)pthread_cond_signal(&w->posted);
	(void)pthread_mutex_unlock(&w->lock);
}

struct result *
work_take(struct work *w)
{
	struct result *r;

	(void)pthread_mutex_lock(&w->lock);
	r = w->out;
	if (r) {
		w->out = r->next;
		if (!w->out)
			w->out_tail = &w->out;
	}
	(void)pthread_mutex_unlock(&w->lock);
	return r;
}

void
result_free(struct result *r)
{
	arena_fini(&r->arena);
	free(r);
}

void
work_stop(struct work *w, bool now)
{
	struct result *r;

	(void)pthread_mutex_lock(&w->lock);
	w->is_closing = true;
	if (now)
		w->is_leaving = w->cancel = true;
	(void)pthread_cond_signal(&w->posted);
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	while (w->in) {
		struct batch *b = w->in;

		w->in = b->next;
		arena_fini(&b->arena);
		free(b);
	}
	while ((r = work_take(w)) != NULL)
		result_free(r);
	(void)pthread_mutex_destroy(&w->lock);
	(void)pthread_cond_destroy(&w->posted);
}
