/* kernels/run/compile.c: C text -> the bytes of a shared object, by the compiler of this host.
 * The compiler runs in a process group of its own, in a private folder, under limits of time,
 * memory and output; group and folder are gone when compile_c returns. */
#include "dev.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_ARGS = 64, MAX_WORDS_BYTES = 1 << 16 };
static const int64_t default_cpu_ns = 120 * (int64_t)1000000000, default_wall_ns = 900 * (int64_t)1000000000;
static const long long memory_limit = (long long)4 << 30;

/* Names of the files inside the private folder: fixed, so that equal text gives equal bytes. */
static const char source_name[] = "kernels.c", object_name[] = "kernels.so";

/* What every shared object of kernels is made with, whatever the generator asks for. */
static const char *const link_flags[] = {
    "-shared", "-fPIC", "-s", "-w", "-nostartfiles", "-Wl,--build-id=none", "-Wl,-z,noexecstack",
    "-o", object_name, source_name, "-lm", NULL};

static bool
in_path(const char *name, char out[OS_PATH_MAX])
{
	struct str rest = str_of(getenv("PATH"));

	if (strchr(name, '/')) {
		(void)snprintf(out, OS_PATH_MAX, "%s", name);
		return access(out, X_OK) == 0;
	}
	if (!rest.n)
		rest = STR("/usr/local/bin:/usr/bin:/bin");
	while (rest.n) {
		struct str dir = str_cut(&rest, ':');
		int n = snprintf(out, OS_PATH_MAX, "%.*s/%s", STR_ARG(dir), name);

		if (n > 0 && n < OS_PATH_MAX && access(out, X_OK) == 0)
			return true;
	}
	return false;
}

static bool
find_compiler(char out[OS_PATH_MAX], struct err *e)
{
	static const char *const known[] = {"gcc", "cc", "clang"};
	const char *named = getenv("KORCH_CC");

	if (named && *named)
		return in_path(named, out) ||
		    err_set(e, ERR_HOST, "KORCH_CC=%s: there is no such program; name a C compiler or unset it", named);
	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (in_path(known[i], out))
			return true;
	return err_set(e, ERR_HOST, "no C compiler found (gcc, cc, clang); install gcc or set KORCH_CC");
}

struct command {
	const char *dir;
	char *const *argv;
	int64_t cpu_ns, wall_ns;
	bool take_stdout; /* capture stdout instead of stderr */
};
struct said { /* what the program wrote, as far as kept */
	char *p;
	size_t n;
};

/* The environment without the user's language, so that messages are known words. */
static char **
plain_environment(struct arena *a)
{
	size_t n = 0;
	char **env;

	while (environ[n])
		n++;
	env = NEW_ARRAY(a, char *, n + 2);
	env[0] = str_dup(a, STR("LC_ALL=C"));
	for (size_t i = 0, k = 1; i < n; i++)
		if (strncmp(environ[i], "LC_", 3) != 0 && strncmp(environ[i], "LANG", 4) != 0)
			env[k++] = environ[i];
	return env;
}

static long long
cpu_seconds(const struct command *c)
{
	return (c->cpu_ns + 999999999) / 1000000000;
}

/* By way of the shell, which sets the limits before the program is there to start others, and changes the
 * folder (posix_spawn does that from glibc 2.29 on). */
static char *const *
limited(struct arena *a, const struct command *c)
{
	long long seconds = cpu_seconds(c);
	size_t n = 0;
	char **argv;

	while (c->argv[n])
		n++;
	argv = NEW_ARRAY(a, char *, n + 5);
	argv[0] = str_dup(a, STR("/bin/sh"));
	argv[1] = str_dup(a, STR("-c"));
	argv[2] = arena_printf(a,
	    "ulimit -S -t %lld && ulimit -H -t %lld && ulimit -v %lld && ulimit -c 0 && ulimit -f %lld && cd \"$0\" && "
	    "exec \"$@\"",
	    seconds, seconds + 2, memory_limit / 1024, (long long)COMPILE_MAX_BYTES / 512);
	argv[3] = str_dup(a, str_of(c->dir ? c->dir : "."));
	memcpy(&argv[4], c->argv, n * sizeof(*argv));
	return argv;
}

