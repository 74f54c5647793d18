/* client/session.h: from options to a connected client. */
#ifndef KORCH_SESSION_H
#define KORCH_SESSION_H

#include "../kernels/base/opt.h"
#include "../proto/client.h"

struct session {
	struct client *client;
	const char *url;
	bool is_private; /* no --daemon: our own over the data folder */
	int stop_fd;     /* signals end calls with ERR_INTERRUPTED; -1: none */
};
/* Joins the daemon named by --daemon, or the private one.  `device`: start a worker for it on a
 * private daemon; NULL: none is needed.  `s` must stay where it is while the client lives. */
bool session_open(
    struct session *s, struct arena *a, const struct opts *o, const char *device, struct err *e) MUST_CHECK;
void session_close(struct session *s);

/* SIGINT and SIGTERM as a file descriptor; -1 where that fails (then they kill as usual). */
int stop_fd_open(void);
/* For client_conf.stop: has a signal come?  self points to the descriptor. */
bool stop_fd_fired(void *self);

#endif
