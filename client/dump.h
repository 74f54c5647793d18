/* client/dump.h: what --dump of a job wrote, brought here. */
#ifndef KORCH_CLIENT_DUMP_H
#define KORCH_CLIENT_DUMP_H

#include "session.h"

/* --dump-dir, or MODEL.dump in the current folder. */
const char *dump_folder(struct arena *a, const struct opts *o, const char *model);
/* Fetches it where it was asked for, also of a job that failed.  ERR_FAILED where there is none. */
bool dump_save(
    struct client *c, const struct opts *o, uint64_t job, const char *model, struct err *e) MUST_CHECK;

#endif
