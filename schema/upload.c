/* schema/upload.c: files on their way in.
 *
 * A piece joins the file of its uploader: whoever sends wrong bytes under a digest spoils nobody's upload of
 * the right ones.  An upload ends: complete and checked, or after ten minutes without a piece, or with this
 * life of the store (an uploader's number means nothing to the next one).  Until then it has a quota: files
 * at a time for each uploader, and bytes for all files together, those that are here included. */
#include "db_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_MAX = 256, OPEN_OF_ONE = 8 };
static const int64_t IDLE_NS = (int64_t)600 * 1000000000;
/* Without a limit of the folder: more than any file that is meant.  What workers may go beyond it by: a full
 * folder is no reason to fail the builds of jobs that it has taken. */
static const uint64_t FILE_BYTES = (uint64_t)1 << 40, WORKERS_BYTES = (uint64_t)1 << 30;
/* Room is looked for at every so many bytes of an upload. */
static const uint64_t STRIDE = (uint64_t)1 << 24;

struct upload {
	struct hash digest;
	uint64_t owner, total, have;
	int64_t touched_ns;
};
struct uploads {
	struct upload of[OPEN_MAX];
	uint32_t n;
};

static int64_t
now_ns(const struct db *db)
{
	return db->os->mono_ns(db->os->self);
}

char *
upload_path(struct arena *a, const struct db *db, const struct hash *digest, uint64_t owner)
{
	char hex[65];

	hash_hex(digest, hex);
	return arena_printf(a, "%s/tmp/%s.%" PRIx64 ".part", db->dir, hex, owner);
}

static void
end_upload(struct db *db, struct upload *u, bool unlinks)
{
	struct arena tmp = {0};

	if (unlinks)
		(void)unlink(upload_path(&tmp, db, &u->digest, u->owner));
	*u = db->uploads->of[--db->uploads->n];
	arena_fini(&tmp);
}

/* Parts of an earlier life. */
static void
drop_parts(struct db *db)
{
	struct arena tmp = {0};
	char *dir = arena_printf(&tmp, "%s/tmp", db->dir);
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		size_t n = strlen(entry->d_name);

		if (n > 5 && strcmp(entry->d_name + n - 5, ".part") == 0)
			(void)unlinkat(dirfd(d), entry->d_name, 0);
	}
	if (d)
		(void)closedir(d);
	arena_fini(&tmp);
}

void
uploads_open(struct db *db)
{
	db->uploads = heap_alloc(sizeof(*db->uploads));
	drop_parts(db);
}

void
uploads_tick(struct db *db)
{
	for (uint32_t i = 0; i < db->uploads->n;) {
		if (now_ns(db) - db->uploads->of[i].touched_ns >= IDLE_NS)
			end_upload(db, &db->uploads->of[i], true);
		else
			i++;
	}
}

static struct upload *
find(struct db *db, const struct blob_piece *p)
{
	for (uint32_t i = 0; i < db->uploads->n; i++)
		if (db->uploads->of[i].owner == p->owner && hash_eq(&db->uploads->of[i].digest, &p->digest))
			return &db->uploads->of[i];
	return NULL;
}

/* Is there room for `more` bytes of this upload beside all that is here or on its way? */
static bool
check_room(struct db *db, const struct blob_piece *p, uint64_t more, struct err *e)
{
	uint64_t limit = db->blob_limit + (p->is_worker ? WORKERS_BYTES : 0), sum = more;
	uint64_t all = 0;

	if (!db->blob_limit)
		return true;
	for (uint32_t i = 0; i < db->uploads->n; i++)
		sum += db->uploads->of[i].have;
	if (!store_make_room(db, MIN_OF(sum, limit), &all, e))
		return false;
	return sum <= limit - MIN_OF(all, limit) ||
	    err_set(e, ERR_FULL,
		"the data folder may hold %.3g GiB of files (--max-size), and %.3g GiB are in use: no "
		"room for this one; try later, or raise the limit",
		(double)db->blob_limit / (double)(1 << 30), (double)all / (double)(1 << 30));
}

static bool
begin(struct db *db, const struct blob_piece *p, struct upload **out, struct err *e)
{
	uint64_t most = db->blob_limit ? db->blob_limit + (p->is_worker ? WORKERS_BYTES : 0) : FILE_BYTES;
	uint32_t n_own = 0;

	uploads_tick(db);
	for (uint32_t i = 0; i < db->uploads->n; i++)
		n_own += db->uploads->of[i].owner == p->owner;
	if (p->total > most)
		return err_set(e, ERR_LIMIT,
		    "a file of %" PRIu64 " bytes is beyond what the data folder may hold, %" PRIu64
		    " bytes (korchd --max-size)",
		    p->total, most);
	if (n_own >= OPEN_OF_ONE || db->uploads->n >= OPEN_MAX)
		return err_set(e, ERR_LIMIT, "%u uploads are under way%s: end one first",
		    n_own >= OPEN_OF_ONE ? n_own : db->uploads->n,
		    n_own >= OPEN_OF_ONE ? " on this connection" : "");
	if (!check_room(db, p, p->total, e))
		return false;
	*out = &db->uploads->of[db->uploads->n++];
	**out = (struct upload){.digest = p->digest, .owner = p->owner, .total = p->total};
	return true;
}

static bool
add_piece(struct db *db, struct upload *u, const char *path, const struct blob_piece *p, struct err *e)
{
	uint64_t to = u->have + p->data.n;

	if (p->offset != u->have || !p->data.n || p->data.n > u->total - u->have)
		return true; /* not the next one: it is told which that is */
	if (u->have / STRIDE != to / STRIDE && !check_room(db, p, MIN_OF(u->total - u->have, STRIDE), e))
		return false;
	if (!file_append(path, u->have, p->data, e))
		return false;
	u->have = to;
	return true;
}

/* All of it is here, or not: wrong bytes are no part of a second try. */
static bool
complete(struct db *db, struct upload *u, const char *path, const struct blob_piece *p, struct err *e)
{
	bool ok =
	    (u->total || file_append(path, 0, p->data, e)) && blob_adopt(db, path, &u->digest, p->kind, e);

	end_upload(db, u, !ok);
	return ok;
}

bool
blob_chunk(struct db *db, const struct blob_piece *p, uint64_t *next, struct err *e)
{
	struct upload *u = find(db, p);
	struct arena tmp = {0};
	char *path;
	bool ok;

	if (blob_size(db, &p->digest, next)) {
		if (u)
			end_upload(db, u, true);
		return q_run(db, e, SQL_BLOB_USE, "hi", &p->digest, db_wall(db));
	}
	if (u && u->total != p->total) {
		end_upload(db, u, true);
		u = NULL;
	}
	if (!u && !begin(db, p, &u, e))
		return false;
	u->touched_ns = now_ns(db);
	path = upload_path(&tmp, db, &u->digest, u->owner);
	ok = add_piece(db, u, path, p, e);
	*next = u->have;
	if (ok && u->have == u->total)
		ok = complete(db, u, path, p, e);
	arena_fini(&tmp);
	return ok;
}
