/* daemon/reload.c: what HUP reads anew. */
#include "daemon.h"
#include "lease.h"

#include <stdio.h>

static const int64_t DAY_S = 86400, SAID_BEFORE = 30;

/* ---- who is not let in any more ------------------------------------------------------- */
static bool
has_token(const struct auth *au, const struct session *s)
{
	for (uint32_t i = 0; i < au->n_tokens; i++) {
		struct hash h = hash_bytes(au->tokens[i].token.p, au->tokens[i].token.n);

		if (au->tokens[i].role == s->role && hash_eq(&h, &s->who.of))
			return true;
	}
	return false;
}

static bool
is_out(const struct daemon *d, const struct session *s)
{
	switch (s->who.way) {
	case SOCK_LOCAL:
		return false;
	case SOCK_TLS:
		return !d->cred.keys || keys_revoked(d->cred.keys, s->who.name, &s->who.of);
	case SOCK_PLAIN:
		return !has_token(&d->cred.auth, s);
	}
	bug("a session of no way");
}

static bool
is_expired(const struct daemon *d, const struct session *s)
{
	return s->who.until_s && d->os->wall_ns(d->os->self) / SECOND_NS > s->who.until_s;
}

/* ---- our own certificate -------------------------------------------------------------- */
static void
warn(struct daemon *d)
{
	char day[16], words[300];
	int64_t until;

	if (!d->cred.keys)
		return;
	until = keys_until_s(d->cred.keys);
	if (until - d->os->wall_ns(d->os->self) / SECOND_NS > SAID_BEFORE * DAY_S)
		return;
	keys_date(until, day);
	(void)snprintf(words, sizeof(words),
	    "%.200s: good until %s; make another with korch-keys add, then send SIGHUP",
	    keys_file(d->cred.keys), day);
	daemon_log(d, warning, KVZ("what", words));
}

void
reload_tick(struct daemon *d)
{
	int64_t now = daemon_now(d);

	(void)sessions_end(d, is_expired);
	if (d->warned_ns && now - d->warned_ns < DAY_S * SECOND_NS)
		return;
	d->warned_ns = now;
	warn(d);
}

void
daemon_reload(struct daemon *d)
{
	struct cred fresh, old = d->cred;
	struct err e = {0};
	uint32_t n;

	if (!log_reopen(d->log, &e))
		daemon_log(d, reload_failed, KVZ("why", e.msg));
	e = (struct err){0};
	if (!cred_load(&fresh, &d->conf->cred, d->conf->listen, d->conf->n_listen, "daemon", &e)) {
		daemon_log(d, reload_failed, KVZ("why", e.msg));
		return;
	}
	sock_rekey(d->net, fresh.keys, fresh.keys && !keys_same(old.keys, fresh.keys));
	d->cred = fresh;
	cred_free(&old);
	n = sessions_end(d, is_out);
	daemon_log(d, reload, KVZ("what", "tokens, keys and revocations"), KVI("ended", n));
	warn(d);
	leases_push(d);
}
