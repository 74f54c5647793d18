/* A worker that is told to leave does so, and with status 0, though the daemon that waits for its
 * results has gone for good.  label: fault */
#include "farm_proc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const int64_t SECOND = 1000000000;

/* Waits until a worker holds leases. */
static void
await_lease(struct client *c)
{
	struct msg ask = {.type = MSG_worker_list}, m;
	struct err e = {0};
	uint64_t held = 0;

	while (!held) {
		struct arena a = {0};

		if (!client_call(c, &a, &ask, SECOND, &m, &e))
			fail_msg("%s", e.msg);
		for (uint32_t i = 0; i < m.workers.n_workers; i++)
			held += m.workers.workers[i].leases;
		arena_fini(&a);
	}
}

static void
daemon_gone(void **state)
{
	struct m_options o = {.device = STR("fake"),
	    .threads = 1,
	    .budget_ns = 3600 * SECOND,
	    .tolerance = 1e-3,
	    .fusion = STR("full"),
	    .effort = 1};
	struct farm_proc f;
	struct client *c;
	char model[128], cmd[512];
	uint64_t job;
	struct err e = {0};

	(void)state;
	farm_proc_init(&f, "fake:seed=5,slow=20");
	(void)snprintf(model, sizeof(model), "%s/candy_small/model.onnx", f.dir);
	(void)snprintf(cmd, sizeof(cmd),
	    "tar -xJf '%s/tests/models/small.tar.xz' -C '%s' --strip-components=1 small/candy_small",
	    KORCH_SOURCE_DIR, f.dir);
	assert_int_equal(system(cmd), 0);
	farm_proc_daemon(&f, 0);
	farm_proc_worker(&f, 0);
	c = farm_proc_client(&f, NULL, NULL);
	if (!client_submit(c, model, NULL, 0, &o, &job, &e))
		fail_msg("%s", e.msg);
	await_lease(c);
	(void)farm_proc_kill(&f.daemon, SIGKILL);
	assert_int_equal(farm_proc_kill(&f.worker, SIGTERM), 0);
	client_close(c);
	farm_proc_fini(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(daemon_gone)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
