/* client/plan_show.h: a plan as a table, or as one JSON object. */
#ifndef KORCH_PLAN_SHOW_H
#define KORCH_PLAN_SHOW_H

#include "../kernels/run/plan.h"
#include "../schema/plan_file.h"
#include "plan_trust.h"

/* top: only the steps that take longest, longest first; 0: all, in order. */
void plan_show(struct arena *a, const struct plan *p, const struct plan_host *h, const struct plan_signer *by,
    int64_t top, bool json);

#endif
