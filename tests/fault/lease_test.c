/* A worker that asks for work again, because no answer came in time, gets it once: what would be
 * given to the request before would be lost until its lease ends.  label: fault */
#include "farm_proc.h"

#include "../../proto/hello.h"
#include "../../proto/sock.h"
#include "../../worker/device.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;
static const atomic_bool never = false;

/* A worker in the test's own hands. */
struct hand {
	struct sock_client *sock;
	sem_t rung;
	struct arena a;
	struct device device;
	uint64_t session;
};

static void
ring(void *self)
{
	(void)sem_post(&((struct hand *)self)->rung);
}

static void
ask(struct hand *h, struct msg *m, uint64_t id)
{
	struct bytes b;
	struct err e = {0};

	m->id = id;
	m->session = h->session;
	assert_true(msg_pack(&h->a, m, MSG_MAX_BYTES, &b, &e));
	sock_ask(h->sock, b, -1, (void *)(uintptr_t)m->type);
}

/* The next answer, to a request of that type. */
static void
hear(struct hand *h, enum msg_type to, struct msg *m)
{
	struct sock_call *call;
	struct bytes b;
	struct err e = {0};

	while ((call = sock_done(h->sock)) == NULL)
		(void)sem_wait(&h->rung);
	assert_int_equal((uintptr_t)sock_call_tag(call), to);
	if (!sock_call_bytes(call, &b, &e) ||
	    !msg_unpack(&h->a, (struct bytes){arena_dup(&h->a, b.p, b.n), b.n}, m, &e))
		fail_msg("%s", e.msg);
	if (to == MSG_lease)
		assert_int_equal(m->type, MSG_grant);
	sock_call_free(call);
}

static void
hand_init(struct hand *h, const char *url)
{
	struct device_conf conf = {.compiler = "", .quiet = true, .cancel = &never};
	struct hello hello = {.role = AUTH_WORKER, .is_local = true, .name = STR("hand"), .n_envs = 1};
	struct msg m;
	struct err e = {0};

	*h = (struct hand){0};
	assert_int_equal(sem_init(&h->rung, 0, 0), 0);
	assert_true(device_open(&h->a, STR("fake:seed=1"), &conf, &h->device, &e));
	assert_true(sock_client_open(&h->sock, url, NULL, MSG_MAX_BYTES, (struct sock_wake){ring, h}, &e));
	hello.envs = &h->device.env;
	hello_fill(&hello, (struct bytes){0}, &m);
	ask(h, &m, 1);
	hear(h, MSG_hello, &m);
	assert_true(hello_read(&hello, &m, &h->session, &e));
}

static void
ask_twice(struct hand *h, uint64_t id)
{
	for (int i = 0; i < 2; i++) {
		struct msg m = {.type = MSG_lease};

		m.lease.max = 2;
		m.lease.wait_ns = 20 * SECOND;
		m.lease.class = STR("fake");
		ask(h, &m, id);
	}
}

static uint64_t
leases(struct client *c)
{
	struct msg m, list = {.type = MSG_worker_list};
	struct arena a = {0};
	struct err e = {0};
	uint64_t n;

	assert_true(client_call(c, &a, &list, SECOND, &m, &e));
	assert_int_equal(m.workers.n_workers, 1);
	n = m.workers.workers[0].leases;
	arena_fini(&a);
	return n;
}

static void
asked_twice(void **state)
{
	struct m_options o = {.device = STR("fake"),
	    .threads = 1,
	    .budget_ns = 3600 * SECOND,
	    .tolerance = 1e-3,
	    .fusion = STR("full"),
	    .effort = 1};
	struct farm_proc f;
	struct hand h;
	struct client *c;
	struct msg m;
	char model[128], cmd[512];
	uint64_t job, id = 7;
	struct err e = {0};

	(void)state;
	farm_proc_init(&f, "");
	(void)snprintf(model, sizeof(model), "%s/candy_small/model.onnx", f.dir);
	(void)snprintf(cmd, sizeof(cmd),
	    "tar -xJf '%s/tests/models/small.tar.xz' -C '%s' --strip-components=1 small/candy_small",
	    KORCH_SOURCE_DIR, f.dir);
	assert_int_equal(system(cmd), 0);
	farm_proc_daemon(&f, 0);
	hand_init(&h, f.url);
	ask_twice(&h, id);
	m = (struct msg){.type = MSG_renew}; /* both wait by the time that this is answered */
	ask(&h, &m, ++id);
	hear(&h, MSG_renew, &m);
	c = farm_proc_client(&f, NULL, NULL);
	if (!client_submit(c, model, NULL, 0, &o, &job, &e))
		fail_msg("%s", e.msg);
	for (hear(&h, MSG_lease, &m); m.grant.n_tasks == 0; hear(&h, MSG_lease, &m)) /* a slow planner */
		ask_twice(&h, ++id);
	assert_int_equal(leases(c), m.grant.n_tasks);
	client_close(c);
	sock_client_close(h.sock);
	h.device.close(h.device.self);
	arena_fini(&h.a);
	farm_proc_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(asked_twice)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
