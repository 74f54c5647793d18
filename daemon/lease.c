/* daemon/lease.c: what workers ask for.  A lease request that finds nothing waits (parked, at
 * no cost) until something is ready or its time is up.  A result is acknowledged after its rows
 * are on disk; only then does the task end. */
#include "task.h"

#include <stdlib.h>
#include <string.h>

static const int64_t POLL_NS = 20 * SECOND_NS;

/* The device that a worker means: the class it names, or its only one. */
static const struct session *
device_at(const struct request *r, struct str class, uint32_t *at)
{
	const struct session *s = r->session;

	for (*at = 0; *at < s->n_envs; ++*at)
		if (class.n == 0 || str_is(class, s->envs[*at].class))
			return s;
	return NULL;
}

/* ---- lease -------------------------------------------------------------------------- */
static void
fill_task(struct m_task *out, const struct farm_grant *g, const struct session *s)
{
	const struct task_data *data = g->task ? g->task->data : NULL;

	*out = (struct m_task){.gen = g->gen,
	    .lease_ns = g->lease_ns,
	    .kind = TASK_CANARY,
	    .spec = STR(""),
	    .precision = STR(""),
	    .payload_path = STR("")};
	if (!data)
		return;
	out->key = g->task->want.key;
	out->kind = data->kind;
	out->spec = data->spec;
	out->effort = data->effort;
	out->threads = data->threads;
	out->precision = data->precision;
	out->payload = data->payload;
	if (s->is_local)
		out->payload_path = data->payload_path;
	out->limit_ns = data->limit_ns;
	out->known = data->known;
	out->n_known = data->n_known;
}

static size_t
task_bytes(const struct m_task *t)
{
	size_t n = 400 + t->spec.n + t->payload_path.n;

	for (uint32_t i = 0; i < t->n_known; i++)
		n += 16 + t->known[i].name.n + t->known[i].value.n;
	return n;
}

/* False when there is nothing; else the request is answered. */
static bool
try_lease(struct daemon *d, struct request *r)
{
	struct farm_grant grants[FARM_BATCH];
	struct msg m = {.type = MSG_grant};
	uint32_t at, n, max = (uint32_t)MIN_OF(MAX_OF(r->m.lease.max, (uint64_t)1), (uint64_t)FARM_BATCH);
	const struct session *s = device_at(r, r->m.lease.class, &at);
	size_t sum = 0;

	if (!s)
		return false;
	n = farm_lease(d->farm, s->envs[at].device, max, daemon_now(d), grants);
	if (n == 0)
		return false;
	m.grant.tasks = NEW_ARRAY(&r->arena, struct m_task, n);
	for (uint32_t i = 0; i < n; i++) {
		struct m_task *t = &m.grant.tasks[m.grant.n_tasks];

		fill_task(t, &grants[i], s);
		sum += task_bytes(t);
		if (i > 0 && sum > MSG_MAX_BYTES / 4 * 3)
			farm_release(d->farm, s->envs[at].device, &t->key, t->gen);
		else
			m.grant.n_tasks++;
	}
	daemon_log(d, lease_grant, KVZ("worker", s->name), KVI("n", m.grant.n_tasks),
	    KVI("first_gen", m.grant.tasks[0].gen));
	answer(d, r, &m);
	return true;
}

static void
answer_nothing(struct daemon *d, struct request *r, bool drain)
{
	struct msg m = {.type = MSG_grant};
	uint8_t jitter;

	auth_random(&jitter, sizeof(jitter));
	m.grant.retry_ns = (int64_t)jitter * 1000000;
	m.grant.drain = drain;
	answer(d, r, &m);
}

/* The same request again: nobody waits for the answer to the one before. */
static void
drop_repeated(struct daemon *d, const struct request *r)
{
	struct request **at = &d->polls;

	while (*at) {
		struct request *old = *at;

		if (old->session_id != r->session_id || old->m.id != r->m.id) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		request_drop(d, old);
	}
}

void
serve_lease(struct daemon *d, struct request *r)
{
	uint32_t at;
	const struct session *s = device_at(r, r->m.lease.class, &at);
	struct err e = {0};

	if (!s) {
		(void)err_set(
		    &e, ERR_PROTO, "this worker has no device of class '%.*s'", STR_ARG(r->m.lease.class));
		answer_error(d, r, &e);
		return;
	}
	if (s->lease_answer.n && s->lease_id == r->m.id) { /* its answer was lost on the way */
		sock_answer(d->net, r->sock, s->lease_answer);
		arena_fini(&r->arena);
		free(r);
		return;
	}
	drop_repeated(d, r);
	farm_here(d->farm, s->envs[at].device);
	if (d->is_stopping || farm_device(d->farm, s->envs[at].device)->state == DEVICE_DRAINING) {
		answer_nothing(d, r, true);
		return;
	}
	if (try_lease(d, r))
		return;
	r->until_ns = daemon_now(d) + MIN_OF(MAX_OF(r->m.lease.wait_ns, (int64_t)0), POLL_NS);
	r = park(&d->polls, r);
	if (r)
		answer_nothing(d, r, false);
}

