/* kernels/base/epoch.h: the generator epoch.  Of kernels/space, kernels/schedule, kernels/codegen and
 * kernels/generate; korchd, which has none of them, compares its workers' with it. */
#ifndef KORCH_EPOCH_H
#define KORCH_EPOCH_H

/* Rises only when emitted text for an unchanged (spec, schedule) changes (D23). */
enum { GENERATOR_EPOCH = 22 };

/* Rises when the predictor's sample of an unchanged (spec, schedule) changes: trained files and what is kept
 * of them are of one. */
enum { SAMPLES_EPOCH = 17 };

/* What was measured since ROWS_EPOCH, by whatever generator, is what it says: rows are read anew from spec
 * and schedule.  Before TRACED_EPOCH a CPU's schedule without trace=1 was a tile program's, which nobody
 * reads any more. */
enum { ROWS_EPOCH = 14, TRACED_EPOCH = 15 };

#endif
