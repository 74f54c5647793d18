/* worker/worker.h: the worker from inside: a loop thread that talks to korchd, a work thread
 * that has the device.  They share two queues; a batch belongs to one of them at a time. */
#ifndef KORCH_WORKER_H
#define KORCH_WORKER_H

#include "../kernels/base/log.h"
#include "../proto/cred.h"
#include "../proto/hello.h"
#include "../proto/sock.h"
#include "device.h"

#include <pthread.h>
#include <stdatomic.h>

/* Tasks of one grant: to the work thread with tasks, back with outcomes, piece by piece. */
struct batch {
	struct batch *next;
	struct arena arena;
	struct m_task *tasks;
	bool *is_off; /* nobody wants it any more; of each task */
	uint32_t n;
	uint64_t session; /* for blobs */
	int64_t since_ns; /* when it was granted */
};
struct result {
	struct result *next;
	struct arena arena;
	struct m_outcome outcome;
};
struct work {
	const struct device *device;
	const struct worker_conf *conf; /* for blobs */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t posted;
	struct batch *in, **in_tail;
	struct result *out, **out_tail;
	bool is_closing;
	struct batch *busy; /* whose tasks the device has, or has had; its tasks from..to are at work */
	uint32_t from, to;
	atomic_bool cancel;     /* the device stops: it is to leave, or nobody wants what it is doing */
	atomic_bool is_leaving; /* for good */
	int64_t task_ns;        /* what a measurement takes, of late; the work thread's own */
	atomic_uint batch;      /* measurements worth taking at a time */
	void (*wake)(void *self);
	void *self;
	char dir[OS_PATH_MAX]; /* of the task's downloads; empty where it has none */
};
struct worker_conf;
void work_start(
    struct work *w, const struct device *d, const struct worker_conf *conf, void (*wake)(void *), void *self);
void work_post(struct work *w, struct batch *b);
struct result *work_take(struct work *w); /* NULL: none */
void result_free(struct result *r);
/* Nobody waits for that task any more: it is not begun, and what the device does is given up where all of it
 * is unwanted.  An outcome comes all the same. */
void work_drop(struct work *w, const struct hash *key, uint64_t gen);
/* How many measurements make a few seconds: nothing that is leased comes back before, whoever waits for the
 * device. */
uint32_t work_batch(struct work *w);
/* Ends after the task under way; `now` gives it up. */
void work_stop(struct work *w, bool now);

struct worker_conf {
	const char *url, *name, *device;
	struct cred_conf cred;
	struct log *log;
	bool quiet, json;
	int64_t idle_exit_ns;     /* 0: never */
	struct lock_words *waits; /* of the device: what its lock is waited for; may be NULL */
	uint64_t memory;          /* MiB of the measuring child; 0: as usual */
	int ready_fd;
};
/* Runs until drained, told to stop, or idle for too long; returns the exit status. */
int worker_loop(
    const struct worker_conf *conf, const struct device *d, struct work *w, struct cred *cred, struct err *e);

/* One worker process for each device: a GPU that hangs or is lost takes no other with it.  Signals
 * are passed on; the exit status is the first that is not 0. */
int several_run(int argc, char **argv, const struct str *devices, uint32_t n, const struct worker_conf *conf);

/* Rights and limits that this process gives up: what the measuring child inherits too. */
void sandbox_enter(void);

#endif
