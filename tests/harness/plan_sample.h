/* tests/harness/plan_sample.h: a small plan with hand-written kernels, for tests of the plan
 * file and of the runtime: y = 2x + w, z = y + reverse(y), copy of x; two kernels, one of two
 * passes. */
#ifndef KORCH_PLAN_SAMPLE_H
#define KORCH_PLAN_SAMPLE_H

#include "../../kernels/run/exec.h"

enum { SAMPLE_N = 37 };
/* With code compiled here; false where there is no compiler. */
bool plan_sample(struct arena *a, struct plan *out, struct err *e) MUST_CHECK;
/* The same without code, for tests that do not run it. */
void plan_sample_dry(struct arena *a, struct plan *out);
/* What the plan's outputs must be: z[37], x[37]. */
void plan_sample_expect(const float *x, float *z);

#endif
