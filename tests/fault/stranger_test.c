/* Hostile words over the network, each refused or harmless: garbage, other people's tokens, proofs and
 * sessions, floods of hello, silence, names that write into logs.  After each the daemon serves the next one.
 * label: fault */
#include "farm_proc.h"
#include "raw.h"

#include "../../kernels/base/epoch.h"
#include "../../kernels/base/log.h"
#include "../../worker/device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
static const char worker_token[] = "wwwwwwwwwwwwwwwwwwwwwwww", client_token[] = "cccccccccccccccccccccccc";

/* ---- peers -------------------------------------------------------------------------- */
static struct m_env
an_env(void)
{
	return (struct m_env){.class = STR("fake"),
	    .key = STR("class=fake stranger=1"),
	    .run_compat = STR("fake"),
	    .compiler = STR("none"),
	    .epoch = GENERATOR_EPOCH};
}

struct who {
	struct auth auth;
	struct hello hello;
	struct m_env env;
	struct arena a;
};

static struct hello *
be(struct who *w, enum auth_role role, const char *token)
{
	*w = (struct who){.env = an_env()};
	w->auth.tokens = arena_alloc(&w->a, 2 * sizeof(*w->auth.tokens));
	for (int i = 0; i < AUTH_ROLES; i++) {
		w->auth.tokens[i].role = (enum auth_role)i;
		w->auth.tokens[i].token = str_of(token);
	}
	w->auth.n_tokens = AUTH_ROLES;
	w->hello = (struct hello){.role = role, .auth = &w->auth, .name = STR("stranger")};
	if (role == AUTH_WORKER) {
		w->hello.envs = &w->env;
		w->hello.n_envs = 1;
	}
	return &w->hello;
}

static void
open_as(struct raw *r, struct who *w, const char *url, enum auth_role role)
{
	raw_open(r, url, true);
	assert_int_equal(
	    raw_hello(r, be(w, role, role == AUTH_WORKER ? worker_token : client_token)), ERR_NONE);
}

static enum err_code
say(struct raw *r, enum msg_type type, uint64_t session)
{
	struct msg ask = {.type = type, .session = session}, m;

	return raw_ask(r, &ask, &m);
}

/* Somebody with a token, and somebody at the local socket, are served. */
static void
is_well(const struct farm_proc *f)
{
	const char *const urls[] = {f->net, f->url};

	for (size_t i = 0; i < COUNT_OF(urls); i++) {
		struct raw r;
		struct who w;

		open_as(&r, &w, urls[i], AUTH_CLIENT);
		assert_int_equal(say(&r, MSG_job_list, 0), ERR_NONE);
		raw_close(&r);
		arena_fini(&w.a);
	}
}

static void
up(struct farm_proc *f)
{
	farm_proc_init(f, "fake:seed=1");
	farm_proc_net(f);
	farm_proc_daemon(f, 0);
}

/* ---- what is no message -------------------------------------------------------------- */
#define OCTETS(s)                                                                                            \
	{                                                                                                    \
		(const uint8_t *)(s), sizeof(s) - 1                                                          \
	}

static void
garbage(void **state)
{
	static uint8_t noise[4096];
	static const struct bytes words[] = {
	    OCTETS("GET / HTTP/1.1\r\nHost: korchd\r\n\r\n"),
	    OCTETS("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),     /* a TLS greeting */
	    {noise, sizeof(noise)}, OCTETS("\0SP\0\0\x31\0\0"),         /* another protocol */
	    OCTETS("\0SP\0\0\x30\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), /* a frame of 2^64 bytes */
	    OCTETS("\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\x02\x80\0"),         /* no request's number */
	    OCTETS("\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\0"),                 /* nothing at all */
	};
	struct farm_proc f;
	struct rng rng = {5};

	(void)state;
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)rng_next(&rng);
	noise[0] |= 1; /* not by chance a greeting */
	up(&f);
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		struct raw r;

		raw_open(&r, f.net, false);
		raw_octets(&r, words[i]);
		raw_await_end(&r);
		raw_close(&r);
		is_well(&f);
	}
	farm_proc_fini(&f);
}

