/* tests/fault/farm_proc.h: korchd and workers as processes, for tests that kill them. */
#ifndef KORCH_TEST_FARM_PROC_H
#define KORCH_TEST_FARM_PROC_H

#include "../../proto/client.h"

#include <sys/types.h>

struct farm_proc {
	char dir[64]; /* a folder of its own, removed at the end */
	char url[128];
	char tokens[96]; /* --token-file, or "" */
	pid_t daemon, worker;
	int worker_ready;    /* its line comes here; 0: nobody waits for one */
	const char *device;  /* "fake:seed=1" */
	const char *planner; /* --planner, or NULL */
	char net[64];        /* listens there too; the port that it got stays the same for later lives */
	char keys[96];       /* folder of an authority, for a net of tls+tcp://; or "" */
	const char *more[8]; /* further options of korchd */
	uint32_t files;      /* korchd may open so many at most; 0: as this process */
};
void farm_proc_init(struct farm_proc *f, const char *device);
void farm_proc_fini(struct farm_proc *f);
/* From now on korchd listens on the network too, by tokens: those below. */
void farm_proc_net(struct farm_proc *f);
#define FARM_PROC_TOKENS "worker wwwwwwwwwwwwwwwwwwwwwwww\nclient cccccccccccccccccccccccc\n"
void farm_proc_tokens(const struct farm_proc *f, const char *text); /* the file's new content */
/* The same over TLS: an authority with a daemon's, a worker's, a client's keys and those of worker "other";
 * "not" is another authority of the same kind. */
void farm_proc_tls(struct farm_proc *f);
struct keys *farm_proc_keys(const struct farm_proc *f, const char *name, const char *role); /* to be freed */
/* All that is in a log of its folder ("daemon.log"). */
struct str farm_proc_log(const struct farm_proc *f, struct arena *a, const char *name);
/* kill_at: dies at that seam; 0: never.  Returns when it listens, or has died before that. */
void farm_proc_daemon(struct farm_proc *f, long kill_at);
/* Does not wait: there may be no daemon to take it. */
void farm_proc_worker(struct farm_proc *f, long kill_at);
/* A worker beside f->worker; *ready for farm_proc_await. */
pid_t farm_proc_another(const struct farm_proc *f, const char *device, long kill_at, int *ready);
/* Returns when that worker has been taken by the daemon, or has died.  One that is asked to leave before
 * may not know how to yet. */
void farm_proc_await(int *ready);
/* Has it ended?  Then it is reaped and its pid is 0. */
bool farm_proc_ended(pid_t *pid, int *status);
int farm_proc_kill(pid_t *pid, int signal); /* waits for it; its wait status */
/* A stranger connects and is gone before a word was said, as one that is killed: korchd must hear
 * the next one all the same. */
void farm_proc_rude(const struct farm_proc *f);
/* Starts a program of the build with arguments (ends with NULL). */
pid_t farm_proc_start(const struct farm_proc *f, const char *program, ...);
/* `poll` (may be NULL) is called while the client waits: a place to revive what has died. */
struct client *farm_proc_client(const struct farm_proc *f, bool (*poll)(void *self), void *self);

#endif
