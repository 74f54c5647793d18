/* worker/measure_spawn.c: starts a measuring child in its jail, with a socket to it. */
#include "measure_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
		ok = jail_start(argv, (int[]){pair[1], pair[1], JAIL_FD_SAME}, pid, e);
		(void)close(pair[1]);
		if (ok)
			*fd = pair[0];
		else
			(void)close(pair[0]);
	}
	arena_fini(&tmp);
	return ok;
}
