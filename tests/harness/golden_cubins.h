/* tests/harness/golden_cubins.h: every kernel of tests/golden/sass, decoded. */
#ifndef KORCH_TEST_GOLDEN_CUBINS_H
#define KORCH_TEST_GOLDEN_CUBINS_H

#include "../../kernels/sass/sass.h"

struct golden_kernel {
	const char *file;
	struct bytes cubin;
	struct sass_kernel k;
};
/* NULL, n 0, with the reason in `e`: one cannot be read. */
struct golden_kernel *golden_cubins(struct arena *a, uint32_t *n, struct err *e);

#endif
