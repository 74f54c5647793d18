/* kernels/jail/main_korch_jail.c: korch-jail: makes a jail and starts a program in it.
 *
 *   korch-jail                      outside: waits, ends as the program ended
 *     └ first process of the jail   where it has a process namespace: collects the dead; its end is theirs
 *         └ the program
 *
 * It starts one program of one thread, so that all of this stands between fork and exec of nobody else's. */
#include "jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void
give_up(const char *what, const char *why)
{
	(void)dprintf(2, JAIL_WORDS "%s: %s\n", what, why);
	_exit(JAIL_FAILED);
}

/* ---- the command line -------------------------------------------------------------------- */
static const char usage[] =
    "Usage: korch-jail JAIL [--read PATH]... [--scratch DIR] [--dir DIR] [--memory BYTES] [--file BYTES] "
    "[--cpu SECONDS]\n"
    "           [--processes N] [--idle] [--until-hangup] -- PROGRAM [ARGUMENT]...\n"
    "       korch-jail --survey\n"
    "Starts a program in a jail: compile, measure, gpu or plan. Other programs of korch start it; what a "
    "jail may do, and\n"
    "what --survey (each mechanism, and why it does not hold) means, is in kernels/jail/README.md.\n"
    "KORCH_SANDBOX=best|strict|off: what the host has, all or nothing, limits alone.\n";

static uint64_t
number(const char *option, const char *text)
{
	int64_t v;

	if (!text || !str_to_i64(str_of(text), &v) || v < 0)
		give_up(option, "wants a number");
	return (uint64_t)v;
}

static bool
take_jail(struct jail_plan *p, const char *name)
{
	for (int j = 0; j < JAIL_COUNT; j++)
		if (strcmp(name, jail_name((enum jail)j)) == 0) {
			p->conf.jail = (enum jail)j;
			return true;
		}
	return false;
}

static void
take_option(struct jail_plan *p, const char *option, const char *value, const char **reads, uint32_t *n_reads)
{
	struct jail_conf *c = &p->conf;

	if (!value)
		give_up(option, "wants a value");
	if (strcmp(option, "--read") == 0)
		reads[(*n_reads)++] = value;
	else if (strcmp(option, "--scratch") == 0)
		c->scratch = value;
	else if (strcmp(option, "--dir") == 0)
		c->dir = value;
	else if (strcmp(option, "--memory") == 0)
		c->memory_bytes = number(option, value);
	else if (strcmp(option, "--file") == 0)
		c->file_bytes = number(option, value);
	else if (strcmp(option, "--cpu") == 0)
		c->cpu_s = number(option, value);
	else if (strcmp(option, "--processes") == 0)
		c->n_processes = (uint32_t)MIN_OF(number(option, value), (uint64_t)UINT32_MAX);
	else
		give_up(option, "is no option; see --help");
}

static void
read_arguments(struct jail_plan *p, int argc, char **argv)
{
	const char **reads = NEW_ARRAY(&p->arena, const char *, argc + 1);
	uint32_t n_reads = 0;
	int i = 2;

	p->is_survey = argc == 2 && strcmp(argv[1], "--survey") == 0;
	p->conf.jail = JAIL_MEASURE;
	if (p->is_survey)
		return;
	if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
		(void)fputs(usage, stdout);
		exit(fflush(stdout) == 0 ? 0 : 1);
	}
	if (argc < 4 || !take_jail(p, argv[1])) {
		(void)fputs(usage, stderr);
		exit(2);
	}
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--until-hangup") == 0) {
			p->conf.until_hangup = true;
			continue;
		}
		if (strcmp(argv[i], "--idle") == 0) {
			p->conf.is_idle = true;
			continue;
		}
		take_option(p, argv[i], i + 1 < argc ? argv[i + 1] : NULL, reads, &n_reads);
		i++;
	}
	if (i + 1 >= argc)
		give_up("--", "no program behind it");
	p->conf.reads = reads;
	p->conf.argv = argv + i + 1;
}

/* A compiler that a jailed compiler starts is in that jail: there is nothing to add but limits. */
static void
read_mode(struct jail_plan *p)
{
	const char *mode = getenv("KORCH_SANDBOX"), *inside = getenv("KORCH_JAIL");

	p->is_off = mode && strcmp(mode, "off") == 0 && !p->is_survey;
	p->is_strict = mode && strcmp(mode, "strict") == 0 && !p->is_survey;
	if (mode && *mode && strcmp(mode, "off") != 0 && strcmp(mode, "strict") != 0 &&
	    strcmp(mode, "best") != 0)
		give_up("KORCH_SANDBOX", "is best, strict or off");
	p->is_inside = inside && *inside;
}

/* ---- the program ------------------------------------------------------------------------- */
static void
tell_survey(const struct jail_plan *p)
{
	for (int i = 0; i < JAIL_HOLDS; i++)
		(void)printf("%s\t%s\n", jail_hold_names[i], p->held.lacks[i]);
	(void)printf("landlock\t%d\ncalls\t%u\n", p->held.landlock, p->held.n_calls);
	_exit(fflush(stdout) == 0 ? 0 : 1);
}

static void
insist(const struct jail_plan *p)
{
	for (int i = 0; i < JAIL_HOLDS; i++)
		if (p->held.lacks[i][0]) {
			(void)dprintf(2,
			    JAIL_WORDS
			    "--sandbox strict: there is no %s here (%s); allow it on this host, or use "
			    "--sandbox best\n",
			    jail_hold_names[i], p->held.lacks[i]);
			_exit(JAIL_FAILED);
		}
}

