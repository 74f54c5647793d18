/* kernels/jail/root.c: a file system of the jail's places alone: a small one in memory, with the host's
 * folders bound where they stand, read-only but for the scratch folder.  The whole is the mount namespace's
 * root; where that cannot be (in a chroot), the process's, which has no rights to leave it. */
#include "jail_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
enum { RDONLY = 1, NOSUID = 2, NODEV = 4, NOEXEC = 8, RECURSIVE = 0x8000 }; /* of mount_setattr */

struct yard {
	char base[OS_PATH_MAX]; /* where the root is put together */
	int *fd;                /* of each place, opened before the base covers anything */
};

/* mkdir -p below the base; for a file's place, the file. */
static bool
make_target(const struct yard *y, const char *path, bool is_file, char out[OS_PATH_MAX])
{
	size_t n = strlen(y->base);
	int fd;

	if (snprintf(out, OS_PATH_MAX, "%s%s", y->base, path) >= OS_PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	for (char *s = out + n + 1; *s; s++) {
		if (*s != '/')
			continue;
		*s = '\0';
		if (mkdir(out, 0755) != 0 && errno != EEXIST && errno != EROFS)
			return false;
		*s = '/';
	}
	if (access(out, F_OK) == 0)
		return true;
	if (!is_file)
		return mkdir(out, 0755) == 0;
	fd = open(out, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	return fd >= 0 && close(fd) == 0;
}

/* All mounts of the tree; on kernels that cannot do that (before 5.12) the top one. */
static bool
restrict_mount(const char *path, uint32_t rights)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} attr = {.set = NOSUID};
	struct statvfs now;
	unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOSUID;

	attr.set |= (rights & (PATH_WRITE | PATH_DEVICE)) ? 0 : RDONLY;
	attr.set |= (rights & PATH_DEVICE) ? 0 : NODEV;
	if (syscall(SYS_mount_setattr, AT_FDCWD, path, RECURSIVE, &attr, sizeof(attr)) == 0)
		return true;
	if (errno != ENOSYS || statvfs(path, &now) != 0)
		return false;
	flags |= (now.f_flag & ST_NOEXEC ? MS_NOEXEC : 0) | (now.f_flag & ST_NOATIME ? MS_NOATIME : 0) |
	    (now.f_flag & ST_RELATIME ? MS_RELATIME : 0) | (now.f_flag & ST_NODEV ? MS_NODEV : 0);
	flags |= attr.set & RDONLY || now.f_flag & ST_RDONLY ? MS_RDONLY : 0;
	flags |= attr.set & NODEV ? MS_NODEV : 0;
	return mount(NULL, path, NULL, flags, NULL) == 0;
}

static bool
bind_place(const struct yard *y, const struct jail_place *at, int fd)
{
	char from[32], to[OS_PATH_MAX];
	struct stat st;

	(void)snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	return fstat(fd, &st) == 0 && make_target(y, at->path, !S_ISDIR(st.st_mode), to) &&
	    mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0 && restrict_mount(to, at->rights);
}

/* A new one shows this jail's processes alone.  Where it may not be mounted (a container's own is partly
 * covered), the host's serves: Landlock and the filter guard what it tells. */
static bool
make_own(const struct jail_plan *p, const struct yard *y, const struct jail_place *at)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	char to[OS_PATH_MAX];

	if (!make_target(y, at->path, false, to))
		return false;
	if (at->rights & PATH_EMPTY)
		return mount("jail", to, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,mode=0700") == 0;
	/* the program's own: this process becomes it, as there is no process namespace for such */
	if (at->rights & PATH_THREADS)
		return mount(at->path, to, NULL, MS_BIND, NULL) == 0 && restrict_mount(to, PATH_WRITE);
	/* of processes alone, where the kernel knows that (5.8) and no driver tells of itself there */
	return (p->conf.jail != JAIL_GPU && mount("proc", to, "proc", flags, "subset=pid") == 0) ||
	    mount("proc", to, "proc", flags, NULL) == 0 ||
	    (mount("/proc", to, NULL, MS_BIND | MS_REC, NULL) == 0 && restrict_mount(to, PATH_READ));
}

