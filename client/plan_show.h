/* client/plan_show.h: a plan as a table, or as one JSON object. */
#ifndef KORCH_PLAN_SHOW_H
#define KORCH_PLAN_SHOW_H

#include "../kernels/run/plan.h"
#include "../schema/plan_file.h"

void plan_show(struct arena *a, const struct plan *p, const struct plan_host *h, bool json);

#endif
