/* tests/prop/random_kernels.h: a batch of generated kernels for one target, half of them with linear
 * anchors, half random graphs of everything else: what each instruction set must get right. */
#ifndef KORCH_RANDOM_KERNELS_H
#define KORCH_RANDOM_KERNELS_H

#include "../harness/kernel.h"

/* `n` kernels of that seed, with operands; aborts the cmocka test where one cannot be generated for
 * another reason than infeasibility. */
struct test_kernel *random_kernels(struct arena *a, const struct target *t, uint64_t seed, uint32_t n);

#endif
