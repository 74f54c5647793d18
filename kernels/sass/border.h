/* kernels/sass/border.h: distances that reach over the border of blocks.  Each block is promised how long
 * ago, at its beginning, registers were last written and read, barriers set and pipes entered: as long as in
 * the base, on the shortest way.  Whoever stands near the end of a block before keeps that promise (tail),
 * whoever stands near the beginning relies on it (head). */
#ifndef KORCH_SASS_BORDER_H
#define KORCH_SASS_BORDER_H

#include "sched_int.h"

/* Fills head, tail, promises and pipes at borders of `b`, whose clocks are there. */
void sass_border_make(struct arena *a, const struct sass_kernel *k, struct sass_graph *b);

#endif
