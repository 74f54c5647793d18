/* tests/fault/gpu_rig.h: a device of a worker, mostly a GPU on the fake driver, and tasks for it. */
#ifndef KORCH_TEST_GPU_RIG_H
#define KORCH_TEST_GPU_RIG_H

#include "../../worker/device.h"

/* Of two numbers of rows, the same. */
#define RIG_SPEC "spec 1\n%%0 = input f32[%d,8]\n%%1 = exp %%0 : f32[%d,8]\noutput %%1\n"
enum { RIG_N = 6 };
struct rig {
	struct arena a;
	struct device_conf conf;
	struct device d;
	struct m_task task[RIG_N];
	struct m_outcome out[RIG_N];
};
bool rig_open(struct rig *r, const char *device, struct err *e) MUST_CHECK;
/* Measures RIG_N small specs, the i-th of i * rows rows. */
void rig_measure(struct rig *r, int rows);
void rig_close(struct rig *r);
/* Tasks that ended well, with a time. */
uint32_t rig_n_good(const struct rig *r);

/* Calibrations of the program's own and children of this build; `filter` names tests, NULL: all.  Leaving
 * removes them; returns the exit status. */
struct rig_home {
	char cache[64];
};
bool rig_enter(struct rig_home *h, const char *filter) MUST_CHECK;
int rig_leave(struct rig_home *h, int failed) MUST_CHECK;

#endif
