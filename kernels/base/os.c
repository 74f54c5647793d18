/* kernels/base/os.c: the real clock and the real files behind struct os. */
#include "base.h"
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int64_t
read_clock(clockid_t id)
{
	struct timespec t;

	if (clock_gettime(id, &t) != 0)
		bug("clock %d cannot be read", (int)id);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t
real_mono_ns(void *self)
{
	(void)self;
	return read_clock(CLOCK_MONOTONIC);
}

static int64_t
real_wall_ns(void *self)
{
	(void)self;
	return read_clock(CLOCK_REALTIME);
}

enum err_code
os_err_code(int code)
{
	return code == ENOSPC || code == EDQUOT ? ERR_FULL : ERR_IO;
}

/* Pipes have no size beforehand, so the buffer grows while reading. */
static bool
read_all(struct arena *a, int fd, size_t guess, size_t max_bytes, struct bytes *out, struct err *e)
{
	size_t cap = guess + 1, n = 0;
	uint8_t *p = arena_alloc(a, cap);

	for (;;) {
		ssize_t got = read(fd, p + n, cap - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(e, ERR_IO, "cannot read: %s", strerror(errno));
		if (got == 0)
			break;
		n += (size_t)got;
		if (n > max_bytes)
			return err_set(e, ERR_LIMIT, "larger than the limit of %zu bytes", max_bytes);
		if (n == cap) {
			uint8_t *q = arena_alloc(a, cap * 2);

			memcpy(q, p, n);
			p = q;
			cap *= 2;
		}
	}
	*out = (struct bytes){p, n};
	return true;
}

static bool
real_read_file(
    void *self, struct arena *a, const char *path, size_t max_bytes, struct bytes *out, struct err *e)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ok;

	(void)self;
	if (fd < 0)
		return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
		(void)close(fd);
		return err_set(e, ERR_IO, "%s: is not a file", path);
	}
	if ((uint64_t)st.st_size > max_bytes) {
		(void)close(fd);
		return err_set(e, ERR_LIMIT, "%s: larger than the limit of %zu bytes", path, max_bytes);
	}
	ok = read_all(a, fd, (size_t)st.st_size, max_bytes, out, e);
	(void)close(fd);
	return ok || err_in(e, "%s", path);
}

static bool
real_write_file(void *self, const char *path, struct bytes data, struct err *e)
{
	struct out o;

	(void)self;
	if (!out_begin(&o, path, e))
		return false;
	if (out_write(o.fd, data))
		return out_end(&o, e);
	(void)err_set(e, os_err_code(errno), "%s: cannot write: %s", path, strerror(errno));
	out_drop(&o);
	return false;
}

const struct os *
os_real(void)
{
	static const struct os real = {
	    .mono_ns = real_mono_ns,
	    .wall_ns = real_wall_ns,
	    .read_file = real_read_file,
	    .write_file = real_write_file,
	};

	return &real;
}

bool
os_read_file(const struct os *os, struct arena *a, const char *path, size_t max_bytes, struct bytes *out,
    struct err *e)
{
	return os->read_file(os->self, a, path, max_bytes, out, e);
}

bool
os_write_file(const struct os *os, const char *path, struct bytes data, struct err *e)
{
	return os->write_file(os->self, path, data, e);
}

const char *
os_network_fs(long fs_type)
{
	static const struct {
		long type;
		const char *name;
	} row[] = {
	    {0x6969, "NFS"},
	    {0x517b, "SMB"},
	    {(long)0xff534d42, "CIFS"},
	    {(long)0xfe534d42, "SMB2"},
	    {0x00c36400, "Ceph"},
	    {0x0bd00bd0, "Lustre"},
	    {0x47504653, "GPFS"},
	    {0x5346414f, "AFS"},
	    {0x19830326, "BeeGFS"},
	};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (row[i].type == fs_type)
			return row[i].name;
	return NULL;
}

/* "12": the 12th passage of any seam; "planner.heard:12": of that one, in whichever process it is;
 * "planner.heard:12:6": by that signal. */
static bool
is_the_seam(const char *at, const char *name, const char **rest)
{
	size_t n = strcspn(at, ":");

	*rest = at;
	if (at[0] >= '0' && at[0] <= '9')
		return true;
	if (at[n] != ':' || strlen(name) != n || strncmp(at, name, n) != 0)
		return false;
	*rest = at + n + 1;
	return true;
}

void
os_seam(const char *name)
{
	static atomic_long passed;
	const char *at = getenv("KORCH_KILL_AT"), *rest;
	char *end;
	long n;

	if (!at || !is_the_seam(at, name, &rest))
		return;
	n = atomic_fetch_add(&passed, 1) + 1;
	if (n == strtol(rest, &end, 10))
		(void)raise(*end == ':' ? (int)strtol(end + 1, NULL, 10) : SIGKILL); /* also in a jail */
}

bool
os_make_dirs(const char *path, struct err *e)
{
	char part[4096];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(part))
		return err_set(e, ERR_IO, "'%s': not a usable folder name", path);
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0700) != 0 && errno != EEXIST)
			return err_set(
			    e, os_err_code(errno), "%s: cannot make the folder: %s", part, strerror(errno));
	}
	return true;
}

bool
os_temp_dir(const char *what, char out[OS_PATH_MAX], struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	int n;

	if (!tmp || !*tmp)
		tmp = "/tmp";
	n = snprintf(out, OS_PATH_MAX, "%s/korch-%s-XXXXXX", tmp, what);
	if (n < 0 || n >= OS_PATH_MAX)
		return err_set(e, ERR_IO, "TMPDIR is longer than %d bytes", (int)OS_PATH_MAX);
	if (!mkdtemp(out))
		return err_set(
		    e, os_err_code(errno), "cannot make a folder below %s: %s", tmp, strerror(errno));
	return true;
}

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void
os_remove_tree(const char *dir)
{
	(void)nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
