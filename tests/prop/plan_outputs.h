/* tests/prop/plan_outputs.h: does a plan, run step by step in its own memory, compute what the graph means?
 */
#ifndef KORCH_TEST_PLAN_OUTPUTS_H
#define KORCH_TEST_PLAN_OUTPUTS_H

#include "../../kernels/run/plan.h"

/* On random inputs, each output nearer to the interpreter's than `most` (as values_distance has it; 0: the
 * same bytes); else the test fails and names the seed. */
void plan_makes_outputs(
    struct arena *a, const struct graph *g, const struct plan *p, struct rng *r, double most, uint64_t seed);

#endif
