/* tests/harness/loops.h: a spec as a kernel by way of the loop program: lowered, given a schedule, printed by
 * kernels/codegen.  In emit_c's form, so that it stands beside kernels/emit (generator.def). */
#ifndef KORCH_TEST_LOOPS_H
#define KORCH_TEST_LOOPS_H

#include "../../kernels/codegen/codegen.h"
#include "../../kernels/emit/emit.h"
#include "../../kernels/schedule/schedule.h"

/* A schedule for element-wise nests, layouts and short windows, until kernels/schedule has steps for it: a
 * plain block that one other reads goes into that one, each nest's outermost loop over the result is a pass's
 * range, windows of at most 32 elements are unrolled. */
void loops_schedule(const struct tir *p, struct tir *out);
/* ERR_INFEASIBLE: the schedule is not "" (knobs are kernels/fuse's), or what codegen_run refuses. */
bool loops_c(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e) MUST_CHECK;

#endif
