/* tests/fault/raw.h: a connection to korchd in a test's own hands, octet by octet: what a peer says, when,
 * and whether it says anything.  Speaks SP's framing of nng and Korch's messages; nothing of nng is used.
 * raw_step is for many at once, by epoll; the others block. */
#ifndef KORCH_TEST_RAW_H
#define KORCH_TEST_RAW_H

#include "../../proto/hello.h"
#include "raw_tls.h"

struct raw {
	int fd; /* -1: closed */
	bool is_local;
	struct arena a; /* of what it heard */
	uint64_t session, next_id;
	uint8_t *in; /* arrived and not yet taken */
	size_t n_in, cap_in, n_out, cap_out;
	uint8_t *out; /* not yet sent */
	bool has_greeting;
	struct raw_tls *tls; /* NULL: none */
};
/* "tcp://127.0.0.1:7070" or "ipc:///path".  greets: shakes hands as nng does; else not a word. */
void raw_open(struct raw *r, const char *url, bool greets);
void raw_close(struct raw *r);
void raw_reset(struct raw *r); /* closed by a reset, not by an end */

void raw_octets(struct raw *r, struct bytes b); /* just those */
void raw_frame(struct raw *r, struct bytes body);
void raw_send(struct raw *r, struct msg *m); /* its id and, where it is 0, its session are filled in */
/* The next message; false: the other side has ended the connection. */
bool raw_hear(struct raw *r, struct msg *m);
/* Waits until the other side has ended it. */
void raw_await_end(struct raw *r);
bool raw_is_over(struct raw *r); /* has it, by now? */

/* raw_send and raw_hear; the class of the error that is answered, ERR_NONE: none, ERR_LINKLOST: no answer. */
enum err_code raw_ask(struct raw *r, struct msg *ask, struct msg *answer);
/* Both words of hello; a session's number is kept. */
enum err_code raw_hello(struct raw *r, struct hello *h);

/* ---- without waiting ---- */
/* Connects; false: nobody listens there. */
bool raw_begin(struct raw *r, const char *url);
/* The same to "tls+tcp://...". */
bool raw_begin_tls(struct raw *r, const char *url, struct raw_tls_conf *conf);
/* Sends and receives what goes; false: the connection has ended. */
bool raw_step(struct raw *r);
/* The next whole message of what arrived; false: none. */
bool raw_next(struct raw *r, struct msg *m);
bool raw_wants_to_send(const struct raw *r);

#endif
