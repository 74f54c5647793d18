/* daemon/past.h: how jobs end, and what a repeat of one that ended is told. */
#ifndef KORCH_PAST_H
#define KORCH_PAST_H

#include "daemon.h"

/* The folder of a job's own files; it goes when the job ends. */
char *job_dir(struct arena *a, const struct daemon *d, const struct job *j);
/* The planner's last word: its plan and how it ended are kept, then the job is done. */
void plan_done(struct daemon *d, struct job *j, const struct m_done *m);
void plan_failed(struct daemon *d, struct job *j, enum err_code code, const char *why);
void ask_end(struct daemon *d, struct job *j, const struct m_end_ask *ask);

#endif
