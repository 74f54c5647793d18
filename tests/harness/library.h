/* tests/harness/library.h: a kernel of a CPU's library made runnable in this process. */
#ifndef KORCH_TEST_LIBRARY_H
#define KORCH_TEST_LIBRARY_H

#include "../../kernels/device/dev.h"
#include "kernel.h"

struct test_library {
	const struct dev *dev;
	struct dev_kernel kernel;
	struct dev_launch launch;
};
/* "lib=onednn-2.6.3 algo=1", of the version that is here. */
char *library_schedule(struct arena *a, uint32_t algo);
/* For k's spec and schedule, on k's buffers.  ERR_INFEASIBLE where the library has no such call. */
bool library_open(
    const struct dev *d, const struct test_kernel *k, struct test_library *out, struct err *e) MUST_CHECK;
void library_run(const struct test_library *l);
void library_close(struct test_library *l);

#endif
