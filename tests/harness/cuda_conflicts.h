/* tests/harness/cuda_conflicts.h: bank conflicts of a CUDA kernel, counted by the host shim, which sees where
 * each lane reads and writes shared memory: no GPU is needed. */
#ifndef KORCH_TEST_CUDA_CONFLICTS_H
#define KORCH_TEST_CUDA_CONFLICTS_H

#include "../../kernels/generate/generate.h"

enum { CONFLICT_KINDS = 3, CONFLICT_ROWS = 64 };
const char *conflict_kind(int kind); /* "load", "store", "copy" */
struct conflict {                    /* of an array of a pass's shared memory, in its first block */
	uint32_t pass;
	int kind;
	char array[32];
	double turns, ideal; /* of the memory's banks; ideal: had each bank one word to give */
};
/* The kernel was made with the symbol "k" of the spec.  False: it does not compile, or not all was counted.
 */
bool cuda_conflicts(struct arena *a, const struct spec *s, const struct kernel_code *k, struct conflict *out,
    uint32_t *n, struct err *e) MUST_CHECK;

#endif
