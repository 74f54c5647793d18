/* proto/local.c: the data folder of this host, and the private daemon that owns it. */
#include "client.h"

#include "../kernels/base/folder.h"
#include "../kernels/base/opt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
	SOCKET_PATH = 100,
	START_TRIES = 5,
	POLL_MS = 250,
	SLOW_MS = 20000,
	LOG_BYTES = 8 << 20, /* of korchd.log at a start, before it becomes korchd.log.1 */
	LOG_MOST = LOG_BYTES + (16 << 20)
};

/* Where a daemon that is started writes. */
struct start_log {
	const char *path;
	int fd;
	off_t from; /* what it says comes behind */
};

/* A name by digest, where this user's processes meet. */
static char *
short_socket(struct arena *a, const char *dir, struct err *e)
{
	struct hash h = hash_bytes(dir, strlen(dir));
	char run[OS_PATH_MAX], hex[65], *url;

	hash_hex(&h, hex);
	if (!run_folder(run, e) || !folder_is_own(run, e)) {
		(void)err_in(e, "%s is too long for a socket, which would lie in a folder of its own", dir);
		return NULL;
	}
	url = arena_printf(a, "ipc://%s/%.24s.sock", run, hex);
	if (strlen(url) - 6 <= SOCKET_PATH)
		return url;
	(void)err_set(e, ERR_HOST, "%s: too long for a socket; name a shorter folder with --data", dir);
	return NULL;
}

char *
data_socket(struct arena *a, const char *dir, struct err *e)
{
	char *real = realpath(dir, NULL), *url;

	url = arena_printf(a, "ipc://%s/korchd.sock", real ? real : dir);
	if (strlen(url) - 6 > SOCKET_PATH)
		url = short_socket(a, real ? real : dir, e);
	free(real);
	return url;
}

/* Is the folder's lock held?  Then its owner runs, or is about to listen, or to leave.  Shared: two
 * clients that look at once are no owners of each other. */
static bool
has_owner(const char *dir)
{
	struct arena tmp = {0};
	int fd = open(arena_printf(&tmp, "%s/lock", dir), O_RDWR | O_CLOEXEC);
	bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;

	if (fd >= 0)
		(void)close(fd);
	arena_fini(&tmp);
	return held;
}

static bool
is_stopped(const struct private_conf *conf, struct err *e)
{
	return conf->stop && conf->stop(conf->self) &&
	    !err_set(e, ERR_INTERRUPTED, "stopped while korchd was starting");
}

/* Its line, or its end; however slow the host is, one of them comes. */
static bool
wait_ready(const struct private_conf *conf, int fd, pid_t pid, const char *log, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char line[64];
	int status = 0, waited_ms = 0;
	ssize_t n;

	while (poll(&p, 1, POLL_MS) <= 0) {
		if (is_stopped(conf, e))
			return false;
		waited_ms += POLL_MS;
		if (waited_ms == SLOW_MS && !conf->quiet)
			(void)fprintf(stderr, "the private korchd takes long to start; see %s\n", log);
	}
	while ((n = read(fd, line, sizeof(line))) < 0 && errno == EINTR)
		;
	if (n > 0)
		return true;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return err_set(e, WIFEXITED(status) && WEXITSTATUS(status) == 78 ? ERR_HOST : ERR_UNREACHABLE,
	    "the private korchd could not start; see %s", log);
}

/* What a failed start wrote last is the best explanation there is. */
static void
add_last_line(struct arena *a, const struct start_log *log, struct err *e)
{
	struct bytes b;
	struct str rest, line = {0};
	struct err ignore = {0};

	if (!os_read_file(os_real(), a, log->path, LOG_MOST, &b, &ignore) || b.n < (size_t)log->from)
		return;
	rest = str_trim((struct str){(const char *)b.p + log->from, b.n - (size_t)log->from});
	while (rest.n)
		line = str_cut(&rest, '\n');
	if (line.n)
		(void)err_set(e, e->code, "%.*s", (int)MIN_OF(line.n, (size_t)480), line.p);
}

static bool
spawn_daemon(const struct private_conf *conf, const char *program, const char *dir, int ready_fd, int log_fd,
    pid_t *pid, struct err *e)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--private",
	    (char *)(uintptr_t) "--data", (char *)(uintptr_t)dir, (char *)(uintptr_t) "--ready-fd",
	    (char *)(uintptr_t) "3", NULL, NULL, NULL};
	sigset_t none;
	int rc;

	if (conf->max_size && *conf->max_size) {
		argv[6] = (char *)(uintptr_t) "--max-size";
		argv[7] = (char *)(uintptr_t)conf->max_size;
	}
	(void)sigemptyset(&none);
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawnattr_init(&at);
	(void)posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&fa, log_fd, 1);
	(void)posix_spawn_file_actions_adddup2(&fa, 1, 2);
	(void)posix_spawn_file_actions_adddup2(&fa, ready_fd, 3);
	/* a session of its own: the terminal's Ctrl-C is for the client, which waits for signals by other
	 * means */
	(void)posix_spawnattr_setsigmask(&at, &none);
	(void)posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawn(pid, program, &fa, &at, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)posix_spawnattr_destroy(&at);
	return rc == 0 || err_set(e, ERR_HOST, "%s: cannot start: %s", program, strerror(rc));
}

/* One that has grown becomes PATH.1, in place of the one before.  Of clients that see it at once the first
 * does it: whoever finds another file under that name behind the lock has nothing to do. */
