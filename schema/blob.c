/* schema/blob.c: files under blobs/, named by the digest of their content.  A file is written
 * in tmp/, synced, checked, renamed into place, the folder synced, and only then gets its row:
 * a crash leaves at most a file without a row, which gc removes. */
#include "db_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
io_failed(const char *path, const char *what, struct err *e)
{
	return err_set(e, errno == ENOSPC || errno == EDQUOT ? ERR_FULL : ERR_IO, "%s: cannot %s: %s", path,
	    what, strerror(errno));
}

char *
blob_path(struct arena *a, const struct db *db, const struct hash *digest)
{
	char hex[65];

	hash_hex(digest, hex);
	return arena_printf(a, "%s/blobs/%.2s/%s", db->dir, hex, hex);
}

bool
blob_size(struct db *db, const struct hash *digest, uint64_t *bytes)
{
	struct q q = q_start(db, SQL_BLOB_FIND, "h", digest);
	bool found = q_step(&q);
	struct err e = {0};
	struct arena tmp = {0};
	struct stat st;

	if (found)
		*bytes = (uint64_t)q_int(&q, 0);
	found = q_end(&q, &e) && found;
	/* A row whose file was lost is as good as no row: it is uploaded again. */
	if (found && (stat(blob_path(&tmp, db, digest), &st) != 0 || (uint64_t)st.st_size != *bytes))
		found = false;
	arena_fini(&tmp);
	return found;
}

bool
file_digest(const char *path, struct hash *digest, uint64_t *bytes, struct err *e)
{
	return hash_file(path, digest, bytes, e);
}

bool
sync_path(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return io_failed(path, "open", e);
	ok = fsync(fd) == 0 || io_failed(path, "write", e);
	(void)close(fd);
	return ok;
}

static bool
place(const char *from, const char *to, struct err *e)
{
	struct arena tmp = {0};
	char *folder = str_dup(&tmp, str_of(to));
	bool ok;

	*strrchr(folder, '/') = '\0';
	ok = sync_path(from, e) && os_make_dirs(folder, e) &&
	    (rename(from, to) == 0 || io_failed(to, "write", e)) && sync_path(folder, e);
	arena_fini(&tmp);
	return ok;
}

bool
blob_adopt(struct db *db, const char *path, const struct hash *digest, const char *kind, struct err *e)
{
	struct arena tmp = {0};
	struct hash have;
	uint64_t bytes = 0;
	bool ok = file_digest(path, &have, &bytes, e);

	if (ok && !hash_eq(&have, digest))
		ok = err_set(
		    e, ERR_FORMAT, "%s: its content does not have the digest that was announced", path);
	ok = ok && place(path, blob_path(&tmp, db, digest), e) &&
	    q_run(db, e, SQL_BLOB_ADD, "hiti", digest, (int64_t)bytes, str_of(kind), db_wall(db));
	arena_fini(&tmp);
	return ok;
}

bool
blob_take(
    struct db *db, const char *path, const char *kind, struct hash *digest, uint64_t *bytes, struct err *e)
{
	struct arena tmp = {0};
	bool ok = file_digest(path, digest, bytes, e) && place(path, blob_path(&tmp, db, digest), e) &&
	    q_run(db, e, SQL_BLOB_ADD, "hiti", digest, (int64_t)*bytes, str_of(kind), db_wall(db));

	arena_fini(&tmp);
	return ok;
}

bool
blob_use(struct db *db, const struct hash *digest, uint64_t *bytes, struct err *e)
{
	if (!blob_size(db, digest, bytes))
		return err_set(e, ERR_FAILED, "it is not in the store any more; submit once more");
	return q_run(db, e, SQL_BLOB_USE, "hi", digest, db_wall(db));
}

static bool
read_at(const char *path, uint64_t offset, uint8_t *to, size_t *n, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;

	if (fd < 0)
		return io_failed(path, "open", e);
	while (got < *n) {
		ssize_t r = pread(fd, to + got, *n - got, (off_t)(offset + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			(void)close(fd);
			return io_failed(path, "read", e);
		}
		if (r == 0)
			break;
		got += (size_t)r;
	}
	(void)close(fd);
	*n = got;
	return true;
}

bool
blob_read(struct db *db, struct arena *a, const struct hash *digest, uint64_t offset, size_t max,
    struct bytes *out, uint64_t *total, struct err *e)
{
	char hex[65];
	uint8_t *p;
	size_t n;

	if (!blob_size(db, digest, total)) {
		hash_hex(digest, hex);
		return err_set(e, ERR_FAILED, "blob %.16s is not here; upload it again", hex);
	}
	n = offset >= *total ? 0 : (size_t)MIN_OF((uint64_t)max, *total - offset);
	p = arena_alloc(a, MAX_OF(n, (size_t)1));
	if (n && !read_at(blob_path(a, db, digest), offset, p, &n, e))
		return false;
	*out = (struct bytes){p, n};
	return true;
}

bool
file_append(const char *path, uint64_t offset, struct bytes data, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	size_t put = 0;
	bool ok = true;

	if (fd < 0)
		return io_failed(path, "write", e);
	while (ok && put < data.n) {
		ssize_t w = pwrite(fd, data.p + put, data.n - put, (off_t)(offset + put));

		if (w < 0 && errno != EINTR)
			ok = io_failed(path, "write", e);
		else if (w > 0)
			put += (size_t)w;
	}
	(void)close(fd);
	return ok;
}

bool
blob_put(struct db *db, struct bytes data, const char *kind, struct hash *digest, struct err *e)
{
	uint64_t next;

	*digest = hash_bytes(data.p, data.n);
	if (blob_size(db, digest, &next))
		return q_run(db, e, SQL_BLOB_USE, "hi", digest, db_wall(db));
	{
		struct arena tmp = {0};
		char *path = upload_path(&tmp, db, digest, 0);
		bool ok;

		(void)unlink(path);
		ok = file_append(path, 0, data, e) && blob_adopt(db, path, digest, kind, e);
		arena_fini(&tmp);
		return ok;
	}
}

bool
plan_time_find(
    struct db *db, struct arena *a, const struct hash *key, struct m_timing **out, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, SQL_PLAN_TIME_FIND, "h", key);
	uint32_t cap = 0;

	*out = NULL;
	*n = 0;
	while (q_step(&q)) {
		GROW(a, *out, *n, cap);
		(*out)[(*n)++] = (struct m_timing){.median_ns = q_int(&q, 0),
		    .min_ns = q_int(&q, 1),
		    .spread_ns = q_int(&q, 2),
		    .samples = (uint64_t)q_int(&q, 3),
		    .clock_ratio = q_real(&q, 4)};
	}
	return q_end(&q, e);
}

bool
plan_time_put(struct db *db, const struct hash *key, const struct m_timing *t, uint32_t n, struct err *e)
{
	for (uint32_t i = 0; i < n; i++)
		if (!q_run(db, e, SQL_PLAN_TIME_PUT, "hiiiiidi", key, (int64_t)i, t[i].median_ns, t[i].min_ns,
			t[i].spread_ns, (int64_t)t[i].samples, t[i].clock_ratio, db_wall(db)))
			return false;
	return true;
}
