/* Three thousand workers whose daemon dies and comes back greet it at once, over the network, and hundreds by
 * TLS: all of them are in session in the end, none was refused, and somebody at the local socket is served
 * meanwhile.  The workers are simulated by one loop that speaks the wire and waits as a worker waits.  Says
 * how long it took from the first that was greeted to the last.  A number as argument: so many.  label: fault
 */
#include "farm_proc.h"
#include "raw.h"

#include "../../worker/device.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* By TLS fewer: one thread here shakes the hands of all of them, which three thousand hosts do each for
 * itself, and a connection takes some 80 KiB of either side. */
enum { MANY = 3000, MANY_TLS = 300, EVENTS = 256, KEPT_FILES = 1024, TLS_KIB = 80 };
static const int64_t MS = 1000000;
static uint32_t wanted; /* 0: as many as above */

enum state { OUTSIDE, GREETING, INSIDE };
struct sim {
	struct raw raw;
	struct hello hello;
	struct bytes challenge;
	enum state state;
	int64_t again_ns; /* outside: not before */
	uint32_t n_refused;
	char name[16];
};
struct crowd {
	const struct farm_proc *f;
	struct sim *sims;
	uint32_t n, n_inside, n_refused, n_closed;
	int epoll;
	struct raw_tls_conf *tls; /* NULL: plain */
	int64_t first_ns, last_ns;
};

static int64_t
now_ns(void)
{
	return os_real()->mono_ns(NULL);
}

static void
watch(const struct crowd *c, struct sim *s, int op)
{
	struct epoll_event ev = {
	    .events = EPOLLIN | (raw_wants_to_send(&s->raw) ? (uint32_t)EPOLLOUT : 0), .data.ptr = s};

	assert_int_equal(epoll_ctl(c->epoll, op, s->raw.fd, &ev), 0);
}

static void
say_hello(struct sim *s)
{
	struct msg m;

	hello_fill(&s->hello, s->challenge, &m);
	raw_send(&s->raw, &m);
}

static void
start(struct crowd *c, struct sim *s)
{
	if (!(c->tls ? raw_begin_tls(&s->raw, c->f->net, c->tls) : raw_begin(&s->raw, c->f->net))) {
		s->again_ns = now_ns() + 250 * MS; /* as nng dials */
		return;
	}
	s->state = GREETING;
	s->challenge.n = 0;
	watch(c, s, EPOLL_CTL_ADD);
	say_hello(s);
}

static void
leave(struct crowd *c, struct sim *s, int64_t wait_ns)
{
	c->n_inside -= s->state == INSIDE;
	s->state = OUTSIDE;
	s->again_ns = now_ns() + wait_ns;
	raw_close(&s->raw);
}

static void
hear(struct crowd *c, struct sim *s, const struct msg *m)
{
	uint64_t session;
	struct err e = {0};

	if (s->state == INSIDE)
		return;
	if (!hello_read(&s->hello, m, &session, &e)) {
		c->n_refused++;
		leave(c, s, hello_wait_ns(++s->n_refused));
	} else if (session == 0) {
		s->challenge = m->welcome.challenge;
		say_hello(s);
	} else {
		s->state = INSIDE;
		s->n_refused = 0;
		s->raw.session = session;
		c->last_ns = now_ns();
		if (c->n_inside++ == 0)
			c->first_ns = c->last_ns;
	}
}

static void
turn(struct crowd *c)
{
	struct epoll_event ev[EVENTS];
	int n = epoll_wait(c->epoll, ev, EVENTS, 20);

	for (int i = 0; i < n; i++) {
		struct sim *s = ev[i].data.ptr;
		bool lives = raw_step(&s->raw);
		struct msg m;

		while (s->state != OUTSIDE && raw_next(&s->raw, &m))
			hear(c, s, &m);
		if (s->state == OUTSIDE)
			continue;
		if (lives) {
			watch(c, s, EPOLL_CTL_MOD);
		} else {
			c->n_closed += s->state == GREETING;
			leave(c, s, 250 * MS);
		}
	}
	for (uint32_t i = 0; i < c->n; i++)
		if (c->sims[i].state == OUTSIDE && now_ns() >= c->sims[i].again_ns)
			start(c, &c->sims[i]);
}

