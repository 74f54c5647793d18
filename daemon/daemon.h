/* daemon/daemon.h: korchd from inside.  One loop thread owns everything here; the store's
 * thread gets an op and gives it back; nng's threads only queue.  Every file but loop*.c is
 * free of libuv. */
#ifndef KORCH_DAEMON_H
#define KORCH_DAEMON_H

#include "../kernels/base/log.h"
#include "../proto/cred.h"
#include "../proto/pipe.h"
#include "../proto/sock.h"
#include "../schema/store.h"
#include "farm/farm.h"
#include "session.h"

enum job_state {
#define JOB_STATE(N, OVER) JOB_##N,
#include "job_state.def"
	JOB_STATES
};

struct daemon_conf {
	const char *data;    /* the data folder */
	const char **listen; /* URLs */
	uint32_t n_listen;
	struct cred_conf cred;
	const char *planner;   /* path of the planner program */
	const char *generator; /* of korch-generate; NULL: it is not here */
	const char *worker;    /* path of korch-worker, for a private daemon; NULL: none */
	const char *trainer;   /* path of korch-predict-train; NULL: nothing is trained */
	const char *lock_dir;  /* folder of the locks of workers on this host; "": this user's */
	bool is_private, quiet, json;
	uint32_t max_planners;
	struct sock_limits limits;
	uint64_t planner_memory; /* bytes */
	uint64_t max_bytes;      /* of files in the data folder; 0: no limit */
	int ready_fd;            /* -1: none */
};

/* A request under way; answered once. */
struct request {
	struct request *next;
	struct arena arena;
	struct sock_request *sock;
	struct msg m;
	struct session *session; /* NULL for hello; looked up again after anything asynchronous */
	uint64_t session_id;
	uint32_t peer;
	bool is_local, is_worker;
	int64_t until_ns; /* parked: answered with nothing then */
};
/* ---- jobs ---- */
struct job_event {
	struct m_event e; /* strings point into the arena */
	struct arena arena;
};
enum { JOB_EVENTS = 128 };
struct child;
struct job {
	struct daemon *daemon;
	struct job *next;
	struct arena arena; /* strings of rec */
	struct m_job rec;
	enum job_state state;
	struct job_event events[JOB_EVENTS]; /* a ring: seq % JOB_EVENTS */
	uint64_t first_seq, last_seq;        /* oldest and newest event here */
	int64_t found_ns;                    /* by this life of the daemon */
	int64_t waiting_since_ns;            /* 0: not waiting for a worker */
	bool is_told, is_unsaved;            /* clients know its end; the store has an older state */
	int64_t saved_ns;                    /* when that was tried last */
	/* while planning */
	struct child *planner, *generator; /* generator: korch-generate, while it works for this planner */
	struct m_env env;                  /* lives in env_arena */
	struct arena env_arena;
	int64_t env_id;
	struct hash model; /* digest of the model file */
	uint8_t *in;       /* bytes from the planner not yet understood */
	size_t n_in, cap_in;
	bool is_ended;      /* planner said done or failed */
	bool is_deaf;       /* it was ended since it did not read */
	uint32_t n_workers; /* that its planner knows of */
	uint32_t n_ops;     /* store ops under way on its behalf */
	uint32_t n_drops;   /* how often its planner dropped all that it had asked for */
	struct arena last_words_arena;
	struct str last_words; /* tail of its stderr */
	char words_line[512];  /* of it, not yet logged */
	size_t n_words_line;
};
struct private_worker {
	char device[256];
	uint64_t memory; /* MiB of its measuring child; 0: as usual */
	bool is_quick;   /* it may know its device by a quick look only: for plans that measure nothing */
	struct child *child;
	int64_t started_ns;
	uint32_t failures;
	int last_status;             /* of the last one that ended */
	uint32_t n_devices, n_taken; /* that it has, and that have said hello; 0: not known yet */
	char line[32];               /* of its stdout, as far as it has come */
	size_t n_line;
	char words[600]; /* the last it said */
};
struct loop;
struct learning;
struct daemon {
	const struct daemon_conf *conf;
	const struct os *os;
	struct log *log; /* NULL: none */
	struct loop *loop;
	struct sock_server *net;
	struct store *store;
	struct farm *farm;
	struct arena arena;
	struct cred cred;
	uint64_t instance; /* number of this life, of the store */
	uint64_t next_session, next_device;
	struct session *sessions;
	uint8_t secret[AUTH_SECRET]; /* of this life: what challenges are made with */
	struct request *polls;       /* parked lease requests */
	struct request *watches;     /* parked job_watch requests */
	struct job *jobs;            /* all that are unfinished or were finished in this life */
	int64_t last_client_ns;      /* private: when a client was connected last */
	int64_t ticked_ns;           /* 0: not yet */
	bool is_stopping;
	bool is_homeless;                         /* its data folder is not at its path any more */
	struct private_worker private_workers[8]; /* a private daemon's */
	uint32_t n_private_workers;
	struct turned_away turned_away[8];
	uint64_t n_superseded;
	int64_t heartbeat_ns;         /* of workers with work in hand */
	int64_t tidied_ns, roomed_ns; /* when the store was last tidied; last held within its limit */
	struct learning *learning;    /* learn.c; NULL: nothing is trained */
	int64_t warned_ns;            /* when our certificate was last looked at */
};

