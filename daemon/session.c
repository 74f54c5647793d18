/* daemon/session.c: who talks to us.  A session begins with hello: versions are compared, the
 * token is proved where one is asked for (any tcp:// connection), a worker names its devices
 * and the leases it still holds.  A session outlives its connection by a minute. */
#include "daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t FORGET_NS = 60 * SECOND_NS, CHALLENGE_NS = 30 * SECOND_NS;

bool
session_any_client(const struct daemon *d)
{
	for (struct session *s = d->sessions; s; s = s->next)
		if (s->role == AUTH_CLIENT && s->is_connected)
			return true;
	return false;
}

/* ---- challenges --------------------------------------------------------------------- */
static struct bytes
give_challenge(struct daemon *d)
{
	size_t oldest = 0;

	for (size_t i = 0; i < COUNT_OF(d->challenges); i++)
		if (d->challenges[i].until_ns < d->challenges[oldest].until_ns)
			oldest = i;
	auth_random(d->challenges[oldest].challenge, AUTH_NONCE);
	d->challenges[oldest].until_ns = daemon_now(d) + CHALLENGE_NS;
	return (struct bytes){d->challenges[oldest].challenge, AUTH_NONCE};
}

/* A challenge serves once: a recorded proof is worth nothing. */
static bool
use_challenge(struct daemon *d, struct bytes c)
{
	for (size_t i = 0; i < COUNT_OF(d->challenges); i++)
		if (c.n == AUTH_NONCE && d->challenges[i].until_ns > daemon_now(d) &&
		    memcmp(d->challenges[i].challenge, c.p, c.n) == 0) {
			d->challenges[i].until_ns = 0;
			return true;
		}
	return false;
}

/* ---- hello -------------------------------------------------------------------------- */
static void
fill_welcome(struct daemon *d, struct msg *m)
{
	*m = (struct msg){.type = MSG_welcome};
	m->welcome.version = PROTO_VERSION;
	m->welcome.features = STR("");
	m->welcome.program = STR(KORCH_VERSION);
	m->welcome.message_bytes = MSG_MAX_BYTES;
	m->welcome.heartbeat_ns = 5 * SECOND_NS;
	m->welcome.instance = d->instance;
}

static bool
check_hello(const struct request *r, enum auth_role *role, struct err *e)
{
	const struct m_hello *h = &r->m.hello;

	if (h->version != PROTO_VERSION)
		return err_set(e, ERR_PROTO,
		    "this korchd (%s) speaks protocol %d and the %.*s (%.*s) speaks %llu; "
		    "install the same version on both sides",
		    KORCH_VERSION, (int)PROTO_VERSION, STR_ARG(h->role), STR_ARG(h->program),
		    (unsigned long long)h->version);
	if (!auth_role_of(h->role, role))
		return err_set(e, ERR_PROTO, "'%.*s' is no role", STR_ARG(h->role));
	if (*role == AUTH_WORKER && (h->n_envs == 0 || h->n_envs > SESSION_ENVS))
		return err_set(e, ERR_PROTO, "a worker names 1 to %d devices", (int)SESSION_ENVS);
	for (uint32_t i = 0; i < h->n_envs; i++)
		if (h->envs[i].class.n == 0 || h->envs[i].key.n == 0)
			return err_set(e, ERR_PROTO, "device %u has no class or no environment", i);
	return true;
}

static struct session *
session_new(struct daemon *d, const struct request *r, enum auth_role role)
{
	struct session *s = heap_alloc(sizeof(*s));

	do
		auth_random(&s->id, sizeof(s->id));
	while (s->id == 0 || session_find(d, s->id));
	s->role = role;
	s->peer = r->peer;
	s->is_connected = sock_peer_is_here(r->peer); /* it may have left while its hello went to disk */
	s->is_local = r->is_local && r->m.hello.is_local;
	s->seen_ns = daemon_now(d);
	(void)snprintf(s->name, sizeof(s->name), "%.*s", STR_ARG(r->m.hello.name));
	s->next = d->sessions;
	d->sessions = s;
	if (role == AUTH_CLIENT)
		d->last_client_ns = s->seen_ns; /* it may be gone again before a tick */
	daemon_log(
	    d, hello, KVZ("role", auth_role_name(role)), KVZ("name", s->name), KVI("local", s->is_local));
	return s;
}

