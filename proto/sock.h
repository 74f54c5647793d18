/* proto/sock.h: requests and answers over the network; only sock_server.c and sock_client.c know nng.
 *
 * Server: one raw REP socket, so that any number of requests can wait for their answer at no
 * cost.  nng's threads only queue what arrives and call `wake`; the loop thread takes it out.
 * Client: a REQ socket that redials by itself and never resends by itself (every message of
 * ours is idempotent; the caller repeats it with the same id). */
#ifndef KORCH_SOCK_H
#define KORCH_SOCK_H

#include "../kernels/base/base.h"

/* ---- server ---- */
struct sock_server;
struct sock_request; /* must be answered or dropped, by its owner, once */
/* Who is at the other end of a connection. */
enum sock_way { SOCK_LOCAL, SOCK_PLAIN, SOCK_TLS };
enum { SOCK_ADDR_BYTES = 48 };
struct sock_peer {
	uint32_t id; /* of the connection */
	enum sock_way way;
	uint32_t uid;               /* local: of the process there */
	char addr[SOCK_ADDR_BYTES]; /* "10.0.0.7"; local: "local" */
	uint8_t ip[16];             /* the same, IPv4 as ::ffff:a.b.c.d */
	uint16_t port;
};
/* What connections from the network may take; local ones always have room. */
struct sock_limits {
	uint32_t max, max_host; /* connections; of them from one address */
	uint32_t max_unproved;  /* that have not been bound (sock_bind) */
	uint32_t max_requests;  /* of a connection, under way at once */
	int64_t prove_ns;       /* until it has to be bound; local ones too */
	int64_t silent_ns;      /* a bound one that asks for nothing and waits for nothing */
	uint32_t files;         /* this process may open so many; 0: no room is made when they run out */
	uint32_t files_before;  /* what it might open before: for its children */
};
/* Raises this process's limit on open files as far as it goes, and what follows from it. */
struct sock_limits sock_limits_raise(void);
enum sock_event { SOCK_NOTHING, SOCK_REQUEST, SOCK_GONE };
/* wake is called from other threads, whenever there is something to take. */
struct sock_wake {
	void (*wake)(void *self);
	void *self;
};
bool sock_server_open(struct sock_server **out, size_t max_bytes, const struct sock_limits *limits,
    struct sock_wake wake, struct err *e) MUST_CHECK;
/* "ipc:///path" (made with mode 0600), "tls+tcp://address:port" or "tcp://address:port"; a stale socket file
 * is removed.  keys: for TLS, else NULL. */
struct keys;
bool sock_listen(struct sock_server *s, const char *url, const struct keys *keys, struct err *e) MUST_CHECK;
/* Other keys from now on, which live as long; is_new: addresses with TLS are closed, with all their
 * connections, and opened anew. */
void sock_rekey(struct sock_server *s, const struct keys *keys, bool is_new);
/* The port that the last address on the network got; 0 if there is none. */
int sock_port(const struct sock_server *s);
/* To be called a few times a second: opens local addresses anew whose listener has gone deaf or
 * whose socket file was removed; closes what has been silent for too long, and strangers when there are
 * hardly any files left to open. */
enum sock_cut { CUT_UNPROVED, CUT_SILENT, CUT_CROWD, CUT_FULL, CUT_BUSY, CUT_ENDED, CUT_STRANGER, CUTS };
const char *sock_cut_why(enum sock_cut c);
struct sock_tended {
	uint32_t n_reopened, n_cut[CUTS]; /* since the last call */
};
struct sock_tended sock_server_tend(struct sock_server *s);
/* SOCK_REQUEST: *req is the caller's; SOCK_GONE: the connection *peer has ended. */
enum sock_event sock_take(struct sock_server *s, struct sock_request **req, uint32_t *peer);
struct bytes sock_request_bytes(const struct sock_request *r);
uint32_t sock_request_peer(const struct sock_request *r); /* number of the connection */
bool sock_request_is_local(const struct sock_request *r); /* came by ipc:// */
/* Until SOCK_GONE has told its end. */
bool sock_peer(struct sock_server *s, uint32_t peer, struct sock_peer *out);
bool sock_peer_is_here(struct sock_server *s, uint32_t peer); /* still connected */
/* The owner knows who it is, by a number of his; 0: it has to prove it anew.  What it is bound to. */
void sock_bind(struct sock_server *s, uint32_t peer, uint64_t number);
uint64_t sock_bound(struct sock_server *s, uint32_t peer);
void sock_cut_bound(struct sock_server *s, uint64_t number); /* closes all that are; SOCK_GONE follows */
void sock_answer(struct sock_server *s, struct sock_request *r, struct bytes answer);
void sock_drop(struct sock_server *s, struct sock_request *r);
/* Waits for nng's threads; no wake comes after it. */
void sock_server_close(struct sock_server *s);

/* ---- client ---- */
struct sock_client;
struct sock_call;
bool sock_client_open(struct sock_client **out, const char *url, const struct keys *keys, size_t max_bytes,
    struct sock_wake wake, struct err *e) MUST_CHECK;
/* Other keys from now on; the connection is made anew. */
void sock_client_rekey(struct sock_client *c, const struct keys *keys);
/* Has a try to connect failed since the last call, otherwise than by nobody listening there? */
bool sock_client_failed(struct sock_client *c);
/* Why nobody answers at a URL: asked of the system and of TLS itself, which takes up to three seconds. false:
 * with a sentence in *e; true: somebody listens there, and would shake hands.  *is_wrong: keys, names or ways
 * of the two sides do not fit, and trying again does not change that. */
bool sock_reachable(const char *url, const struct keys *keys, bool *is_wrong, struct err *e);
/* Starts a request; the answer comes out of sock_done.  timeout_ms < 0: none. */
void sock_ask(struct sock_client *c, struct bytes request, int timeout_ms, void *tag);
/* A finished call or NULL; to be called a few times a second while any is out, since a dialer
 * that has died is replaced here.  sock_call_bytes is false with ERR_UNREACHABLE or ERR_TIMEOUT. */
struct sock_call *sock_done(struct sock_client *c);
void *sock_call_tag(const struct sock_call *call);
bool sock_call_bytes(const struct sock_call *call, struct bytes *answer, struct err *e) MUST_CHECK;
void sock_call_free(struct sock_call *call);
void sock_client_close(struct sock_client *c);

#endif