/* Is it there already, with all it may do, as part of a folder that stands before it? */
static bool
is_covered(const struct jail_plan *p, uint32_t i)
{
	for (uint32_t k = 0; k < p->n_places; k++) {
		const struct jail_place *a = &p->place[k], *b = &p->place[i];
		size_t n = strlen(a->path);

		if (k != i && strncmp(a->path, b->path, n) == 0 && b->path[n] == '/' &&
		    (b->rights & ~a->rights & (uint32_t)~PATH_START) == 0)
			return true;
	}
	return false;
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const struct jail_place *)a)->path, ((const struct jail_place *)b)->path);
}

/* A link within a bound folder is there already. */
static void
make_link(const struct yard *y, const struct jail_link *l)
{
	char folder[OS_PATH_MAX], to[OS_PATH_MAX], *slash;

	(void)snprintf(folder, sizeof(folder), "%s", l->path);
	slash = strrchr(folder, '/');
	*slash = '\0';
	if (slash != folder && !make_target(y, folder, false, to))
		return;
	if (snprintf(to, sizeof(to), "%s%s", y->base, l->path) < (int)sizeof(to))
		(void)symlink(l->to, to);
}

static const char *
fill(const struct jail_plan *p, const struct yard *y)
{
	for (uint32_t i = 0; i < p->n_places; i++) {
		const struct jail_place *at = &p->place[i];

		if (at->rights & PATH_OWN ? !make_own(p, y, at)
					  : y->fd[i] >= 0 && !bind_place(y, at, y->fd[i]))
			return at->path;
	}
	for (uint32_t i = 0; i < p->n_links; i++)
		make_link(y, &p->link[i]);
	return NULL;
}

static bool
change_root(const struct yard *y)
{
	if (chdir(y->base) != 0)
		return false;
	if (syscall(SYS_pivot_root, ".", ".") == 0)
		return umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
	return chroot(".") == 0 && chdir("/") == 0;
}

static bool
find_base(char out[OS_PATH_MAX])
{
	static const char *const there[] = {"/tmp", "/mnt", "/run", "/dev"};

	for (size_t i = 0; i < COUNT_OF(there); i++)
		if (access(there[i], F_OK) == 0) {
			(void)snprintf(out, OS_PATH_MAX, "%s", there[i]);
			return true;
		}
	return false;
}

static const char *
build(struct jail_plan *p, struct yard *y)
{
	const char *at;
	int error;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return "private mounts";
	for (uint32_t i = 0; i < p->n_places; i++)
		y->fd[i] = is_covered(p, i) || p->place[i].rights & PATH_OWN
		    ? -1
		    : open(p->place[i].path, O_PATH | O_CLOEXEC);
	if (!find_base(y->base) ||
	    mount("jail", y->base, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0755") != 0)
		return "a file system in memory";
	at = fill(p, y);
	if (!at && !change_root(y))
		at = "changing the root";
	if (at) {
		error = errno;
		(void)umount2(y->base, MNT_DETACH);
		errno = error;
		return at;
	}
	return mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) == 0
	    ? NULL
	    : "a root that cannot be written";
}

void
jail_root(struct jail_plan *p)
{
	struct yard *y;
	const char *failed;

	if (p->held.lacks[JAIL_HOLD_files][0])
		return;
	qsort(p->place, p->n_places, sizeof(*p->place), by_path);
	y = NEW(&p->arena, struct yard);
	y->fd = NEW_ARRAY(&p->arena, int, MAX_OF(p->n_places, 1u));
	failed = build(p, y);
	if (failed)
		jail_lack(p, JAIL_HOLD_files, failed, errno);
	for (uint32_t i = 0; i < p->n_places; i++)
		if (y->fd[i] > 0)
			(void)close(y->fd[i]);
}
