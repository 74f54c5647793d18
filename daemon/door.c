/* daemon/door.c: hello.  Whoever comes says who he is and proves it, on every connection anew: over the local
 * socket by the user he runs as, over TLS by his certificate and its key's signature, over plain TCP by a
 * token's code; both over a challenge that is good on his connection alone.  Then he gets a session, or goes
 * on with the one that his identity has: the number alone opens nothing.  Nothing is kept of those who have
 * not proved themselves. */
#include "../proto/hello.h"
#include "daemon.h"

#include "../kernels/base/class.h"
#include "../kernels/base/epoch.h"
#include "../proto/hw.h"
#include "../proto/ticket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- answers ------------------------------------------------------------------------ */
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

static void
refuse(struct daemon *d, struct request *r, const char *peer, const struct err *e)
{
	daemon_log(d, hello_refused, KV("role", r->m.hello.role), KV("says", r->m.hello.name),
	    KVZ("peer", peer), KVZ("why", e->msg));
	reply_error(d, r, e);
}

static void
give_challenge(struct daemon *d, struct request *r)
{
	uint8_t challenge[AUTH_CHALLENGE];
	struct msg m;

	auth_challenge(d->secret, r->peer, daemon_now(d), r->m.hello.nonce, challenge);
	fill_welcome(d, &m);
	m.welcome.challenge = (struct bytes){challenge, sizeof(challenge)};
	reply(d, r, &m);
}

/* ---- who is it? --------------------------------------------------------------------- */
/* "cpu:AMD-EPYC-9B14-avx512": a word that can be shown, and that no pattern of --device is taken for. */
static bool is_class(struct str class)
{
	for (size_t i = 0; i < class.n; i++)
		if (class.p[i] <= ' ' || class.p[i] > '~' || class.p[i] == '*' || class.p[i] == '?')
			return false;
	return class.n > 0 && class.n < SESSION_CLASS;
}

static bool
check_env(const struct m_env *env, uint32_t i, struct err *e)
{
	if (!is_class(env->class) || env->key.n == 0)
		return err_set(e, ERR_PROTO, "device %u has no class or no environment", i);
	if (env->epoch != GENERATOR_EPOCH)
		return err_set(e, ERR_PROTO,
		    "device %u (%.*s) has generator epoch %llu, and this korchd has %d; install the same "
		    "version on both sides",
		    i, STR_ARG(env->class), (unsigned long long)env->epoch, (int)GENERATOR_EPOCH);
	return hw_check(&env->hw, e) || err_in(e, "device %u (%.*s)", i, STR_ARG(env->class));
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
	if (*role == AUTH_WORKER && !h->joins && (h->n_envs == 0 || h->n_envs > SESSION_ENVS))
		return err_set(e, ERR_PROTO, "a worker names 1 to %d devices", (int)SESSION_ENVS);
	for (uint32_t i = 0; i < h->n_envs; i++)
		if (!check_env(&h->envs[i], i, e))
			return false;
	return true;
}

static bool
prove_local(const struct sock_peer *peer, struct identity *who, struct err *e)
{
	*who = (struct identity){.way = SOCK_LOCAL, .uid = peer->uid};
	return peer->uid == geteuid() || peer->uid == 0 ||
	    err_set(e, ERR_REFUSED,
		"this korchd is user %u's, and the program at the other end runs as user %u",
		(unsigned)geteuid(), peer->uid);
}

static bool
prove_token(
    struct daemon *d, const struct request *r, enum auth_role role, struct identity *who, struct err *e)
{
	const struct m_hello *h = &r->m.hello;

	*who = (struct identity){.way = SOCK_PLAIN};
	if (!auth_is_ours(d->secret, r->peer, daemon_now(d), h->nonce, h->challenge))
		return err_set(e, ERR_UNPROVED, "that challenge is not of this connection: say hello again");
	return auth_check(&d->cred.auth, role, h->nonce, h->challenge, h->mac, &who->of) ||
	    err_set(
		e, ERR_REFUSED, "the token is not one of a %s here; see --token-file", auth_role_name(role));
}

static bool
prove_cert(
    struct daemon *d, const struct request *r, enum auth_role role, struct identity *who, struct err *e)
{
	const struct m_hello *h = &r->m.hello;
	struct bytes parts[HELLO_PARTS];
	struct keys_peer peer;

	*who = (struct identity){.way = SOCK_TLS};
	if (!auth_is_ours(d->secret, r->peer, daemon_now(d), h->nonce, h->challenge))
		return err_set(e, ERR_UNPROVED, "that challenge is not of this connection: say hello again");
	hello_parts(h, h->challenge, parts);
	if (!keys_check(d->cred.keys, h->cert, parts, HELLO_PARTS, h->proof, &peer, e))
		return false;
	if (peer.role != role)
		return err_set(e, ERR_REFUSED, "the certificate of '%s' is a %s's, not a %s's", peer.name,
		    auth_role_name(peer.role), auth_role_name(role));
	who->of = peer.fingerprint;
	memcpy(who->name, peer.name, sizeof(who->name));
	who->until_s = peer.until_s;
	return true;
}

