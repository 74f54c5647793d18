/* tests/harness/cross.h: generated kernels on another architecture: compiled by a cross compiler, run
 * by an emulator of user programs, operands and results by files. */
#ifndef KORCH_TEST_CROSS_H
#define KORCH_TEST_CROSS_H

#include "kernel.h"

struct machine {
	const char *compiler, *emulator; /* commands */
};
/* NULL, or what is missing here. */
const char *cross_missing(const struct machine *m);
/* Runs them all in `parts` slices; results lie in their buffers then.  ERR_COMPILE, ERR_LAUNCH. */
bool cross_run(struct arena *a, const struct machine *m, const struct target *t, struct test_kernel *k,
    uint32_t n, uint32_t parts, struct err *e) MUST_CHECK;

#endif
