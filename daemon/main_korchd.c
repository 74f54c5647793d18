/* daemon/main_korchd.c: korchd: reads its settings, opens store and listeners, runs the loop. */
#include "learn.h"
#include "loop_int.h"

#include "../kernels/base/hostlock.h"
#include "../kernels/base/opt.h"
#include "../kernels/jail/jail.h"
#include "../proto/client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef KORCH_COVERAGE
void __gcov_dump(void);
#endif

static bool
read_size(double gib, uint64_t *bytes, struct err *e)
{
	if (!(gib >= 0 && gib <= 1 << 20))
		return err_set(
		    e, ERR_USAGE, "--max-size %g: it is a number of GiB, 0 (no limit) to 1048576", gib);
	*bytes = gib > 0 ? MAX_OF((uint64_t)(gib * (double)(1 << 30)), (uint64_t)1) : 0;
	return true;
}

static bool
read_limits(const struct opts *o, struct sock_limits *l, struct err *e)
{
	double prove = opt_real(o, OPT_hello_timeout), silent = opt_real(o, OPT_idle_timeout);
	int64_t max = opt_int(o, OPT_max_connections);

	if (!(prove > 0 && prove <= 3600))
		return err_set(
		    e, ERR_USAGE, "--hello-timeout %g: seconds, more than 0 and up to 3600", prove);
	if (!(silent > 0 && silent <= 1e6))
		return err_set(
		    e, ERR_USAGE, "--idle-timeout %g: seconds, more than 0 and up to 1000000", silent);
	if (max < 0)
		return err_set(e, ERR_USAGE, "--max-connections %lld: 0 or more", (long long)max);
	*l = sock_limits_raise();
	l->prove_ns = (int64_t)(prove * 1e9);
	l->silent_ns = (int64_t)(silent * 1e9);
	if (max > 0 && max < l->max) {
		l->max = (uint32_t)max;
		l->max_host = l->max - l->max / 4;
		l->max_unproved = MAX_OF(l->max / 2, 1u);
	}
	return true;
}

/* Where the program is not installed, nothing is trained. */
/* NULL: there is no such folder. */
static const char *
whole_path(struct arena *a, const char *path)
{
	char *found = realpath(path, NULL);
	const char *kept = found ? str_dup(a, str_of(found)) : NULL;

	free(found);
	return kept;
}

/* Where its locks cannot be seen, a training would not stand still for those that hold them. */
static bool
check_locks(const char *dir, struct err *e)
{
	char path[OS_PATH_MAX];
	bool is_shared;
	int fd;

	if (!lock_folder_open(dir, path, &fd, &is_shared, e))
		return false;
	(void)close(fd);
	return true;
}

static bool
read_train(struct arena *a, const struct opts *o, struct daemon_conf *c, struct err *e)
{
	const char *when = opt_text(o, OPT_train);

	if (strcmp(when, "idle") != 0 && strcmp(when, "never") != 0)
		return err_set(e, ERR_USAGE, "--train %s: it is idle or never", when);
	c->lock_dir = opt_text(o, OPT_lock_dir);
	c->trainer = when[0] == 'i' ? helper_path(a, "korch-predict-train") : NULL;
	return !c->trainer || !c->lock_dir[0] || check_locks(c->lock_dir, e);
}

static bool
read_conf(struct arena *a, const struct opts *o, struct daemon_conf *c, struct err *e)
{
	bool moved = false;
	char *data = data_folder(a, opt_text(o, OPT_data), &moved);

	if (moved)
		(void)fprintf(stderr,
		    "korchd: your data folder is on a network file system; using %s of this host\n", data);
	if (!os_make_dirs(data, e))
		return false;
	*c = (struct daemon_conf){.data = whole_path(a, data),
	    .cred = cred_conf_of(o),
	    .is_private = opt_flag(o, OPT_private),
	    .quiet = opt_flag(o, OPT_quiet),
	    .json = opt_flag(o, OPT_json),
	    .max_planners = (uint32_t)MAX_OF(opt_int(o, OPT_max_planners), (int64_t)1),
	    .planner_memory = (uint64_t)MAX_OF(opt_int(o, OPT_planner_memory), (int64_t)0) << 20,
	    .ready_fd = (int)opt_int(o, OPT_ready_fd)};
	if (!read_size(opt_real(o, OPT_max_size), &c->max_bytes, e) || !read_limits(o, &c->limits, e))
		return false;
	if (!c->data)
		return err_set(e, ERR_IO, "%s: cannot be used as data folder", data);
	c->n_listen = MAX_OF(opt_n(o, OPT_listen), 1u);
	c->listen = NEW_ARRAY(a, const char *, c->n_listen);
	if (opt_n(o, OPT_listen) == 0 && (c->listen[0] = data_socket(a, c->data, e)) == NULL)
		return false;
	for (uint32_t i = 0; i < opt_n(o, OPT_listen); i++)
		c->listen[i] = opt_at(o, OPT_listen, i);
	c->generator = helper_path(a, "korch-generate");
	c->planner = opt_given(o, OPT_planner) ? opt_text(o, OPT_planner) : helper_path(a, "korch-planner");
	if (!c->planner)
		return err_set(
		    e, ERR_HOST, "korch-planner is not beside korchd; install it, or name it with --planner");
	if (!read_train(a, o, c, e))
		return false;
	if (c->is_private)
		c->worker = helper_path(a, "korch-worker");
	return true;
}

