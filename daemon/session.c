/* daemon/session.c: who talks to us, once let in (door.c).  A session is bound to the connections that proved
 * it, and to no others.  A worker's outlives its connection by a minute, since leases hang on it; a client's
 * ends with it. */
#include "lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GONE = 4096 };
static const int64_t FORGET_NS = 60 * SECOND_NS;

bool
session_any_client(const struct daemon *d)
{
	for (struct session *s = d->sessions; s; s = s->next)
		if (s->role == AUTH_CLIENT && s->is_connected)
			return true;
	return false;
}

/* ---- the end ------------------------------------------------------------------------ */
static void
session_end(struct daemon *d, struct session **at)
{
	struct session *s = *at;

	lease_waits(d, s, STR("")); /* whatever for, it is over */
	for (uint32_t i = 0; i < s->n_envs; i++)
		farm_leave(d->farm, s->envs[i].device);
	*at = s->next;
	if (s->is_connected && sock_bound(d->net, s->peer) == s->id)
		sock_bind(d->net, s->peer, 0);
	if (s->role == AUTH_CLIENT)
		d->last_client_ns = daemon_now(d);
	free((void *)(uintptr_t)s->lease_reply.p);
	daemon_log(d, bye, KVZ("role", auth_role_name(s->role)), KVZ("name", s->name));
	free(s);
}

static struct session **
session_place(struct daemon *d, uint64_t id)
{
	struct session **at = &d->sessions;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

void
serve_bye(struct daemon *d, struct request *r)
{
	session_end(d, session_place(d, r->session_id));
	r->session = NULL;
	reply_ok(d, r, 0, "");
	leases_push(d);
}

/* ---- connections -------------------------------------------------------------------- */
/* From now on this connection speaks for the session.  It spoke for another, say because the answer to its
 * hello was lost: nobody will come back to that one. */
static void
bind_peer(struct daemon *d, struct session *s, uint32_t peer)
{
	uint64_t before = sock_bound(d->net, peer);

	if (before && before != s->id) {
		struct session **old = session_place(d, before);

		if (*old && (*old)->peer == peer)
			session_end(d, old);
	}
	sock_bind(d->net, peer, s->id);
}

char *
identity_words(struct arena *a, const struct identity *who, struct str says)
{
	char hex[65];

	hash_hex(&who->of, hex);
	return arena_printf(
	    a, "%d %u %s %.*s", (int)who->way, who->uid, hex, (int)MIN_OF(says.n, (size_t)255), says.p);
}

/* What it calls itself, where that is not its name. */
static const char *
other_name(const struct session *s)
{
	return strcmp(s->says, s->name) == 0 ? "" : s->says;
}

struct session *
session_new(struct daemon *d, const struct request *r, enum auth_role role, const struct identity *who,
    const char *peer)
{
	struct session *s = heap_alloc(sizeof(*s));

	do
		random_bytes(&s->id, sizeof(s->id));
	while (s->id == 0 || session_find(d, s->id));
	s->role = role;
	s->who = *who;
	s->peer = r->peer;
	s->is_connected =
	    sock_peer_is_here(d->net, r->peer); /* it may have left while its hello went to disk */
	s->is_local = r->is_local && r->m.hello.is_local;
	s->seen_ns = daemon_now(d);
	(void)snprintf(s->says, sizeof(s->says), "%.*s", STR_ARG(r->m.hello.name));
	(void)snprintf(s->name, sizeof(s->name), "%s", who->name[0] ? who->name : s->says);
	bind_peer(d, s, r->peer);
	s->next = d->sessions;
	d->sessions = s;
	if (role == AUTH_CLIENT)
		d->last_client_ns = s->seen_ns; /* it may be gone again before a tick */
	daemon_log(d, hello, KVZ("role", auth_role_name(role)), KVZ("name", s->name),
	    KVZ("says", other_name(s)), KVZ("peer", peer), KVI("local", s->is_local));
	return s;
}

void
session_rejoin(struct daemon *d, struct session *s, const struct request *r)
{
	bind_peer(d, s, r->peer);
	s->seen_ns = daemon_now(d);
	if (r->m.hello.joins)
		return;
	s->peer = r->peer;
	s->is_connected = sock_peer_is_here(d->net, r->peer);
	for (uint32_t i = 0; i < s->n_envs && s->is_connected; i++)
		farm_here(d->farm, s->envs[i].device);
}

/* Workers that came and went, over and over, are forgotten before their minute. */
static void
forget_gone(struct daemon *d)
{
	struct session **oldest = NULL;
	uint32_t n = 0;

	for (struct session **at = &d->sessions; *at; at = &(*at)->next)
		if (!(*at)->is_connected) {
			n++;
			if (!oldest || (*at)->seen_ns < (*oldest)->seen_ns)
				oldest = at;
		}
	if (n > MOST_GONE)
		session_end(d, oldest);
}

void
session_peer_gone(struct daemon *d, uint32_t peer)
{
	struct session **at = &d->sessions;

	while (*at && ((*at)->peer != peer || !(*at)->is_connected))
		at = &(*at)->next;
	if (!*at)
		return;
	(*at)->is_connected = false;
	lease_waits(d, *at, STR("")); /* it says so again when it comes back */
	if ((*at)->role == AUTH_CLIENT) {
		session_end(d, at);
		return;
	}
	for (uint32_t i = 0; i < (*at)->n_envs; i++)
		farm_gone(d->farm, (*at)->envs[i].device, daemon_now(d));
	forget_gone(d);
}

/* ---- time --------------------------------------------------------------------------- */
void
sessions_late(struct daemon *d, int64_t ns)
{
	for (struct session *s = d->sessions; s; s = s->next)
		s->seen_ns += ns;
}

/* The fewer devices there are, the sooner each hears that nobody waits any more for what it does; all
 * together send at most a hundred renewals a second. */
static void
set_heartbeat(struct daemon *d)
{
	int64_t n = 0;

	for (const struct session *s = d->sessions; s; s = s->next)
		n += s->n_envs;
	d->heartbeat_ns = MIN_OF(MAX_OF(n * SECOND_NS / 100, SECOND_NS / 4), 5 * SECOND_NS);
}

void
sessions_tick(struct daemon *d)
{
	struct session **at = &d->sessions;
	int64_t now = daemon_now(d);

	set_heartbeat(d);

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

uint32_t
sessions_end(struct daemon *d, bool (*is_over)(const struct daemon *d, const struct session *s))
{
	struct session **at = &d->sessions;
	uint32_t n = 0;

	while (*at) {
		if (!is_over(d, *at)) {
			at = &(*at)->next;
			continue;
		}
		sock_cut_bound(d->net, (*at)->id);
		session_end(d, at);
		n++;
	}
	return n;
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
			bool waits = s->is_connected && dev->state == DEVICE_OK && s->waits[0];
			struct m_worker *w;

			GROW(&r->arena, m.workers.workers, m.workers.n_workers, cap);
			w = &m.workers.workers[m.workers.n_workers++];
			*w = (struct m_worker){.session = s->id,
			    .name = str_of(s->name),
			    .says = str_of(other_name(s)),
			    .class = str_of(s->envs[i].class),
			    .state = str_of(waits     ? "waiting"
				    : s->is_connected ? device_state_name(dev->state)
						      : "gone"),
			    .leases = dev->n_leases,
			    .done = dev->done,
			    .faults = dev->all_faults,
			    .reason = str_of(waits ? s->waits : "")};
		}
	reply(d, r, &m);
}
