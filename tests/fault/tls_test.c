/* Hostile words over TLS: whoever holds one certificate of the farm is its holder and nobody else, on that
 * connection alone.  label: fault  memory: yes */
#include "farm_proc.h"
#include "peer.h"

#include "../harness/sample.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A connection by `keys`, which says it is `role` by the certificate and key of `says`. */
struct party {
	struct peer peer;
	struct keys *keys;
	struct hello hello;
	struct m_env env;
	struct bytes challenge;
};

static void
come(struct party *p, const struct farm_proc *f, const char *name, const char *is)
{
	*p = (struct party){
	    .keys = farm_proc_keys(f, name, is), .env = sample_env("fake", "class=fake stranger=1")};
	peer_open_tls(&p->peer, f->net, p->keys);
	p->hello = (struct hello){.keys = p->keys, .name = STR("stranger"), .role = AUTH_CLIENT};
	if (strcmp(is, "worker") == 0) {
		p->hello.role = AUTH_WORKER;
		p->hello.envs = &p->env;
		p->hello.n_envs = 1;
	}
}

static void
go(struct party *p)
{
	peer_close(&p->peer);
	keys_free(p->keys);
}

/* The first word: its challenge is asked for. */
static void
ask_challenge(struct party *p)
{
	struct msg m, answer;

	hello_fill(&p->hello, (struct bytes){0}, &m);
	peer_want(&p->peer, &m, MSG_welcome, &answer);
	assert_int_equal(answer.welcome.session, 0);
	p->challenge = answer.welcome.challenge;
}

/* Both words of hello; the second one is changed first. */
static enum err_code
greet(struct party *p, void (*change)(struct m_hello *m, void *self), void *self)
{
	struct msg m, answer;
	struct err e = {0};

	ask_challenge(p);
	hello_fill(&p->hello, p->challenge, &m);
	if (change)
		change(&m.hello, self);
	peer_ask(&p->peer, &m, &answer);
	if (!hello_read(&p->hello, &answer, &p->peer.session, &e))
		return e.code;
	assert_int_not_equal(p->peer.session, 0);
	return ERR_NONE;
}

static enum err_code
say(struct party *p, enum msg_type type, uint64_t session)
{
	return peer_try(&p->peer, &(struct msg){.type = type, .session = session}, NULL);
}

static void
up(struct farm_proc *f)
{
	farm_proc_init(f, "fake:seed=1");
	farm_proc_tls(f);
	farm_proc_daemon(f, 0);
}

/* ---- who it is not ---- */
static void
as_worker(struct m_hello *m, void *self)
{
	static struct m_env env;

	(void)self;
	env = sample_env("fake", "class=fake stranger=1");
	m->role = STR("worker");
	m->envs = &env;
	m->n_envs = 1;
}

static void
no_proof(struct m_hello *m, void *self)
{
	(void)self;
	m->proof = (struct bytes){0};
}

static void
no_certificate(struct m_hello *m, void *self)
{
	(void)self;
	m->cert = STR("");
}

static void
bent(struct m_hello *m, void *self)
{
	(void)self;
	((uint8_t *)(uintptr_t)m->proof.p)[m->proof.n / 2] ^= 1;
}

static void
others_certificate(struct m_hello *m, void *self)
{
	m->cert = str_of(keys_cert_pem(self));
}

