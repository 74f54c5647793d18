/* kernels/jail/limit.c: what a jailed program may use up, what it knows of its environment, and the rights
 * that it has not: those of root. */
#include "jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

/* ---- processes ---------------------------------------------------------------------------- */
static bool
kernel_is(unsigned major, unsigned minor)
{
	struct utsname u;
	unsigned a = 0, b = 0;

	return uname(&u) == 0 && sscanf(u.release, "%u.%u", &a, &b) == 2 &&
	    (a > major || (a == major && b >= minor));
}

static uint64_t
value_of(const struct jail_plan *p, int resource)
{
	const struct jail_conf *c = &p->conf;
	uint64_t asked = resource == RLIMIT_CPU ? c->cpu_s
	    : resource == RLIMIT_FSIZE          ? c->file_bytes
	    : resource == RLIMIT_NPROC          ? c->n_processes
	    : resource == RLIMIT_AS             ? c->memory_bytes
						: 0;

	for (uint32_t i = 0; i < jail_n_limits && !asked; i++)
		if (jail_limits[i].resource == resource && jail_limits[i].jails & 1u << p->conf.jail)
			return jail_limits[i].value;
	return asked ? asked : RLIM_INFINITY;
}

/* Of a process namespace of our own, which has a limit of its own since 6.14, for root as well.  It is one of
 * numbers, and those below 300 are given out once. */
static bool
limit_namespace(const struct jail_plan *p)
{
	uint64_t n = 300 + MIN_OF(value_of(p, RLIMIT_NPROC), (uint64_t)30000);
	char text[32];
	bool ok;
	int fd;

	if (p->held.lacks[JAIL_HOLD_pids][0] || p->conf.jail == JAIL_GPU || !kernel_is(6, 14))
		return false;
	fd = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	ok = fd >= 0 && write(fd, text, strlen(text)) > 0;
	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* A user's processes are counted by user namespace since 5.14; before, a limit would count what else the user
 * runs, and root's are never counted. */
static bool
counts_for_user(const struct jail_plan *p)
{
	return !p->held.lacks[JAIL_HOLD_user][0] && kernel_is(5, 14);
}

void
jail_count(struct jail_plan *p)
{
	if (!limit_namespace(p) && (!counts_for_user(p) || geteuid() == 0))
		jail_lack(p, JAIL_HOLD_count, geteuid() == 0 ? "root's processes" : "this user's processes",
		    ENOTSUP);
}

/* ---- limits of a process ------------------------------------------------------------------- */
void
jail_limits_set(struct jail_plan *p)
{
	for (uint32_t i = 0; i < jail_n_limits; i++) {
		const struct jail_limit *l = &jail_limits[i];
		uint64_t v = value_of(p, l->resource);
		struct rlimit r = {v, v}, now;

		if (!(l->jails & 1u << p->conf.jail) || (l->resource == RLIMIT_NPROC && !counts_for_user(p)))
			continue;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
		if (l->resource == RLIMIT_AS) /* shadow memory needs all of the address space */
			continue;
#endif
		/* the signal of the soft limit tells what was spent before the hard one kills */
		if (l->resource == RLIMIT_CPU)
			r.rlim_max = v + 2;
		if (getrlimit((unsigned)l->resource, &now) == 0 && now.rlim_max != RLIM_INFINITY)
			r = (struct rlimit){
			    MIN_OF(r.rlim_cur, now.rlim_max), MIN_OF(r.rlim_max, now.rlim_max)};
		(void)setrlimit((unsigned)l->resource, &r);
	}
}

/* ---- rights of root ------------------------------------------------------------------------ */
/* Root of a namespace, or of the host: from here on a user like another, whatever it starts. */
void
jail_rights_drop(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		(void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	(void)syscall(SYS_capset, &head, none);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* ---- environment --------------------------------------------------------------------------- */
static bool
is_let_in(enum jail j, const char *variable)
{
	size_t n = strcspn(variable, "=");

	for (uint32_t i = 0; i < jail_n_vars; i++) {
		const char *name = jail_vars[i].name;
		size_t n_name = strlen(name);
		bool fits = name[n_name - 1] == '*'
		    ? n >= n_name - 1 && strncmp(variable, name, n_name - 1) == 0
		    : n == n_name && strncmp(variable, name, n) == 0;

		if (fits && jail_vars[i].jails & 1u << j)
			return true;
	}
	return false;
}

static bool
is_set_here(const char *variable)
{
	static const char *const ours[] = {"KORCH_JAIL=", "LC_", "LANG", "HOME=", "TMPDIR="};

	for (size_t i = 0; i < COUNT_OF(ours); i++)
		if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
			return true;
	return false;
}

char **
jail_environment(struct arena *a, const struct jail_plan *p)
{
	const char *home = p->conf.scratch ? p->conf.scratch : "/";
	size_t n = 0, at = 0;
	char **env;

	while (environ[n])
		n++;
	env = NEW_ARRAY(a, char *, n + 5);
	if (!p->is_off)
		env[at++] = arena_printf(a, "KORCH_JAIL=%s", jail_name(p->conf.jail));
	env[at++] = arena_printf(a, "LC_ALL=C"); /* messages are known words */
	env[at++] = arena_printf(a, "HOME=%s", home);
	env[at++] = arena_printf(a, "TMPDIR=%s", home);
	for (size_t i = 0; i < n; i++)
		if (!is_set_here(environ[i]) &&
		    (p->is_off || p->is_inside || is_let_in(p->conf.jail, environ[i])))
			env[at++] = environ[i];
	return env;
}