static void
messages(void **state)
{
	static uint8_t deep[5008] = {0x94, 10, 1, 0}, much[2 << 20],
		       long_name[300 + 19] = "\x94\x0a\x07\x00\x83\x01\x02\x03\xa6"
					     "client\x05\xda\x01\x2c";
	static const struct {
		const char *what;
		struct bytes body;
		enum err_code want;
	} words[] = {
	    {"not msgpack", OCTETS("\xc1\xc1\xc1\xc1\xc1"), ERR_PROTO},
	    {"nil", OCTETS("\xc0"), ERR_PROTO},
	    {"an array of 2^32", OCTETS("\xdd\xff\xff\xff\xff"), ERR_PROTO},
	    {"nested", {deep, sizeof(deep)}, ERR_PROTO},
	    {"a list of 2^32 in hello", OCTETS("\x94\x0a\x01\x00\x81\x07\xdd\xff\xff\xff\xff"), ERR_PROTO},
	    {"a number that is no message", OCTETS("\x94\x63\x07\x00\x80"), ERR_PROTO},
	    {"an answer", OCTETS("\x94\x29\x07\x00\x80"), ERR_PROTO},
	    {"a planner's word", OCTETS("\x94\x65\x07\x00\x80"), ERR_PROTO},
	    {"no session", OCTETS("\x94\x28\x07\xcd\x30\x39\x80"), ERR_UNPROVED},
	    {"session 0", OCTETS("\x94\x28\x07\x00\x80"), ERR_UNPROVED},
	    {"protocol 9",
		OCTETS("\x94\x0a\x07\x00\x82\x01\x09\x03\xa6"
		       "client"),
		ERR_PROTO},
	    {"role root", OCTETS("\x94\x0a\x07\x00\x82\x01\x02\x03\xa4root"), ERR_PROTO},
	    {"a name of 300 bytes", {long_name, sizeof(long_name)}, ERR_PROTO},
	    {"more than a message holds", {much, sizeof(much)}, ERR_LINKLOST},
	};
	struct farm_proc f;

	(void)state;
	memset(long_name + 19, 'n', 300);
	memset(deep + 4, 0x91, sizeof(deep) - 4);
	up(&f);
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		struct raw r;
		struct msg m;
		struct err e = {0};

		raw_open(&r, f.net, true);
		raw_frame(&r, words[i].body);
		if (!raw_hear(&r, &m))
			(void)err_set(&e, ERR_LINKLOST, "ended");
		else
			assert_true(msg_is_error(&m, &e));
		if (e.code != words[i].want)
			fail_msg("%s: %s", words[i].what, e.msg);
		raw_close(&r);
	}
	is_well(&f);
	farm_proc_fini(&f);
}

/* ---- who it is not ------------------------------------------------------------------- */
static void
tokens(void **state)
{
	static const struct {
		enum auth_role role;
		const char *token;
	} wrong[] = {{AUTH_WORKER, ""}, {AUTH_WORKER, "0000000000000000000000000000"},
	    {AUTH_WORKER, client_token}, {AUTH_CLIENT, worker_token},
	    {AUTH_CLIENT, "wwwwwwwwwwwwwwwwwwwwwww"}};
	struct farm_proc f;

	(void)state;
	up(&f);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct raw r;
		struct who w;

		raw_open(&r, f.net, true);
		assert_int_equal(raw_hello(&r, be(&w, wrong[i].role, wrong[i].token)), ERR_REFUSED);
		assert_int_equal(say(&r, MSG_job_list, 0), ERR_UNPROVED); /* and has nothing */
		/* the right one, on the same connection, is good all the same */
		arena_fini(&w.a);
		assert_int_equal(raw_hello(&r, be(&w, AUTH_CLIENT, client_token)), ERR_NONE);
		raw_close(&r);
		arena_fini(&w.a);
	}
	is_well(&f);
	farm_proc_fini(&f);
}

