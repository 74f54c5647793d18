/* Three thousand workers whose daemon dies and comes back greet it at once, over the network: all of them are
 * in session in the end, none was refused, and somebody at the local socket is served meanwhile.  The workers
 * are simulated by one loop that speaks the wire and waits as a worker waits.  label: fault */
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

enum { MANY = 3000, EVENTS = 256, KEPT_FILES = 1024 };
static const int64_t MS = 1000000;

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
	if (!raw_begin(&s->raw, c->f->net)) {
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
		c->n_inside++;
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

static uint32_t
room_for(uint32_t n)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
	return r.rlim_max < (n + KEPT_FILES) / 3 * 4 ? (uint32_t)r.rlim_max / 2 : n;
}

static void
all_at_once(void **state)
{
	static const atomic_bool never = false;
	struct device_conf conf = {.compiler = "", .quiet = true, .cancel = &never};
	struct auth auth = {0};
	struct device device;
	struct arena a = {0};
	struct farm_proc f;
	struct crowd c = {.f = &f, .n = room_for(MANY), .epoll = epoll_create1(EPOLL_CLOEXEC)};
	struct err e = {0};

	(void)state;
	if (c.n < MANY)
		print_message("SKIP: 1 part: this host allows files for %u workers, not %d\n", c.n, MANY);
	farm_proc_init(&f, "");
	farm_proc_net(&f);
	assert_true(auth_load(&a, f.tokens, false, &auth, &e));
	assert_true(device_open(&a, STR("fake:seed=1"), &conf, &device, &e));
	c.sims = NEW_ARRAY(&a, struct sim, c.n);
	for (uint32_t i = 0; i < c.n; i++) {
		struct sim *s = &c.sims[i];

		s->raw.fd = -1;
		(void)snprintf(s->name, sizeof(s->name), "sim%u", i);
		s->hello = (struct hello){.role = AUTH_WORKER,
		    .auth = &auth,
		    .name = str_of(s->name),
		    .envs = &device.env,
		    .n_envs = 1};
	}
	farm_proc_daemon(&f, 0);
	while (c.n_inside < c.n)
		turn(&c);
	(void)farm_proc_kill(&f.daemon, SIGKILL);
	while (c.n_inside > 0)
		turn(&c); /* they all find out, and dial */
	farm_proc_daemon(&f, 0);
	while (c.n_inside < c.n)
		turn(&c);
	assert_int_equal(c.n_refused, 0);
	assert_int_equal(listed(&f), c.n);
	for (uint32_t i = 0; i < c.n; i++)
		raw_close(&c.sims[i].raw);
	(void)close(c.epoll);
	device.close(device.self);
	arena_fini(&a);
	farm_proc_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_at_once)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