/* A parked poll whose session has ended or speaks through another connection is let go. */
static bool
poll_is_stale(struct daemon *d, struct request *r)
{
	r->session = session_find(d, r->session_id);
	return !r->session || !r->session->is_connected || r->session->peer != r->peer;
}

void
leases_push(struct daemon *d)
{
	struct request **at = &d->polls;

	while (*at) {
		struct request *r = *at;

		*at = r->next;
		if (poll_is_stale(d, r)) {
			request_drop(d, r);
			continue;
		}
		if (try_lease(d, r))
			continue;
		r->next = *at;
		*at = r;
		at = &r->next;
	}
}

void
leases_tick(struct daemon *d)
{
	struct farm_task *t;
	struct request **at = &d->polls;
	int64_t now = daemon_now(d);

	while ((t = farm_tick(d->farm, now)) != NULL)
		task_over(d, t, NULL, NULL);
	while (*at) {
		struct request *r = *at;
		uint32_t k;
		bool drain;

		if (poll_is_stale(d, r)) {
			*at = r->next;
			request_drop(d, r);
			continue;
		}
		drain = device_at(r, r->m.lease.class, &k) &&
		    farm_device(d->farm, r->session->envs[k].device)->state == DEVICE_DRAINING;
		if (r->until_ns > now && !drain) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		answer_nothing(d, r, drain);
	}
	leases_push(d);
}

/* ---- renew, release ----------------------------------------------------------------- */
static bool
touch(struct daemon *d, const struct session *s, const struct m_held *h)
{
	for (uint32_t i = 0; i < s->n_envs; i++)
		if (farm_touch(d->farm, s->envs[i].device, &h->key, h->gen, daemon_now(d)))
			return true;
	return false;
}

void
serve_renew(struct daemon *d, struct request *r)
{
	struct msg m = {.type = MSG_renewed};
	const struct session *s = r->session;
	uint32_t cap = 0;

	for (uint32_t i = 0; i < s->n_envs; i++)
		farm_here(d->farm, s->envs[i].device);
	for (uint32_t i = 0; i < r->m.renew.n_held; i++) {
		if (touch(d, s, &r->m.renew.held[i]))
			continue;
		GROW(&r->arena, m.renewed.revoked, m.renewed.n_revoked, cap);
		m.renewed.revoked[m.renewed.n_revoked++] = r->m.renew.held[i];
	}
	for (uint32_t i = 0; i < s->n_envs; i++)
		m.renewed.drain |= farm_device(d->farm, s->envs[i].device)->state == DEVICE_DRAINING;
	answer(d, r, &m);
}

void
serve_release(struct daemon *d, struct request *r)
{
	for (uint32_t k = 0; k < r->m.release.n_held; k++)
		for (uint32_t i = 0; i < r->session->n_envs; i++)
			farm_release(d->farm, r->session->envs[i].device, &r->m.release.held[k].key,
			    r->m.release.held[k].gen);
	answer_ok(d, r, 0, "");
	leases_push(d);
}

void
serve_drain(struct daemon *d, struct request *r)
{
	uint64_t n = 0;

	for (struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++)
			if (r->m.drain.name.n == 0 || str_is(r->m.drain.name, s->name)) {
				farm_drain(d->farm, s->envs[i].device);
				n++;
			}
	answer_ok(d, r, n, "");
	leases_tick(d);
}

void
serve_kick(struct daemon *d, struct request *r)
{
	farm_kick(d->farm);
	answer_ok(d, r, 0, "");
	leases_push(d);
}

/* ---- results ------------------------------------------------------------------------ */
struct result_op {
	struct store_op op;
	struct request *r;
	uint64_t device;
	char *worker;
	struct meas_key key;  /* but threads and precision, which each outcome names */
	struct m_cost *costs; /* one per outcome */
	struct m_build_have *builds;
	struct m_race_have *races;
	bool *is_late;
	struct hash *build_key;
};

static enum err_code
fail_of(const struct m_outcome *o)
{
	return o->fail ? err_of_wire((int)MIN_OF(o->fail, (uint64_t)1000)) : ERR_NONE;
}

