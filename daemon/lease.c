/* daemon/lease.c: what workers ask for.  A lease request that finds nothing waits (parked, at
 * no cost) until something is ready or its time is up.  What comes of a lease is result.c. */
#include "lease.h"
#include "task.h"

#include "../proto/ticket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t POLL_NS = 20 * SECOND_NS;

const struct session *
device_at(const struct request *r, struct str class, uint32_t *at)
{
	const struct session *s = r->session;

	for (*at = 0; *at < s->n_envs; ++*at)
		if (class.n == 0 || str_is(class, s->envs[*at].class))
			return s;
	return NULL;
}

/* ---- lease -------------------------------------------------------------------------- */
/* Good for this device alone, and after a restart of ours too. */
static struct bytes
ticket_of(
    const struct daemon *d, struct arena *a, const struct m_task *t, const struct session *s, uint32_t at)
{
	struct ticket what = {
	    t->key, t->gen, t->kind, s->envs[at].hash, str_of(identity_words(a, &s->who, str_of(s->says)))};
	uint8_t *code = arena_alloc(a, HMAC_BYTES);

	ticket_make(store_secret(d->store), &what, code);
	return (struct bytes){code, HMAC_BYTES};
}

static void
fill_task(struct m_task *out, const struct farm_grant *g, const struct session *s, int64_t now_ns)
{
	const struct task_data *data = g->task ? g->task->data : NULL;

	*out = (struct m_task){.gen = g->gen,
	    .lease_ns = g->lease_ns,
	    .kind = TASK_CANARY,
	    .spec = STR(""),
	    .precision = STR(""),
	    .heat = STR(""),
	    .payload_path = STR("")};
	if (!data)
		return;
	out->key = g->task->want.key;
	out->kind = data->kind;
	out->spec = data->spec;
	out->effort = data->effort;
	out->threads = data->threads;
	out->precision = data->precision;
	out->heat = data->heat;
	out->payload = data->payload;
	if (s->is_local)
		out->payload_path = data->payload_path;
	out->limit_ns = data->until_ns ? MAX_OF(data->until_ns - now_ns, (int64_t)1) : 0;
	out->known = data->known;
	out->n_known = data->n_known;
	out->named = data->named;
	out->n_named = data->n_named;
}

static size_t
task_bytes(const struct m_task *t)
{
	size_t n = 400 + t->spec.n + t->payload_path.n;

	for (uint32_t i = 0; i < t->n_known; i++)
		n += 16 + t->known[i].name.n + t->known[i].value.n;
	for (uint32_t i = 0; i < t->n_named; i++)
		n += 8 + t->named[i].schedule.n;
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

		fill_task(t, &grants[i], s, daemon_now(d));
		t->ticket = ticket_of(d, &r->arena, t, s, at);
		sum += task_bytes(t);
		if (i > 0 && sum > MSG_MAX_BYTES / 4 * 3)
			farm_release(d->farm, s->envs[at].device, &t->key, t->gen);
		else
			m.grant.n_tasks++;
	}
	daemon_log(d, lease_grant, KVZ("worker", s->name), KVI("n", m.grant.n_tasks),
	    KVI("first_gen", m.grant.tasks[0].gen));
	reply(d, r, &m);
	return true;
}

static void
reply_nothing(struct daemon *d, struct request *r, bool drain)
{
	struct msg m = {.type = MSG_grant};
	uint8_t jitter;

	random_bytes(&jitter, sizeof(jitter));
	m.grant.retry_ns = (int64_t)jitter * 1000000;
	m.grant.drain = drain;
	reply(d, r, &m);
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
		reply_error(d, r, &e);
		return;
	}
	if (s->lease_reply.n && s->lease_id == r->m.id) { /* its answer was lost on the way */
		sock_answer(d->net, r->sock, s->lease_reply);
		arena_fini(&r->arena);
		free(r);
		return;
	}
	drop_repeated(d, r);
	farm_here(d->farm, s->envs[at].device);
	if (d->is_stopping || farm_device(d->farm, s->envs[at].device)->state == DEVICE_DRAINING) {
		reply_nothing(d, r, true);
		return;
	}
	if (try_lease(d, r))
		return;
	r->until_ns = daemon_now(d) + MIN_OF(MAX_OF(r->m.lease.wait_ns, (int64_t)0), POLL_NS);
	r = park(&d->polls, r);
	if (r)
		reply_nothing(d, r, false);
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
		reply_nothing(d, r, drain);
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
lease_waits(struct daemon *d, struct session *s, struct str waits)
{
	char before[300], now[300] = "";

	if (str_is(waits, s->waits))
		return;
	(void)snprintf(before, sizeof(before), "%.40s %s", s->name, s->waits);
	(void)snprintf(s->waits, sizeof(s->waits), "%.*s", STR_ARG(waits));
	if (s->waits[0])
		(void)snprintf(now, sizeof(now), "%.40s %s", s->name, s->waits);
	for (struct job *j = d->jobs; j; j = j->next)
		for (uint32_t i = 0; i < s->n_envs && j->state == JOB_planning; i++)
			if (str_is(j->rec.class, s->envs[i].class) &&
			    (now[0] || str_is(j->rec.reason, before)))
				job_note(d, j, now);
}

void
serve_renew(struct daemon *d, struct request *r)
{
	struct msg m = {.type = MSG_renewed};
	struct session *s = r->session;
	uint32_t cap = 0;

	lease_waits(d, s, r->m.renew.waits);
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
	m.renewed.heartbeat_ns = d->heartbeat_ns;
	reply(d, r, &m);
}

void
serve_release(struct daemon *d, struct request *r)
{
	for (uint32_t k = 0; k < r->m.release.n_held; k++)
		for (uint32_t i = 0; i < r->session->n_envs; i++)
			farm_release(d->farm, r->session->envs[i].device, &r->m.release.held[k].key,
			    r->m.release.held[k].gen);
	reply_ok(d, r, 0, "");
	leases_push(d);
}

void
serve_drain(struct daemon *d, struct request *r)
{
	uint64_t n = 0;

	for (struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++)
			if (r->m.drain.name.n == 0 || str_is(r->m.drain.name, s->name) ||
			    str_is(r->m.drain.name, s->says)) {
				farm_drain(d->farm, s->envs[i].device);
				n++;
			}
	reply_ok(d, r, n, "");
	leases_tick(d);
}

void
serve_kick(struct daemon *d, struct request *r)
{
	farm_kick(d->farm);
	reply_ok(d, r, 0, "");
	leases_push(d);
}
