/* proto/hello.h: the first words of clients and workers, the same for both; on every connection anew. */
#ifndef KORCH_HELLO_H
#define KORCH_HELLO_H

#include "keys.h"
#include "msg.h"

struct hello {
	enum auth_role role;
	const struct auth *auth; /* may hold no token */
	const struct keys *keys; /* over TLS; else NULL */
	struct str name;
	bool is_local;
	struct m_env *envs; /* a worker's */
	uint32_t n_envs;
	uint64_t session; /* to go on with; 0: a new one */
	bool joins;       /* beside its own connection, or not at all */
	uint8_t nonce[AUTH_NONCE];
	uint8_t mac[AUTH_MAC], proof[KEYS_SIGNATURE];
};
/* What a second hello over TLS is signed over; `of` has room for HELLO_PARTS. */
enum { HELLO_PARTS = 4 };
void hello_parts(const struct m_hello *m, struct bytes challenge, struct bytes of[HELLO_PARTS]);
/* The next message to send; challenge is empty at first.  `h` must live until it is packed. */
void hello_fill(struct hello *h, struct bytes challenge, struct msg *out);
/* Reads the answer.  *session 0: send again with m->welcome.challenge.  ERR_UNPROVED: begin again, the
 * connection is another one by now; ERR_USAGE: what this side was given lacks something. */
bool hello_read(const struct hello *h, const struct msg *m, uint64_t *session, struct err *e) MUST_CHECK;

/* How long to wait after the n-th refusal in a row (from 1): 1 s, doubling to 30 s, and up to half of it
 * more, so that those who were refused together do not come back together. */
int64_t hello_wait_ns(uint32_t n);

#endif