/* What the settings come to on this host. */
static int
show_host(const struct opts *o)
{
	struct arena tmp = {0};
	struct sock_limits l;
	struct err e = {0};

	if (!read_limits(o, &l, &e))
		return opts_fail(o, &e);
	opts_say_host(o, "files", str_of(arena_printf(&tmp, "%u", l.files)));
	opts_say_host(o, "connections", str_of(arena_printf(&tmp, "%u", l.max)));
	arena_fini(&tmp);
	return jail_show(o);
}

static void
store_rings(void *self)
{
	loop_wake(self);
}

static bool
open_all(struct daemon *d, struct err *e)
{
	struct store_conf sc = {.dir = d->conf->data,
	    .os = d->os,
	    .blob_limit = d->conf->max_bytes,
	    .trained_check = learn_check};

	if (!cred_load(&d->cred, &d->conf->cred, d->conf->listen, d->conf->n_listen, "daemon", e))
		return false;
	if (!store_open(&d->store, &sc, (struct store_wake){store_rings, d->loop}, e))
		return false;
	d->instance = store_boot(d->store);
	d->farm = farm_new(d->instance);
	learn_begin(d);
	random_bytes(d->secret, sizeof(d->secret));
	if (!sock_server_open(
		&d->net, MSG_MAX_BYTES, &d->conf->limits, (struct sock_wake){loop_wake, d->loop}, e))
		return false;
	for (uint32_t i = 0; i < d->conf->n_listen; i++)
		if (!sock_listen(d->net, d->conf->listen[i], d->cred.keys, e))
			return false;
	return jobs_load(d, e);
}

/* systemd's protocol: one datagram; nothing happens where nobody asked. */
static void
notify_systemd(const char *words)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path) + 1);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, words, strlen(words), 0, (const struct sockaddr *)&to,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	(void)close(fd);
}

static void
say_ready(const struct daemon *d)
{
	int port = sock_port(d->net);

	daemon_log(d, limits, KVI("files", d->conf->limits.files), KVI("connections", d->conf->limits.max));
	for (uint32_t i = 0; i < d->conf->n_listen; i++)
		daemon_log(d, listen, KVZ("url", d->conf->listen[i]),
		    KVI("port", strncmp(d->conf->listen[i], "ipc://", 6) == 0 ? 0 : port));
	if (d->conf->json) {
		struct arena tmp = {0};
		struct strbuf sb;

		sb_init(&sb, &tmp);
		json_text(&sb, str_of(d->conf->listen[0]));
		printf("{\"ready\":true,\"url\":%s,\"port\":%d}\n", sb.p, port);
		arena_fini(&tmp);
	}
	(void)fflush(stdout);
	if (d->conf->ready_fd >= 0) {
		(void)dprintf(d->conf->ready_fd, "ready %s\n", d->conf->listen[0]);
		(void)close(d->conf->ready_fd);
	}
	notify_systemd("READY=1\n");
}

/* What the store still holds belongs to jobs and requests: it comes back before they go. */
static void
drain_store(struct daemon *d)
{
	while (d->store && store_depth(d->store)) {
		serve_store(d);
		(void)usleep(1000);
	}
}

/* The network stays open to the end: nng 1.5 can wait for ever for a connection that is just being closed,
 * and all that matters is on disk.  So the loop that it rings stays too. */
static void
close_all(struct daemon *d)
{
	notify_systemd("STOPPING=1\n");
	for (struct job *j = d->jobs; j; j = j->next)
		if (d->conf->is_private && !job_state_is_over(j->state))
			job_move(d, j, JOB_cancelled, ERR_CANCELLED, "its private korchd has left");
	learn_stop(d, "korchd leaves");
	drain_store(d);
	learn_end(d);
	private_workers_stop(d);
	daemon_forget(d);
	/* while the folder is still ours: the next owner listens there at once */
	for (uint32_t i = 0; i < d->conf->n_listen; i++)
		if (strncmp(d->conf->listen[i], "ipc://", 6) == 0 && d->store && !d->is_homeless)
			(void)unlink(d->conf->listen[i] + 6);
	if (d->store)
		store_close(d->store);
}

/* Until the loop takes them: a HUP that comes early ends nothing.  No child inherits it. */
static void
no_hup(int number)
{
	(void)number;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct daemon_conf conf = {0};
	struct daemon *d;
	struct log *log = NULL;
	struct err e = {0};
	int status = opts_main(&a, PROG_KORCHD, argc, argv, &o);

	if (status == 0 && opt_flag(&o, OPT_show_config))
		return show_host(&o);
	if (status >= 0)
		return status;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, no_hup);
	(void)umask(077);
	if (!read_conf(&a, &o, &conf, &e) || !opts_log(&o, &log, &e) ||
	    !jail_begin(log, opt_text(&o, OPT_sandbox), opt_text(&o, OPT_sandbox_read), &e))
		return opts_fail(&o, &e);
	/* not for planners: who waits for the line must see the end of a daemon killed before it */
	if (conf.ready_fd >= 0)
		(void)fcntl(conf.ready_fd, F_SETFD, FD_CLOEXEC);
	d = heap_alloc(sizeof(*d));
	d->conf = &conf;
	d->os = os_real();
	d->log = log;
	d->loop = loop_new();
	d->last_client_ns = daemon_now(d);
	status = 0;
	if (open_all(d, &e)) {
		say_ready(d);
		if (!loop_run(d, &e))
			status = opts_fail(&o, &e);
	} else
		status = opts_fail(&o, &e);
	close_all(d);
#ifdef KORCH_COVERAGE
	__gcov_dump(); /* which only exit() would write */
#endif
	_exit(opts_close(status));
}