static bool
spawn(struct arena *a, const struct command *c, int say_fd, pid_t *pid, struct err *e)
{
	posix_spawn_file_actions_t act;
	posix_spawnattr_t attr;
	char *const *argv = limited(a, c);
	sigset_t none, all;
	int rc;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawn_file_actions_init(&act);
	(void)posix_spawnattr_init(&attr);
	rc = posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
	rc |= posix_spawn_file_actions_addopen(&act, c->take_stdout ? 2 : 1, "/dev/null", O_WRONLY, 0);
	rc |= posix_spawn_file_actions_adddup2(&act, say_fd, c->take_stdout ? 1 : 2);
	rc |= posix_spawnattr_setpgroup(&attr, 0);
	rc |= posix_spawnattr_setsigmask(&attr, &none);
	rc |= posix_spawnattr_setsigdefault(&attr, &all);
	rc |= posix_spawnattr_setflags(&attr,
	    POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (rc == 0)
		rc = posix_spawn(pid, argv[0], &act, &attr, argv, plain_environment(a));
	(void)posix_spawn_file_actions_destroy(&act);
	(void)posix_spawnattr_destroy(&attr);
	return rc == 0 || err_set(e, ERR_HOST, "cannot start %s: %s", c->argv[0], strerror(rc));
}

static int64_t
now_ns(void)
{
	const struct os *os = os_real();

	return os->mono_ns(os->self);
}

/* Reads until the program has closed its end; false when the time is up. */
static bool
listen_to(int fd, int64_t until_ns, struct said *said)
{
	char more[4096];

	for (;;) {
		struct pollfd pf = {.fd = fd, .events = POLLIN};
		int64_t left_ms = (until_ns - now_ns()) / 1000000;
		ssize_t n;

		if (left_ms <= 0)
			return false;
		if (poll(&pf, 1, (int)MIN_OF(left_ms, (int64_t)60000)) <= 0)
			continue;
		n = read(fd, more, sizeof(more));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return true;
		if (said->n + (size_t)n < MAX_WORDS_BYTES) {
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

/* Runs a program to its end under limits.  False only where it could not run or had to be
 * stopped; its own verdict is in *status. */
static bool
run(struct arena *a, const struct command *c, struct said *said, int *status, struct err *e)
{
	int64_t until_ns = now_ns() + c->wall_ns;
	struct rusage used = {0};
	int fd[2];
	pid_t pid;
	bool ended;

	said->p = arena_alloc(a, MAX_WORDS_BYTES);
	if (pipe2(fd, O_CLOEXEC) != 0)
		return err_set(e, ERR_HOST, "cannot make a pipe: %s", strerror(errno));
	if (!spawn(a, c, fd[1], &pid, e)) {
		(void)close(fd[0]);
		(void)close(fd[1]);
		return false;
	}
	(void)close(fd[1]);
	ended = listen_to(fd[0], until_ns, said) && wait_for(pid, until_ns, status, &used);
	(void)kill(-pid, SIGKILL);
	if (!ended)
		(void)waitpid(pid, status, 0);
	(void)close(fd[0]);
	if (!ended)
		return err_set(e, ERR_TIMEOUT, "%s did not end within %.1f s", c->argv[0], (double)c->wall_ns * 1e-9);
	return !is_spent(c, *status, &used) ||
	    err_set(e, ERR_TIMEOUT, "%s did not end within %d s of CPU time", c->argv[0], (int)cpu_seconds(c));
}

/* The first line that says "error", else the first line. */
static struct str
first_complaint(const struct said *said)
{
	struct str rest = {said->p, said->n}, first = {"", 0};

	while (rest.n) {
		struct str line = str_cut(&rest, '\n');

		if (!first.n)
			first = line;
		if (line.n && memmem(line.p, line.n, "error", 5))
			return line;
	}
	return first;
}

static bool
verdict(const char *cc, int status, const struct said *said, struct err *e)
{
	struct str words = first_complaint(said);

	words.n = MIN_OF(words.n, (size_t)360);
	if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (status != -1 && WIFSIGNALED(status))
		return err_set(e, ERR_COMPILE, "%s was ended by signal %d: %.*s", cc, WTERMSIG(status), STR_ARG(words));
	return err_set(e, ERR_COMPILE, "%s refused the generated text: %.*s", cc, STR_ARG(words));
}

static bool
write_source(const char *dir, struct str text, struct err *e)
{
	char path[OS_PATH_MAX + 16];
	FILE *f;
	bool ok;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, source_name);
	f = fopen(path, "we");
	if (!f)
		return err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(errno));
	ok = fwrite(text.p, 1, text.n, f) == text.n;
	ok = fclose(f) == 0 && ok;
	return ok ||
	    err_set(e, errno == ENOSPC ? ERR_FULL : ERR_IO, "%s: cannot write: %s", path, strerror(errno));
}

static bool
make_args(const char *cc, const char *const *flags, const char *argv[MAX_ARGS], struct err *e)
{
	size_t n = 0, n_link = COUNT_OF(link_flags);

	argv[n++] = cc;
	for (; flags && *flags; flags++) {
		if (n + n_link >= MAX_ARGS)
			return err_set(e, ERR_LIMIT, "more than %d compiler flags", MAX_ARGS);
		argv[n++] = *flags;
	}
	memcpy(argv + n, link_flags, sizeof(link_flags));
	return true;
}

static bool
compile_in(struct arena *a, const char *dir, struct str text, const struct compile_opts *o,
    struct bytes *out, struct err *e)
{
	char cc[OS_PATH_MAX], path[OS_PATH_MAX + 16];
	const char *argv[MAX_ARGS];
	struct command c = {.dir = dir, .argv = (char *const *)argv};
	struct said said = {0};
	int status = -1;

	c.cpu_ns = o->cpu_ns > 0 ? o->cpu_ns : default_cpu_ns;
	c.wall_ns = o->wall_ns > 0 ? o->wall_ns : default_wall_ns;
	if (!find_compiler(cc, e) || !make_args(cc, o->flags, argv, e) || !write_source(dir, text, e))
		return false;
	if (!run(a, &c, &said, &status, e) || !verdict(cc, status, &said, e))
		return false;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, object_name);
	return os_read_file(os_real(), a, path, o->max_bytes ? o->max_bytes : COMPILE_MAX_BYTES, out, e) ||
	    err_in(e, "the compiled kernels");
}

bool
compile_c(struct arena *a, struct str text, const struct compile_opts *o, struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct bytes made;
	char dir[OS_PATH_MAX];
	bool ok;

	if (!os_temp_dir("cc", dir, e))
		return false;
	ok = compile_in(&tmp, dir, text, o, &made, e);
	os_remove_tree(dir);
	if (ok)
		*out = (struct bytes){arena_dup(a, made.p, made.n), made.n};
	arena_fini(&tmp);
	return ok;
}

bool
compiler_version(struct arena *a, struct str *out, struct err *e)
{
	struct arena tmp = {0};
	char cc[OS_PATH_MAX];
	char *argv[] = {cc, str_dup(&tmp, STR("--version")), NULL};
	struct command c = {.argv = argv, .cpu_ns = default_cpu_ns, .wall_ns = default_wall_ns, .take_stdout = true};
	struct said said = {0};
	int status = -1;
	bool ok = find_compiler(cc, e) && run(&tmp, &c, &said, &status, e) && verdict(cc, status, &said, e);

	if (ok) {
		struct str rest = {said.p, said.n};

		*out = str_of(str_dup(a, str_trim(str_cut(&rest, '\n'))));
	}
	arena_fini(&tmp);
	return ok;
}
