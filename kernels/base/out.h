/* kernels/base/out.h: where a program's result goes, by the name that a person gave it.
 *
 *   a regular file, or nothing yet   made beside, renamed: the old file or the new one, never a half
 *   a link                           so onto what it points to; the link stays
 *   "-", or what stdout is           made in TMPDIR, copied to stdout
 *   a terminal, pipe or /dev/null    made in TMPDIR, opened and copied there
 *   a folder, socket, disk           refused: ERR_USAGE */
#ifndef KORCH_OUT_H
#define KORCH_OUT_H

#include "base.h"

enum out_kind { OUT_RENAME, OUT_COPY, OUT_STDOUT };

struct out {
	const char *path; /* as it was given, for messages */
	enum out_kind kind;
	int mode;                 /* of the file that is replaced; -1: there is none */
	char target[OS_PATH_MAX]; /* what `path` is when its links are followed */
	char made[OS_PATH_MAX];   /* the result while it is made; "": there is none */
	int fd;                   /* of `made`, to write and read */
};

/* Could a result go there?  Changes nothing: for the time before the work. */
bool out_check(const char *path, struct err *e) MUST_CHECK;
/* Would it go where words for stdout go too? */
bool out_is_stdout(const char *path);

/* The result is then written to o->fd, or by the name o->made.  `path` must outlive `o`. */
bool out_begin(struct out *o, const char *path, struct err *e) MUST_CHECK;
/* All of it; false: see errno. */
bool out_write(int fd, struct bytes data) MUST_CHECK;
/* All is written: puts it in its place, or leaves nothing behind. */
bool out_end(struct out *o, struct err *e) MUST_CHECK;
/* Gives up: nothing is left behind.  Does nothing after out_end. */
void out_drop(struct out *o);

/* Has all that was printed to stdout arrived?  ERR_FULL or ERR_IO.  For the end of a program: nothing can be
 * printed afterwards. */
bool out_close_stdout(struct err *e) MUST_CHECK;

#endif
