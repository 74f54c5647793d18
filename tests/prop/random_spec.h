/* tests/prop/random_spec.h: specs for tests of generators: one random graph, all of it, as a kernel. */
#ifndef KORCH_TEST_RANDOM_SPEC_H
#define KORCH_TEST_RANDOM_SPEC_H

#include "every_prim.h"
#include "random_graph.h"

void random_spec(struct arena *a, struct rng *r, struct spec *out);
/* n of them, those of seed and up; fn is told which. */
void each_random_spec(uint64_t n, uint64_t seed, spec_fn *fn, void *self);

#endif
