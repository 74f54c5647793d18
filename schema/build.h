/* schema/build.h: objects that workers have built, and plans made of them, signed by the data folder's key.
 */
#ifndef KORCH_BUILD_H
#define KORCH_BUILD_H

#include "store.h"

/* The object that was built for a key, when it is still here and this folder's key has signed it. */
bool build_find(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    struct m_build_have *out, bool *found, struct err *e) MUST_CHECK;
/* b: digest, log, worker; signs it (build->signature, in `a`) and keeps it as that worker's. */
bool build_put(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    struct m_build_have *b, struct err *e) MUST_CHECK;
/* Signs the plan in that file (schema/plan_file.h) with the folder's key. */
bool db_seal_plan(struct db *db, const char *path, struct err *e) MUST_CHECK;

#endif