/* What stands for a spec none of whose schedules worked. */
static void
sum_up(const struct m_outcome *o, uint64_t *fail, struct str *cause)
{
	*fail = o->fail;
	*cause = o->cause;
	if (*fail || o->n_rows == 0)
		return;
	for (uint32_t i = 0; i < o->n_rows; i++)
		if (!o->rows[i].fail)
			return;
	*fail = o->rows[0].fail;
	*cause = o->rows[0].cause;
}

static bool
put_measured(struct db *db, struct result_op *x, uint32_t i)
{
	const struct m_outcome *o = &x->r->m.result.outcomes[i];
	struct meas_key k = x->key;
	struct meas_origin from = {str_of(x->worker), o->gen, o->effort, 0};
	struct err *e = &x->op.err, unknown = {0};
	uint64_t fail;
	struct str text, cause;

	k.threads = o->threads;
	k.precision = o->precision;
	if (o->fail && !fail_is_kept(o->fail))
		return true; /* the machine's fault: nothing is known of the kernel */
	if (o->threads == 0 || o->threads > 4096 || o->effort > 1000000)
		return err_set(e, ERR_PROTO, "a result with numbers out of range");
	/* a daemon that has lost the task in a crash still has the spec; one that has not (another
	 * data folder) can do nothing with the rows, and must not refuse the others for it */
	if (!spec_text(db, &x->op.arena, &o->spec, &text, &unknown)) {
		x->is_late[i] = true;
		return unknown.code == ERR_FAILED || err_set(e, unknown.code, "%s", unknown.msg);
	}
	sum_up(o, &fail, &cause);
	return meas_put(db, &o->spec, &k, o->rows, o->n_rows, &from, e) &&
	    (fail && !fail_is_kept(fail) ? true : attempt_put(db, &o->spec, &k, o->effort, fail, cause, e)) &&
	    meas_best(db, &x->op.arena, &o->spec, &k, &x->costs[i], e);
}

static bool
put_built(struct db *db, struct result_op *x, uint32_t i)
{
	const struct m_outcome *o = &x->r->m.result.outcomes[i];
	struct m_build_have *b = &x->builds[i];
	uint64_t bytes;

	*b = (struct m_build_have){.digest = o->artefact,
	    .fail = o->fail,
	    .cause = o->cause,
	    .log = o->log,
	    .path = STR(""),
	    .worker = str_of(x->worker)};
	if (o->fail)
		return true;
	if (!blob_size(db, &o->artefact, &bytes))
		return err_set(&x->op.err, ERR_FAILED, "the built object is not here; upload it first");
	b->path = str_of(blob_path(&x->op.arena, db, &o->artefact));
	return build_put(db, &o->key, &o->artefact, o->log, str_of(x->worker), &x->op.err);
}

/* Numbers come from a worker: what cannot be a time is not kept. */
static bool
put_timed(struct db *db, struct result_op *x, uint32_t i)
{
	const struct m_outcome *o = &x->r->m.result.outcomes[i];

	for (uint32_t k = 0; k < o->n_timings; k++)
		if (o->timings[k].median_ns <= 0 || o->timings[k].samples > INT64_MAX)
			return true;
	return o->fail || plan_time_put(db, &o->key, o->timings, o->n_timings, &x->op.err);
}

/* A race names the spec of each of its rows; the costs that come of them go to the asker. */
static bool
put_raced(struct db *db, struct result_op *x, uint32_t i)
{
	const struct m_outcome *o = &x->r->m.result.outcomes[i];
	struct m_race_have *have = &x->races[i];
	struct meas_key k = x->key;
	struct meas_origin from = {str_of(x->worker), o->gen, 0, 0};
	struct err *e = &x->op.err;

	*have = (struct m_race_have){.cause = STR("")};
	if (o->fail)
		return true;
	if (o->n_specs != o->n_rows || o->threads == 0 || o->threads > 4096)
		return err_set(e, ERR_PROTO, "a race's result with numbers out of range");
	k.threads = o->threads;
	k.precision = o->precision;
	have->costs = NEW_ARRAY(&x->op.arena, struct m_cost, MAX_OF(o->n_rows, 1u));
	have->n_costs = o->n_rows;
	for (uint32_t n = 0; n < o->n_rows; n++)
		if (!repeat_put(db, &o->specs[n].hash, &k, &o->key, &o->rows[n], &from, e))
			return false;
	for (uint32_t n = 0; n < o->n_rows; n++)
		if (!meas_best(db, &x->op.arena, &o->specs[n].hash, &k, &have->costs[n], e))
			return false;
	return true;
}

