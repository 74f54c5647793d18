/* worker/several.c: a worker with several devices is as many workers: this one starts them, passes
 * signals on and waits. */
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static bool
start(int argc, char **argv, struct str device, const char *name, struct log *log, pid_t *pid)
{
	struct arena tmp = {0};
	char **args = NEW_ARRAY(&tmp, char *, argc + 6), self[] = "/proc/self/exe";
	int n = argc;

	memcpy(args, argv, (size_t)argc * sizeof(*args));
	/* what stands last counts */
	args[n++] = arena_printf(&tmp, "--device=%.*s", STR_ARG(device));
	args[n++] = arena_printf(&tmp, "--name=%s-%.*s", name, STR_ARG(device));
	args[n++] = arena_printf(&tmp, "--with-parent");
	args[n] = NULL;
	n = posix_spawn(pid, self, NULL, NULL, args, environ);
	arena_fini(&tmp);
	if (n != 0)
		log_event(log, start_failed, KV("device", device), KVZ("why", strerror(n)));
	return n == 0;
}

int
several_run(int argc, char **argv, const struct str *devices, uint32_t n, const struct worker_conf *conf)
{
	const char *name = conf->name;
	struct log *log = conf->log;
	pid_t *pid = heap_alloc(n * sizeof(*pid)), ended;
	uint32_t n_alive = 0;
	int status = 0, one;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGCHLD);
	if (conf->ready_fd >= 0) /* how many will say that they are ready */
		(void)dprintf(conf->ready_fd, "%u devices\n", n);
	for (uint32_t i = 0; i < n; i++)
		n_alive += start(argc, argv, devices[i], name, log, &pid[i]);
	status = n_alive < n ? err_exit_status(ERR_HOST) : 0;
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	while (n_alive) {
		while ((ended = waitpid(-1, &one, WNOHANG)) > 0)
			for (uint32_t i = 0; i < n; i++)
				if (pid[i] == ended) {
					pid[i] = 0;
					n_alive--;
					if (!status)
						status = WIFEXITED(one) ? WEXITSTATUS(one) : 1;
				}
		if (n_alive && sigwait(&set, &one) == 0 && one != SIGCHLD) {
			struct err e = {0};

			if (one == SIGHUP && !log_reopen(log, &e))
				log_event(log, reload_failed, KVZ("why", e.msg));
			for (uint32_t i = 0; i < n; i++)
				if (pid[i])
					(void)kill(pid[i], one);
		}
	}
	free(pid);
	return status;
}