/* By the way it came. */
static bool
prove(struct daemon *d, const struct request *r, enum auth_role role, const struct sock_peer *peer,
    struct identity *who, struct err *e)
{
	switch (peer->way) {
	case SOCK_LOCAL:
		return prove_local(peer, who, e);
	case SOCK_TLS:
		return prove_cert(d, r, role, who, e);
	case SOCK_PLAIN:
		return prove_token(d, r, role, who, e);
	}
	bug("a connection that came no way");
}

static bool
is_same(const struct identity *a, const struct identity *b)
{
	return a->way == b->way && a->uid == b->uid && hash_eq(&a->of, &b->of);
}

/* ---- a worker that the store cannot keep -------------------------------------------- */
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
		t->until_ns =
		    daemon_now(d) + 45 * SECOND_NS; /* it waits up to that long before it asks again */
	}
}

bool
session_turned_away(const struct daemon *d, struct str class, struct err *why)
{
	for (uint32_t i = 0; i < COUNT_OF(d->turned_away); i++) {
		const struct turned_away *t = &d->turned_away[i];

		if (class_fits(class, str_of(t->class)) && t->until_ns > daemon_now(d))
			return !err_set(why, t->why.code, "a worker of device class '%s' cannot be taken: %s",
			    t->class, t->why.msg);
	}
	return false;
}

static void
let_in(struct daemon *d, const struct m_env *env)
{
	for (uint32_t i = 0; i < COUNT_OF(d->turned_away); i++)
		if (str_is(env->class, d->turned_away[i].class))
			d->turned_away[i].until_ns = 0;
}

/* ---- in ----------------------------------------------------------------------------- */
/* The environments go to disk first: leases refer to them. */
struct hello_op {
	struct store_op op;
	struct daemon *d;
	struct request *r;
	enum auth_role role;
	struct identity who;
	char peer[SOCK_ADDR_BYTES];
	uint64_t rejoined; /* the session that it goes on with; 0: a new one */
	int64_t env[SESSION_ENVS];
	/* of each lease that it says it holds: the device whose ticket it shows, or NOBODY */
	uint32_t *held_by;
};
static const uint32_t NOBODY = UINT32_MAX;

/* Which of its devices was given that?  A ticket whose result has come serves no more. */
static bool
whose(struct db *db, struct hello_op *h, struct str who, const struct m_held *held, uint32_t *device,
    struct err *e)
{
	const struct m_hello *m = &h->r->m.hello;
	struct ticket t = {.key = held->key, .gen = held->gen, .kind = held->kind, .who = who};
	bool is_spent;

	*device = NOBODY;
	if (!grant_is_spent(db, held->gen, &is_spent, e))
		return false;
	for (uint32_t i = 0; i < m->n_envs && !is_spent; i++) {
		t.env = hash_bytes(m->envs[i].key.p, m->envs[i].key.n);
		if (ticket_holds(store_secret(h->d->store), &t, held->ticket))
			*device = i;
	}
	return true;
}

static bool
run_hello(struct db *db, struct store_op *op)
{
	struct hello_op *h = (struct hello_op *)(void *)op;
	const struct m_hello *m = &h->r->m.hello;
	struct str who = str_of(identity_words(&op->arena, &h->who, m->name));
	bool is_own = h->who.way == SOCK_LOCAL && m->is_local;

	h->held_by = NEW_ARRAY(&op->arena, uint32_t, MAX_OF(m->n_held, 1u));
	for (uint32_t i = 0; i < m->n_held; i++)
		if (!whose(db, h, who, &m->held[i], &h->held_by[i], &op->err))
			return false;
	for (uint32_t i = 0; i < m->n_envs && !h->rejoined; i++)
		if (!env_put(db, &m->envs[i], is_own, &h->env[i], &op->err))
			return false;
	return true;
}

/* A lease of this life, or one that its ticket shows. */
static bool
is_still_its(
    struct daemon *d, const struct session *s, const struct m_hello *m, uint32_t by, const struct m_held *x)
{
	struct hash env;

	for (uint32_t k = 0; k < s->n_envs; k++)
		if (farm_touch(d->farm, s->envs[k].device, &x->key, x->gen, daemon_now(d)))
			return true;
	if (by >= s->n_envs)
		return false;
	env = hash_bytes(m->envs[by].key.p, m->envs[by].key.n);
	return hash_eq(&env, &s->envs[by].hash) &&
	    farm_adopt(d->farm, s->envs[by].device, &x->key, x->gen, daemon_now(d));
}

