/* schema/tidy.c: what goes: files that nobody will ask for again, those beyond the folder's limit, and what
 * korch-cache gc is asked to drop. */
#include "db_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t MINUTE = (int64_t)60 * 1000000000, HOUR = (int64_t)3600 * 1000000000;

/* What goes, or would. */
struct broom {
	bool is_dry;
	uint64_t files, bytes;
};
struct blob_entry {
	struct hash digest;
	uint64_t bytes;
};

/* ---- files ---------------------------------------------------------------------------- */
static bool
drop_blob(struct db *db, struct broom *b, const struct blob_entry *x, struct err *e)
{
	struct arena tmp = {0};
	bool ok =
	    q_run(db, e, SQL_FILE_DROP, "h", &x->digest) && q_run(db, e, SQL_BLOB_DROP, "h", &x->digest);

	if (ok && !b->is_dry)
		(void)unlink(blob_path(&tmp, db, &x->digest));
	b->files += ok;
	b->bytes += ok ? x->bytes : 0;
	arena_fini(&tmp);
	return ok;
}

/* Those that the statement names, while what is left of `have` is above `limit`. */
static bool
drop_blobs(struct db *db, struct broom *b, struct q *q, uint64_t *have, uint64_t limit, struct err *e)
{
	struct arena tmp = {0};
	struct blob_entry *list = NULL;
	uint32_t n = 0, cap = 0;
	bool ok;

	while (*have > limit && q_step(q)) {
		GROW(&tmp, list, n, cap);
		list[n] = (struct blob_entry){q_hash(q, 0), (uint64_t)q_int(q, 1)};
		*have -= MIN_OF(*have, list[n].bytes);
		n++;
	}
	ok = q_end(q, e);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = drop_blob(db, b, &list[i], e);
	arena_fini(&tmp);
	return ok;
}

/* A file that nothing knows, unless it is younger. */
static void
drop_file(struct broom *b, int dir, const char *name, int64_t until_ns)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
	    (int64_t)st.st_mtime * 1000000000 > until_ns)
		return;
	if (!b->is_dry && unlinkat(dir, name, 0) != 0)
		return;
	b->files++;
	b->bytes += (uint64_t)st.st_size;
}

/* Files of that folder which are `loose`; the newest may be about to get a row. */
static void
sweep(struct db *db, struct broom *b, const char *folder, bool (*loose)(struct db *db, const char *name),
    int64_t until_ns)
{
	struct arena tmp = {0};
	DIR *d = opendir(arena_printf(&tmp, "%s/%s", db->dir, folder));
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL)
		if (loose(db, entry->d_name))
			drop_file(b, dirfd(d), entry->d_name, until_ns);
	if (d)
		(void)closedir(d);
	arena_fini(&tmp);
}

/* A crash left it without a row. */
static bool
is_rowless(struct db *db, const char *name)
{
	struct hash h;
	uint64_t bytes;

	return hash_of_hex(str_of(name), &h) && !blob_size(db, &h, &bytes);
}

/* Of a write that crashed; uploads under way end by themselves (upload.c). */
static bool
is_left_over(struct db *db, const char *name)
{
	size_t n = strlen(name);

	(void)db;
	return name[0] != '.' && !(n > 5 && strcmp(name + n - 5, ".part") == 0);
}

static void
sweep_all(struct db *db, struct broom *b, int64_t until_ns)
{
	sweep(db, b, "tmp", is_left_over, until_ns);
	for (int i = 0; i < 256; i++) {
		char folder[16];

		(void)snprintf(folder, sizeof(folder), "blobs/%02x", i);
		sweep(db, b, folder, is_rowless, until_ns);
	}
}

/* ---- the folder's limit ---------------------------------------------------------------- */
/* Longest unused first, what lies beyond the limit.  What a job that goes on needs is never among it, nor
 * what was used just now: within the hour what the daemon made for itself, within ten minutes any other. */
static bool
hold_limit(struct db *db, struct broom *b, uint64_t more, uint64_t *have, struct err *e)
{
	struct q q = q_start(db, SQL_BLOB_SUM, "");
	int64_t now = db_wall(db);

	*have = q_step(&q) ? (uint64_t)q_int(&q, 0) : 0;
	if (!q_end(&q, e))
		return false;
	if (!db->blob_limit || *have + more <= db->blob_limit)
		return true;
	q = q_start(db, SQL_BLOB_SPARE, "ii", now - HOUR, now - 10 * MINUTE);
	return drop_blobs(db, b, &q, have, db->blob_limit - MIN_OF(more, db->blob_limit), e);
}

