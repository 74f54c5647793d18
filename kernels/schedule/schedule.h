/* kernels/schedule/schedule.h: a spec becomes a loop program, and a schedule changes how it runs, never what
 * it computes. */
#ifndef KORCH_SCHEDULE_H
#define KORCH_SCHEDULE_H

#include "../tir/tir.h"

/* ---- lowering --------------------------------------------------------------------------------- */
/* The naive program, NEST: a block for each primitive that computes, in a nest of its own, in the spec's
 * order.  Layouts and broadcasts are index expressions in their readers.  strict: sums in double and in
 * row-major order, as the interpreter's; else f32 (f64 for f64).  Lives in `a`; the spec's constants stay
 * its. */
void schedule_lower(struct arena *a, const struct spec *s, bool strict, struct tir *out);
/* Bindings and guards put into the blocks, together: FLAT.  What a reduction starts from is stored before
 * its outermost loop. */
void schedule_flat(const struct tir *p, struct tir *out);

#endif
