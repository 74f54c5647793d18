/* client/known.h: the keys of daemons that this user has named.  A private one is found by its folder, which
 * is this user's: its key lies there, and --data finds it. */
#ifndef KORCH_KNOWN_H
#define KORCH_KNOWN_H

#include "../kernels/base/trust.h"

struct known_daemon {
	const char *url;
	struct bytes signer; /* as it says of itself; n = 0: it does not */
	const char *program; /* for what is said */
	bool quiet;
};
/* The first time its key is kept, in $XDG_DATA_HOME/korch/trusted, so that plans by it run here, and that is
 * said; later it must be the same: ERR_REFUSED names both. */
bool known_check(const struct known_daemon *d, struct err *e) MUST_CHECK;

#endif
