/* tests/prop/random_call.h: specs that a library can be asked for: products of every kind between layouts,
 * with random steps behind. */
#ifndef KORCH_RANDOM_CALL_H
#define KORCH_RANDOM_CALL_H

#include "../harness/kernel.h"

/* most: of the larger extents.  False where the dice gave an impossible one. */
bool random_call(struct arena *a, struct rng *r, uint32_t most, struct spec *out) MUST_CHECK;

#endif
