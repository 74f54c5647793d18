/* daemon/planner/what_if.h: plans without some kernels, or with others (what_if.c). */
#ifndef KORCH_WHAT_IF_H
#define KORCH_WHAT_IF_H

#include "tune.h"

/* Do the job's options forbid or force kernels? */
bool what_if_asked(const struct tune *t);
/* After a search of the cache alone: changes the choice as the options ask, with its price in the
 * progress.  ERR_USAGE: names, contradictions; ERR_OFFLINE: no plan of measured kernels is known. */
bool what_if_run(struct tune *t, struct err *e) MUST_CHECK;

#endif
