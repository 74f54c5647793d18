/* kernels/base/folder.h: folders of this user. */
#ifndef KORCH_FOLDER_H
#define KORCH_FOLDER_H

#include "base.h"

/* XDG folders: $XDG_CONFIG_HOME/korch or ~/.config/korch, and so on. */
enum xdg { XDG_CONFIG, XDG_DATA, XDG_CACHE, XDG_RUNTIME };
char *xdg_dir(struct arena *a, enum xdg which);
/* `given` or, when empty, the XDG folder; the latter gives way to a folder of this host when it
 * lies on a network file system (*is_moved). */
char *data_folder(struct arena *a, const char *given, bool *is_moved);
/* Where this user's processes of this host meet, made if it is not there: korch in XDG_RUNTIME_DIR or
 * /run/user/UID, else /tmp/korch-UID.  Not below TMPDIR: a batch system gives each job its own. */
bool run_folder(char path[OS_PATH_MAX], struct err *e) MUST_CHECK;
/* It is this user's, nobody else gets in, and it is no link.  ERR_HOST with what to do. */
bool folder_is_own(const char *path, struct err *e) MUST_CHECK;

#endif
