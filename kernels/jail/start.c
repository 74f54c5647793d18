/* kernels/jail/start.c: the side of who starts a jailed program: the command line, the settings, what holds
 * here. */
#include "jail_int.h"

#include "../base/json.h"
#include "../base/log.h"
#include "../base/opt.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- the command line -------------------------------------------------------------------- */
struct line {
	struct arena *a;
	char **v;
	uint32_t n, cap;
};

static void
add(struct line *l, const char *word)
{
	struct arena *a = l->a;

	GROW(a, l->v, l->n, l->cap);
	l->v[l->n++] = word ? str_dup(a, str_of(word)) : NULL;
}

static void
add_number(struct line *l, const char *option, uint64_t v)
{
	if (!v)
		return;
	add(l, option);
	add(l, arena_printf(l->a, "%llu", (unsigned long long)v));
}

/* Libraries that this program has found may lie in folders of this host's own; what it starts needs the same.
 */
static int
add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct line *l = arg;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	char *folder;

	(void)size;
	if (!slash || slash == info->dlpi_name || info->dlpi_name[0] != '/' ||
	    strncmp(info->dlpi_name, "/usr/lib", 8) == 0 || strncmp(info->dlpi_name, "/lib", 4) == 0 ||
	    strncmp(info->dlpi_name, "/proc/", 6) == 0)
		return 0;
	folder = str_dup(l->a, (struct str){info->dlpi_name, (size_t)(slash - info->dlpi_name)});
	for (uint32_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], folder) == 0)
			return 0;
	add(l, "--read");
	add(l, folder);
	return 0;
}

static void
add_options(struct line *l, const struct jail_conf *c)
{
	for (const char *const *r = c->reads; r && *r; r++) {
		add(l, "--read");
		add(l, *r);
	}
	(void)dl_iterate_phdr(add_library, l);
	if (c->scratch) {
		add(l, "--scratch");
		add(l, c->scratch);
	}
	if (c->dir) {
		add(l, "--dir");
		add(l, c->dir);
	}
	add_number(l, "--memory", c->memory_bytes);
	add_number(l, "--file", c->file_bytes);
	add_number(l, "--cpu", c->cpu_s);
	add_number(l, "--processes", c->n_processes);
	if (c->is_idle)
		add(l, "--idle");
	if (c->until_hangup)
		add(l, "--until-hangup");
}

static bool
find_program(struct arena *a, const char **out, struct err *e)
{
	*out = helper_path(a, "korch-jail");
	return *out ||
	    err_set(
		e, ERR_HOST, "korch-jail is not beside this program; install it there or set KORCH_LIBEXEC");
}

bool
jail_command(struct arena *a, const struct jail_conf *conf, char *const **argv, struct err *e)
{
	struct line l = {.a = a};
	const char *program;

	if (!find_program(a, &program, e))
		return false;
	add(&l, program);
	add(&l, jail_name(conf->jail));
	add_options(&l, conf);
	add(&l, "--");
	for (char *const *v = conf->argv; *v; v++)
		add(&l, *v);
	add(&l, NULL);
	*argv = l.v;
	return true;
}

