/* kernels/base/epoch.h: the generator epoch.  Of kernels/fuse and kernels/emit; korchd, which has neither,
 * compares its workers' with it. */
#ifndef KORCH_EPOCH_H
#define KORCH_EPOCH_H

/* Rises only when emitted text for an unchanged (spec, schedule) changes (D23). */
enum { GENERATOR_EPOCH = 14 };

#endif
