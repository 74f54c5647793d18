/* kernels/jail/space.c: namespaces of its own.  With a user namespace anybody may have the others; root may
 * have them without (in a chroot there is no other way).  Where neither works, none holds. */
#include "jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A GPU's driver tells of processes by their numbers on the host. */
static const struct {
	enum jail_hold hold;
	int flag;
	uint32_t not_for;
} spaces[] = {{JAIL_HOLD_files, CLONE_NEWNS, 0}, {JAIL_HOLD_pids, CLONE_NEWPID, JAIL_G},
    {JAIL_HOLD_net, CLONE_NEWNET, 0}, {JAIL_HOLD_ipc, CLONE_NEWIPC, 0}, {JAIL_HOLD_uts, CLONE_NEWUTS, 0}};

void
jail_lack(struct jail_plan *p, enum jail_hold which, const char *step, int error)
{
	(void)snprintf(p->held.lacks[which], sizeof(p->held.lacks[which]), "%s: %s", step,
	    error ? strerror(error) : "not here");
}

static bool
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* This user and group are themselves inside, and nobody else is anybody. */
static bool
map_user(uid_t uid, gid_t gid)
{
	char line[64];

	(void)put("/proc/self/setgroups", "deny");
	(void)snprintf(line, sizeof(line), "%u %u 1\n", (unsigned)uid, (unsigned)uid);
	if (!put("/proc/self/uid_map", line))
		return false;
	(void)snprintf(line, sizeof(line), "%u %u 1\n", (unsigned)gid, (unsigned)gid);
	return put("/proc/self/gid_map", line);
}

static void
lack_words(struct jail_plan *p, enum jail_hold which, const char *why)
{
	(void)snprintf(p->held.lacks[which], sizeof(p->held.lacks[which]), "%s", why);
}

/* Why this user may have no user namespace, in words that tell where to look. */
static void
lack_user(struct jail_plan *p, int error)
{
	if (error == ENOSPC)
		lack_words(p, JAIL_HOLD_user, "switched off here: user.max_user_namespaces");
	else if (error == EPERM)
		lack_words(p, JAIL_HOLD_user,
		    "forbidden here, by a container's filter or kernel.unprivileged_userns_clone");
	else
		jail_lack(p, JAIL_HOLD_user, "unshare", error);
}

void
jail_spaces(struct jail_plan *p)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int flags = 0;

	for (size_t i = 0; i < COUNT_OF(spaces); i++)
		if (!(spaces[i].not_for & 1u << p->conf.jail))
			flags |= spaces[i].flag;
	if (unshare(flags | CLONE_NEWUSER) == 0) {
		if (!map_user(uid, gid))
			jail_lack(p, JAIL_HOLD_user, "mapping the user", errno);
		return;
	}
	lack_user(p, errno);
	for (size_t i = 0; i < COUNT_OF(spaces); i++)
		if (flags & spaces[i].flag && unshare(spaces[i].flag) != 0) {
			if (errno == EPERM)
				lack_words(p, spaces[i].hold, "needs a user namespace");
			else
				jail_lack(p, spaces[i].hold, "unshare", errno);
		}
}
