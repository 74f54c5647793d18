/* tests/harness/library_plan.h: a plan of products whose every kernel is a call of the CPU's library: layers
 * in a row that share a few square weights, every second one with a ReLU, each with a schedule of its own. */
#ifndef KORCH_TEST_LIBRARY_PLAN_H
#define KORCH_TEST_LIBRARY_PLAN_H

#include "../../kernels/run/exec.h"

struct library_shape {
	uint32_t n_layers, n_weights; /* layer i reads weight i % n_weights */
	int64_t rows, width;          /* activations are rows x width, weights width x width */
};
/* Weights seeded, about 1 / sqrt(width).  Everything in `a`.  ERR_COMPILE, ERR_HOST. */
bool library_plan(struct arena *a, const struct library_shape *s, struct plan *out, struct err *e) MUST_CHECK;

#endif
