/* kernels/base/out.c: see out.h. */
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MOST_LINKS = 40, TRIES = 100 };

static bool
fail(const struct out *o, int code, struct err *e)
{
	return err_set(e, os_err_code(code), "%s: cannot write: %s", o->path, strerror(code));
}

/* ---- what the name stands for ------------------------------------------------------------ */
/* The folder of a path, "." where it names none. */
static void
folder_of(const char *path, char out[OS_PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	if (slash)
		(void)snprintf(out, OS_PATH_MAX, "%.*s", (int)MAX_OF(slash - path, 1), path);
	else
		(void)snprintf(out, OS_PATH_MAX, ".");
}

/* A link such as /proc/self/fd/1 leads to an open file, whatever the text in it says. */
static bool
is_of_proc(const char *link)
{
	int fd = open(link, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;
	bool yes = fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;

	if (fd >= 0)
		(void)close(fd);
	return yes;
}

/* Someone else's link in a folder where all may write: the kernel does not follow it (protected_symlinks),
 * and it sees none when we do. */
static bool
is_trap(const char *path, const struct stat *link)
{
	char folder[OS_PATH_MAX];
	struct stat st;

	folder_of(path, folder);
	return stat(folder, &st) == 0 && (st.st_mode & S_ISVTX) && (st.st_mode & S_IWOTH) &&
	    link->st_uid != geteuid() && link->st_uid != st.st_uid;
}

/* o->target becomes what the link in it points to. */
static bool
follow(struct out *o, struct err *e)
{
	char to[OS_PATH_MAX], folder[OS_PATH_MAX];
	ssize_t n = readlink(o->target, to, sizeof(to) - 1);
	int len;

	if (n < 0)
		return fail(o, errno, e);
	to[n] = '\0';
	folder_of(o->target, folder);
	len = to[0] == '/' ? snprintf(o->target, sizeof(o->target), "%s", to)
			   : snprintf(o->target, sizeof(o->target), "%s/%s", folder, to);
	return (len >= 0 && (size_t)len < sizeof(o->target)) || fail(o, ENAMETOOLONG, e);
}

/* Of a file that stdout is too, so that both do not write over each other.  A device such as /dev/null can
 * take both. */
static bool
stdout_is(const struct stat *st)
{
	struct stat at;

	return fstat(STDOUT_FILENO, &at) == 0 && at.st_dev == st->st_dev && at.st_ino == st->st_ino &&
	    (!S_ISCHR(st->st_mode) || isatty(STDOUT_FILENO));
}

static bool
judge(struct out *o, const struct stat *st, bool is_renamed, struct err *e)
{
	const char *what = S_ISDIR(st->st_mode) ? "a folder"
	    : S_ISBLK(st->st_mode)              ? "a disk"
	    : S_ISSOCK(st->st_mode)             ? "a socket"
						: NULL;

	if (what)
		return err_set(
		    e, ERR_USAGE, "%s: is %s, which no result can go to; name a file", o->path, what);
	o->mode = (int)(st->st_mode & 0777);
	o->kind = stdout_is(st) ? OUT_STDOUT : S_ISREG(st->st_mode) && is_renamed ? OUT_RENAME : OUT_COPY;
	return true;
}

static bool
find_target(struct out *o, const char *path, struct err *e)
{
	struct stat st;
	size_t n = strlen(path);

	*o = (struct out){.path = path, .kind = OUT_STDOUT, .mode = -1, .fd = -1};
	if (strcmp(path, "-") == 0)
		return true;
	if (n == 0 || n >= sizeof(o->target))
		return fail(o, n ? ENAMETOOLONG : ENOENT, e);
	memcpy(o->target, path, n + 1);
	if (path[n - 1] == '/')
		return judge(o, &(struct stat){.st_mode = S_IFDIR}, false, e);
	for (int i = 0; i < MOST_LINKS; i++) {
		if (lstat(o->target, &st) != 0) {
			o->kind = OUT_RENAME;
			return errno == ENOENT || fail(o, errno, e);
		}
		if (!S_ISLNK(st.st_mode))
			return judge(o, &st, true, e);
		if (is_of_proc(o->target))
			return stat(o->target, &st) == 0 ? judge(o, &st, false, e) : fail(o, errno, e);
		if (is_trap(o->target, &st))
			return err_set(e, ERR_USAGE,
			    "%s: is a link by someone else in a folder where all may write; name a file",
			    o->path);
		if (!follow(o, e))
			return false;
	}
	return fail(o, ELOOP, e);
}

bool
out_check(const char *path, struct err *e)
{
	struct out o;
	char folder[OS_PATH_MAX];

	if (!find_target(&o, path, e))
		return false;
	folder_of(o.target, folder);
	if (o.kind == OUT_RENAME && access(folder, W_OK | X_OK) != 0)
		return err_set(e, ERR_IO, "%s: cannot write into %s: %s", path, folder, strerror(errno));
	return o.kind != OUT_COPY || access(o.target, W_OK) == 0 || fail(&o, errno, e);
}

bool
out_is_stdout(const char *path)
{
	struct out o;
	struct err e = {0};

	return find_target(&o, path, &e) && o.kind == OUT_STDOUT;
}

/* ---- making it ---------------------------------------------------------------------------- */
/* A new file beside the target, with the rights of the one that it replaces, or those that this user gives
 * new files (which mkstemp does not). */
static bool
make_beside(struct out *o, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t r;
		int n;

		if (getrandom(&r, sizeof(r), 0) != sizeof(r))
			return fail(o, errno, e);
		n = snprintf(
		    o->made, sizeof(o->made), "%s.%06llx", o->target, (unsigned long long)(r & 0xffffff));
		if (n < 0 || (size_t)n >= sizeof(o->made))
			return fail(o, ENAMETOOLONG, e);
		o->fd = open(o->made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (o->fd >= 0)
			return o->mode < 0 || fchmod(o->fd, (mode_t)o->mode) == 0 || fail(o, errno, e);
		if (errno != EEXIST)
			break;
	}
	return fail(o, errno, e);
}

static bool
make_apart(struct out *o, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	int n = snprintf(o->made, sizeof(o->made), "%s/korch-out-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	if (n < 0 || (size_t)n >= sizeof(o->made))
		return fail(o, ENAMETOOLONG, e);
	o->fd = mkostemp(o->made, O_CLOEXEC);
	return o->fd >= 0 ||
	    err_set(e, os_err_code(errno), "%s: cannot be made: %s", o->made, strerror(errno));
}

bool
out_begin(struct out *o, const char *path, struct err *e)
{
	if (!find_target(o, path, e))
		return false;
	if (o->kind == OUT_RENAME ? make_beside(o, e) : make_apart(o, e))
		return true;
	if (o->fd < 0)
		o->made[0] = '\0';
	out_drop(o);
	return false;
}

void
out_drop(struct out *o)
{
	if (o->fd >= 0)
		(void)close(o->fd);
	if (o->made[0])
		(void)unlink(o->made);
	o->fd = -1;
	o->made[0] = '\0';
}

/* ---- putting it in its place --------------------------------------------------------------- */
static bool
rename_made(struct out *o, struct err *e)
{
	if (fsync(o->fd) != 0)
		return fail(o, errno, e);
	if (rename(o->made, o->target) != 0)
		return fail(o, errno, e);
	o->made[0] = '\0';
	return true;
}

bool
out_write(int fd, struct bytes data)
{
	while (data.n) {
		ssize_t put = write(fd, data.p, data.n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return false;
		data.p += put;
		data.n -= (size_t)put;
	}
	return true;
}

static bool
copy_bytes(int from, int to)
{
	static const size_t chunk = 1 << 16;
	uint8_t *buf = heap_alloc(chunk);
	ssize_t got = 1;
	bool ok = lseek(from, 0, SEEK_SET) == 0;

	while (ok && got > 0) {
		got = read(from, buf, chunk);
		ok = got >= 0 && out_write(to, (struct bytes){buf, (size_t)got});
	}
	free(buf);
	return ok;
}

/* Nobody may ever read the pipe.  The result has no name any more, so a signal may end the program as usual,
 * also where it waits for signals by other means. */
static bool
copy_made(struct out *o, struct err *e)
{
	sigset_t stop, before;
	int to, code = 0;

	(void)unlink(o->made);
	o->made[0] = '\0';
	(void)fflush(stdout);
	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGINT);
	(void)sigaddset(&stop, SIGTERM);
	(void)pthread_sigmask(SIG_UNBLOCK, &stop, &before);
	to = o->kind == OUT_STDOUT ? STDOUT_FILENO
				   : open(o->target, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_TRUNC);
	if (to < 0 || !copy_bytes(o->fd, to))
		code = errno;
	if (to >= 0 && o->kind != OUT_STDOUT && close(to) != 0 && !code)
		code = errno;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !code || fail(o, code, e);
}

bool
out_end(struct out *o, struct err *e)
{
	bool ok = o->kind == OUT_RENAME ? rename_made(o, e) : copy_made(o, e);

	out_drop(o);
	return ok;
}

/* ---- the end of a program ------------------------------------------------------------------- */
/* What stdio lost it says without a cause: one more byte, in a result that is broken anyway, tells that. */
bool
out_close_stdout(struct err *e)
{
	bool was_lost = ferror(stdout) != 0;

	if (was_lost) {
		clearerr(stdout);
		(void)putchar('\n');
	}
	if (fclose(stdout) != 0)
		return err_set(e, os_err_code(errno), "cannot write to stdout: %s", strerror(errno));
	return !was_lost || err_set(e, ERR_IO, "cannot write to stdout: a part of the result is missing");
}
