/* schema/plan_file.h: a plan as a file: a SQLite application file that any SQLite shell opens.
 * Tables: README.md of this folder. */
#ifndef KORCH_PLAN_FILE_H
#define KORCH_PLAN_FILE_H

#include "../kernels/base/trust.h"
#include "../kernels/run/exec.h"

enum { PLAN_FILE_ID = 0x4b706c6e /* "Kpln" */, PLAN_FILE_VERSION = 6, PLAN_FILE_OLDEST = 3 };
/* 3: no kernel is a view (plan.h).  5: the digest is over the file's own tables (plan_digest.c).  6: a seal
 * may be beside it */

/* The object that a plan's module is: what it is the build of, where, by whom. */
struct plan_build {
	struct hash object, key; /* SHA-256 of it; of what was asked for (daemon/task.h) */
	struct hash env;         /* SHA-256 of the environment's full key */
	struct str run_compat, worker;
};
/* Who vouches for a plan; beside its digest, not in it. */
struct plan_seal {
	struct sign_pub signer; /* counts where plan.n != 0 */
	struct signature plan;  /* n = 0: nobody has signed */
	struct signature build; /* n = 0: there is no module, or nobody has signed it */
	struct hash build_key;
	struct str worker; /* who built it */
};

/* What differs between two runs that choose the same plan; outside the digest (D21). */
struct plan_host {
	int64_t wall_ns;    /* when it was made */
	struct str made_by; /* "korch 0.1.0" */
	struct str host;    /* words about the machine, for people */
	struct hash
	    digest; /* as the file claims it: plan_file_check() computes it; not read by plan_save() */
	struct plan_seal seal;
};
/* Written beside and renamed: the old file or the new one.  ERR_FULL, ERR_IO. */
bool plan_save(const char *path, const struct plan *p, const struct plan_host *h, struct err *e) MUST_CHECK;
/* The same, signed before it is there: h->seal holds the signature of its build (plan_seal_build). */
bool plan_save_sealed(const char *path, const struct plan *p, const struct plan_host *h,
    const struct sign_key *key, struct err *e) MUST_CHECK;
/* Everything in `a`; constants PLAN_ALIGNed.  The file is taken for hostile: plan_check() has
 * passed.  ERR_FORMAT (no plan, or damaged), ERR_NEWER, ERR_IO, ERR_LIMIT.  h may be NULL. */
bool plan_load(
    struct arena *a, const char *path, struct plan *out, struct plan_host *h, struct err *e) MUST_CHECK;
/* Identity of a plan: all that its file holds but the tables host and digest.  ERR_FORMAT, ERR_NEWER, ERR_IO,
 * ERR_LIMIT.  Older formats by their own rule. */
bool plan_file_digest(const char *path, struct hash *out, struct err *e) MUST_CHECK;
/* Does the digest stored in the file fit its content?  (plan_load checks a quicker sum.) */
bool plan_file_check(const char *path, struct hash *out, struct err *e) MUST_CHECK;

/* ---- who vouches for it: plan_seal.c ---- */
/* What is signed of a build. */
struct hash plan_build_statement(const struct plan_build *b);
/* Signs the plan in that file, in place.  Its seal holds the signature of its build, or there is no module.
 * ERR_WRONG: the code is not a build that this key has signed. */
bool plan_seal(const char *path, const struct sign_key *key, struct err *e) MUST_CHECK;
/* The same of a plan that is not saved yet: code that this very program has made. */
void plan_seal_build(const struct plan *p, const struct hash *made_of, const char *maker,
    const struct sign_key *key, struct plan_seal *out);
/* Is the file's plan signed by that key?  Neither digest nor content is looked at. */
bool plan_sealed_by(const char *path, const struct sign_pub *k);
/* May this plan run here, as it is in memory?  *by: the key that vouches for it; NULL: t->any, and none does.
 * ERR_UNTRUSTED with a sentence that names the ways out; of a signature that does not hold: ERR_FORMAT,
 * whoever is trusted. */
bool plan_trusted(const struct trust *t, const char *path, const struct plan *p, const struct plan_host *h,
    const struct trust_key **by, struct err *e) MUST_CHECK;

/* A plan as text without its large bytes, whose sizes alone are told, a line a row: "step 3 kernel=1 ..."
 * (for dumps). Reading gives a plan that has passed plan_check(), with parts of those sizes at address NULL;
 * errors name the line. */
bool plan_text_print(struct strbuf *sb, const struct plan *p, struct err *e) MUST_CHECK;
bool plan_text_read(struct arena *a, struct str text, struct plan *out, struct err *e) MUST_CHECK;

#endif
