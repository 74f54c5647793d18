/* kernels/base/folder.c: see folder.h. */
#include "folder.h"

#include <stdlib.h>
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
