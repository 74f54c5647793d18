/* schema/plan_file.h: a plan as a file: a SQLite application file that any SQLite shell opens.
 * Tables: README.md of this folder. */
#ifndef KORCH_PLAN_FILE_H
#define KORCH_PLAN_FILE_H

#include "../kernels/run/dev.h"

enum { PLAN_FILE_ID = 0x4b706c6e /* "Kpln" */, PLAN_FILE_VERSION = 5, PLAN_FILE_OLDEST = 3 };
/* 3: no kernel is a view (plan.h).  5: the digest is over the file's own tables (plan_digest.c) */

/* What differs between two runs that choose the same plan; outside the digest (D21). */
struct plan_host {
	int64_t wall_ns;    /* when it was made */
	struct str made_by; /* "korch 0.1.0" */
	struct str host;    /* words about the machine, for people */
	struct hash
	    digest; /* as the file claims it: plan_file_check() computes it; not read by plan_save() */
};
/* Written beside and renamed: the old file or the new one.  ERR_FULL, ERR_IO. */
bool plan_save(const char *path, const struct plan *p, const struct plan_host *h, struct err *e) MUST_CHECK;
/* Everything in `a`; constants PLAN_ALIGNed.  The file is taken for hostile: plan_check() has
 * passed.  ERR_FORMAT (no plan, or damaged), ERR_NEWER, ERR_IO, ERR_LIMIT.  h may be NULL. */
bool plan_load(
    struct arena *a, const char *path, struct plan *out, struct plan_host *h, struct err *e) MUST_CHECK;
/* Identity of a plan: all that its file holds but the tables host and digest.  ERR_FORMAT, ERR_NEWER, ERR_IO,
 * ERR_LIMIT.  Older formats by their own rule. */
bool plan_file_digest(const char *path, struct hash *out, struct err *e) MUST_CHECK;
/* Does the digest stored in the file fit its content?  (plan_load checks a quicker sum.) */
bool plan_file_check(const char *path, struct hash *out, struct err *e) MUST_CHECK;

/* A plan as text without its large bytes, whose sizes alone are told, a line a row: "step 3 kernel=1 ..."
 * (for dumps). Reading gives a plan that has passed plan_check(), with parts of those sizes at address NULL;
 * errors name the line. */
bool plan_text_print(struct strbuf *sb, const struct plan *p, struct err *e) MUST_CHECK;
bool plan_text_read(struct arena *a, struct str text, struct plan *out, struct err *e) MUST_CHECK;

#endif
