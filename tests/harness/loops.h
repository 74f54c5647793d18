/* tests/harness/loops.h: a spec as a kernel by way of the loop program: lowered, scheduled by the rules of
 * kernels/schedule, printed by kernels/codegen.  In emit_c's form, so that it stands beside kernels/emit
 * (generator.def). */
#ifndef KORCH_TEST_LOOPS_H
#define KORCH_TEST_LOOPS_H

#include "../../kernels/codegen/codegen.h"
#include "../../kernels/emit/emit.h"
#include "../../kernels/schedule/schedule.h"

struct schedule_target loops_target(const struct target *t);
/* The schedule is a trace, "" what the rules propose.  ERR_INFEASIBLE: knobs of kernels/fuse, a step that is
 * refused, or what codegen_run refuses. */
bool loops_c(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const char *symbol, struct kernel_code *out, struct err *e) MUST_CHECK;

#endif