/* A proof that was overheard is worth nothing on another connection, nor to a later life of the daemon. */
static void
replay(void **state)
{
	struct farm_proc f;
	struct raw r, other;
	struct who w;
	struct msg first, proof, m;

	(void)state;
	up(&f);
	raw_open(&r, f.net, true);
	hello_fill(be(&w, AUTH_CLIENT, client_token), (struct bytes){0}, &first);
	assert_int_equal(raw_ask(&r, &first, &m), ERR_NONE);
	hello_fill(&w.hello, m.welcome.challenge, &proof);
	assert_int_equal(raw_ask(&r, &proof, &m), ERR_NONE);
	assert_int_not_equal(m.welcome.session, 0);
	raw_open(&other, f.net, true);
	assert_int_equal(raw_ask(&other, &proof, &m), ERR_UNPROVED);
	raw_close(&other);
	(void)farm_proc_kill(&f.daemon, SIGKILL);
	farm_proc_daemon(&f, 0);
	raw_open(&other, f.net, true);
	assert_int_equal(raw_ask(&other, &proof, &m), ERR_UNPROVED);
	raw_close(&other);
	raw_close(&r);
	arena_fini(&w.a);
	is_well(&f);
	farm_proc_fini(&f);
}

/* Somebody else's session number opens nothing, with whatever proof of one's own, and on whatever way. */
static void
sessions(void **state)
{
	struct farm_proc f;
	struct raw worker, client, thief, local;
	struct who w, c, t, l;
	uint64_t stolen;

	(void)state;
	up(&f);
	open_as(&worker, &w, f.net, AUTH_WORKER);
	open_as(&client, &c, f.net, AUTH_CLIENT);
	raw_open(&thief, f.net, true); /* without a token */
	assert_int_equal(say(&thief, MSG_job_list, client.session), ERR_UNPROVED);
	assert_int_equal(say(&thief, MSG_renew, worker.session), ERR_UNPROVED);
	raw_close(&thief);
	open_as(&thief, &t, f.net, AUTH_WORKER); /* with one, of another role, or of the same */
	assert_int_equal(say(&thief, MSG_job_list, client.session), ERR_UNPROVED);
	assert_int_equal(say(&thief, MSG_bye, worker.session), ERR_UNPROVED);
	stolen = client.session;
	t.hello.session = stolen; /* to go on with it takes its token */
	assert_int_equal(raw_hello(&thief, &t.hello), ERR_NONE);
	assert_int_not_equal(thief.session, stolen);
	t.hello.joins = true;
	assert_int_equal(raw_hello(&thief, &t.hello), ERR_UNPROVED);
	open_as(&local, &l, f.url, AUTH_CLIENT);
	l.hello.session = stolen;
	l.hello.joins = true;
	assert_int_equal(raw_hello(&local, &l.hello), ERR_UNPROVED);
	assert_int_equal(say(&local, MSG_job_list, stolen), ERR_UNPROVED);
	/* what each has, each keeps, and no more than that */
	assert_int_equal(say(&worker, MSG_renew, 0), ERR_NONE);
	assert_int_equal(say(&client, MSG_job_list, 0), ERR_NONE);
	assert_int_equal(say(&worker, MSG_job_list, 0), ERR_PROTO);
	assert_int_equal(say(&worker, MSG_shutdown, 0), ERR_PROTO);
	assert_int_equal(say(&client, MSG_lease, 0), ERR_PROTO);
	raw_close(&worker);
	raw_close(&client);
	raw_close(&thief);
	raw_close(&local);
	arena_fini(&w.a);
	arena_fini(&c.a);
	arena_fini(&t.a);
	arena_fini(&l.a);
	is_well(&f);
	farm_proc_fini(&f);
}

/* A worker whose connection broke goes on with its session over another, once that has proved itself, and may
 * join it by a second one; the second is no life line. */
