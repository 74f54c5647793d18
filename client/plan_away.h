/* client/plan_away.h: what becomes of a predicted plan (korch-submit --predict): its code, where this host
 * can compile for the device, and what is said of it. */
#ifndef KORCH_PLAN_AWAY_H
#define KORCH_PLAN_AWAY_H

#include "../kernels/base/opt.h"
#include "../proto/client.h"
#include "../schema/plan_file.h"

/* Fetches the plan of a job to `path`; where it has no code and this host can make it, with that, signed by
 * this user's own key.  *why: why it has none; "" where it has, or is in need of none. */
bool plan_away_fetch(struct client *c, const struct opts *o, struct arena *a, uint64_t job, const char *path,
    const char **why, struct err *e) MUST_CHECK;
/* Was its code made here for a device elsewhere?  Then no kernel of it was ever checked. */
bool plan_away_is_unchecked(const struct plan_host *h);
/* Signed by this user's own key: code that this very program made.  The file is never there unsigned. */
bool plan_sign_save(struct arena *a, const struct opts *o, const struct plan *p, struct plan_host *h,
    const char *maker, const char *to, struct err *e) MUST_CHECK;

#endif
