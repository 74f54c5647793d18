/* kernels/base/epoch.h: the generator epoch.  Of kernels/fuse, kernels/schedule, kernels/codegen and
 * kernels/emit; korchd, which has none of them, compares its workers' with it. */
#ifndef KORCH_EPOCH_H
#define KORCH_EPOCH_H

/* Rises only when emitted text for an unchanged (spec, schedule) changes (D23). */
enum { GENERATOR_EPOCH = 15 };

/* Rises when the predictor's sample of an unchanged (spec, schedule) changes.  What was measured since then,
 * by whatever generator, is what it says: rows are read anew, and trained files hold. */
enum { SAMPLES_EPOCH = 14 };

#endif