/* ---- daemon.c: what every file asks ---- */
int64_t daemon_now(const struct daemon *d);
/* At its end: waiting requests, jobs, sessions and the farm go; the store stays open. */
void daemon_forget(struct daemon *d);
/* A line of the log: an event of kernels/base/log.def and its values. */
#define daemon_log(D, ID, ...) log_event((D)->log, ID, __VA_ARGS__)
struct session *session_find(const struct daemon *d, uint64_t id);
struct job *job_find(const struct daemon *d, uint64_t id);
/* What the job's measurements are kept under. */
struct meas_key job_meas_key(const struct job *j, uint64_t threads, struct str precision);

/* ---- reply.c ---- */
void reply(struct daemon *d, struct request *r, struct msg *m); /* the request is gone afterwards */
void reply_ok(struct daemon *d, struct request *r, uint64_t value, const char *text);
void reply_error(struct daemon *d, struct request *r, const struct err *e);
void request_drop(struct daemon *d, struct request *r);
/* One answer from the store: `run` there fills in m, which is sent (or the error). */
struct ask_op {
	struct store_op op;
	struct request *r;
	struct msg m;
};
void ask_store(struct daemon *d, struct request *r, bool (*run)(struct db *db, struct store_op *op));
/* The same with an end of its own, which calls ask_end_op last. */
void ask_store_then(struct daemon *d, struct request *r, bool (*run)(struct db *db, struct store_op *op),
    void (*done)(struct store_op *op));
void ask_end_op(struct store_op *op);

/* ---- serve.c: requests ---- */
void serve_network(struct daemon *d); /* takes what has arrived */
void serve_store(struct daemon *d);   /* finishes what the store has done */
void serve_tick(struct daemon *d);    /* every quarter of a second */
/* A request is parked in a list: one too many of its session takes the place of that session's oldest, which
 * is taken out and returned, to be answered with nothing; NULL: there is room. */
struct request *park(struct request **list, struct request *r);

/* ---- job.c ---- */
bool jobs_load(struct daemon *d, struct err *e) MUST_CHECK;     /* unfinished ones of earlier lives */
struct job *job_new(struct daemon *d, const struct m_job *rec); /* queued; rec is copied */
const char *job_state_text(enum job_state s);
bool job_state_is_over(enum job_state s);
/* The only writer of job->state.  Saved, told to watchers; over: farm and planner let go. */
void job_move(struct daemon *d, struct job *j, enum job_state to, enum err_code code, const char *reason);
void job_event(struct daemon *d, struct job *j);                    /* progress has changed */
void job_note(struct daemon *d, struct job *j, const char *reason); /* why it waits, without a move */
/* Answers a watch with what has come since; false: nothing has, and the job goes on. */
bool job_answer_watch(struct daemon *d, struct job *j, struct request *r);
void jobs_tick(struct daemon *d);
void jobs_free(struct daemon *d);
/* ---- job_serve.c: what clients ask of jobs ---- */
void watches_tick(struct daemon *d);
void serve_submit(struct daemon *d, struct request *r);
void serve_job_list(struct daemon *d, struct request *r);
void serve_job_show(struct daemon *d, struct request *r);
void serve_job_watch(struct daemon *d, struct request *r);
void serve_job_cancel(struct daemon *d, struct request *r);

/* ---- planner_pipe.c ---- */
void planner_send(struct job *j, const struct msg *m);
void planner_stop(struct job *j);

/* ---- planner_requests.c: what planners ask for, as farm tasks ---- */
void ask_costs(struct daemon *d, struct job *j, const struct m_cost_ask *ask);
void ask_measure(struct daemon *d, struct job *j, const struct m_measure_ask *ask);
void ask_drop(struct daemon *d, struct job *j, const struct m_measure_drop *ask);
void ask_build(struct daemon *d, struct job *j, const struct m_build_ask *ask);
void ask_time(struct daemon *d, struct job *j, const struct m_time_ask *ask);
void ask_race(struct daemon *d, struct job *j, const struct m_race_ask *ask);
/* ---- perturb.c: the same for orders of machine instructions ---- */
void ask_perturb(struct daemon *d, struct job *j, const struct m_perturb_ask *ask);
/* ---- private_workers.c: a private daemon's workers ---- */
void serve_worker_want(struct daemon *d, struct request *r);
void private_workers_tick(struct daemon *d);
void private_workers_stop(struct daemon *d);
bool private_workers_settled(const struct daemon *d); /* none is starting, which may measure its host */
bool private_worker_lives(const struct daemon *d, struct str class); /* it may still be calibrating */
bool private_worker_failed(const struct daemon *d, struct str class, struct err *why);

/* ---- blobs.c: blobs and cache ---- */
void serve_blob_put(struct daemon *d, struct request *r);
void serve_blob_get(struct daemon *d, struct request *r);
void serve_cache(struct daemon *d, struct request *r);
void keep_tick(struct daemon *d);

#endif
