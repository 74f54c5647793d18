/* schema/cache.c: the cache as a whole: figures, lists, checking. */
#include "db_int.h"

#include <stdio.h>
#include <string.h>

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
	    "blobs", "blob_bytes", "jobs", "best_rows", "measurements_warm"};
	struct q q = q_start(db, SQL_CACHE_COUNT, "");
	uint32_t cap = 0, from;

	*out = NULL;
	*n = 0;
	if (q_step(&q))
		for (size_t i = 0; i < COUNT_OF(whole); i++)
			add_count(a, out, n, &cap, str_of(whole[i]), q_int(&q, (int)i));
	if (!q_end(&q, e))
		return false;
	add_count(
	    a, out, n, &cap, STR("blob_limit_bytes"), (int64_t)MIN_OF(db->blob_limit, (uint64_t)INT64_MAX));
	from = *n;
	for (int i = 0; i < TALLY_COUNT; i++) /* what never happened is a figure too */
		add_count(a, out, n, &cap, str_of(db_tally_name((enum tally)i)), 0);
	q = q_start(db, SQL_COUNT_LIST, "");
	while (q_step(&q)) {
		struct str name = q_text(&q, a, 0);
		uint32_t at = from;

		while (at < *n && !str_eq((*out)[at].name, name))
			at++;
		if (at == *n)
			add_count(a, out, n, &cap, name, 0);
		(*out)[at].value = (uint64_t)MAX_OF(q_int(&q, 1), (int64_t)0);
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
		(void)q_measurement(&q, a, 2, &(*list)[*n]);
		(*list)[*n].env = q_text(&q, a, 0);
		(*list)[(*n)++].is_best = q_int(&q, 1) != 0;
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
