/* schema/cache.c: the cache as a whole: figures, lists, cleaning, checking. */
#include "db_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ROWS = 1024 };

static void
add_count(struct arena *a, struct m_count **list, uint32_t *n, uint32_t *cap, struct str name, int64_t v)
{
	GROW(a, *list, *n, *cap);
	(*list)[*n].name = name;
	(*list)[(*n)++].value = v > 0 ? (uint64_t)v : 0;
}

bool
cache_stats(struct db *db, struct arena *a, struct m_count **out, uint32_t *n, struct err *e)
{
	static const char *const whole[] = {"measurements", "measurements_good", "specs", "environments",
	    "blobs", "blob_bytes", "jobs", "best_rows"};
	struct q q = q_start(db, SQL_CACHE_COUNT, "");
	uint32_t cap = 0;

	*out = NULL;
	*n = 0;
	if (q_step(&q))
		for (size_t i = 0; i < COUNT_OF(whole); i++)
			add_count(a, out, n, &cap, str_of(whole[i]), q_int(&q, (int)i));
	if (!q_end(&q, e))
		return false;
	q = q_start(db, SQL_COUNT_LIST, "");
	while (q_step(&q)) {
		struct str name = q_text(&q, a, 0);

		add_count(a, out, n, &cap, name, q_int(&q, 1));
	}
	return q_end(&q, e);
}

static bool
rows_of_spec(struct db *db, struct arena *a, const struct hash *spec, struct str class,
    struct m_measurement **list, uint32_t *n, uint32_t *cap, struct err *e)
{
	struct q q = q_start(db, SQL_CACHE_ROWS, "ht", spec, class);

	while (*n < MAX_ROWS && q_step(&q)) {
		GROW(a, *list, *n, *cap);
		q_measurement(&q, a, &(*list)[*n]);
		(*list)[(*n)++].is_best = q_int(&q, 24) != 0;
	}
	return q_end(&q, e);
}

bool
cache_list(struct db *db, struct arena *a, const struct hash *after, struct str class, uint32_t max,
    struct m_measurement **out, uint32_t *n, bool *more, struct err *e)
{
	struct q q = q_start(db, SQL_CACHE_SPECS, "hti", after, class, (int64_t)MAX_ROWS);
	struct hash *specs = NULL;
	uint32_t n_specs = 0, cap = 0, cap_rows = 0, i;

	while (q_step(&q)) {
		GROW(a, specs, n_specs, cap);
		specs[n_specs++] = q_hash(&q, 0);
	}
	if (!q_end(&q, e))
		return false;
	*out = NULL;
	*n = 0;
	for (i = 0; i < n_specs && *n < max && *n < MAX_ROWS / 2; i++)
		if (!rows_of_spec(db, a, &specs[i], class, out, n, &cap_rows, e))
			return false;
	*more = i < n_specs || n_specs == MAX_ROWS;
	return true;
}

bool
cache_show(struct db *db, struct arena *a, struct bytes prefix, struct m_measurement **out, uint32_t *n,
    struct err *e)
{
	uint8_t high[33], low[32];
	struct bytes lo = {low, MIN_OF(prefix.n, sizeof(low))}, hi = {high, lo.n};
	struct hash specs[64];
	uint32_t n_specs = 0, cap = 0;
	struct q q;

	*out = NULL;
	*n = 0;
	if (prefix.n == 0)
		return err_set(e, ERR_USAGE, "name the spec by the first digits of its digest");
	memcpy(low, prefix.p, lo.n);
	memcpy(high, prefix.p, lo.n);
	memset(high + lo.n, 0xff, sizeof(high) - lo.n);
	hi.n = sizeof(high); /* longer than any digest, so above all that start so */
	q = q_start(db, SQL_CACHE_PREFIX, "bb", lo, hi);
	while (n_specs < COUNT_OF(specs) && q_step(&q))
		specs[n_specs++] = q_hash(&q, 0);
	if (!q_end(&q, e))
		return false;
	for (uint32_t i = 0; i < n_specs; i++) {
		uint32_t first = *n;
		struct str text = {0};

		if (!rows_of_spec(db, a, &specs[i], STR(""), out, n, &cap, e) ||
		    !spec_text(db, a, &specs[i], &text, e))
			return false;
		if (*n > first)
			(*out)[first].text = text;
		for (uint32_t r = first; r < *n; r++)
			if (!repeat_rows(db, a, &(*out)[r], e))
				return false;
	}
	return true;
}