static void
goes_on(void **state)
{
	struct farm_proc f;
	struct raw r, again, blobs;
	struct who w;
	struct msg ask = {.type = MSG_blob_get}, m;

	(void)state;
	up(&f);
	open_as(&r, &w, f.net, AUTH_WORKER);
	w.hello.session = r.session;
	raw_reset(&r);
	raw_open(&again, f.net, true);
	assert_int_equal(say(&again, MSG_renew, w.hello.session), ERR_UNPROVED);
	assert_int_equal(raw_hello(&again, &w.hello), ERR_NONE);
	assert_true(again.session == w.hello.session);
	assert_int_equal(say(&again, MSG_renew, 0), ERR_NONE);
	raw_open(&blobs, f.net, true);
	w.hello.joins = true;
	w.hello.n_envs = 0;
	assert_int_equal(raw_hello(&blobs, &w.hello), ERR_NONE);
	assert_true(blobs.session == again.session);
	assert_int_equal(raw_ask(&blobs, &ask, &m), ERR_FAILED); /* there is no such blob */
	raw_reset(&blobs);
	assert_int_equal(say(&again, MSG_renew, 0), ERR_NONE);
	raw_close(&again);
	arena_fini(&w.a);
	farm_proc_fini(&f);
}

/* ---- too much ------------------------------------------------------------------------ */
/* Hellos without proof, as fast as they go, from eight connections: a worker with the right token is taken
 * meanwhile. */
static void
flood(void **state)
{
	struct farm_proc f;
	struct raw r[8];
	struct who w;
	struct pollfd ready = {.events = POLLIN};
	char line[8];
	pid_t worker;
	int fd;

	(void)state;
	up(&f);
	be(&w, AUTH_CLIENT, client_token);
	for (size_t i = 0; i < COUNT_OF(r); i++)
		raw_open(&r[i], f.net, true);
	for (int n = 0; n < 100;
	     n++) { /* more than any number of places, before and while the worker comes */
		struct msg m;

		for (size_t i = 0; i < COUNT_OF(r); i++)
			for (int k = 0; k < 16; k++) {
				hello_fill(&w.hello, (struct bytes){0}, &m);
				raw_send(&r[i], &m);
			}
		if (n == 50) {
			(void)snprintf(f.url, sizeof(f.url), "%s", f.net); /* where it dials */
			worker = farm_proc_another(&f, "fake:seed=1", 0, &fd);
			ready.fd = fd;
		}
		for (size_t i = 0; i < COUNT_OF(r); i++)
			for (int k = 0; k < 16; k++)
				assert_true(raw_hear(&r[i], &m) && m.welcome.challenge.n);
		n -= n > 50 && poll(&ready, 1, 0) == 0; /* until it is in */
	}
	assert_true(read(fd, line, sizeof(line)) > 0);
	(void)close(fd);
	assert_int_equal(farm_proc_kill(&worker, SIGTERM), 0);
	for (size_t i = 0; i < COUNT_OF(r); i++)
		raw_close(&r[i]);
	arena_fini(&w.a);
	farm_proc_fini(&f);
}

/* A worker that asks for work over and over without waiting: what is parked for it stays bounded. */
static void
parked(void **state)
{
	enum { N = 40, KEPT = 16 };
	struct farm_proc f;
	struct raw r;
	struct who w;
	struct msg m;
	uint32_t n_answered = 0;

	(void)state;
	up(&f);
	open_as(&r, &w, f.net, AUTH_WORKER);
	for (int i = 0; i < N; i++) {
		m = (struct msg){.type = MSG_lease};
		m.lease.wait_ns = 20 * SECOND;
		raw_send(&r, &m);
	}
	for (; n_answered < N - KEPT; n_answered++) {
		assert_true(raw_hear(&r, &m));
		assert_int_equal(m.type, MSG_grant);
		assert_int_equal(m.grant.n_tasks, 0);
	}
	/* more at once than any honest one has: the connection ends */
	for (int i = 0; i < 100; i++) {
		m = (struct msg){.type = MSG_lease};
		m.lease.wait_ns = 20 * SECOND;
		raw_send(&r, &m);
	}
	raw_await_end(&r);
	raw_close(&r);
	arena_fini(&w.a);
	is_well(&f);
	farm_proc_fini(&f);
}

