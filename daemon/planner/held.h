/* daemon/planner/held.h: a plan of before is built as it was then, whatever is known of its kernels by now:
 * else what takes part in a race of whole plans is another plan than the one that there was. */
#ifndef KORCH_PLANNER_HELD_H
#define KORCH_PLANNER_HELD_H

#include "tune.h"

struct held {
	uint32_t spec;
	struct str schedule;
	int64_t cost_ns; /* that it counted; 0: it was not measured, and the schedule is a guess */
};

/* As which the choice has that spec: ->held; NULL: by what is known now. */
const struct held *held_find(const struct tune *t, uint32_t spec);
/* Was the kernel, as it is built, never measured? */
bool held_is_guess(const struct tune *t, uint32_t spec);
/* Those kernels as they would be built now. */
struct held *held_now(struct tune *t, struct arena *a, const uint32_t *chosen, uint32_t n);
/* What is held counts what it counted then, where that is more: costs only rise, so bound and duals still
 * hold. Returns what the program had, for held_hide. */
int64_t *held_show(struct tune *t, struct arena *a);
void held_hide(struct tune *t, const int64_t *was);

#endif