/* The environments go to disk first: leases refer to them. */
struct hello_op {
	struct store_op op;
	struct daemon *d;
	struct request *r;
	enum auth_role role;
	int64_t env[SESSION_ENVS];
};

static bool
run_hello(struct db *db, struct store_op *op)
{
	struct hello_op *h = (struct hello_op *)(void *)op;
	const struct m_hello *m = &h->r->m.hello;

	for (uint32_t i = 0; i < m->n_envs; i++)
		if (!env_put(db, &m->envs[i], &h->env[i], &op->err))
			return false;
	return true;
}

static void
adopt_held(struct daemon *d, const struct session *s, struct request *r, struct m_welcome *w)
{
	const struct m_hello *h = &r->m.hello;
	uint32_t cap = 0;

	for (uint32_t i = 0; i < h->n_held; i++) {
		bool ok = false;

		for (uint32_t k = 0; k < s->n_envs && !ok; k++)
			ok = farm_adopt(
			    d->farm, s->envs[k].device, &h->held[i].key, h->held[i].gen, daemon_now(d));
		if (ok)
			continue;
		GROW(&r->arena, w->revoked, w->n_revoked, cap);
		w->revoked[w->n_revoked++] = h->held[i];
	}
}

/* ---- at the door -------------------------------------------------------------------- */
static void
turn_away(struct daemon *d, const struct m_hello *h, const struct err *why)
{
	for (uint32_t i = 0; i < h->n_envs; i++) {
		struct turned_away *t = d->turned_away, *oldest = t;

		for (; t < d->turned_away + COUNT_OF(d->turned_away) && !str_is(h->envs[i].class, t->class);
		     t++)
			if (t->until_ns < oldest->until_ns)
				oldest = t;
		if (t == d->turned_away + COUNT_OF(d->turned_away))
			t = oldest;
		(void)snprintf(t->class, sizeof(t->class), "%.*s", STR_ARG(h->envs[i].class));
		t->why = *why;
		t->until_ns = daemon_now(d) + 3 * SECOND_NS;
	}
	daemon_log(d, hello_refused, KVZ("role", "worker"), KV("name", h->name), KVZ("why", why->msg));
}

bool
session_turned_away(const struct daemon *d, struct str class, struct err *why)
{
	for (uint32_t i = 0; i < COUNT_OF(d->turned_away); i++) {
		const struct turned_away *t = &d->turned_away[i];

		if (str_is(class, t->class) && t->until_ns > daemon_now(d))
			return !err_set(why, t->why.code, "a worker of device class '%s' cannot be taken: %s",
			    t->class, t->why.msg);
	}
	return false;
}

static void
done_hello(struct store_op *op)
{
	struct hello_op *h = (struct hello_op *)(void *)op;
	struct daemon *d = h->d;
	struct request *r = h->r;
	struct session *s;
	struct msg m;

	if (!op->ok) {
		turn_away(d, &r->m.hello, &op->err);
		answer_error(d, r, &op->err);
		free(h);
		return;
	}
	s = session_new(d, r, h->role);
	fill_welcome(d, &m);
	m.welcome.session = s->id;
	for (uint32_t i = 0; i < r->m.hello.n_envs; i++) {
		const struct m_env *env = &r->m.hello.envs[i];

		s->envs[i].env = h->env[i];
		s->envs[i].hash = hash_bytes(env->key.p, env->key.n);
		s->envs[i].device = ++d->next_device;
		(void)snprintf(s->envs[i].class, sizeof(s->envs[i].class), "%.*s", STR_ARG(env->class));
		s->epoch = env->epoch;
		s->n_envs++;
		farm_join(d->farm, s->envs[i].device, s->envs[i].env);
		if (!s->is_connected)
			farm_gone(d->farm, s->envs[i].device, daemon_now(d));
	}
	adopt_held(d, s, r, &m.welcome);
	r->session_id = s->id;
	answer(d, r, &m);
	jobs_tick(d);
	free(h);
}

