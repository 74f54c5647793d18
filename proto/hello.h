/* proto/hello.h: the first words of clients and workers, the same for both. */
#ifndef KORCH_HELLO_H
#define KORCH_HELLO_H

#include "auth.h"
#include "msg.h"

struct hello {
	enum auth_role role;
	const struct auth *auth; /* may hold no token */
	struct str name;
	bool is_local;
	struct m_env *envs; /* a worker's */
	uint32_t n_envs;
	uint8_t nonce[AUTH_NONCE];
	uint8_t mac[AUTH_MAC];
};
/* The next message to send; challenge is empty at first.  `h` must live until it is packed. */
void hello_fill(struct hello *h, struct bytes challenge, struct msg *out);
/* Reads the answer.  *session 0: send again with m->welcome.challenge. */
bool hello_read(const struct hello *h, const struct msg *m, uint64_t *session, struct err *e) MUST_CHECK;

#endif
