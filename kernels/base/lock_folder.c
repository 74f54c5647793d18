/* kernels/base/lock_folder.c: the folder of locks and its files: opened only where nobody else can hold them.
 * No link is followed, nothing is taken for ours that is not. */
#include "hostlock.h"

#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_TRIES = 16 };

/* This user's own: nobody else gets in.  A given one: its members cannot take away each other's files,
 * because a lock that is removed and made again is two locks. */
static bool
check_folder(const char *path, bool is_given, const struct stat *st, struct err *e)
{
	unsigned mode = (unsigned)st->st_mode & 07777;

	if (st->st_uid != geteuid() && (!is_given || st->st_uid != 0))
		return err_set(e, ERR_HOST,
		    "folder of locks %s belongs to user %u: it is not to be trusted; have it removed, or "
		    "name another by --lock-dir",
		    path, (unsigned)st->st_uid);
	if (!is_given && (mode & 077))
		return err_set(e, ERR_HOST,
		    "folder of locks %s has mode %04o: chmod 0700 it, it is this user's alone", path, mode);
	if (mode & 002)
		return err_set(e, ERR_HOST,
		    "folder of locks %s has mode %04o: anybody could hold a lock; make it for a group: "
		    "install -d -m 3770 -o root -g GROUP %s",
		    path, mode, path);
	if ((mode & 020) && !(mode & S_ISVTX))
		return err_set(e, ERR_HOST,
		    "folder of locks %s has mode %04o: others of its group could remove a lock that is held; "
		    "chmod 3770 it",
		    path, mode);
	return true;
}

bool
lock_folder_open(const char *dir, char path[OS_PATH_MAX], int *fd, bool *is_shared, struct err *e)
{
	bool is_given = dir && dir[0];
	struct stat st;

	*fd = -1;
	if (!is_given && !run_folder(path, e))
		return err_in(e, "folder of locks; name another by --lock-dir");
	if (is_given && snprintf(path, OS_PATH_MAX, "%s", dir) >= OS_PATH_MAX)
		return err_set(e, ERR_HOST, "--lock-dir is longer than %d bytes", (int)OS_PATH_MAX);
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		return err_set(e, ERR_HOST, "folder of locks %s: %s%s", path,
		    errno == ENOTDIR || errno == ELOOP ? "it is a link, or no folder" : strerror(errno),
		    errno == ENOENT ? "; for a group: install -d -m 3770 -o root -g GROUP, then the folder"
				    : "");
	if (fstat(*fd, &st) == 0 && check_folder(path, is_given, &st, e)) {
		*is_shared = is_given && (st.st_mode & 020);
		return true;
	}
	(void)close(*fd);
	*fd = -1;
	return e->code != ERR_NONE ? false
				   : err_set(e, ERR_HOST, "folder of locks %s: %s", path, strerror(errno));
}

/* One that exists is opened without O_CREAT: the kernel guards sticky folders against that. */
static int
open_or_make(int dir, const char *name, bool is_shared)
{
	for (int i = 0; i < OPEN_TRIES; i++) {
		int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

		if (fd >= 0 || errno != ENOENT)
			return fd;
		fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd >= 0 && is_shared)
			(void)fchmod(fd, 0660);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static bool
check_file(int dir, int fd, bool is_shared, const char *path, const char *name, struct err *e)
{
	struct stat st, of;

	if (fstat(fd, &st) != 0 || fstat(dir, &of) != 0)
		return err_set(e, ERR_HOST, "lock %s/%s: %s", path, name, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
		return err_set(e, ERR_HOST, "lock %s/%s is no plain file of one name: remove it", path, name);
	if (st.st_uid != geteuid() && !(is_shared && (st.st_uid == 0 || st.st_gid == of.st_gid)))
		return err_set(e, ERR_HOST, "lock %s/%s belongs to user %u: have it removed", path, name,
		    (unsigned)st.st_uid);
	if (st.st_mode & (is_shared ? 007 : 077))
		return err_set(e, ERR_HOST, "lock %s/%s has mode %04o, and others could hold it: chmod %s it",
		    path, name, (unsigned)st.st_mode & 07777, is_shared ? "0660" : "0600");
	return true;
}

bool
lock_file_open(const char *dir, const char *name, int *fd, struct err *e)
{
	char path[OS_PATH_MAX];
	bool is_shared, ok;
	int folder;

	*fd = -1;
	if (!lock_folder_open(dir, path, &folder, &is_shared, e))
		return false;
	*fd = open_or_make(folder, name, is_shared);
	ok = *fd >= 0
	    ? check_file(folder, *fd, is_shared, path, name, e)
	    : err_set(e, ERR_HOST, "lock %s/%s cannot be opened: %s; nothing is measured without it", path,
		  name, errno == ELOOP ? "it is a link" : strerror(errno));
	(void)close(folder);
	if (!ok && *fd >= 0) {
		(void)close(*fd);
		*fd = -1;
	}
	return ok;
}