static bool
put_outcome(struct db *db, struct result_op *x, uint32_t i)
{
	static bool (*const put[TASK_KINDS])(struct db * db, struct result_op * x, uint32_t i) = {
	    [TASK_MEASURE] = put_measured,
	    [TASK_BUILD] = put_built,
	    [TASK_TIME] = put_timed,
	    [TASK_RACE] = put_raced};
	uint64_t kind = x->r->m.result.outcomes[i].kind;

	return kind >= TASK_KINDS || !put[kind] || put[kind](db, x, i);
}

static bool
run_result(struct db *db, struct store_op *op)
{
	struct result_op *x = (struct result_op *)(void *)op;
	const struct m_result *m = &x->r->m.result;

	for (uint32_t i = 0; i < m->n_outcomes; i++) {
		if (!x->is_late[i] && !put_outcome(db, x, i))
			return false;
	}
	return true;
}

static void
finish_one(struct daemon *d, struct result_op *x, uint32_t i)
{
	const struct m_outcome *o = &x->r->m.result.outcomes[i];
	struct farm_task *t;
	enum farm_verdict v = farm_finish(d->farm, x->device, &o->key, o->gen, fail_of(o), daemon_now(d), &t);
	struct task_result result = {0};

	if (!o->fail && !x->is_late[i]) {
		result.cost = o->kind == TASK_MEASURE ? &x->costs[i] : NULL;
		result.build = o->kind == TASK_BUILD ? &x->builds[i] : NULL;
		result.race = o->kind == TASK_RACE ? &x->races[i] : NULL;
	}

	if (v == FARM_RETRY)
		daemon_log(d, task_retry, KVZ("worker", x->worker), KVZ("cause", err_name(fail_of(o))));
	if (v == FARM_CANARY)
		daemon_log(d, canary, KVZ("worker", x->worker), KVZ("cause", err_name(fail_of(o))));
	if (v != FARM_DONE && v != FARM_FAILED)
		return;
	if (o->kind != (uint64_t)t->want.kind) { /* cannot be: the key is of the kind */
		task_over(d, t, NULL, NULL);
		return;
	}
	task_over(d, t, &result, o);
}

static void
done_result(struct store_op *op)
{
	struct result_op *x = (struct result_op *)(void *)op;
	struct daemon *d = op->owner;

	if (op->ok) {
		for (uint32_t i = 0; i < x->r->m.result.n_outcomes; i++)
			finish_one(d, x, i);
		answer_ok(d, x->r, 0, "");
	} else {
		daemon_log(d, result_failed, KVZ("worker", x->worker), KVZ("why", op->err.msg));
		answer_error(d, x->r, &op->err);
	}
	arena_fini(&op->arena);
	free(x);
	leases_push(d);
}

/* A result of an old generation changes nothing: it is counted and let go.  One whose task is
 * not known at all (the daemon was restarted, or the asker has left) is kept: it is whole. */
static bool
is_late(struct daemon *d, uint64_t device, const struct m_outcome *o)
{
	const struct farm_task *t = farm_find(d->farm, &o->key);

	if (o->kind == TASK_CANARY || !t)
		return false;
	return !farm_touch(d->farm, device, &o->key, o->gen, daemon_now(d));
}

void
serve_result(struct daemon *d, struct request *r)
{
	const struct m_result *m = &r->m.result;
	uint32_t at;
	const struct session *s = device_at(r, m->class, &at);
	struct result_op *x;
	struct err e = {0};
	uint32_t n = MAX_OF(m->n_outcomes, 1u);

	if (!s) {
		(void)err_set(&e, ERR_PROTO, "this worker has no device of class '%.*s'", STR_ARG(m->class));
		answer_error(d, r, &e);
		return;
	}
	x = heap_alloc(sizeof(*x));
	x->op.run = run_result;
	x->op.done = done_result;
	x->op.owner = d;
	x->r = r;
	x->device = s->envs[at].device;
	x->worker = str_dup(&x->op.arena, str_of(s->name));
	x->key = (struct meas_key){.env = s->envs[at].env, .env_hash = s->envs[at].hash, .epoch = s->epoch};
	x->costs = NEW_ARRAY(&x->op.arena, struct m_cost, n);
	x->builds = NEW_ARRAY(&x->op.arena, struct m_build_have, n);
	x->races = NEW_ARRAY(&x->op.arena, struct m_race_have, n);
	x->is_late = NEW_ARRAY(&x->op.arena, bool, n);
	for (uint32_t i = 0; i < m->n_outcomes; i++) {
		x->is_late[i] = is_late(d, x->device, &m->outcomes[i]);
		d->n_superseded += x->is_late[i];
	}
	store_post(d->store, &x->op);
}
