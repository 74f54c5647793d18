/* tests/prop/random_spec.h: specs for tests of generators: one random graph, all of it, as a kernel. */
#ifndef KORCH_TEST_RANDOM_SPEC_H
#define KORCH_TEST_RANDOM_SPEC_H

#include "random_graph.h"

void random_spec(struct arena *a, struct rng *r, struct spec *out);

#endif
