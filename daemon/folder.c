/* daemon/folder.c: see folder.h. */
#include "folder.h"

#include "job_history.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *
job_dir(struct arena *a, const struct daemon *d, const struct job *j)
{
	return arena_printf(a, "%s/jobs/%llu", d->conf->data, (unsigned long long)j->rec.id);
}

char *
folder_work(struct arena *a, const char *dir)
{
	return arena_printf(a, "%s/work", dir);
}

char *
folder_given(struct arena *a, const char *dir)
{
	return arena_printf(a, "%s/given", dir);
}

char *
folder_made(struct arena *a, const char *dir)
{
	return arena_printf(a, "%s/made", dir);
}

bool
folder_make(const char *dir, struct err *e)
{
	static const char *const part[] = {"model", "given", "work", "made"};
	struct arena tmp = {0};
	bool ok = true;

	for (size_t i = 0; i < COUNT_OF(part) && ok; i++)
		ok = os_make_dirs(arena_printf(&tmp, "%s/%s", dir, part[i]), e);
	arena_fini(&tmp);
	return ok;
}

static bool
copy_bytes(int from, int to)
{
	char some[65536];
	ssize_t n;

	while ((n = read(from, some, sizeof(some))) > 0)
		for (ssize_t at = 0, put; at < n; at += put)
			if ((put = write(to, some + at, (size_t)(n - at))) <= 0)
				return false;
	return n == 0;
}

static bool
copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC),
	    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool ok = in >= 0 && out >= 0 && copy_bytes(in, out);
	int error = errno;

	if (in >= 0)
		(void)close(in);
	if (out >= 0)
		ok = close(out) == 0 && ok;
	errno = error;
	return ok;
}

bool
folder_give(const char *from, const char *to, struct err *e)
{
	(void)unlink(to);
	return link(from, to) == 0 || copy_file(from, to) ||
	    err_set(e, errno == ENOSPC ? ERR_FULL : ERR_IO, "%s: cannot write: %s", to, strerror(errno));
}

bool
folder_wrote(const char *dir, struct str path, struct err *e)
{
	struct arena tmp = {0};
	const char *p = str_dup(&tmp, path), *work = arena_printf(&tmp, "%s/work/", dir);
	size_t n = strlen(work);
	struct stat st;
	bool ok =
	    strncmp(p, work, n) == 0 && !strchr(p + n, '/') && lstat(p, &st) == 0 && S_ISREG(st.st_mode);

	if (!ok)
		(void)err_set(e, ERR_PROTO, "the planner names a file that it has not written: %.200s", p);
	arena_fini(&tmp);
	return ok;
}

/* *path: the blob's file; then the one that the planner may read. "" stays so. */
static bool
give_blob(struct arena *a, const char *dir, const struct hash *digest, struct str *path, struct err *e)
{
	char hex[65];
	const char *to;

	if (!path->n)
		return true;
	hash_hex(digest, hex);
	to = arena_printf(a, "%s/%s", folder_given(a, dir), hex);
	if (!folder_give(str_dup(a, *path), to, e))
		return false;
	*path = str_of(to);
	return true;
}

void
planner_give_built(struct daemon *d, struct job *j, const struct m_build_have *b)
{
	struct arena tmp = {0};
	struct msg m = {.type = MSG_build_have};
	struct err e = {0};

	m.build_have = *b;
	if (give_blob(&tmp, job_dir(&tmp, d, j), &b->digest, &m.build_have.path, &e) &&
	    give_blob(&tmp, job_dir(&tmp, d, j), &b->description, &m.build_have.description_path, &e))
		planner_send(j, &m);
	else
		plan_failed(d, j, e.code, e.msg);
	arena_fini(&tmp);
}
