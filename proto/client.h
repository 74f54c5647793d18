/* proto/client.h: a client of korchd, with blocking calls.  It says hello, proves its token,
 * repeats what got lost, and joins again after a restart of the daemon, by itself. */
#ifndef KORCH_CLIENT_H
#define KORCH_CLIENT_H

#include "cred.h"
#include "msg.h"

struct client;
struct client_conf {
	const char *url;          /* as in cred_way */
	struct cred_conf cred;    /* what the URL takes */
	const char *name;         /* for the daemon's lists */
	const char *title;        /* of jobs that it submits; NULL or "": the model's name */
	const char *predictor;    /* of those jobs; NULL or "": the daemon's own */
	int64_t patience_ns;      /* how long a call tries to reach the daemon; 0: 10 s */
	bool (*stop)(void *self); /* polled about four times a second; true ends a call: ERR_INTERRUPTED */
	void *self;
	bool is_worker;
	uint64_t session; /* not 0: joins this one beside its own connection (a worker's blobs) */
};
/* Connects and says hello.  ERR_UNREACHABLE after patience_ns; ERR_PROTO naming both versions. */
bool client_open(struct client **out, const struct client_conf *conf, struct err *e) MUST_CHECK;
/* The public key that the daemon signs plans with, DER, as its welcome said; n = 0: it said none. */
struct bytes client_signer(const struct client *c);
void client_close(struct client *c);

/* Any request: sends `ask`, waits for its answer (answer lives in `a`).  An error message from the
 * daemon comes back as false with its class.  wait_ns: how long the daemon itself may take. */
bool client_call(struct client *c, struct arena *a, struct msg *ask, int64_t wait_ns, struct msg *answer,
    struct err *e) MUST_CHECK;

/* Uploads a file, or a piece of memory, unless the daemon has it. */
bool client_put_file(
    struct client *c, const char *path, const char *kind, struct m_file *out, struct err *e) MUST_CHECK;
bool client_put_bytes(
    struct client *c, struct bytes data, const char *kind, struct hash *digest, struct err *e) MUST_CHECK;
/* Downloads a blob beside `path` and renames it there, after its digest was checked. */
bool client_get_file(struct client *c, const struct hash *digest, const char *path, struct err *e) MUST_CHECK;

/* Uploads the model and its external data (paths relative to the model's folder) and submits. */
bool client_submit(struct client *c, const char *model_path, const struct str *externals,
    uint32_t n_externals, const struct m_options *options, uint64_t *job, struct err *e) MUST_CHECK;
/* Events after number `after`; waits up to wait_ns for the first (0: what there is).  The answer is
 * m->job_events; is_final says that the job has ended: state done, failed or cancelled. */
bool client_watch(struct client *c, struct arena *a, uint64_t job, uint64_t after, int64_t wait_ns,
    struct msg *m, struct err *e) MUST_CHECK;
bool client_cancel(struct client *c, uint64_t job, struct err *e) MUST_CHECK;
/* What --dump of a job wrote, as files below `dir`.  ERR_FAILED where there is none. */
bool client_fetch_dump(struct client *c, uint64_t job, const char *dir, struct err *e) MUST_CHECK;
/* The plan of a job that is done, to `path`. */
bool client_fetch(struct client *c, uint64_t job, const char *path, struct err *e) MUST_CHECK;

/* ---- the data folder of this host ---- */
/* "ipc://..." of the daemon that owns the folder; short enough for a socket.  NULL: with ERR_HOST. */
char *data_socket(struct arena *a, const char *dir, struct err *e) MUST_CHECK;

/* ---- the private daemon ---- */
struct private_conf {
	const char *data;     /* the folder; "": the XDG folder */
	const char *device;   /* a private daemon starts a worker for it; NULL: none is needed */
	const char *class;    /* of the job: what another daemon over the folder must have a worker of */
	const char *max_size; /* of the folder's files, as korchd takes it; "" or NULL: as usual */
	uint64_t memory;      /* MiB of that worker's measuring child; 0: as it is */
	bool at_once;  /* for plans that measure nothing: that worker need not look at the host for long */
	bool may_wait; /* for that worker, instead of ERR_UNPLACEABLE */
	bool quiet;    /* no words on stderr */
	bool (*stop)(void *self); /* as client_conf's; NULL: nothing stops it */
	void *self;
};
/* The local daemon over a data folder: joins the one that owns it, else starts `korchd --private`, and waits
 * until it is ready.  *url lives in `a`; *stays: it is not private, and goes on without clients. */
bool client_private(struct arena *a, const struct private_conf *conf, const char **url, bool *stays,
    struct err *e) MUST_CHECK;

#endif
