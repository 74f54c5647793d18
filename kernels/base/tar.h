/* kernels/base/tar.h: a folder as one piece of bytes and back, in the ustar form that tar reads. */
#ifndef KORCH_TAR_H
#define KORCH_TAR_H

#include "base.h"

/* Regular files below `dir`, by name; equal content gives equal bytes.  ERR_LIMIT over max_bytes. */
bool tar_folder(
    struct arena *a, const char *dir, size_t max_bytes, struct bytes *out, struct err *e) MUST_CHECK;
/* From outside: makes the files below `dir` (made when absent).  A name that leads out of it, is twice there,
 * or is anything but a file is refused before anything is written: ERR_FORMAT. */
bool tar_unpack(struct bytes tar, const char *dir, struct err *e) MUST_CHECK;

#endif
