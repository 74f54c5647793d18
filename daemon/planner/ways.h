/* daemon/planner/ways.h: by which schedules a chosen kernel may be built, the best first.  What of them gives
 * a kernel, and whether a library has a fast call for it, is known where it is built; the builder takes the
 * first that can be and says which. */
#ifndef KORCH_WAYS_H
#define KORCH_WAYS_H

#include "tune.h"

enum { WAYS_MAX = 4 };
struct ways {
	struct str schedule[WAYS_MAX];
	uint32_t n; /* 1: it was measured so */
};
/* Before ways_list() of each: what is predicted of those that nobody measured, on all cores. */
void ways_guess(struct tune *t, const uint32_t *specs, uint32_t n);
void ways_list(struct tune *t, uint32_t spec, struct ways *out);

#endif