static void
put_aside(struct arena *a, const char *path, int fd)
{
	struct stat ours, there;

	if (fstat(fd, &ours) != 0 || ours.st_size < LOG_BYTES || flock(fd, LOCK_EX) != 0)
		return;
	if (stat(path, &there) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino)
		(void)rename(path, arena_printf(a, "%s.1", path));
	(void)flock(fd, LOCK_UN);
}

static int
open_end(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* What the last daemons said stays.  The first thing that is written into the folder. */
static bool
open_log(struct arena *a, struct start_log *log, const char *dir, struct err *e)
{
	log->path = arena_printf(a, "%s/korchd.log", dir);
	log->fd = open_end(log->path);
	if (log->fd >= 0) {
		put_aside(a, log->path, log->fd);
		(void)close(log->fd);
		log->fd = open_end(log->path);
	}
	if (log->fd < 0)
		return err_set(e, os_err_code(errno),
		    "%s: cannot write into the data folder: %s; name another with --data", dir,
		    strerror(errno));
	log->from = lseek(log->fd, 0, SEEK_END);
	return true;
}

/* A pipe for its line, both ends above the numbers that the child uses, so that dup2 clears the close-on-exec
 * mark. */
static bool
open_ready(int fd[2], struct err *e)
{
	int high;

	if (pipe2(fd, O_CLOEXEC) != 0)
		return err_set(e, ERR_IO, "no pipe: %s", strerror(errno));
	high = fcntl(fd[1], F_DUPFD_CLOEXEC, 10);
	(void)close(fd[1]);
	fd[1] = high;
	return true;
}

static bool
start_daemon(struct arena *a, const struct private_conf *conf, const char *dir, struct err *e)
{
	char *program = helper_path(a, "korchd");
	struct start_log log;
	int fd[2];
	pid_t pid;
	bool ok;

	if (!program)
		return err_set(e, ERR_HOST,
		    "korchd is not beside this program; install it, or name a daemon with --daemon");
	if (!open_log(a, &log, dir, e))
		return false;
	ok = open_ready(fd, e);
	if (ok) {
		ok = spawn_daemon(conf, program, dir, fd[1], log.fd, &pid, e);
		(void)close(fd[1]);
		ok = ok && wait_ready(conf, fd[0], pid, log.path, e);
		(void)close(fd[0]);
	}
	(void)close(log.fd);
	/* Lost the race against another client: its daemon serves us too. */
	if (!ok && e->code != ERR_INTERRUPTED && has_owner(dir)) {
		*e = (struct err){0};
		return true;
	}
	if (!ok && e->code != ERR_INTERRUPTED)
		add_last_line(a, &log, e);
	return ok;
}

struct join { /* asking the owner of a folder */
	const struct private_conf *conf;
	const char *dir;
	bool was_stopped;
};

/* Polled while a client waits: an owner that left in the meantime never answers. */
static bool
must_end(void *self)
{
	struct join *j = self;

	j->was_stopped = j->conf->stop && j->conf->stop(j->conf->self);
	return j->was_stopped || !has_owner(j->dir);
}

/* A daemon that is not private has its workers from elsewhere, or none: that is said. */
static bool
judge_want(const struct private_conf *conf, bool ok, struct err *e)
{
	if (ok || e->code != ERR_UNPLACEABLE || !conf->may_wait)
		return ok;
	if (!conf->quiet)
		(void)fprintf(stderr, "%s; waiting for one\n", e->msg);
	return true;
}

/* Asks the owner for a worker.  Interrupted and not j->was_stopped: it has left. */
static bool
want_worker(struct arena *a, struct join *j, const char *url, bool *stays, struct err *e)
{
	struct client_conf conf = {.name = "starter", .url = url, .stop = must_end, .self = j};
	struct msg ask = {.type = MSG_worker_want}, m;
	struct client *c;
	bool ok = true;

	if (!client_open(&c, &conf, e))
		return false;
	*stays = false;
	if (j->conf->device) {
		ask.worker_want = (struct m_worker_want){.device = str_of(j->conf->device),
		    .class = str_of(j->conf->class),
		    .memory = j->conf->memory,
		    .at_once = j->conf->at_once};
		ok = client_call(c, a, &ask, 10000000000, &m, e);
		*stays = ok ? m.type == MSG_ok && m.ok.value : e->code == ERR_UNPLACEABLE;
		ok = judge_want(j->conf, ok, e);
	}
	client_close(c);
	return ok;
}

bool
client_private(struct arena *a, const struct private_conf *conf, const char **url, bool *stays, struct err *e)
{
	bool moved;
	char *dir = data_folder(a, conf->data, &moved);
	struct join j = {.conf = conf, .dir = dir};

	if (moved && !conf->quiet)
		(void)fprintf(
		    stderr, "your data folder is on a network file system; using %s of this host\n", dir);
	if (!os_make_dirs(dir, e))
		return err_in(e, "the data folder");
	*url = data_socket(a, dir, e);
	if (!*url)
		return false;
	for (int i = 0; i < START_TRIES; i++) {
		*e = (struct err){0};
		if (!has_owner(dir) && !start_daemon(a, conf, dir, e))
			return false;
		if (want_worker(a, &j, *url, stays, e)) {
			*e = (struct err){0};
			return true;
		}
		if (e->code != ERR_INTERRUPTED || j.was_stopped)
			return false;
	}
	return err_set(e, ERR_UNREACHABLE,
	    "the private korchd leaves as soon as it has started; see %s/korchd.log", dir);
}