bool
store_make_room(struct db *db, uint64_t more, uint64_t *all, struct err *e)
{
	struct broom b = {0};

	uploads_tick(db);
	return hold_limit(db, &b, more, all, e);
}

bool
store_tidy(struct db *db, uint64_t *dropped, struct err *e)
{
	struct broom b = {0};
	int64_t now = db_wall(db);
	uint64_t all = UINT64_MAX;
	struct q q;
	bool ok;

	*dropped = 0;
	uploads_tick(db);
	if (!q_run(db, e, SQL_FILE_OLD, "i", now - 7 * 24 * HOUR))
		return false;
	sweep_all(db, &b, now - 24 * HOUR);
	b = (struct broom){0}; /* those had no rows */
	q = q_start(db, SQL_BLOB_STALE, "iii", now - HOUR, now - 7 * 24 * HOUR, now - 90 * 24 * HOUR);
	ok = drop_blobs(db, &b, &q, &all, 0, e) && hold_limit(db, &b, 0, &all, e);
	*dropped = b.files;
	return ok;
}

/* ---- gc --------------------------------------------------------------------------------- */
static bool
count(struct db *db, enum sql_id id, int64_t until_ns, uint64_t *n, struct err *e)
{
	struct q q = q_start(db, id, "i", until_ns);

	*n = q_step(&q) ? (uint64_t)q_int(&q, 0) : 0;
	return q_end(&q, e);
}

/* Measurements, and what stands on them: how often they were tried and timed again, whole plans' times. */
static bool
gc_rows(struct db *db, int64_t until_ns, struct err *e)
{
	static const enum sql_id by_age[] = {SQL_GC_MEAS, SQL_GC_ATTEMPT, SQL_GC_PLAN_TIME, SQL_GC_WHOLE};
	static const enum sql_id orphans[] = {SQL_GC_REPEAT, SQL_GC_PERTURBED, SQL_GC_SPEC};

	for (size_t i = 0; i < COUNT_OF(by_age); i++)
		if (!q_run(db, e, by_age[i], "i", until_ns))
			return false;
	for (size_t i = 0; i < COUNT_OF(orphans); i++)
		if (!q_run(db, e, orphans[i], ""))
			return false;
	return true;
}

/* Ended jobs with all that they left. */
static bool
gc_files(struct db *db, int64_t until_ns, struct broom *b, struct gc_done *out, struct err *e)
{
	uint64_t all = UINT64_MAX;
	struct q q;

	if (!q_run(db, e, SQL_GC_JOB_END, "i", until_ns) || !q_run(db, e, SQL_GC_JOB, "i", until_ns))
		return false;
	out->jobs = (uint64_t)sqlite3_changes(db->sql);
	sweep_all(db, b, until_ns);
	q = q_start(db, SQL_BLOB_LOOSE, "ii", until_ns, db_wall(db) - HOUR);
	return drop_blobs(db, b, &q, &all, 0, e);
}

/* A dry run does all of it but unlink, and takes it back. */
bool
cache_gc(struct db *db, const struct gc_ask *ask, struct gc_done *out, struct err *e)
{
	struct broom b = {.is_dry = ask->is_dry};
	int64_t until_ns = db_wall(db) - ask->older_ns;
	int rc = SQLITE_OK;
	bool ok;

	*out = (struct gc_done){0};
	if (ask->is_dry)
		rc = sqlite3_exec(db->sql, "SAVEPOINT dry", NULL, NULL, NULL);
	ok =
	    rc == SQLITE_OK ? count(db, SQL_GC_COUNT, until_ns, &out->measurements, e) : db_failed(db, rc, e);
	ok = ok && (!ask->measurements || gc_rows(db, until_ns, e)) && gc_files(db, until_ns, &b, out, e);
	if (ask->is_dry && rc == SQLITE_OK)
		(void)sqlite3_exec(db->sql, "ROLLBACK TO dry; RELEASE dry", NULL, NULL, NULL);
	out->files = b.files;
	out->bytes = b.bytes;
	return ok;
}
