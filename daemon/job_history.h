/* daemon/job_history.h: how jobs end, and what a repeat of one that ended is told. */
#ifndef KORCH_JOB_HISTORY_H
#define KORCH_JOB_HISTORY_H

#include "daemon.h"

/* The planner's last word: its plan and how it ended are kept, then the job is done. */
void plan_done(struct daemon *d, struct job *j, const struct m_done *m);
/* ---- failed.c ---- */
/* It says why it cannot plan, or need not any more; what --dump asked for is kept. */
void plan_failed(struct daemon *d, struct job *j, enum err_code code, const char *why);
/* It is to blame itself: its folder is kept, so that one command runs it again. */
void plan_died(struct daemon *d, struct job *j, enum err_code code, const char *why);
/* On the store's thread: packs what the planner wrote for --dump into a blob.  *bytes is 0 where there is
 * none. */
void dump_take(struct db *db, const char *work_dir, struct hash *digest, uint64_t *bytes);

void ask_end(struct daemon *d, struct job *j, const struct m_end_ask *ask);

#endif