static void
room_for(rlim_t n)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = MIN_OF(r.rlim_max, MAX_OF(n, r.rlim_cur));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
}

/* More connections than korchd may open files, that shake hands and say no more, or not even that: the local
 * socket is open all the while, and the network again as soon as their time is up. */
static void
crowd_of(bool greets, const char *why)
{
	enum { FILES = 256, N = 400 };
	static struct raw r[N];
	struct farm_proc f;
	struct raw local;
	struct arena a = {0};
	struct who w;

	room_for(2 * N);
	farm_proc_init(&f, "fake:seed=1");
	farm_proc_net(&f);
	f.files = FILES;
	f.more[0] = "--hello-timeout";
	f.more[1] = "1";
	farm_proc_daemon(&f, 0);
	for (int i = 0; i < N; i++) {
		raw_open(&r[i], f.net, greets);
		if (i % 50 == 49) { /* at any time */
			open_as(&local, &w, f.url, AUTH_CLIENT);
			assert_int_equal(say(&local, MSG_job_list, 0), ERR_NONE);
			raw_close(&local);
			arena_fini(&w.a);
		}
	}
	for (int i = 0; i < N; i++)
		raw_await_end(&r[i]);
	is_well(&f);
	for (int i = 0; i < N; i++)
		raw_close(&r[i]);
	assert_non_null(strstr(farm_proc_log(&f, &a, "daemon.log").p, why));
	arena_fini(&a);
	farm_proc_fini(&f);
}

static void
silence(void **state)
{
	(void)state;
	crowd_of(true, "they had not proved who they are in time");
	crowd_of(false, "hardly any files were left");
}

/* Who has proved himself is not closed for his silence while he waits, and is when he does nothing. */
static void
idle(void **state)
{
	struct farm_proc f;
	struct raw waits, sleeps, local;
	struct who w, s, l;
	struct msg lease = {.type = MSG_lease}, m;

	(void)state;
	farm_proc_init(&f, "fake:seed=1");
	farm_proc_net(&f);
	f.more[0] = "--idle-timeout";
	f.more[1] = "1";
	farm_proc_daemon(&f, 0);
	open_as(&waits, &w, f.net, AUTH_WORKER);
	open_as(&sleeps, &s, f.net, AUTH_CLIENT);
	open_as(&local, &l, f.url, AUTH_CLIENT);
	lease.lease.wait_ns = 3 * SECOND;
	raw_send(&waits, &lease);
	raw_await_end(&sleeps);
	assert_true(raw_hear(&waits, &m)); /* three seconds on */
	assert_int_equal(m.type, MSG_grant);
	assert_int_equal(say(&local, MSG_job_list, 0), ERR_NONE);
	raw_close(&waits);
	raw_close(&sleeps);
	raw_close(&local);
	arena_fini(&w.a);
	arena_fini(&s.a);
	arena_fini(&l.a);
	farm_proc_fini(&f);
}

/* ---- names --------------------------------------------------------------------------- */
/* The log has lines of the table's events alone, each with its time and level, whatever peers call
 * themselves. */
static void
check_log(const struct farm_proc *f)
{
	struct arena a = {0};
	struct str rest = farm_proc_log(f, &a, "daemon.log");
	uint32_t n = 0;

	for (; rest.n; n++) {
		struct str line = str_cut(&rest, '\n'), whole = line, time = str_cut(&line, ' '),
			   level = str_cut(&line, ' '), event = str_cut(&line, ' ');
		enum log_level l;
		bool known = false;

		for (int i = 0; i < LOG_EVENTS; i++)
			known |= str_is(event, log_row((enum log_event)i)->name);
		if (time.n != 24 || time.p[10] != 'T' || time.p[23] != 'Z' || !log_level_of(level, &l) ||
		    !known)
			fail_msg("a line of the log: %.*s", STR_ARG(whole));
		for (size_t i = 0; i < whole.n; i++)
			assert_true((unsigned char)whole.p[i] >= 0x20 && (unsigned char)whole.p[i] < 0x7f);
	}
	assert_true(n > 5);
	arena_fini(&a);
}

