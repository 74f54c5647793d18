/* client/run_folder.c: see run_folder.h.  The Python package keeps its folders likewise (client/python). */
#include "run_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char what[] = "run", prefix[] = "korch-run-";
enum { NAME_LENGTH = sizeof(prefix) - 1 + 6, TRIES = 100 };

static int
open_folder(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Files alone are in it.  By its descriptor: whatever has its name by now is not touched but when it is
 * empty. */
static void
empty(int folder)
{
	int copy = fcntl(folder, F_DUPFD_CLOEXEC, 0);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *entry;

	if (!d) {
		if (copy >= 0)
			(void)close(copy);
		return;
	}
	rewinddir(d);
	while ((entry = readdir(d)))
		(void)unlinkat(folder, entry->d_name, 0);
	(void)closedir(d);
}

/* Is it ours, and has nobody who lives locked it? */
static bool
is_orphan(int folder)
{
	struct stat st;

	return fstat(folder, &st) == 0 && st.st_uid == geteuid() && flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static void
drop_orphan(int tmp, const char *name)
{
	int folder = open_folder(tmp, name);

	if (folder < 0)
		return;
	if (is_orphan(folder)) {
		empty(folder);
		(void)unlinkat(tmp, name, AT_REMOVEDIR);
	}
	(void)close(folder);
}

static void
drop_orphans(void)
{
	const char *tmp = getenv("TMPDIR");
	DIR *d = opendir(tmp && *tmp ? tmp : "/tmp");
	const struct dirent *entry;

	if (!d)
		return;
	while ((entry = readdir(d)))
		if (strlen(entry->d_name) == NAME_LENGTH && str_starts(str_of(entry->d_name), prefix))
			drop_orphan(dirfd(d), entry->d_name);
	(void)closedir(d);
}

/* False: between its making and its locking another process has taken it for an orphan.  Where files cannot
 * be locked nobody takes any. */
static bool
lock(struct run_folder *f)
{
	struct stat ours, there;

	f->fd = open_folder(AT_FDCWD, f->path);
	if (f->fd < 0)
		return false;
	(void)flock(f->fd, LOCK_EX);
	if (fstat(f->fd, &ours) == 0 && lstat(f->path, &there) == 0 && ours.st_dev == there.st_dev &&
	    ours.st_ino == there.st_ino)
		return true;
	(void)close(f->fd);
	f->fd = -1;
	return false;
}

bool
run_folder_make(struct run_folder *f, struct err *e)
{
	drop_orphans();
	for (int i = 0; i < TRIES; i++) {
		if (!os_temp_dir(what, f->path, e))
			return false;
		if (lock(f))
			return true;
	}
	return err_set(e, ERR_IO, "%s: cannot be kept from being removed", f->path);
}

void
run_folder_drop(struct run_folder *f)
{
	empty(f->fd);
	(void)rmdir(f->path);
	(void)close(f->fd);
	f->fd = -1;
}
