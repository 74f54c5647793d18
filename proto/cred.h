/* proto/cred.h: what a program proves itself with, by its way: nothing on a local socket, a certificate over
 * TLS, a token on plain TCP, which has to be allowed. */
#ifndef KORCH_CRED_H
#define KORCH_CRED_H

#include "keys.h"
#include "sock.h"

struct cred_conf {
	const char *token_file; /* "" or NULL: none */
	struct keys_conf keys;
	bool is_plain; /* tcp:// is allowed */
};
struct opts;
struct cred_conf cred_conf_of(const struct opts *o); /* --keys, --ca, --cert, --key, --token-file, --plain */

struct cred {
	struct arena a;
	struct auth auth;  /* may hold no token */
	struct keys *keys; /* NULL: none */
};
/* What those URLs take, read and checked; `role` as in keys_load. */
bool cred_load(struct cred *out, const struct cred_conf *c, const char *const *urls, uint32_t n,
    const char *role, struct err *e) MUST_CHECK;
void cred_free(struct cred *c);

#endif