static void
enter_filter(struct jail_plan *p)
{
	struct jail_filter *f = NEW(&p->arena, struct jail_filter);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (p->conf.jail != JAIL_COMPILE || p->is_survey) { /* their runtime calls what is in no row */
		jail_lack(p, JAIL_HOLD_calls, "a build with sanitizers", 0);
		return;
	}
#endif
	jail_filter_make(p->conf.jail, (uint64_t)getpid(), f);
	if (jail_filter_enter(f))
		p->held.n_calls = f->n_calls;
	else
		jail_lack(p, JAIL_HOLD_calls, "seccomp", errno);
}

static _Noreturn void
become(struct jail_plan *p)
{
	const char *dir = p->conf.dir ? p->conf.dir : p->conf.scratch ? p->conf.scratch : NULL;
	char *const *argv = p->conf.argv;
	bool is_jail = !p->is_off && !p->is_inside;
	sigset_t none;
	char **env;

	if (dir && chdir(dir) != 0)
		give_up(dir, strerror(errno));
	if (is_jail) {
		jail_rights_drop();
		jail_landlock(p);
	}
	jail_limits_set(p);
	env = jail_environment(&p->arena, p);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (is_jail)
		enter_filter(p);
	if (p->is_survey)
		tell_survey(p);
	if (p->is_strict && is_jail)
		insist(p);
	(void)execve(argv[0], argv, env);
	give_up(argv[0], strerror(errno));
}

/* ---- those who wait ---------------------------------------------------------------------- */
static void
nothing(int number_)
{
	(void)number_;
}

static void
end_like(int status)
{
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	sigset_t none;

	if (!sig)
		_exit(WEXITSTATUS(status));
	(void)signal(sig, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)kill(getpid(), sig);
	_exit(128 + sig);
}

/* Whoever waits may be gone already: then the pipe to it has no reader. */
static void
end_with_parent(int tell)
{
	struct pollfd out = {.fd = tell};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&out, 1, 0) > 0)
		_exit(0);
}

/* The first process of a namespace: whoever ends there is its child. */
static _Noreturn void
be_first(struct jail_plan *p, int tell)
{
	pid_t program, ended;
	int status = 0;

	end_with_parent(tell);
	jail_count(p);
	jail_root(p);
	program = fork();
	if (program == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(tell);
		become(p);
	}
	if (program < 0)
		give_up("fork", strerror(errno));
	while ((ended = waitpid(-1, &status, 0)) != program)
		if (ended < 0 && errno != EINTR)
			break;
	(void)!write(tell, &status, sizeof(status));
	_exit(0);
}

/* Until it ends, or nobody listens any more. */
static int
await(pid_t child, bool until_hangup)
{
	struct pollfd in = {.fd = until_hangup ? 0 : -1};
	sigset_t during;
	int status = 0;

	(void)sigemptyset(&during);
	while (waitpid(child, &status, WNOHANG) != child) {
		if (ppoll(&in, 1, NULL, &during) > 0 && in.revents) {
			(void)kill(child, SIGKILL);
			in.fd = -1;
		}
	}
	return status;
}

static void
watch_children(void)
{
	struct sigaction a = {.sa_handler = nothing};
	sigset_t child;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &child, NULL);
	(void)sigaction(SIGCHLD, &a, NULL);
}

static _Noreturn void
run_with_first(struct jail_plan *p)
{
	int tell[2], status, of_program;
	pid_t first;

	if (pipe2(tell, O_CLOEXEC) != 0 || (first = fork()) < 0)
		give_up("a process for the jail", strerror(errno));
	if (first == 0) {
		(void)close(tell[0]);
		be_first(p, tell[1]);
	}
	(void)close(tell[1]);
	status = await(first, p->conf.until_hangup);
	if (WIFEXITED(status) && read(tell[0], &of_program, sizeof(of_program)) == sizeof(of_program))
		status = of_program;
	end_like(status);
	_exit(1);
}

static _Noreturn void
run_alone(struct jail_plan *p)
{
	pid_t me = getpid(), program = fork();

	if (program == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != me)
			_exit(0);
		if (!p->is_off) {
			jail_count(p);
			jail_root(p);
		}
		become(p);
	}
	if (program < 0)
		give_up("fork", strerror(errno));
	end_like(await(program, p->conf.until_hangup));
	_exit(1);
}

/* Nice 19, and the disk's idle class (ioprio_set(2)): inherited by all that is started. */
static void
be_idle(void)
{
	enum { WHO_PROCESS = 1, CLASS_IDLE = 3 << 13 };

	(void)setpriority(PRIO_PROCESS, 0, 19);
	(void)syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE);
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct jail_plan *p = NEW(&a, struct jail_plan);

	for (int fd = 3; fd < 1024; fd++)
		(void)close(fd);
	read_arguments(p, argc, argv);
	read_mode(p);
	if (p->conf.is_idle)
		be_idle();
	if (p->is_inside)
		become(p);
	if (!p->conf.until_hangup)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	watch_children();
	if (p->is_off)
		run_alone(p);
	jail_places(p);
	jail_spaces(p);
	if (p->held.lacks[JAIL_HOLD_pids][0] || p->conf.jail == JAIL_GPU)
		run_alone(p);
	run_with_first(p);
}