/* held_by: NULL where no ticket was looked at. */
static void
adopt_held(struct daemon *d, const struct session *s, struct request *r, const uint32_t *held_by,
    struct m_welcome *w)
{
	const struct m_hello *h = &r->m.hello;
	uint32_t cap = 0;

	for (uint32_t i = 0; i < h->n_held; i++) {
		if (is_still_its(d, s, h, held_by ? held_by[i] : NOBODY, &h->held[i]))
			continue;
		GROW(&r->arena, w->revoked, w->n_revoked, cap);
		w->revoked[w->n_revoked++] = h->held[i];
	}
}

static void
welcome(struct daemon *d, struct request *r, struct session *s, const uint32_t *held_by)
{
	const struct sign_pub *signer = store_signer(d->store);
	struct msg m;

	fill_welcome(d, &m);
	m.welcome.session = s->id;
	m.welcome.signer = (struct bytes){signer->der, sizeof(signer->der)};
	if (!r->m.hello.joins)
		adopt_held(d, s, r, held_by, &m.welcome);
	r->session_id = s->id;
	reply(d, r, &m);
}

static void
add_device(struct daemon *d, struct session *s, const struct m_env *env, int64_t id)
{
	uint32_t i = s->n_envs++;

	s->envs[i].env = id;
	s->envs[i].hash = hash_bytes(env->key.p, env->key.n);
	s->envs[i].device = ++d->next_device;
	(void)snprintf(s->envs[i].class, sizeof(s->envs[i].class), "%.*s", STR_ARG(env->class));
	s->epoch = env->epoch;
	farm_join(d->farm, s->envs[i].device, s->envs[i].env);
	if (!s->is_connected)
		farm_gone(d->farm, s->envs[i].device, daemon_now(d));
	let_in(d, env);
}

static void
say_over(struct daemon *d, struct request *r)
{
	struct err e = {0};

	(void)err_set(&e, ERR_UNPROVED, "the session to be joined has ended");
	reply_error(d, r, &e);
}

static void
enter(struct daemon *d, struct hello_op *h)
{
	struct request *r = h->r;
	struct session *s =
	    h->rejoined ? session_find(d, h->rejoined) : session_new(d, r, h->role, &h->who, h->peer);

	if (!s) {
		say_over(d, r);
		return;
	}
	if (h->rejoined)
		session_rejoin(d, s, r);
	for (uint32_t i = 0; i < r->m.hello.n_envs && !h->rejoined; i++)
		add_device(d, s, &r->m.hello.envs[i], h->env[i]);
	welcome(d, r, s, h->held_by);
	jobs_tick(d);
}

static void
done_hello(struct store_op *op)
{
	struct hello_op *h = (struct hello_op *)(void *)op;
	struct daemon *d = h->d;

	if (op->ok) {
		enter(d, h);
	} else {
		turn_away(d, &h->r->m.hello, &op->err);
		refuse(d, h->r, h->peer, &op->err);
	}
	arena_fini(&op->arena);
	free(h);
}

static void
post_hello(struct daemon *d, struct request *r, enum auth_role role, const struct identity *who,
    const char *peer, const struct session *rejoined)
{
	struct hello_op *op = heap_alloc(sizeof(*op));

	op->op.run = run_hello;
	op->op.done = done_hello;
	op->d = d;
	op->r = r;
	op->role = role;
	op->who = *who;
	op->rejoined = rejoined ? rejoined->id : 0;
	(void)snprintf(op->peer, sizeof(op->peer), "%s", peer);
	store_post(d->store, &op->op);
}

/* The session that it names, if that is its own. */
static struct session *
own_session(const struct daemon *d, const struct request *r, enum auth_role role, const struct identity *who)
{
	struct session *s = session_find(d, r->m.hello.session);

	return s && s->role == role && is_same(&s->who, who) ? s : NULL;
}

void
serve_hello(struct daemon *d, struct request *r)
{
	struct sock_peer peer;
	struct identity who;
	struct session *s;
	enum auth_role role;
	struct err e = {0};
	bool ok;

	/* no welcome from who leaves: the next one here hears it; and none to who has gone */
	if (d->is_stopping || !sock_peer(d->net, r->peer, &peer)) {
		request_drop(d, r);
		return;
	}
	ok = check_hello(r, &role, &e);
	if (ok && peer.way != SOCK_LOCAL && r->m.hello.challenge.n == 0) {
		give_challenge(d, r);
		return;
	}
	ok = ok && prove(d, r, role, &peer, &who, &e);
	if (!ok) {
		refuse(d, r, peer.addr, &e);
		return;
	}
	s = own_session(d, r, role, &who);
	if (s && (r->m.hello.joins || r->m.hello.n_held == 0)) {
		session_rejoin(d, s, r);
		welcome(d, r, s, NULL);
	} else if (r->m.hello.joins) {
		say_over(d, r);
	} else
		post_hello(d, r, role, &who, peer.addr, s);
}
