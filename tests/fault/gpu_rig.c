/* tests/fault/gpu_rig.c: see gpu_rig.h. */
#include "gpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const atomic_bool never = false;

bool
rig_open(struct rig *r, const char *device, struct err *e)
{
	memset(r, 0, sizeof(*r));
	r->conf = (struct device_conf){.compiler = "", .quiet = true, .cancel = &never};
	return device_open(&r->a, str_of(device), &r->conf, &r->d, e);
}

void
rig_measure(struct rig *r, int rows)
{
	for (int i = 0; i < RIG_N; i++) {
		r->task[i] = (struct m_task){
		    .spec = str_of(arena_printf(&r->a, RIG_SPEC, (i + 1) * rows, (i + 1) * rows)),
		    .effort = 1,
		    .threads = 1,
		    .precision = STR("f32")};
		r->out[i] = (struct m_outcome){.cause = STR(""), .log = STR("")};
	}
	r->d.measure(r->d.self, &r->a, r->task, RIG_N, r->out);
}

void
rig_close(struct rig *r)
{
	r->d.close(r->d.self);
	arena_fini(&r->a);
}

uint32_t
rig_n_good(const struct rig *r)
{
	uint32_t n = 0;

	for (int i = 0; i < RIG_N; i++)
		n += r->out[i].fail == 0 && r->out[i].n_rows > 0 && r->out[i].rows[0].median_ns > 0;
	return n;
}

bool
rig_enter(struct rig_home *h, const char *filter)
{
	(void)snprintf(h->cache, sizeof(h->cache), "/tmp/korch-gpu-test-XXXXXX");
	if (!mkdtemp(h->cache) || setenv("XDG_CACHE_HOME", h->cache, 1) != 0 ||
	    setenv("XDG_RUNTIME_DIR", h->cache, 1) != 0 ||
	    setenv("KORCH_LIBEXEC", KORCH_BINARY_DIR "/bin", 1) != 0)
		return false;
	cmocka_set_test_filter(filter);
	return true;
}

int
rig_leave(struct rig_home *h, int failed)
{
	char cmd[96];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", h->cache);
	return system(cmd) == 0 ? failed : 1;
}
