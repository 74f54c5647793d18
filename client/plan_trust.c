/* client/plan_trust.c: see plan_trust.h. */
#include "plan_trust.h"

bool
plan_trust_check(struct arena *a, const struct opts *o, const char *path, const struct plan *p,
    const struct plan_host *h, const struct trust_key **by, struct err *e)
{
	uint32_t n = opt_n(o, OPT_trust);
	const char **given = NEW_ARRAY(a, const char *, MAX_OF(n, 1u));
	struct trust t;

	for (uint32_t i = 0; i < n; i++)
		given[i] = opt_at(o, OPT_trust, i);
	return trust_read(a, opt_text(o, OPT_data), given, n, &t, e) && plan_trusted(&t, path, p, h, by, e);
}
