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

#endif