void
serve_hello(struct daemon *d, struct request *r)
{
	const struct m_hello *h = &r->m.hello;
	struct hello_op *op;
	enum auth_role role;
	struct err e = {0};

	if (d->is_stopping) { /* no welcome from who leaves: the next one here hears it */
		request_drop(r);
		return;
	}
	if (!check_hello(r, &role, &e)) {
		answer_error(d, r, &e);
		return;
	}
	/* A local socket is guarded by the permission of its folder. */
	if (!r->is_local && h->mac.n == 0) {
		struct msg m;

		fill_welcome(d, &m);
		m.welcome.challenge = give_challenge(d);
		answer(d, r, &m);
		return;
	}
	if (!r->is_local &&
	    (!use_challenge(d, h->challenge) ||
		!auth_check(&d->auth, role, h->nonce, h->challenge, h->mac))) {
		(void)err_set(&e, ERR_PROTO, "the token is not one of a %s here; see --token-file",
		    auth_role_name(role));
		daemon_log(d, hello_refused, KVZ("role", auth_role_name(role)), KV("name", h->name),
		    KVZ("why", e.msg));
		answer_error(d, r, &e);
		return;
	}
	op = heap_alloc(sizeof(*op));
	op->op.run = run_hello;
	op->op.done = done_hello;
	op->d = d;
	op->r = r;
	op->role = role;
	store_post(d->store, &op->op);
}

/* ---- the end ------------------------------------------------------------------------ */
static void
session_end(struct daemon *d, struct session **at)
{
	struct session *s = *at;

	for (uint32_t i = 0; i < s->n_envs; i++)
		farm_leave(d->farm, s->envs[i].device);
	*at = s->next;
	free((void *)(uintptr_t)s->lease_answer.p);
	daemon_log(d, bye, KVZ("role", auth_role_name(s->role)), KVZ("name", s->name));
	free(s);
}

void
serve_bye(struct daemon *d, struct request *r)
{
	struct session **at = &d->sessions;

	while (*at != r->session)
		at = &(*at)->next;
	session_end(d, at);
	r->session = NULL;
	answer_ok(d, r, 0, "");
	leases_push(d);
}

void
session_peer_gone(struct daemon *d, uint32_t peer)
{
	for (struct session *s = d->sessions; s; s = s->next) {
		if (s->peer != peer || !s->is_connected)
			continue;
		s->is_connected = false;
		for (uint32_t i = 0; i < s->n_envs; i++)
			farm_gone(d->farm, s->envs[i].device, daemon_now(d));
	}
}

void
sessions_late(struct daemon *d, int64_t ns)
{
	for (struct session *s = d->sessions; s; s = s->next)
		s->seen_ns += ns;
}

void
sessions_tick(struct daemon *d)
{
	struct session **at = &d->sessions;
	int64_t now = daemon_now(d);

	while (*at) {
		struct session *s = *at;
		bool silent = s->role == AUTH_WORKER && now - s->seen_ns > FORGET_NS;

		/* A worker that is connected and frozen is as good as gone. */
		if ((!s->is_connected && now - s->seen_ns > FORGET_NS) ||
		    (silent && now - s->seen_ns > 3 * FORGET_NS))
			session_end(d, at);
		else
			at = &s->next;
	}
}

void
sessions_free(struct daemon *d)
{
	while (d->sessions)
		session_end(d, &d->sessions);
}

void
serve_worker_list(struct daemon *d, struct request *r)
{
	struct msg m = {.type = MSG_workers};
	uint32_t cap = 0;

	for (struct session *s = d->sessions; s; s = s->next)
		for (uint32_t i = 0; i < s->n_envs; i++) {
			const struct farm_device *dev = farm_device(d->farm, s->envs[i].device);
			struct m_worker *w;

			GROW(&r->arena, m.workers.workers, m.workers.n_workers, cap);
			w = &m.workers.workers[m.workers.n_workers++];
			*w = (struct m_worker){.session = s->id,
			    .name = str_of(s->name),
			    .class = str_of(s->envs[i].class),
			    .state = str_of(s->is_connected ? device_state_name(dev->state) : "gone"),
			    .leases = dev->n_leases,
			    .done = dev->done,
			    .faults = dev->all_faults,
			    .reason = STR("")};
		}
	answer(d, r, &m);
}
