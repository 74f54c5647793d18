/* client/session.c: see session.h. */
#include "session.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

int
stop_fd_open(void)
{
	sigset_t s;
	int fd;

	(void)sigemptyset(&s);
	(void)sigaddset(&s, SIGINT);
	(void)sigaddset(&s, SIGTERM);
	fd = signalfd(-1, &s, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd >= 0 && sigprocmask(SIG_BLOCK, &s, NULL) != 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

bool
stop_fd_fired(void *self)
{
	struct pollfd p = {.fd = *(const int *)self, .events = POLLIN};

	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

bool
session_open(struct session *s, struct arena *a, const struct opts *o, const char *device, struct err *e)
{
	struct client_conf conf = {
	    .token_file = opt_text(o, OPT_token_file),
	    .name = program_name(o->program),
	    .stop = stop_fd_fired,
	    .self = &s->stop_fd,
	};

	struct private_conf own = {.data = opt_text(o, OPT_data),
	    .device = device ? device : "cpu",
	    .max_size = opt_text(o, OPT_max_size),
	    .with_worker = device != NULL,
	    .quiet = opt_flag(o, OPT_quiet)};

	*s = (struct session){.url = opt_text(o, OPT_daemon), .stop_fd = -1};
	s->is_private = !*s->url;
	/* Before signals are taken over: what is started inherits the mask. */
	if (s->is_private && !client_private(a, &own, &s->url, e))
		return false;
	s->stop_fd = stop_fd_open();
	conf.url = s->url;
	return client_open(&s->client, &conf, e);
}

void
session_close(struct session *s)
{
	if (s->client)
		client_close(s->client);
	if (s->stop_fd >= 0)
		(void)close(s->stop_fd);
	*s = (struct session){.stop_fd = -1};
}
