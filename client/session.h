/* client/session.h: from options to a connected client. */
#ifndef KORCH_SESSION_H
#define KORCH_SESSION_H

#include "../kernels/base/opt.h"
#include "../proto/client.h"

struct session {
	struct client *client;
	const char *url;
	bool is_named;       /* by --daemon */
	bool stays;          /* the daemon stays when its clients have left: it goes on with a job */
	int signal_fd;       /* -1: signals do what they usually do */
	uint32_t n_stops;    /* SIGINT and SIGTERM that have come; one ends calls with ERR_INTERRUPTED */
	uint32_t n_forgiven; /* those that were dealt with: calls work again */
	void (*resized)(void *self); /* the terminal has another size; NULL: nobody cares */
	void *resized_self;
};
/* What a session is for: a worker for `device` is started on a private daemon; another must have one of
 * `class` or, where it has none, be waited for. */
struct session_want {
	const char *device, *class;
	bool may_wait;
	bool at_once; /* nothing will be measured */
};
/* Joins the daemon named by --daemon, or the private one.  want: NULL: no worker is needed.  From here on
 * SIGINT and SIGTERM end calls.  `s` must stay where it is while the client lives. */
bool session_open(struct session *s, struct arena *a, const struct opts *o, const struct session_want *want,
    struct err *e) MUST_CHECK;
void session_close(struct session *s);
/* For a program that goes on after its session: SIGINT and SIGTERM do again what they usually do. */
void session_signals_back(void);
/* Watches a job until it ends, and shows it (job_view.h).  *last, which lives in `a`: its last event.  A
 * failed or cancelled job is an error of its class; a signal ends the watching with ERR_INTERRUPTED. */
bool session_follow(struct session *s, struct arena *a, const struct opts *o, uint64_t job,
    struct m_event *last, struct err *e) MUST_CHECK;
/* " --daemon URL --token-file FILE", " --data DIR" or "": what leads another of the programs here. */
char *session_words(const struct session *s, struct arena *a, const struct opts *o);

#endif
