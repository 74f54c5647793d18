/* schema/build.h: objects that workers have built, and plans made of them, signed by the data folder's key.
 */
#ifndef KORCH_BUILD_H
#define KORCH_BUILD_H

#include "artefact.h"
#include "store.h"

/* The object that was built for a key and what describes it, when both are still here and this folder's key
 * has signed them together. */
bool build_find(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    struct m_build_have *out, bool *found, struct err *e) MUST_CHECK;
/* b: digest, description, log, worker; signs them (b->signature, in `a`) and keeps them as that worker's. */
bool build_put(struct db *db, struct arena *a, const struct hash *key, const struct meas_key *k,
    struct m_build_have *b, struct err *e) MUST_CHECK;
/* Signs the plan in that file (schema/plan_file.h) with the folder's key. */
bool db_seal_plan(struct db *db, const char *path, struct err *e) MUST_CHECK;

#endif
