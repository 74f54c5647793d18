/* client/session.c: see session.h. */
#include "session.h"
#include "job_view.h"
#include "known.h"
#include "output.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t
own_signals(void)
{
	sigset_t s;

	(void)sigemptyset(&s);
	(void)sigaddset(&s, SIGINT);
	(void)sigaddset(&s, SIGTERM);
	(void)sigaddset(&s, SIGWINCH);
	return s;
}

/* Before there is any thread: one of nng's that does not block a signal would take it, and with it the whole
 * program. */
static int
take_signals(void)
{
	sigset_t s = own_signals();
	int fd;

	fd = signalfd(-1, &s, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd >= 0 && sigprocmask(SIG_BLOCK, &s, NULL) != 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

/* Of the thread that calls: nng's have them blocked for good. */
void
session_signals_back(void)
{
	sigset_t s = own_signals();

	(void)pthread_sigmask(SIG_UNBLOCK, &s, NULL);
}

/* Takes what has come; true: calls are to end. */
static bool
hear_signals(void *self)
{
	struct session *s = self;
	struct signalfd_siginfo info;

	while (s->signal_fd >= 0 && read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGWINCH)
			s->n_stops++;
		else if (s->resized)
			s->resized(s->resized_self);
	}
	return s->n_stops > s->n_forgiven;
}

/* Who made the plans that come of this? */
static bool
meet(const struct session *s, const struct opts *o, struct err *e)
{
	struct known_daemon d = {.url = s->url,
	    .signer = client_signer(s->client),
	    .program = program_name(o->program),
	    .quiet = opt_flag(o, OPT_quiet)};

	return known_check(&d, e);
}

bool
session_open(
    struct session *s, struct arena *a, const struct opts *o, const struct session_want *want, struct err *e)
{
	struct client_conf conf = {
	    .cred = cred_conf_of(o),
	    .name = program_name(o->program),
	    .title = opt_text(o, OPT_job_title),
	    .predictor = opt_text(o, OPT_predictor),
	    .stop = hear_signals,
	    .self = s,
	};
	struct private_conf own = {
	    .data = opt_text(o, OPT_data),
	    .device = want ? want->device : NULL,
	    .class = want ? want->class : NULL,
	    .max_size = opt_text(o, OPT_max_size),
	    .may_wait = want && want->may_wait,
	    .at_once = want && want->at_once,
	    .quiet = opt_flag(o, OPT_quiet),
	    .stop = hear_signals,
	    .self = s,
	};

	if (want && !opt_memory(o, &own.memory, e))
		return false;
	*s = (struct session){.url = opt_text(o, OPT_daemon), .signal_fd = take_signals()};
	s->is_named = s->stays = *s->url != '\0';
	if (!s->is_named && !client_private(a, &own, &s->url, &s->stays, e))
		return false;
	conf.url = s->url;
	return client_open(&s->client, &conf, e) && (!s->is_named || meet(s, o, e));
}

void
session_close(struct session *s)
{
	if (s->client)
		client_close(s->client);
	if (s->signal_fd >= 0)
		(void)close(s->signal_fd);
	*s = (struct session){.signal_fd = -1};
}

bool
session_follow(struct session *s, struct arena *a, const struct opts *o, uint64_t job, struct m_event *last,
    struct err *e)
{
	struct job_view view;
	bool ok;

	job_view_init(&view, o);
	s->resized_self = &view;
	s->resized = job_view_resized;
	ok = job_follow(s->client, job, &view, a, last, e);
	s->resized = NULL;
	job_view_fini(&view);
	return ok;
}

char *
session_words(const struct session *s, struct arena *a, const struct opts *o)
{
	const struct {
		enum opt_id id;
		const char *flag;
		bool counts;
	} row[] = {{OPT_daemon, "daemon", s->is_named}, {OPT_token_file, "token-file", s->is_named},
	    {OPT_data, "data", !s->is_named}};
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addz(&sb, "");
	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (row[i].counts && *opt_text(o, row[i].id))
			sb_addf(&sb, " --%s %s", row[i].flag, output_shell(a, opt_text(o, row[i].id)));
	return sb.p;
}
