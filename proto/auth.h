/* proto/auth.h: proving who one is, inside the protocol: HMAC-SHA256 with a shared token over
 * role, both sides' random numbers and the program's purpose.  Tokens are never logged. */
#ifndef KORCH_AUTH_H
#define KORCH_AUTH_H

#include "../kernels/base/sign.h"

enum auth_role { AUTH_CLIENT, AUTH_WORKER, AUTH_ROLES };
enum {
	AUTH_NONCE = 32,
	AUTH_MAC = HMAC_BYTES,
	AUTH_TOKEN_MAX = 256,
	AUTH_SECRET = SECRET_BYTES,
	AUTH_CHALLENGE = 48
};
const char *auth_role_name(enum auth_role r);
bool auth_role_of(struct str name, enum auth_role *out);

/* A daemon's token file: lines "worker TOKEN" and "client TOKEN", '#' comments; several of a
 * kind are allowed.  A client's or worker's: such a line, or the token alone.  Refused when
 * others may read the file. */
struct auth {
	struct {
		enum auth_role role;
		struct str token;
	} * tokens;
	uint32_t n_tokens;
};
bool auth_load(struct arena *a, const char *path, bool is_daemon, struct auth *out, struct err *e) MUST_CHECK;
/* The token for a role; an empty string when there is none. */
struct str auth_token(const struct auth *au, enum auth_role r);

void auth_mac(
    struct str token, enum auth_role r, struct bytes nonce, struct bytes challenge, uint8_t mac[AUTH_MAC]);
/* Does any token of that role give this code?  Takes the same time whatever differs.  *who: of which. */
bool auth_check(const struct auth *au, enum auth_role r, struct bytes nonce, struct bytes challenge,
    struct bytes mac, struct hash *who);

/* Challenges that nobody has to remember: the time and a code over (secret, connection, time, nonce).  One is
 * good on its connection, for that nonce, for half a minute. */
void auth_challenge(const uint8_t secret[AUTH_SECRET], uint32_t peer, int64_t now_ns, struct bytes nonce,
    uint8_t out[AUTH_CHALLENGE]);
bool auth_is_ours(const uint8_t secret[AUTH_SECRET], uint32_t peer, int64_t now_ns, struct bytes nonce,
    struct bytes challenge);

#endif
