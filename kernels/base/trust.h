/* kernels/base/trust.h: the keys whose plans this user runs. */
#ifndef KORCH_TRUST_H
#define KORCH_TRUST_H

#include "sign_key.h"

struct trust_key {
	struct sign_pub pub;
	const char *from; /* its file */
};
struct trust {
	bool any; /* whoever signed, or nobody */
	struct trust_key *keys;
	uint32_t n;
	const char *passed_over; /* a key file that does not count, and why, for people; "": none */
};

/* Where keys are looked for: sign.pub of the data folder (data: "": the user's own), *.pub in
 * $XDG_CONFIG_HOME/korch/trusted, where people put them, and $XDG_DATA_HOME/korch/trusted, where those of
 * daemons are kept that were met (client/known.h); and the files in `given`, or "any".  A file or folder that
 * others may write to does not count, unless it is given.  Errors are of files that are given. */
bool trust_read(struct arena *a, const char *data, const char *const *given, uint32_t n_given,
    struct trust *out, struct err *e) MUST_CHECK;
/* NULL: it is none of them. */
const struct trust_key *trust_find(const struct trust *t, const struct sign_pub *k);
/* The data folder whose key is this user's own; NULL: it is not there yet. */
const char *trust_own_folder(struct arena *a, const char *data);
/* Where keys of daemons are kept. */
const char *trust_kept_folder(struct arena *a);

#endif