/* ---- cleaning ----------------------------------------------------------------------- */
static bool
drop_blob(struct db *db, const struct hash *digest, struct err *e)
{
	struct arena tmp = {0};
	bool ok = q_run(db, e, SQL_BLOB_DROP, "h", digest);

	if (ok)
		(void)unlink(blob_path(&tmp, db, digest));
	arena_fini(&tmp);
	return ok;
}

static bool
drop_blobs(struct db *db, struct q *q, uint64_t *dropped, struct err *e)
{
	struct arena tmp = {0};
	struct hash *list = NULL;
	uint32_t n = 0, cap = 0;
	bool ok;

	while (q_step(q)) {
		GROW(&tmp, list, n, cap);
		list[n++] = q_hash(q, 0);
	}
	ok = q_end(q, e);
	for (uint32_t i = 0; i < n && ok; i++) {
		ok = drop_blob(db, &list[i], e);
		*dropped += ok;
	}
	arena_fini(&tmp);
	return ok;
}

/* Files that a crash left without a row; the newest may be about to get theirs. */
static void
drop_rowless(struct db *db, const char *dir, int64_t until_ns)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		struct stat st;
		struct hash h;
		uint64_t bytes;

		if (hash_of_hex(str_of(entry->d_name), &h) && !blob_size(db, &h, &bytes) &&
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (int64_t)st.st_mtime * 1000000000 <= until_ns)
			(void)unlinkat(dirfd(d), entry->d_name, 0);
	}
	if (d)
		(void)closedir(d);
}

static void
drop_all_rowless(struct db *db, int64_t until_ns)
{
	for (int i = 0; i < 256; i++) {
		char dir[4096];
		int n = snprintf(dir, sizeof(dir), "%s/blobs/%02x", db->dir, i);

		if (n > 0 && (size_t)n < sizeof(dir))
			drop_rowless(db, dir, until_ns);
	}
}

/* Uploads that were given up, and files of crashed writes. */
static void
drop_old_parts(struct db *db, int64_t until_ns)
{
	char path[4096];
	DIR *d;
	struct dirent *entry;
	int n = snprintf(path, sizeof(path), "%s/tmp", db->dir);

	if (n < 0 || (size_t)n >= sizeof(path) || (d = opendir(path)) == NULL)
		return;
	while ((entry = readdir(d)) != NULL) {
		struct stat st;

		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if ((int64_t)st.st_mtime * 1000000000 <= until_ns)
			(void)unlinkat(dirfd(d), entry->d_name, 0);
	}
	(void)closedir(d);
}

bool
cache_gc(struct db *db, int64_t older_ns, bool artefacts, uint64_t *dropped, struct err *e)
{
	int64_t until_ns = db_wall(db) - older_ns;
	static const enum sql_id step[] = {SQL_GC_MEAS, SQL_GC_ATTEMPT, SQL_GC_JOB_END};

	*dropped = 0;
	for (size_t i = 0; i < COUNT_OF(step); i++) {
		if (!q_run(db, e, step[i], "i", until_ns))
			return false;
		*dropped += (uint64_t)sqlite3_changes(db->sql);
	}
	if (!q_run(db, e, SQL_GC_REPEAT, "") || !q_run(db, e, SQL_GC_SPEC, "") ||
	    !q_run(db, e, SQL_GC_JOB, "i", until_ns))
		return false;
	if (artefacts) {
		struct q q = q_start(db, SQL_BLOB_LOOSE, "i", until_ns);

		drop_old_parts(db, until_ns);
		drop_all_rowless(db, until_ns);
		return drop_blobs(db, &q, dropped, e);
	}
	return true;
}

/* The digests, longest unused first, whose files together are what lies there beyond the limit.  What a
 * job that goes on needs is never among them, nor what was used within the hour. */
static bool
blobs_over_limit(
    struct db *db, struct arena *a, int64_t until_ns, struct hash **out, uint32_t *n, struct err *e)
{
	struct q q = q_start(db, SQL_BLOB_SUM, "");
	uint64_t have = q_step(&q) ? (uint64_t)q_int(&q, 0) : 0;
	uint32_t cap = 0;

