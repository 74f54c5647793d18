/* client/plan_away.c: see plan_away.h. */
#include "plan_away.h"
#include "plan_rebuild.h"
#include "run_folder.h"

#include "../kernels/base/out.h"

#include <string.h>

/* Who built it, as its seal says. */
static const char maker_here[] = "korch-submit --predict";

bool
plan_away_is_unchecked(const struct plan_host *h)
{
	return str_is(h->seal.worker, maker_here);
}

bool
plan_sign_save(struct arena *a, const struct opts *o, const struct plan *p, struct plan_host *h,
    const char *maker, const char *to, struct err *e)
{
	const char *dir = trust_own_folder(a, opt_text(o, OPT_data));
	struct hash made_of = hash_bytes(p->source.p, p->source.n);
	struct sign_key key;
	bool moved;

	if (!dir)
		dir = data_folder(a, opt_text(o, OPT_data), &moved);
	if (!os_make_dirs(dir, e) || !sign_key_open(dir, &key, e))
		return false;
	plan_seal_build(p, &made_of, maker, &key, &h->seal);
	return plan_save_sealed(to, p, h, &key, e);
}

/* A plan without code gets some; false with why where this host cannot. */
static bool
complete(struct arena *a, const struct opts *o, struct plan *p, struct err *why)
{
	return plan_wants_gpu(p) ? plan_rebuild_gpu(a, p, NULL, why)
				 : plan_compile_away(a, p, opt_flag(o, OPT_strict), why);
}

static bool
finish(struct client *c, const struct opts *o, struct arena *a, uint64_t job, const char *from,
    const char *path, const char **why, struct err *e)
{
	struct plan p;
	struct plan_host h;
	struct err here = {0};

	if (!client_fetch(c, job, from, e) || !plan_load(a, from, &p, &h, e))
		return false;
	if (!plan_lacks_code(&p))
		return client_fetch(c, job, path, e);
	if (complete(a, o, &p, &here))
		return plan_sign_save(a, o, &p, &h, maker_here, path, e);
	*why = str_dup(a, str_of(here.msg));
	return client_fetch(c, job, path, e);
}

bool
plan_away_fetch(struct client *c, const struct opts *o, struct arena *a, uint64_t job, const char *path,
    const char **why, struct err *e)
{
	struct run_folder dir;
	bool ok;

	*why = "";
	if (!run_folder_make(&dir, e))
		return false;
	ok = finish(c, o, a, job, arena_printf(a, "%s/plan.korch", dir.path), path, why, e);
	run_folder_drop(&dir);
	return ok;
}
