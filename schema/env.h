/* schema/env.h: classes that the store knows, whether a device of them is here or not. */
#ifndef KORCH_ENV_H
#define KORCH_ENV_H

#include "store.h"

/* For a job that predicts: the one environment that such a class has here with a calibration, of this
 * generator's epoch where there is one (of another one's no measurement counts).  pattern: a class, the start
 * of one, or a pattern.  ERR_UNPLACEABLE: none, and which there are; ERR_USAGE: several classes fit. */
bool env_known(struct db *db, struct arena *a, struct str pattern, int64_t *id, struct m_env *env,
    struct err *e) MUST_CHECK;

#endif
