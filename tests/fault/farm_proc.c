/* tests/fault/farm_proc.c: starts, kills and reaps the programs under test. */
#include "farm_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

void
farm_proc_init(struct farm_proc *f, const char *device)
{
	memset(f, 0, sizeof(*f));
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/korch-kill-XXXXXX");
	if (!mkdtemp(f->dir))
		bug("no folder: %s", strerror(errno));
	(void)snprintf(f->url, sizeof(f->url), "ipc://%s/sock", f->dir);
	f->device = device;
}

static void
leave(const struct farm_proc *f, pid_t *pid, const char *log)
{
	int status = farm_proc_kill(pid, SIGTERM);
	char cmd[160];

	if (status == 0)
		return;
	(void)snprintf(cmd, sizeof(cmd), "tail -n 60 '%s/%s' >&2", f->dir, log);
	if (system(cmd) == 0)
		bug("%s: left with wait status %d", log, status);
}

void
farm_proc_fini(struct farm_proc *f)
{
	char cmd[128];

	/* both leave by themselves when asked: a sanitizer's complaint is a status other than 0 */
	farm_proc_await(&f->worker_ready);
	leave(f, &f->worker, "worker.log");
	leave(f, &f->daemon, "daemon.log");
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", f->dir);
	if (system(cmd) != 0)
		bug("cannot remove %s", f->dir);
}

bool
farm_proc_ended(pid_t *pid, int *status)
{
	if (*pid == 0 || waitpid(*pid, status, WNOHANG) != *pid)
		return false;
	*pid = 0;
	return true;
}

int
farm_proc_kill(pid_t *pid, int signal)
{
	int status = 0;

	if (*pid == 0)
		return 0;
	(void)kill(*pid, signal);
	while (waitpid(*pid, &status, 0) < 0 && errno == EINTR)
		;
	*pid = 0;
	return status;
}

