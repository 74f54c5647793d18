/* daemon/loop.h: the loop and child processes; only loop.c and loop_child.c know libuv. */
#ifndef KORCH_DAEMON_LOOP_H
#define KORCH_DAEMON_LOOP_H

#include "daemon.h"

bool loop_run(struct daemon *d, struct err *e) MUST_CHECK; /* returns when the daemon stops */
void loop_wake(void *loop);                                /* for threads other than the loop's */
struct child_calls {
	void (*bytes)(void *self, struct bytes b);         /* from its stdout */
	void (*words)(void *self, struct bytes b);         /* from its stderr; NULL: goes to ours */
	void (*ended)(void *self, int status, int signal); /* last call */
	bool may_rest;                                     /* child_rest() is for it */
};
/* memory_bytes: what it may have, as whoever starts it sees to; a part of that may wait for it. */
struct child *child_start(struct daemon *d, char *const *argv, uint64_t memory_bytes,
    const struct child_calls *calls, void *self, struct err *e);
/* Copied; false: it has not read for so long that more waits for it than may (a part of memory_bytes). */
bool child_write(struct child *c, struct bytes b) MUST_CHECK;
void child_kill(struct child *c, int signal);
/* It and all that it started stand still, or go on. */
void child_rest(struct child *c, bool rests);
void child_forget(struct child *c); /* no more calls for it; killed and reaped on its own */

#endif
