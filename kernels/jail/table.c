/* kernels/jail/table.c: the rows of jail.def, and which of them decides a call. */
#include "jail_int.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define C JAIL_C
#define M JAIL_M
#define G JAIL_G
#define P JAIL_P
#define R PATH_READ
#define W PATH_WRITE
#define X PATH_START
#define D PATH_DEVICE

#define ANY                                                                                                  \
	{                                                                                                    \
		0                                                                                            \
	}
/* The kernel looks at 32 bits of these arguments, so the filter does. */
#define ARG_IS(N, V)                                                                                         \
	{                                                                                                    \
		.arg = (N), .mask = UINT32_MAX, .value = (uint32_t)(V)                                       \
	}
#define ARG_HAS(N, MASK, V)                                                                                  \
	{                                                                                                    \
		.arg = (N), .mask = (uint32_t)(MASK), .value = (uint32_t)(V)                                 \
	}
#define ARG_NULL(N)                                                                                          \
	{                                                                                                    \
		.arg = (N), .is_wide = true, .mask = UINT64_MAX                                              \
	}
#define ARG_SELF(N)                                                                                          \
	{                                                                                                    \
		.arg = (N), .is_self = true, .mask = UINT32_MAX                                              \
	}

enum {
	WRITING = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC,
	SPACES = (int)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
	    CLONE_NEWPID | CLONE_NEWNET | CLONE_PTRACE),
	THREAD = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD,
	SET_ID = 06000,
};

const struct jail_call jail_calls[] = {
#define CALL(NAME, JAILS, WHEN, WHY) {#NAME, SYS_##NAME, (JAILS), VERDICT_ALLOW, false, WHEN, WHY},
#define RARE(NAME, JAILS, WHEN, WHY) {#NAME, SYS_##NAME, (JAILS), VERDICT_ALLOW, true, WHEN, WHY},
#define KILL(NAME, JAILS, WHY) {#NAME, SYS_##NAME, (JAILS), VERDICT_KILL, false, ANY, WHY},
#define LACK(NAME, JAILS, WHY) {#NAME, SYS_##NAME, (JAILS), VERDICT_LACK, false, ANY, WHY},
#define NONE(NAME, JAILS, WHY) {#NAME, SYS_##NAME, (JAILS), VERDICT_NONE, false, ANY, WHY},
#define REFUSE(NAME, JAILS, WHEN, WHY) {#NAME, SYS_##NAME, (JAILS), VERDICT_REFUSE, false, WHEN, WHY},
#include "jail.def"
};
const uint32_t jail_n_calls = COUNT_OF(jail_calls);

const struct jail_path jail_paths[] = {
#define PATH(FILES, JAILS, RIGHTS, WHY) {FILES, (JAILS), RIGHTS, false, WHY},
#define RARE_PATH(FILES, JAILS, RIGHTS, WHY) {FILES, (JAILS), RIGHTS, true, WHY},
#define OWN(FILES, JAILS, KIND, WHY) {FILES, (JAILS), PATH_##KIND, false, WHY},
#include "jail.def"
};
const uint32_t jail_n_paths = COUNT_OF(jail_paths);

const struct jail_var jail_vars[] = {
#define VAR(NAME, JAILS, KIND, WHY) {NAME, (JAILS), VAR_##KIND, WHY},
#include "jail.def"
};
const uint32_t jail_n_vars = COUNT_OF(jail_vars);

const struct jail_limit jail_limits[] = {
#define LIMIT(RESOURCE, JAILS, VALUE, WHY) {RLIMIT_##RESOURCE, (JAILS), VALUE, WHY},
#include "jail.def"
};
const uint32_t jail_n_limits = COUNT_OF(jail_limits);

const char *const jail_hold_names[JAIL_HOLDS] = {
#define HOLD(ID, NAME, WHY) NAME,
#include "jail.def"
};

const char *
jail_name(enum jail j)
{
	static const char *const names[JAIL_COUNT] = {"compile", "measure", "gpu", "plan"};

	if (j < 0 || j >= JAIL_COUNT)
		bug("no jail %d", (int)j);
	return names[j];
}

static bool
holds(const struct jail_when *w, const uint64_t args[6], uint64_t self)
{
	uint64_t want = w->is_self ? self : w->value;

	return (args[w->arg] & w->mask) == (want & w->mask);
}

/* REFUSE rows come first, as in the filter. */
const struct jail_call *
jail_decide(enum jail j, uint32_t number, const uint64_t args[6], uint64_t self)
{
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < jail_n_calls; i++) {
			const struct jail_call *c = &jail_calls[i];

			if (c->number == number && c->jails & (1u << j) &&
			    (c->verdict == VERDICT_REFUSE) == (round == 0) && holds(&c->when, args, self))
				return c;
		}
	return NULL;
}