static void
names(void **state)
{
	static const char *const name[] = {"a\nready forged=1 \x1b[31mred",
	    "x\r\n2026-01-01T00:00:00.000Z info bye",
	    "\xc2\x9b"
	    "2J",
	    "\xe2\x80\xae", "%s%s%n", "\" name=\"", "\xff\xfe"};
	struct farm_proc f;

	(void)state;
	up(&f);
	for (size_t i = 0; i < COUNT_OF(name); i++)
		for (int k = 0; k < 2; k++) { /* taken, and refused */
			struct raw r;
			struct who w;

			raw_open(&r, f.net, true);
			be(&w, AUTH_WORKER, k ? worker_token : client_token);
			w.hello.name = str_of(name[i]);
			assert_int_equal(raw_hello(&r, &w.hello), k ? ERR_NONE : ERR_REFUSED);
			raw_close(&r);
			arena_fini(&w.a);
		}
	is_well(&f);
	check_log(&f);
	farm_proc_fini(&f);
}

/* Waits until the daemon's log has it so often. */
static void
await_log(const struct farm_proc *f, const char *what, int n)
{
	for (int seen = 0; seen < n;) {
		struct arena a = {0};
		const char *at = farm_proc_log(f, &a, "daemon.log").p;

		for (seen = 0; (at = strstr(at, what)) != NULL; at++)
			seen++;
		arena_fini(&a);
		(void)sched_yield();
	}
}

/* HUP ends nobody but whose token is gone; a file that cannot be used changes nothing. */
static void
reload(void **state)
{
	struct farm_proc f;
	struct raw worker, client, again;
	struct who w, c, x;

	(void)state;
	up(&f);
	open_as(&worker, &w, f.net, AUTH_WORKER);
	open_as(&client, &c, f.net, AUTH_CLIENT);
	farm_proc_tokens(&f, "nonsense\n");
	assert_int_equal(kill(f.daemon, SIGHUP), 0);
	await_log(&f, "reload.failed why=", 1);
	assert_int_equal(say(&client, MSG_job_list, 0), ERR_NONE);
	farm_proc_tokens(&f, "worker wwwwwwwwwwwwwwwwwwwwwwww\nclient dddddddddddddddddddddddd\n");
	assert_int_equal(kill(f.daemon, SIGHUP), 0);
	await_log(&f, "ended=1", 1);
	raw_await_end(&client);
	assert_int_equal(say(&worker, MSG_renew, 0), ERR_NONE);
	raw_open(&again, f.net, true);
	assert_int_equal(raw_hello(&again, be(&x, AUTH_CLIENT, client_token)), ERR_REFUSED);
	arena_fini(&x.a);
	assert_int_equal(raw_hello(&again, be(&x, AUTH_CLIENT, "dddddddddddddddddddddddd")), ERR_NONE);
	assert_int_equal(say(&again, MSG_job_list, 0), ERR_NONE);
	raw_close(&worker);
	raw_close(&client);
	raw_close(&again);
	arena_fini(&w.a);
	arena_fini(&c.a);
	arena_fini(&x.a);
	farm_proc_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(garbage),
	    cmocka_unit_test(messages),
	    cmocka_unit_test(tokens),
	    cmocka_unit_test(replay),
	    cmocka_unit_test(sessions),
	    cmocka_unit_test(goes_on),
	    cmocka_unit_test(flood),
	    cmocka_unit_test(parked),
	    cmocka_unit_test(silence),
	    cmocka_unit_test(idle),
	    cmocka_unit_test(names),
	    cmocka_unit_test(reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
