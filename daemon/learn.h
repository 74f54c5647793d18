/* daemon/learn.h: an idle korchd learns what its devices' kernels take (--train idle). */
#ifndef KORCH_DAEMON_LEARN_H
#define KORCH_DAEMON_LEARN_H

#include "daemon.h"

void learn_begin(struct daemon *d); /* nothing is ever trained where conf->trainer is NULL */
void learn_tick(struct daemon *d);
/* Work has come: what is being trained is given up at once, to be tried again. */
void learn_stop(struct daemon *d, const char *why);
/* A private korchd stays as long. */
bool learn_is_on(const struct daemon *d);
/* After the store's last op. */
void learn_end(struct daemon *d);
/* Is that a trained file that can be used here?  ERR_FORMAT, ERR_LIMIT, ERR_NEWER. */
bool learn_check(struct bytes file, struct err *e) MUST_CHECK;

#endif
