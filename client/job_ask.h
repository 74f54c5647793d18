/* client/job_ask.h: what a job is asked for: from the options of korch-submit to the message, and the upload.
 */
#ifndef KORCH_JOB_ASK_H
#define KORCH_JOB_ASK_H

#include "session.h"

/* Reads the options, and which device they are for.  writes_plan: not only a price is wanted.  ERR_USAGE
 * names the option. */
bool job_ask_read(struct arena *a, const struct opts *o, bool writes_plan, struct m_options *out,
    struct session_want *want, struct err *e) MUST_CHECK;
/* Uploads the model with its external data and submits it. */
bool job_ask_send(const struct session *s, struct arena *a, const char *model,
    const struct m_options *options, uint64_t *job, struct err *e) MUST_CHECK;

#endif