	*out = NULL;
	*n = 0;
	if (!q_end(&q, e))
		return false;
	q = q_start(db, SQL_BLOB_SPARE, "i", until_ns);
	while (have > db->blob_limit && q_step(&q)) {
		GROW(a, *out, *n, cap);
		(*out)[(*n)++] = q_hash(&q, 0);
		have -= MIN_OF(have, (uint64_t)q_int(&q, 1));
	}
	return q_end(&q, e);
}

static bool
hold_limit(struct db *db, int64_t until_ns, uint64_t *dropped, struct err *e)
{
	struct arena tmp = {0};
	struct hash *list;
	uint32_t n;
	bool ok = !db->blob_limit || blobs_over_limit(db, &tmp, until_ns, &list, &n, e);

	for (uint32_t i = 0; ok && db->blob_limit && i < n; i++) {
		ok = q_run(db, e, SQL_FILE_DROP, "h", &list[i]) && drop_blob(db, &list[i], e);
		*dropped += ok;
	}
	arena_fini(&tmp);
	return ok;
}

bool
store_tidy(struct db *db, uint64_t *dropped, struct err *e)
{
	static const int64_t hour = (int64_t)3600 * 1000000000;
	int64_t now = db_wall(db);
	struct q q;

	*dropped = 0;
	if (!q_run(db, e, SQL_FILE_OLD, "i", now - 7 * 24 * hour))
		return false;
	drop_old_parts(db, now - 24 * hour);
	drop_all_rowless(db, now - 24 * hour);
	q = q_start(db, SQL_BLOB_STALE, "iii", now - hour, now - 7 * 24 * hour, now - 90 * 24 * hour);
	return drop_blobs(db, &q, dropped, e) && hold_limit(db, now - hour, dropped, e);
}

/* ---- checking ----------------------------------------------------------------------- */
static bool
check_sql(struct db *db, struct strbuf *sb, const char *sql, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db->sql, sql, -1, &s, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		const char *line;

		rc = sqlite3_step(s);
		if (rc != SQLITE_ROW)
			break;
		line = (const char *)sqlite3_column_text(s, 0);
		if (line && strcmp(line, "ok") != 0)
			sb_addf(sb, "%s\n", line);
	}
	(void)sqlite3_finalize(s);
	return rc == SQLITE_DONE || db_failed(db, rc, e);
}

static bool
check_specs(struct db *db, struct strbuf *sb, struct err *e)
{
	struct q q = q_start(db, SQL_EXPORT_SPEC, "t", STR(""));

	while (q_step(&q)) {
		struct arena tmp = {0};
		struct hash want = q_hash(&q, 0), have;
		struct str text = q_text(&q, &tmp, 1);
		char hex[65];

		have = hash_bytes(text.p, text.n);
		hash_hex(&want, hex);
		if (!hash_eq(&want, &have))
			sb_addf(sb, "spec %.16s: its text has another digest\n", hex);
		arena_fini(&tmp);
	}
	return q_end(&q, e);
}

static bool
check_blobs(struct db *db, struct strbuf *sb, struct err *e)
{
	struct q q = q_start(db, SQL_BLOB_ALL, "");

	while (q_step(&q)) {
		struct arena tmp = {0};
		struct hash want = q_hash(&q, 0), have;
		struct err why = {0};
		uint64_t bytes;
		char hex[65];

		hash_hex(&want, hex);
		if (!hash_file(blob_path(&tmp, db, &want), &have, &bytes, &why))
			sb_addf(sb, "blob %.16s: %s\n", hex, why.msg);
		else if (!hash_eq(&have, &want))
			sb_addf(sb, "blob %.16s: its content has another digest\n", hex);
		arena_fini(&tmp);
	}
	return q_end(&q, e);
}

bool
db_verify(struct db *db, struct arena *a, struct str *problems, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	if (!check_sql(db, &sb, "PRAGMA integrity_check", e) ||
	    !check_sql(db, &sb,
		"SELECT 'row without its parent in ' || \"table\" FROM pragma_foreign_key_check", e) ||
	    !check_specs(db, &sb, e) || !check_blobs(db, &sb, e))
		return false;
	*problems = sb_str(&sb);
	return true;
}
