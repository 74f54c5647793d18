/* client/plan_trust.h: whose plans run here, by the options. */
#ifndef KORCH_PLAN_TRUST_H
#define KORCH_PLAN_TRUST_H

#include "../kernels/base/opt.h"
#include "../schema/plan_file.h"

/* Before a plan's code is run: plan_trusted() by --trust, --data and this user's keys. */
bool plan_trust_check(struct arena *a, const struct opts *o, const char *path, const struct plan *p,
    const struct plan_host *h, const struct trust_key **by, struct err *e) MUST_CHECK;

/* Who signed it, for a person: "own" (the key of this user's data folder), "known" (another one that he
 * trusts), "unknown", "unsigned", or "broken" (its signature does not hold). */
struct plan_signer {
	const char *is;
	char print[SIGN_PRINT]; /* SHA256:...; "" */
	const char *file;       /* with that key; "" */
};
bool plan_signer_of(struct arena *a, const struct opts *o, const char *path, const struct plan *p,
    const struct plan_host *h, struct plan_signer *out, struct err *e) MUST_CHECK;

#endif