/* How many of them korchd has, asked by somebody at the local socket. */
static uint32_t
listed(const struct farm_proc *f)
{
	struct msg ask = {.type = MSG_worker_list}, m;
	struct client *c = farm_proc_client(f, NULL, NULL);
	struct arena a = {0};
	struct err e = {0};
	uint32_t n = 0;

	if (!client_call(c, &a, &ask, 60000 * MS, &m, &e))
		fail_msg("%s", e.msg);
	client_close(c);
	for (uint32_t i = 0; i < m.workers.n_workers; i++)
		n += str_is(m.workers.workers[i].state, "ok");
	arena_fini(&a);
	return n;
}

/* As many as there are files and, with TLS, memory for on both sides. */
static uint32_t
room_for(uint32_t n, bool is_tls)
{
	uint64_t kib = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	struct rlimit r;
	uint32_t most;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
	most = r.rlim_max < (n + KEPT_FILES) / 3 * 4 ? (uint32_t)r.rlim_max / 2 : n;
	most = is_tls ? (uint32_t)MIN_OF(kib / (4 * TLS_KIB), (uint64_t)most) : most;
	if (most < n)
		print_message(
		    "SKIP: 1 part: this host allows files and memory for %u workers, not %u\n", most, n);
	return most;
}

static void
until_all(struct crowd *c, const char *when)
{
	while (c->n_inside < c->n)
		turn(c);
	print_message("%s: %u greeted, %.1f s from the first to the last, %u connections closed on the way\n",
	    when, c->n, (double)(c->last_ns - c->first_ns) / 1e9, c->n_closed);
	c->n_closed = 0;
}

static void
begin(struct crowd *c, struct arena *a, const struct auth *auth, const struct keys *keys, struct m_env *env)
{
	c->sims = NEW_ARRAY(a, struct sim, c->n);
	for (uint32_t i = 0; i < c->n; i++) {
		struct sim *s = &c->sims[i];

		s->raw.fd = -1;
		(void)snprintf(s->name, sizeof(s->name), "sim%u", i);
		s->hello = (struct hello){.role = AUTH_WORKER,
		    .auth = auth,
		    .keys = keys,
		    .name = str_of(s->name),
		    .envs = env,
		    .n_envs = 1};
	}
}

static void
come_and_come_again(struct crowd *c, struct farm_proc *f)
{
	farm_proc_daemon(f, 0);
	until_all(c, "at the start");
	(void)farm_proc_kill(&f->daemon, SIGKILL);
	while (c->n_inside > 0)
		turn(c); /* they all find out, and dial */
	farm_proc_daemon(f, 0);
	until_all(c, "after a restart");
	assert_int_equal(c->n_refused, 0);
	assert_int_equal(listed(f), c->n);
	for (uint32_t i = 0; i < c->n; i++)
		raw_close(&c->sims[i].raw);
}

static void
all_at_once(bool is_tls)
{
	static const atomic_bool never = false;
	struct device_conf conf = {.compiler = "", .quiet = true, .cancel = &never};
	struct auth auth = {0};
	struct keys *keys = NULL;
	struct device device;
	struct arena a = {0};
	struct farm_proc f;
	struct crowd c = {.f = &f,
	    .n = room_for(wanted ? wanted
		    : is_tls     ? MANY_TLS
				 : MANY,
		is_tls),
	    .epoll = epoll_create1(EPOLL_CLOEXEC)};
	struct err e = {0};

	farm_proc_init(&f, "");
	if (is_tls) {
		farm_proc_tls(&f);
		keys = farm_proc_keys(&f, "worker", "worker");
		c.tls = raw_tls_conf_new(keys);
	} else {
		farm_proc_net(&f);
		assert_true(auth_load(&a, f.tokens, false, &auth, &e));
	}
	assert_true(device_open(&a, STR("fake:seed=1"), &conf, &device, &e));
	begin(&c, &a, &auth, keys, &device.env);
	come_and_come_again(&c, &f);
	(void)close(c.epoll);
	if (c.tls)
		raw_tls_conf_free(c.tls);
	keys_free(keys);
	device.close(device.self);
	arena_fini(&a);
	farm_proc_fini(&f);
}

static void
plain(void **state)
{
	(void)state;
	all_at_once(false);
}

static void
by_tls(void **state)
{
	(void)state;
	all_at_once(true);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(plain), cmocka_unit_test(by_tls)};

	if (argc > 1)
		wanted = (uint32_t)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
