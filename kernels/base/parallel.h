/* kernels/base/parallel.h: the same for each of many things, on several cores. */
#ifndef KORCH_PARALLEL_H
#define KORCH_PARALLEL_H

#include "base.h"

enum { PARALLEL_MOST = 64 }; /* hands at a time */
/* One for each core of this machine, at most `most`. */
uint32_t parallel_hands(uint32_t most);
/* Calls one(self, hand, i) once for each i < n, begun in ascending order, by this thread and n_hands - 1
 * others; `hand` < n_hands is the thread's own number, for memory that is not shared.  Returns when all are
 * through.  A thread that cannot be started is done without. */
typedef void parallel_fn(void *self, uint32_t hand, uint32_t i);
void parallel_for(uint32_t n, uint32_t n_hands, parallel_fn *one, void *self);

#endif
