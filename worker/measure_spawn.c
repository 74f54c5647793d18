/* worker/measure_spawn.c: starts a measuring child in its jail, with a socket to it. */
#include "measure_int.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

/* As much as a life of an hour on all its threads; its parent ends what is silent long before. */
enum { CPU_S = 3600, OTHER_THREADS = 32 };

enum jail
measure_jail(const char *device)
{
	return strncmp(device, "nvrtc", 5) == 0 ? JAIL_COMPILE
	    : strncmp(device, "cuda:", 5) == 0  ? JAIL_GPU
						: JAIL_MEASURE;
}

static bool
spawn(char *const *argv, int its_fd, pid_t *pid, struct err *e)
{
	posix_spawn_file_actions_t act;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawn_file_actions_init(&act);
	(void)posix_spawnattr_init(&attr);
	rc = posix_spawn_file_actions_adddup2(&act, its_fd, 0);
	rc |= posix_spawn_file_actions_adddup2(&act, its_fd, 1);
	rc |= posix_spawnattr_setsigmask(&attr, &none);
	rc |= posix_spawnattr_setsigdefault(&attr, &all);
	rc |= posix_spawnattr_setpgroup(&attr, 0);
	rc |= posix_spawnattr_setflags(
	    &attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	if (rc == 0)
		rc = posix_spawn(pid, argv[0], &act, &attr, argv, environ);
	(void)posix_spawn_file_actions_destroy(&act);
	(void)posix_spawnattr_destroy(&attr);
	return rc == 0 || err_set(e, ERR_HOST, "cannot start %s: %s", argv[0], strerror(rc));
}

static bool
make_pair(int pair[2], struct err *e)
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 ||
	    err_set(e, ERR_HOST, "cannot talk to a measuring child: %s", strerror(errno));
}

bool
measure_spawn(const struct measure_start *s, pid_t *pid, int *fd, struct err *e)
{
	char *program[] = {(char *)(uintptr_t)s->program, NULL}, *const * argv;
	struct jail_conf conf = {.jail = measure_jail(s->device),
	    .reads = s->reads,
	    .scratch = s->scratch,
	    .cpu_s = CPU_S * (uint64_t)s->n_threads,
	    .n_processes = s->n_threads + OTHER_THREADS,
	    .until_hangup = true,
	    .argv = program};
	struct arena tmp = {0};
	int pair[2];
	bool ok;

	if (conf.jail == JAIL_COMPILE) /* the table's number: the fake's NVRTC starts compilers */
		conf.n_processes = 0;
	ok = jail_command(&tmp, &conf, &argv, e) && make_pair(pair, e);
	if (ok) {
		ok = spawn(argv, pair[1], pid, e);
		(void)close(pair[1]);
		if (ok)
			*fd = pair[0];
		else
			(void)close(pair[0]);
	}
	arena_fini(&tmp);
	return ok;
}
