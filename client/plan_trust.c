/* client/plan_trust.c: see plan_trust.h. */
#include "plan_trust.h"

#include <string.h>

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

static bool
is_own(struct arena *a, const struct opts *o, const char *file)
{
	const char *dir = trust_own_folder(a, opt_text(o, OPT_data));

	return dir && strcmp(file, arena_printf(a, "%s/sign.pub", dir)) == 0;
}

bool
plan_signer_of(struct arena *a, const struct opts *o, const char *path, const struct plan *p,
    const struct plan_host *h, struct plan_signer *out, struct err *e)
{
	bool is_signed = h->seal.plan.n != 0, ok;
	const struct trust_key *by = NULL;
	struct err why = {0};

	*out = (struct plan_signer){.is = "unsigned", .file = ""};
	ok = plan_trust_check(a, o, path, p, h, &by, &why);
	if (!ok && why.code != ERR_UNTRUSTED && why.code != ERR_FORMAT) {
		*e = why;
		return false;
	}
	if (!is_signed)
		return true;
	sign_print(&h->seal.signer, out->print);
	out->file = by ? by->from : "";
	out->is = by                 ? is_own(a, o, by->from) ? "own" : "known"
	    : why.code == ERR_FORMAT ? "broken"
				     : "unknown";
	return true;
}
