/* daemon/planner/ways.h: by which schedules a chosen kernel may be built, the best first.  Whether a library
 * has a fast call for it is known where it is built, so a call that nobody has measured has generated code
 * behind it, and the builder says which of them it took. */
#ifndef KORCH_WAYS_H
#define KORCH_WAYS_H

#include "tune.h"

enum { WAYS_MAX = 4 };
struct ways {
	struct str schedule[WAYS_MAX];
	uint32_t n; /* > 1: the ways before the last one are calls that nobody has measured */
};
/* Fills c->schedule and c->code of the first one; c->symbol is there. */
bool ways_find(
    struct tune *t, uint32_t spec, struct plan_code *c, struct ways *out, struct err *e) MUST_CHECK;
/* The same of that schedule. */
bool ways_emit(
    struct tune *t, uint32_t spec, struct str schedule, struct plan_code *c, struct err *e) MUST_CHECK;

#endif
