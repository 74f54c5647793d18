/* daemon/session.h: who talks to korchd: who they proved to be at the door, and what they are then. */
#ifndef KORCH_DAEMON_SESSION_H
#define KORCH_DAEMON_SESSION_H

#include "../kernels/base/class.h"
#include "../proto/keys.h"
#include "../proto/sock.h"

#define SECOND_NS ((int64_t)1000000000)
struct daemon;
struct request;

enum { SESSION_ENVS = 16, SESSION_CLASS = CLASS_MAX, SESSION_PARKED = 16 };
/* What was proved at the door; two connections of one identity may serve one session. */
struct identity {
	enum sock_way way;
	uint32_t uid;         /* local */
	struct hash of;       /* the token's, or the certificate's */
	char name[KEYS_NAME]; /* the certificate's; "" */
	int64_t until_s;      /* it is good until then; 0: for ever */
};
/* The same after a restart of either side, for tickets: how it was proved, and the name that it gave itself.
 */
char *identity_words(struct arena *a, const struct identity *who, struct str says);
struct session {
	struct session *next;
	uint64_t id;
	enum auth_role role;
	struct identity who;
	uint32_t peer; /* its connection now; others may have joined */
	bool is_connected, is_local;
	char name[256]; /* what it does is recorded under: the certificate's; without one, `says` */
	char says[256]; /* what it calls itself: tells processes of one holder apart, and proves nothing */
	int64_t seen_ns;
	char waits[256]; /* of a worker: why its device does nothing now, in its words; "": it works */
	uint32_t n_envs; /* of a worker: each is a device of the farm */
	struct {
		int64_t env;
		struct hash hash;
		uint64_t device; /* the farm's number */
		char class[SESSION_CLASS];
	} envs[SESSION_ENVS];
	uint64_t epoch;
	uint64_t lease_id; /* the last lease request and its answer, for a repeat */
	struct bytes lease_reply;
};
/* A worker whose hello could not be kept, by the class of its device; it asks again. */
struct turned_away {
	char class[SESSION_CLASS];
	struct err why;
	int64_t until_ns; /* after that it counts as gone */
};

/* ---- door.c ---- */
void serve_hello(struct daemon *d, struct request *r);
/* Is a worker of a class that fits at the door whom the store cannot keep (disk full, say)? */
bool session_turned_away(const struct daemon *d, struct str class, struct err *why);

/* ---- reload.c ---- */
/* HUP: the log's file, tokens, keys and revocations are read anew; who is not let in any more goes. */
void daemon_reload(struct daemon *d);
/* Ends sessions whose certificate has expired; says in time that the daemon's will. */
void reload_tick(struct daemon *d);

/* ---- session.c ---- */
struct session *session_new(struct daemon *d, const struct request *r, enum auth_role role,
    const struct identity *who, const char *peer);
/* Another connection of it, or one more (hello.joins). */
void session_rejoin(struct daemon *d, struct session *s, const struct request *r);
void serve_bye(struct daemon *d, struct request *r);
void serve_worker_list(struct daemon *d, struct request *r);
void session_peer_gone(struct daemon *d, uint32_t peer);
void sessions_tick(struct daemon *d);
void sessions_late(struct daemon *d, int64_t ns); /* so long nobody could be heard */
void sessions_free(struct daemon *d);
/* Ends those of whom that is true, and their connections.  How many. */
uint32_t sessions_end(struct daemon *d, bool (*is_over)(const struct daemon *d, const struct session *s));
bool session_any_client(const struct daemon *d);

#endif