static void
proofs(void **state)
{
	struct farm_proc f;
	struct keys *other, *foreign;
	const struct {
		void (*change)(struct m_hello *m, void *self);
		struct keys **self;
	} row[] = {{as_worker, &other}, {no_proof, &other}, {no_certificate, &other}, {bent, &other},
	    {others_certificate, &other}, {others_certificate, &foreign}};
	struct party p;

	(void)state;
	up(&f);
	other = farm_proc_keys(&f, "other", "worker");
	foreign = farm_proc_keys(&f, "../not/client", "client");
	come(&p, &f, "client", "client");
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		assert_int_equal(greet(&p, row[i].change, *row[i].self), ERR_REFUSED);
		assert_int_equal(say(&p, MSG_job_list, 0), ERR_UNPROVED);
	}
	p.hello.keys = foreign; /* of another authority, and its key signs */
	assert_int_equal(greet(&p, NULL, NULL), ERR_REFUSED);
	p.hello.keys = other; /* of a worker, and its key signs: it is no client */
	assert_int_equal(greet(&p, NULL, NULL), ERR_REFUSED);
	p.hello.keys = p.keys;
	assert_int_equal(greet(&p, NULL, NULL), ERR_NONE);
	assert_int_equal(say(&p, MSG_job_list, 0), ERR_NONE);
	assert_int_equal(say(&p, MSG_lease, 0), ERR_PROTO); /* a client's right is no worker's */
	go(&p);
	keys_free(other);
	keys_free(foreign);
	farm_proc_fini(&f);
}

/* What was signed for one connection is worth nothing on another. */
static void
replay(void **state)
{
	struct farm_proc f;
	struct party a, b;
	struct msg proof, answer;

	(void)state;
	up(&f);
	come(&a, &f, "client", "client");
	come(&b, &f, "client", "client");
	ask_challenge(&a);
	hello_fill(&a.hello, a.challenge, &proof);
	assert_int_equal(peer_try(&b.peer, &proof, NULL), ERR_UNPROVED);
	proof.session = 0;
	peer_want(&a.peer, &proof, MSG_welcome, &answer);
	assert_int_not_equal(answer.welcome.session, 0);
	assert_int_equal(peer_try(&b.peer, &proof, NULL), ERR_UNPROVED);
	assert_int_equal(say(&b, MSG_job_list, answer.welcome.session), ERR_UNPROVED);
	assert_int_equal(greet(&b, NULL, NULL), ERR_NONE);
	go(&a);
	go(&b);
	farm_proc_fini(&f);
}

/* A session is its certificate's: others of the same role do not get it, further connections of its holder
 * do. */
static void
sessions(void **state)
{
	struct farm_proc f;
	struct party own, thief, second;

	(void)state;
	up(&f);
	come(&own, &f, "worker", "worker");
	assert_int_equal(greet(&own, NULL, NULL), ERR_NONE);
	come(&thief, &f, "other", "worker");
	assert_int_equal(say(&thief, MSG_renew, own.peer.session), ERR_UNPROVED);
	assert_int_equal(greet(&thief, NULL, NULL), ERR_NONE);
	assert_int_equal(say(&thief, MSG_renew, own.peer.session), ERR_UNPROVED);
	thief.hello.session = own.peer.session;
	thief.hello.joins = true;
	assert_int_equal(greet(&thief, NULL, NULL), ERR_UNPROVED);
	come(&second, &f, "worker", "worker");
	second.hello.session = own.peer.session;
	second.hello.joins = true;
	second.hello.n_envs = 0;
	assert_int_equal(greet(&second, NULL, NULL), ERR_NONE);
	assert_true(second.peer.session == own.peer.session);
	assert_int_equal(say(&own, MSG_renew, 0), ERR_NONE);
	go(&own);
	go(&thief);
	go(&second);
	farm_proc_fini(&f);
}

/* ---- ways that do not fit ---- */
enum { PATIENCE_S = 3600 }; /* whoever waits it out fails by ctest's limit */

static struct client_conf
conf_of(struct arena *a, const struct farm_proc *f, const char *url, const char *keys, const char *ca)
{
	return (struct client_conf){.url = url,
	    .name = "test",
	    .patience_ns = (int64_t)PATIENCE_S * 1000000000,
	    .cred = {.keys = {.dir = arena_printf(a, "%s/%s", f->dir, keys), .ca = ca}, .is_plain = true}};
}

