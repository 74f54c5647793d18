/* kernels/predict/least.h: a time that a lowered kernel cannot beat: what its leaves take at least, one after
 * the other.  kernels/cost says what no schedule of a spec can beat; here the schedule is known. */
#ifndef KORCH_PREDICT_LEAST_H
#define KORCH_PREDICT_LEAST_H

#include "../cost/cost.h"
#include "../target/target.h"

struct program; /* program.h */
/* linear_flops: what the linear primitives need at least, directly. */
double program_least_ns(const struct program *p, const struct hw *hw, double linear_flops);
/* The same of a schedule of a CPU, and no less than the spec's bound there; that alone where nothing more is
 * known. */
int64_t schedule_least_ns(const struct spec *s, struct str schedule, const struct target *t,
    const struct hw *hw, struct str heat, int64_t bound_ns);

#endif