static int
set_files(posix_spawn_file_actions_t *act, const int fd[3])
{
	int rc = 0;

	for (int i = 0; i < 3 && rc == 0; i++)
		if (fd[i] == JAIL_FD_NULL)
			rc = posix_spawn_file_actions_addopen(
			    act, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
		else if (fd[i] != JAIL_FD_SAME)
			rc = posix_spawn_file_actions_adddup2(act, fd[i], i);
	return rc;
}

bool
jail_start(char *const *argv, const int fd[3], pid_t *pid, struct err *e)
{
	posix_spawn_file_actions_t act;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawn_file_actions_init(&act);
	(void)posix_spawnattr_init(&attr);
	rc = set_files(&act, fd);
	rc |= posix_spawnattr_setpgroup(&attr, 0);
	rc |= posix_spawnattr_setsigmask(&attr, &none);
	rc |= posix_spawnattr_setsigdefault(&attr, &all);
	rc |= posix_spawnattr_setflags(
	    &attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (rc == 0)
		rc = posix_spawn(pid, argv[0], &act, &attr, argv, environ);
	(void)posix_spawn_file_actions_destroy(&act);
	(void)posix_spawnattr_destroy(&attr);
	return rc == 0 || err_set(e, ERR_HOST, "cannot start %s: %s", argv[0], strerror(rc));
}

/* ---- settings ---------------------------------------------------------------------------- */
bool
jail_settings(const char *mode, const char *reads, struct err *e)
{
	struct str rest = str_of(reads);

	if (strcmp(mode, "best") != 0 && strcmp(mode, "strict") != 0 && strcmp(mode, "off") != 0)
		return err_set(e, ERR_USAGE, "--sandbox '%s': it is best, strict or off", mode);
	while (rest.n) {
		struct str one = str_cut(&rest, ':');

		if (one.n && one.p[0] != '/')
			return err_set(e, ERR_USAGE,
			    "--sandbox-read '%.*s': name whole paths, as in /opt/cuda", STR_ARG(one));
	}
	return (setenv("KORCH_SANDBOX", mode, 1) == 0 && setenv("KORCH_SANDBOX_READ", reads, 1) == 0) ||
	    err_set(e, ERR_HOST, "the environment is full");
}

/* ---- what holds -------------------------------------------------------------------------- */
/* All that a program says on stdout, up to the buffer's end; its exit status. */
static bool
listen_to(char *const *argv, char *out, size_t cap, int *status, struct err *e)
{
	size_t n = 0;
	ssize_t got;
	int fd[2];
	pid_t pid;
	bool ok;

	if (pipe2(fd, O_CLOEXEC) != 0)
		return err_set(e, ERR_HOST, "cannot make a pipe: %s", strerror(errno));
	ok = jail_start(argv, (int[]){JAIL_FD_SAME, fd[1], JAIL_FD_SAME}, &pid, e);
	(void)close(fd[1]);
	while (ok && n + 1 < cap &&
	    ((got = read(fd[0], out + n, cap - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	out[n] = '\0';
	(void)close(fd[0]);
	while (ok && waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return ok;
}

static void
take_line(struct jail_survey *s, struct str line)
{
	struct str value = line, name = str_cut(&value, '\t');
	int64_t v = 0;

	for (int i = 0; i < JAIL_HOLDS; i++)
		if (str_is(name, jail_hold_names[i]))
			(void)snprintf(s->lacks[i], sizeof(s->lacks[i]), "%.*s", STR_ARG(value));
	if (str_is(name, "landlock") && str_to_i64(value, &v))
		s->landlock = (int)v;
	if (str_is(name, "calls") && str_to_i64(value, &v))
		s->n_calls = (uint32_t)v;
}

bool
jail_look(struct jail_survey *out, struct err *e)
{
	struct arena tmp = {0};
	const char *program, *mode = getenv("KORCH_SANDBOX");
	char said[4096];
	int status = -1;
	bool ok;

	*out = (struct jail_survey){.is_off = mode && strcmp(mode, "off") == 0};
	ok = find_program(&tmp, &program, e);
	if (ok) {
		char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--survey", NULL};
		struct str rest;

		ok = listen_to(argv, said, sizeof(said), &status, e) &&
		    ((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
			err_set(e, ERR_HOST, "%s --survey ended with status %d", program, status));
		for (rest = str_of(said); ok && rest.n;)
			take_line(out, str_cut(&rest, '\n'));
	}
	arena_fini(&tmp);
	return ok;
}

/* For people: "user namespace, ... Landlock 7, ...". */
struct str
jail_holds(struct arena *a, const struct jail_survey *s)
{
	struct strbuf sb;
	uint32_t n = 0;

	sb_init(&sb, a);
	if (s->is_off)
		return STR("limits of a process");
	for (int i = 0; i < JAIL_HOLDS; i++) {
		if (s->lacks[i][0])
			continue;
		sb_addf(&sb, "%s%s", n++ ? ", " : "", jail_hold_names[i]);
		if (i == JAIL_HOLD_landlock)
			sb_addf(&sb, " %d", s->landlock);
		if (i == JAIL_HOLD_calls)
			sb_addf(&sb, " (%u calls)", s->n_calls);
	}
	sb_addf(&sb, "%slimits of a process", n ? ", " : "");
	return sb_str(&sb);
}

/* What is missing with its reason; "" where nothing is. */
struct str
jail_lacks(struct arena *a, const struct jail_survey *s)
{
	struct strbuf sb;
	uint32_t n = 0;

	sb_init(&sb, a);
	if (s->is_off)
		return STR("all others: --sandbox off");
	for (int i = 0; i < JAIL_HOLDS; i++)
		if (s->lacks[i][0])
			sb_addf(&sb, "%s%s (%s)", n++ ? ", " : "", jail_hold_names[i], s->lacks[i]);
	return sb_str(&sb);
}

bool
jail_begin(struct log *l, const char *mode, const char *reads, struct err *e)
{
	struct arena tmp = {0};
	struct jail_survey s;
	struct str missing;
	bool ok = jail_settings(mode, reads, e) && jail_look(&s, e);

	if (ok) {
		missing = jail_lacks(&tmp, &s);
		log_event(
		    l, sandbox, KVZ("mode", mode), KV("holds", jail_holds(&tmp, &s)), KV("lacks", missing));
		ok = strcmp(mode, "strict") != 0 || !missing.n ||
		    err_set(e, ERR_HOST,
			"--sandbox strict: not on this host: %.*s; allow it here, or use --sandbox best",
			(int)MIN_OF(missing.n, (size_t)400), missing.p);
	}
	arena_fini(&tmp);
	return ok;
}

int
jail_show(const struct opts *o)
{
	struct arena tmp = {0};
	struct jail_survey s;
	struct str missing;
	struct err e = {0};

	if (!jail_settings(opt_text(o, OPT_sandbox), opt_text(o, OPT_sandbox_read), &e) || !jail_look(&s, &e))
		return opts_fail(o, &e);
	missing = jail_lacks(&tmp, &s);
	opts_say_host(o, "sandbox-holds", jail_holds(&tmp, &s));
	opts_say_host(o, "sandbox-lacks", missing.n ? missing : STR("nothing"));
	arena_fini(&tmp);
	return 0;
}
