/* tests/fault/peer.h: a peer that says what it likes: the wire in a test's own hands, without the manners of
 * client.h or of a worker. */
#ifndef KORCH_TEST_PEER_H
#define KORCH_TEST_PEER_H

#include "../../proto/hello.h"
#include "../../proto/sock.h"

#include <semaphore.h>

struct peer {
	struct sock_client *sock;
	sem_t rung;
	struct arena a; /* of all that it heard */
	uint64_t session, next_id;
	bool is_remote; /* as it says at hello */
};
void peer_open(struct peer *p, const char *url);
void peer_open_tls(struct peer *p, const char *url, const struct keys *keys);
void peer_close(struct peer *p); /* without a word */

/* Sends, and waits for the answer to it; `session` 0 in *m becomes the peer's own. */
void peer_ask(struct peer *p, struct msg *m, struct msg *answer);
/* The same, and fails the test where the answer is not of that type. */
void peer_want(struct peer *p, struct msg *m, enum msg_type want, struct msg *answer);
/* The class of the error that is answered; ERR_NONE: it was taken.  *words: what it said. */
enum err_code peer_try(struct peer *p, struct msg *m, const char **words);

/* Greets as a worker of one device; false with the refusal in *e. */
bool peer_hello(struct peer *p, const char *name, const struct m_env *env, const struct m_held *held,
    uint32_t n_held, struct msg *welcome, struct err *e);

#endif