static void
says(const struct err *e, const char *why)
{
	assert_int_equal(e->code, ERR_UNREACHABLE);
	if (!strstr(e->msg, why))
		fail_msg("'%s', not '%s'", e->msg, why);
}

/* Both authorities: ours and the farm's. */
static char *
both_authorities(struct arena *a, const struct farm_proc *f)
{
	char *to = arena_printf(a, "%s/both.crt", f->dir);
	struct bytes one, other;
	struct strbuf sb;
	struct err e = {0};

	assert_true(os_read_file(os_real(), a, arena_printf(a, "%s/keys/ca.crt", f->dir), 1 << 20, &one, &e));
	assert_true(
	    os_read_file(os_real(), a, arena_printf(a, "%s/not/ca.crt", f->dir), 1 << 20, &other, &e));
	sb_init(&sb, a);
	sb_addf(&sb, "%.*s%.*s", (int)one.n, (const char *)one.p, (int)other.n, (const char *)other.p);
	assert_true(os_write_file(os_real(), to, (struct bytes){(const uint8_t *)sb.p, sb.n}, &e));
	return to;
}

/* What no patience mends is said at the first try. */
static void
first_try(void **state)
{
	struct farm_proc f, plain;
	struct arena a = {0};

	(void)state;
	up(&f);
	farm_proc_init(&plain, "fake:seed=1");
	farm_proc_net(&plain);
	farm_proc_daemon(&plain, 0);
	{
		const char *port = strrchr(f.net, ':');
		const struct {
			const char *url, *keys, *ca, *why;
		} row[] = {
		    {f.net, "not/client", "", "not signed by the authority of ca.crt"},
		    {f.net, "not/client", both_authorities(&a, &f), "the daemon does not take"},
		    {arena_printf(&a, "tls+tcp://localhost%s", port), "keys/client", "",
			"not for 'localhost'"},
		    {arena_printf(&a, "tcp://127.0.0.1%s", port), "keys/client", "",
			"speaks TLS; name it tls+tcp://127.0.0.1"},
		    {arena_printf(&a, "tls+%s", plain.net), "keys/client", "", "speaks no TLS"},
		};

		for (size_t i = 0; i < COUNT_OF(row); i++) {
			struct client_conf conf = conf_of(&a, &f, row[i].url, row[i].keys, row[i].ca);
			struct client *c;
			struct err e = {0};

			assert_false(client_open(&c, &conf, &e));
			says(&e, row[i].why);
		}
	}
	farm_proc_fini(&plain);
	farm_proc_fini(&f);
	arena_fini(&a);
}

/* The daemon comes back under a certificate for another host: who was in session hears it in his next call.
 */
static void
later_try(void **state)
{
	const char *host = "tuner.example";
	struct msg ask = {.type = MSG_job_list}, m;
	struct farm_proc f;
	struct arena a = {0};
	struct client_conf conf;
	struct keys_order o;
	struct client *c;
	struct err e = {0};
	char old[128], now[128];

	(void)state;
	up(&f);
	conf = conf_of(&a, &f, f.net, "keys/client", "");
	assert_true(client_open(&c, &conf, &e));
	(void)farm_proc_kill(&f.daemon, SIGTERM);
	(void)snprintf(old, sizeof(old), "%s/daemon", f.keys);
	(void)snprintf(now, sizeof(now), "%s/before", f.keys);
	assert_int_equal(rename(old, now), 0);
	o = (struct keys_order){
	    .dir = f.keys, .role = "daemon", .name = "daemon", .host = &host, .n_host = 1, .days = 30};
	assert_true(keys_make(&o, &e));
	farm_proc_daemon(&f, 0);
	assert_false(client_call(c, &a, &ask, (int64_t)PATIENCE_S * 1000000000, &m, &e));
	says(&e, "not for '127.0.0.1'");
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(proofs), cmocka_unit_test(replay),
	    cmocka_unit_test(sessions), cmocka_unit_test(first_try), cmocka_unit_test(later_try)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
