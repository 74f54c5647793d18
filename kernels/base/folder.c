/* kernels/base/folder.c: see folder.h. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

char *
xdg_dir(struct arena *a, enum xdg which)
{
	static const char *const var[] = {
	    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"};
	static const char *const below[] = {".config", ".local/share", ".cache", ".cache"};
	const char *dir = getenv(var[which]), *home = getenv("HOME");

	/* The standard says that a relative path there is to be ignored. */
	if (dir && dir[0] == '/')
		return arena_printf(a, "%s/korch", dir);
	return arena_printf(a, "%s/%s/korch", home && home[0] ? home : "/tmp", below[which]);
}

static bool
is_network_fs(const char *dir)
{
	struct statfs st;

	return statfs(dir, &st) == 0 && os_network_fs((long)st.f_type);
}

char *
data_folder(struct arena *a, const char *given, bool *is_moved)
{
	char *dir;
	struct err e = {0};

	*is_moved = false;
	if (given && given[0])
		return arena_printf(a, "%s", given);
	dir = xdg_dir(a, XDG_DATA);
	if (!os_make_dirs(dir, &e) || !is_network_fs(dir))
		return dir;
	*is_moved = true;
	return arena_printf(a, "/var/tmp/korch-%u", (unsigned)getuid());
}

/* ---- where processes meet ------------------------------------------------------------- */
static bool
is_own_dir(const char *path)
{
	struct stat st;

	return path && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_uid == geteuid();
}

bool
run_folder(char path[OS_PATH_MAX], struct err *e)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char run[64];
	int n;

	(void)snprintf(run, sizeof(run), "/run/user/%u", (unsigned)geteuid());
	if (is_own_dir(runtime) || is_own_dir(run))
		n = snprintf(path, OS_PATH_MAX, "%s/korch", is_own_dir(runtime) ? runtime : run);
	else
		n = snprintf(path, OS_PATH_MAX, "/tmp/korch-%u", (unsigned)geteuid());
	if (n < 0 || n >= OS_PATH_MAX)
		return err_set(e, ERR_HOST, "XDG_RUNTIME_DIR is longer than %d bytes", (int)OS_PATH_MAX);
	return mkdir(path, 0700) == 0 || errno == EEXIST ||
	    err_set(e, ERR_HOST, "%s: cannot be made: %s", path, strerror(errno));
}

bool
folder_is_own(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), why = errno;
	struct stat st = {0};

	if (fd < 0)
		return err_set(e, ERR_HOST, "%s: %s", path,
		    why == ENOTDIR || why == ELOOP ? "it is a link, or no folder; have it removed"
						   : strerror(why));
	if (fstat(fd, &st) != 0)
		st.st_mode = 0777;
	(void)close(fd);
	if (st.st_uid != geteuid())
		return err_set(e, ERR_HOST, "%s belongs to user %u and is not to be trusted; have it removed",
		    path, (unsigned)st.st_uid);
	return !(st.st_mode & 077) ||
	    err_set(e, ERR_HOST, "%s has mode %04o; chmod 0700 it, it is this user's alone", path,
		(unsigned)st.st_mode & 07777);
}
