/* schema/whole.h: plans that were timed whole, beside the sums of their kernels. */
#ifndef KORCH_SCHEMA_WHOLE_H
#define KORCH_SCHEMA_WHOLE_H

#include "store.h"

/* Of such a device and so many threads; the newest first, as many as a message holds. */
bool whole_list(struct db *db, struct arena *a, const struct meas_key *k, struct m_whole **out, uint32_t *n,
    struct err *e) MUST_CHECK;
/* A plan that is there already gives way.  ERR_PROTO where one has no sum or no time. */
bool whole_put(
    struct db *db, const struct meas_key *k, const struct m_whole *w, uint32_t n, struct err *e) MUST_CHECK;

#endif
