/* schema/job_end.h: how jobs ended, for repeats of them and for jobs with other options (job_end.c). */
#ifndef KORCH_JOB_END_H
#define KORCH_JOB_END_H

#include "store.h"

/* How a job with that key ended: ->end.plan_bytes is 0 where none did.  `k` is what its candidates are
 * measured under.  Where all is as it was, its hits are counted as if `model` had asked for each. */
bool job_end_find(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    const struct hash *model, struct m_end_have *out, struct err *e) MUST_CHECK;
/* The same without a look at its candidates: ->is_same and what follows say nothing. */
bool job_end_read(
    struct db *db, struct arena *a, const struct hash *key, struct m_end_have *out, struct err *e) MUST_CHECK;
/* Completes `end` by what the store knows of its candidates, and keeps it. */
bool job_end_put(struct db *db, const struct hash *key, const struct meas_key *k, struct m_job_end *end,
    struct err *e) MUST_CHECK;

#endif
