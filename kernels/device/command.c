/* kernels/device/command.c: see command.h. */
#include "command.h"

#include "../jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const uint64_t memory_limit = (uint64_t)4 << 30;

static uint64_t
cpu_seconds(const struct command *c)
{
	return (uint64_t)(c->cpu_ns + 999999999) / 1000000000;
}

/* By way of korch-jail, which sets the limits before the program is there to start others. */
static bool
jailed(struct arena *a, const struct command *c, char *const **argv, struct err *e)
{
	const struct jail_conf conf = {.jail = JAIL_COMPILE,
	    .argv = c->argv,
	    .reads = c->reads,
	    .scratch = c->dir,
	    .memory_bytes = memory_limit,
	    .file_bytes = (uint64_t)c->file_bytes,
	    .cpu_s = cpu_seconds(c)};

	return jail_command(a, &conf, argv, e);
}

static bool
spawn(struct arena *a, const struct command *c, int say_fd, pid_t *pid, struct err *e)
{
	const int fd[3] = {
	    JAIL_FD_NULL, c->take_stdout ? say_fd : JAIL_FD_NULL, c->take_stdout ? JAIL_FD_NULL : say_fd};
	char *const *argv;

	return jailed(a, c, &argv, e) && jail_start(argv, fd, pid, e);
}

static int64_t
now_ns(void)
{
	const struct os *os = os_real();

	return os->mono_ns(os->self);
}

static bool
is_cancelled(const struct command *c)
{
	return c->cancel && *c->cancel;
}

/* Reads until the program has closed its end; false when the time is up, or nobody wants it any more. */
static bool
listen_to(const struct command *c, int fd, int64_t until_ns, struct command_said *said)
{
	const int64_t patience_ms = c->cancel ? 100 : 60000;
	char more[4096];

	for (;;) {
		struct pollfd pf = {.fd = fd, .events = POLLIN};
		int64_t left_ms = (until_ns - now_ns()) / 1000000;
		ssize_t n;

		if (left_ms <= 0 || is_cancelled(c))
			return false;
		if (poll(&pf, 1, (int)MIN_OF(left_ms, patience_ms)) <= 0)
			continue;
		n = read(fd, more, sizeof(more));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return true;
		if (said->n + (size_t)n < COMMAND_WORDS_BYTES) {
			memcpy(said->p + said->n, more, (size_t)n);
			said->n += (size_t)n;
		}
	}
}

/* Waits for the end of a program that has closed its output; false when the time is up. */
static bool
wait_for(pid_t pid, int64_t until_ns, int *status, struct rusage *used)
{
	for (;;) {
		pid_t got = wait4(pid, status, WNOHANG, used);

		if (got == pid)
			return true;
		if (got < 0 && errno != EINTR) {
			*status = -1;
			return true;
		}
		if (now_ns() >= until_ns)
			return false;
		(void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
}

/* Did the program, or one that it waited for, end by the limit of CPU time? */
static bool
is_spent(const struct command *c, int status, const struct rusage *used)
{
	double s = (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
	    (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) * 1e-6;

	return status != 0 && s > (double)cpu_seconds(c) - 0.1;
}

/* korch-jail's own words, where there is no jail: no verdict of the program's. */
static bool
had_no_jail(int status, const struct command_said *said, struct err *e)
{
	struct str words = {said->p, said->n};

	if (!WIFEXITED(status) || WEXITSTATUS(status) != JAIL_FAILED || !str_starts(words, JAIL_WORDS))
		return false;
	words = str_trim(words);
	words.n = MIN_OF(words.n, (size_t)400);
	return !err_set(e, ERR_HOST, "%.*s", STR_ARG(words));
}

bool
command_run(struct arena *a, const struct command *c, struct command_said *said, int *status, struct err *e)
{
	int64_t until_ns = now_ns() + c->wall_ns;
	struct rusage used = {0};
	int fd[2];
	pid_t pid;
	bool ended;

	said->p = arena_alloc(a, COMMAND_WORDS_BYTES);
	if (pipe2(fd, O_CLOEXEC) != 0)
		return err_set(e, ERR_HOST, "cannot make a pipe: %s", strerror(errno));
	if (!spawn(a, c, fd[1], &pid, e)) {
		(void)close(fd[0]);
		(void)close(fd[1]);
		return false;
	}
	(void)close(fd[1]);
	ended = listen_to(c, fd[0], until_ns, said) && wait_for(pid, until_ns, status, &used);
	(void)kill(-pid, SIGKILL);
	if (!ended)
		(void)waitpid(pid, status, 0);
	(void)close(fd[0]);
	if (!ended && is_cancelled(c))
		return err_set(e, ERR_CANCELLED, "%s was stopped: nobody waits for it any more", c->argv[0]);
	if (!ended)
		return err_set(
		    e, ERR_TIMEOUT, "%s did not end within %.1f s", c->argv[0], (double)c->wall_ns * 1e-9);
	if (had_no_jail(*status, said, e))
		return false;
	return !is_spent(c, *status, &used) ||
	    err_set(
		e, ERR_TIMEOUT, "%s did not end within %d s of CPU time", c->argv[0], (int)cpu_seconds(c));
}