/* ready: the child's fd 3; -1: none. */
static pid_t
start(char *const *argv, long kill_at, int ready, const char *log, uint32_t files)
{
	struct rlimit limit = {files, files};
	pid_t pid = fork();

	if (pid < 0)
		bug("fork: %s", strerror(errno));
	if (pid == 0) {
		char text[32];
		int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		if (files)
			(void)setrlimit(RLIMIT_NOFILE, &limit);
		(void)snprintf(text, sizeof(text), "%ld", kill_at);
		(void)(kill_at ? setenv("KORCH_KILL_AT", text, 1) : unsetenv("KORCH_KILL_AT"));
		(void)dup2(out, 1);
		(void)dup2(out, 2);
		if (ready >= 0)
			(void)dup2(ready, 3);
		(void)execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static const char *
bin(char *to, size_t n, const char *program)
{
	(void)snprintf(to, n, "%s/bin/%s", KORCH_BINARY_DIR, program);
	return to;
}

/* A line, or the end of a process that was killed before it came. */
static void
await_line(int fd)
{
	char line[8];

	while (read(fd, line, sizeof(line)) < 0 && errno == EINTR)
		;
	(void)close(fd);
}

struct str
farm_proc_log(const struct farm_proc *f, struct arena *a, const char *name)
{
	char path[128];
	struct bytes b;
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	if (!os_read_file(os_real(), a, path, 1 << 26, &b, &e))
		bug("%s", e.msg);
	return str_of(str_dup(a, (struct str){(const char *)b.p, b.n}));
}

void
farm_proc_tokens(const struct farm_proc *f, const char *text)
{
	struct err e = {0};

	if (!os_write_file(os_real(), f->tokens, (struct bytes){(const uint8_t *)text, strlen(text)}, &e) ||
	    chmod(f->tokens, 0600) != 0)
		bug("%s: %s", f->tokens, e.msg);
}

void
farm_proc_net(struct farm_proc *f)
{
	(void)snprintf(f->net, sizeof(f->net), "tcp://127.0.0.1:0");
	(void)snprintf(f->tokens, sizeof(f->tokens), "%s/tokens", f->dir);
	farm_proc_tokens(f, FARM_PROC_TOKENS);
}

static void
make_keys(const char *dir, const char *const names[][2], size_t n)
{
	const char *host = "127.0.0.1";
	struct err e = {0};

	if (!keys_make_ca(dir, 30, &e))
		bug("%s", e.msg);
	for (size_t i = 0; i < n; i++) {
		struct keys_order o = {.dir = dir,
		    .role = names[i][0],
		    .name = names[i][1],
		    .host = &host,
		    .n_host = strcmp(names[i][0], "daemon") == 0,
		    .days = 30};

		if (!keys_make(&o, &e))
			bug("%s", e.msg);
	}
}

void
farm_proc_tls(struct farm_proc *f)
{
	static const char *const names[][2] = {
	    {"daemon", "daemon"}, {"worker", "worker"}, {"client", "client"}, {"worker", "other"}};
	char dir[128];

	(void)snprintf(f->net, sizeof(f->net), "tls+tcp://127.0.0.1:0");
	(void)snprintf(f->keys, sizeof(f->keys), "%s/keys", f->dir);
	make_keys(f->keys, names, COUNT_OF(names));
	(void)snprintf(dir, sizeof(dir), "%s/not", f->dir);
	make_keys(dir, names + 1, 2);
}

struct keys *
farm_proc_keys(const struct farm_proc *f, const char *name, const char *role)
{
	struct arena a = {0};
	struct keys_conf c = {.dir = arena_printf(&a, "%s/%s", f->keys, name)};
	struct keys *k = NULL;
	struct err e = {0};

	if (!keys_load(&k, &c, role, &e))
		bug("%s", e.msg);
	arena_fini(&a);
	return k;
}

/* The log tells it: "listen url=tcp://127.0.0.1:0 port=40123". */
static void
learn_port(struct farm_proc *f)
{
	struct arena a = {0};
	const char *log = farm_proc_log(f, &a, "daemon.log").p, *at = NULL;
	char *colon = strrchr(f->net, ':');

	for (const char *p = strstr(log, f->net); p; p = strstr(p + 1, f->net))
		at = p;
	if (at && (at = strstr(at, "port=")) != NULL)
		(void)snprintf(colon, 8, ":%ld", strtol(at + 5, NULL, 10));
	arena_fini(&a);
}

void
farm_proc_daemon(struct farm_proc *f, long kill_at)
{
	char program[256], data[96], log[96], keys[128];
	int fd[2];
	char *argv[32] = {(char *)(uintptr_t)bin(program, sizeof(program), "korchd"),
	    (char *)(uintptr_t) "--data", data, (char *)(uintptr_t) "--listen", f->url,
	    (char *)(uintptr_t) "--ready-fd", (char *)(uintptr_t) "3"};
	int n = 7;

	(void)snprintf(data, sizeof(data), "%s/data", f->dir);
	(void)snprintf(log, sizeof(log), "%s/daemon.log", f->dir);
	if (f->tokens[0]) {
		argv[n++] = (char *)(uintptr_t) "--token-file";
		argv[n++] = f->tokens;
	}
	if (f->planner) {
		argv[n++] = (char *)(uintptr_t) "--planner";
		argv[n++] = (char *)(uintptr_t)f->planner;
	}
	if (f->keys[0]) {
		(void)snprintf(keys, sizeof(keys), "%s/daemon", f->keys);
		argv[n++] = (char *)(uintptr_t) "--keys";
		argv[n++] = keys;
	}
	if (f->net[0]) {
		if (f->tokens[0])
			argv[n++] = (char *)(uintptr_t) "--plain";
		argv[n++] = (char *)(uintptr_t) "--listen";
		argv[n++] = f->net;
	}
	for (size_t i = 0; i < COUNT_OF(f->more) && f->more[i]; i++)
		argv[n++] = (char *)(uintptr_t)f->more[i];
	if (pipe2(fd, O_CLOEXEC) != 0)
		bug("pipe: %s", strerror(errno));
	f->daemon = start(argv, kill_at, fd[1], log, f->files);
	(void)close(fd[1]);
	await_line(fd[0]);
	if (f->net[0])
		learn_port(f);
}

pid_t
farm_proc_another(const struct farm_proc *f, const char *device, long kill_at, int *ready)
{
	char program[256], log[96];
	char *argv[] = {(char *)(uintptr_t)bin(program, sizeof(program), "korch-worker"),
	    (char *)(uintptr_t) "--daemon", (char *)(uintptr_t)f->url, (char *)(uintptr_t) "--device",
	    (char *)(uintptr_t)device, (char *)(uintptr_t) "--ready-fd", (char *)(uintptr_t) "3", NULL, NULL,
	    NULL, NULL};
	int fd[2];
	pid_t pid;

	(void)snprintf(log, sizeof(log), "%s/worker.log", f->dir);
	if (f->tokens[0]) {
		argv[7] = (char *)(uintptr_t) "--plain";
		argv[8] = (char *)(uintptr_t) "--token-file";
		argv[9] = (char *)(uintptr_t)f->tokens;
	}
	if (pipe2(fd, O_CLOEXEC) != 0)
		bug("pipe: %s", strerror(errno));
	pid = start(argv, kill_at, fd[1], log, 0);
	(void)close(fd[1]);
	*ready = fd[0];
	return pid;
}

void
farm_proc_worker(struct farm_proc *f, long kill_at)
{
	if (f->worker_ready)
		(void)close(f->worker_ready); /* of one that has died */
	f->worker = farm_proc_another(f, f->device, kill_at, &f->worker_ready);
}

void
farm_proc_await(int *ready)
{
	if (*ready)
		await_line(*ready);
	*ready = 0;
}

void
farm_proc_rude(const struct farm_proc *f)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		bug("socket: %s", strerror(errno));
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", f->url + strlen("ipc://"));
	(void)connect(fd, (struct sockaddr *)&to, sizeof(to)); /* refused: nobody is there just now */
	(void)close(fd);
}

pid_t
farm_proc_start(const struct farm_proc *f, const char *program, ...)
{
	char path[256], log[96];
	char *argv[24] = {(char *)(uintptr_t)bin(path, sizeof(path), program)};
	int n = 1;
	va_list ap;

	va_start(ap, program);
	while (n < 23 && (argv[n] = va_arg(ap, char *)) != NULL)
		n++;
	va_end(ap);
	(void)snprintf(log, sizeof(log), "%s/%s.log", f->dir, program);
	return start(argv, 0, -1, log, 0);
}

struct client *
farm_proc_client(const struct farm_proc *f, bool (*poll_fn)(void *self), void *self)
{
	struct client_conf conf = {.url = f->url,
	    .name = "test",
	    .patience_ns = (int64_t)60 * 1000000000,
	    .stop = poll_fn,
	    .self = self};
	struct client *c;
	struct err e = {0};

	if (!client_open(&c, &conf, &e))
		bug("%s", e.msg);
	return c;
}
