/* tests/unit/plan_fields_test.c: `verify` misses nothing: each value of each row of each table of a plan file
 * is changed, one at a time, and so are rows, parts, columns and tables.  memory: yes */
#include "../../schema/plan_file.h"
#include "../harness/plan_sample.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What the digest leaves out, and why.  A change there is found as well: by the sum, or because it is missed.
 */
static const struct apart {
	const char *table, *why;
} aparts[] = {
    {"host", "when, where and by whom the plan was made, and its whole time there: equal plans differ in it"},
    {"digest", "the digest and the sum themselves"},
    {"seal", "who signed the plan: the same plan may be signed by another"},
};

struct place_in_file {
	char table[32], column[32], type[16];
	char key[64]; /* the first two columns, which name a row in each table */
	int row;
};
struct folder {
	struct arena a;
	char dir[64], path[96], bad[96];
	struct bytes file;
	struct hash digest;
	struct trust trust; /* the key that has signed it */
	struct place_in_file *places;
	uint32_t n, cap;
};

static sqlite3 *
open_db(const char *path)
{
	sqlite3 *db;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		fail_msg("%s: %s", path, sqlite3_errmsg(db));
	return db;
}

static void
write_to(const char *path, struct bytes b)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
	assert_int_equal(fclose(f), 0);
}

static int
number_of(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s;
	int n;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	n = sqlite3_column_int(s, 0);
	(void)sqlite3_finalize(s);
	return n;
}

/* Every (table, column, row), from the file itself: a table of tomorrow is in without a word here. */
static void
list_places(struct folder *f)
{
	sqlite3 *db = open_db(f->path);
	sqlite3_stmt *s;

	assert_int_equal(sqlite3_prepare_v2(db,
			     "SELECT t.name, c.name, c.type, k.name || ',' || l.name"
			     " FROM sqlite_schema t, pragma_table_info(t.name) c,"
			     " pragma_table_info(t.name) k, pragma_table_info(t.name) l"
			     " WHERE t.type = 'table' AND k.cid = 0 AND l.cid = 1 ORDER BY 1, c.cid",
			     -1, &s, NULL),
	    SQLITE_OK);
	while (sqlite3_step(s) == SQLITE_ROW) {
		struct place_in_file at = {.row = 0};
		char sql[96];

		(void)snprintf(at.table, sizeof(at.table), "%s", (const char *)sqlite3_column_text(s, 0));
		(void)snprintf(at.column, sizeof(at.column), "%s", (const char *)sqlite3_column_text(s, 1));
		(void)snprintf(at.type, sizeof(at.type), "%s", (const char *)sqlite3_column_text(s, 2));
		(void)snprintf(at.key, sizeof(at.key), "%s", (const char *)sqlite3_column_text(s, 3));
		(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", at.table);
		for (int n = number_of(db, sql); at.row < n; at.row++) {
			GROW(&f->a, f->places, f->n, f->cap);
			f->places[f->n++] = at;
		}
	}
	(void)sqlite3_finalize(s);
	(void)sqlite3_close(db);
}

static int
open_folder(void **state)
{
	struct folder *f = heap_alloc(sizeof(*f));
	struct plan_host host = {.wall_ns = 5, .made_by = {"korch test", 10}, .host = {"here", 4}};
	struct sign_key key;
	struct hash made_of;
	struct plan p;
	struct err e = {0};

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/korch-fields-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%s/a.korch", f->dir);
	(void)snprintf(f->bad, sizeof(f->bad), "%s/b.korch", f->dir);
	plan_sample_dry(&f->a, &p);
	if (!sign_key_open(f->dir, &key, &e))
		fail_msg("%s", e.msg);
	f->trust.keys = NEW_ARRAY(&f->a, struct trust_key, 1);
	f->trust.keys[0] = (struct trust_key){key.pub, "here"};
	f->trust.n = 1;
	f->trust.passed_over = "";
	made_of = hash_bytes("x", 1);
	plan_seal_build(&p, &made_of, "a worker", &key, &host.seal);
	if (!plan_save_sealed(f->path, &p, &host, &key, &e) || !plan_file_check(f->path, &f->digest, &e) ||
	    !os_read_file(os_real(), &f->a, f->path, 1 << 24, &f->file, &e))
		fail_msg("%s", e.msg);
	list_places(f);
	*state = f;
	return 0;
}

static int
close_folder(void **state)
{
	struct folder *f = *state;

	os_remove_tree(f->dir);
	arena_fini(&f->a);
	free(f);
	return 0;
}

/* A copy of the file with that done to it. */
static void
spoil(const struct folder *f, const char *sql)
{
	char *why = NULL;
	sqlite3 *db;

	write_to(f->bad, f->file);
	db = open_db(f->bad);
	(void)sqlite3_exec(db, "PRAGMA ignore_check_constraints=ON", NULL, NULL, NULL);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool
is_apart(const char *table)
{
	for (size_t i = 0; i < COUNT_OF(aparts); i++)
		if (strcmp(aparts[i].table, table) == 0)
			return true;
	return false;
}

/* All that korch-plan verify asks of the file. */
static bool
passes(const struct folder *f)
{
	struct arena tmp = {0};
	const struct trust_key *by;
	struct plan_host h;
	struct plan p;
	struct hash digest;
	struct err e = {0};
	bool ok = plan_file_check(f->bad, &digest, &e) && plan_load(&tmp, f->bad, &p, &h, &e) &&
	    plan_trusted(&f->trust, f->bad, &p, &h, &by, &e);

	arena_fini(&tmp);
	return ok;
}

/* The check refuses it; and where the digest should tell, the digest alone does. */
static uint32_t
count_missed(const struct folder *f, const char *table, const char *sql)
{
	struct err e = {0};
	struct hash h;
	uint32_t missed = 0;

	spoil(f, sql);
	if (passes(f)) {
		print_message("verify misses: %s\n", sql);
		missed++;
	}
	e = (struct err){0};
	if (!is_apart(table) && plan_file_digest(f->bad, &h, &e) && hash_eq(&h, &f->digest)) {
		print_message("the digest misses: %s\n", sql);
		missed++;
	}
	return missed;
}

/* "name || 'x'": another value of that type. */
static void
add_other_value(struct strbuf *sql, const char *type, const char *column)
{
	if (strcmp(column, "id") == 0) /* of no other row */
		sb_addf(sql, "%s + 1000", column);
	else if (strcmp(type, "INTEGER") == 0)
		sb_addf(sql, "%s + 1", column);
	else if (strcmp(type, "REAL") == 0)
		sb_addf(sql, "%s * 2 + 1", column);
	else if (strcmp(type, "TEXT") == 0)
		sb_addf(sql, "%s || 'x'", column);
	else if (strcmp(type, "BLOB") == 0)
		sb_addf(sql, "CAST(iif(length(%s), substr(%s, 2) || x'5a', x'5a') AS BLOB)", column, column);
	else
		fail_msg("a column of type %s: how is it changed?", type);
}

static void
every_value_counts(void **state)
{
	const struct folder *f = *state;
	uint32_t missed = 0;

	assert_true(f->n > 200);
	for (uint32_t i = 0; i < f->n; i++) {
		const struct place_in_file *at = &f->places[i];
		struct arena tmp = {0};
		struct strbuf sql;

		sb_init(&sql, &tmp);
		sb_addf(&sql, "UPDATE %s SET %s = ", at->table, at->column);
		add_other_value(&sql, at->type, at->column);
		sb_addf(&sql, " WHERE (%s) IN (SELECT %s FROM %s ORDER BY 1, 2 LIMIT 1 OFFSET %d)", at->key,
		    at->key, at->table, at->row);
		missed += count_missed(f, at->table, sql.p);
		arena_fini(&tmp);
	}
	assert_int_equal(missed, 0);
}

/* What is there as a whole: rows, parts, columns, tables, their names. */
static void
the_set_counts(void **state)
{
	static const struct {
		const char *table, *sql;
	} changes[] = {
	    {"part", "UPDATE part SET name = 'sources' WHERE name = 'source'"},
	    {"part", "UPDATE part SET name = 'constant' WHERE name = 'constants'"},
	    {"part", "INSERT INTO part VALUES('more', 0, x'00')"},
	    {"part", "INSERT INTO part VALUES('module', 1, x'00')"},
	    {"part", "INSERT INTO part VALUES('module', 7, x'00')"},
	    {"part", "INSERT INTO part VALUES('source', -1, x'')"},
	    {"meta", "INSERT INTO meta VALUES('more', '1')"},
	    {"host", "INSERT INTO host VALUES('more', '1')"},
	    {"digest", "INSERT INTO digest VALUES('more', x'00')"},
	    {"host", "DELETE FROM host WHERE key LIKE 'runner%'"},
	    {"copy", "DELETE FROM copy"},
	    {"rival", "DELETE FROM rival"},
	    {"step", "INSERT INTO step SELECT id + 100, kernel, candidate, nodes, places FROM step"},
	    {"step", "ALTER TABLE step ADD COLUMN more INTEGER NOT NULL DEFAULT 1"},
	    {"more", "CREATE TABLE more(id INTEGER PRIMARY KEY, x TEXT NOT NULL) STRICT"},
	    {"more", "CREATE TABLE more(x)"},
	    {"more", "CREATE TABLE \"a\"\"b ; more\"(x, y)"},
	    {"more", "CREATE INDEX more ON step(nodes)"},
	    {"more", "CREATE VIEW more AS SELECT * FROM step"},
	    {"copy", "DROP TABLE copy"},
	    {"copy", "ALTER TABLE copy RENAME TO copied"},
	    {"more", "ANALYZE"},
	    {"meta", "PRAGMA user_version=4"},
	};
	const struct folder *f = *state;
	uint32_t missed = 0;

	for (size_t i = 0; i < COUNT_OF(changes); i++)
		missed += count_missed(f, changes[i].table, changes[i].sql);
	assert_int_equal(missed, 0);
}

static void
left_out_are_tables(void **state)
{
	const struct folder *f = *state;

	for (size_t i = 0; i < COUNT_OF(aparts); i++) {
		bool is_there = false;

		for (uint32_t k = 0; k < f->n; k++)
			is_there |= strcmp(f->places[k].table, aparts[i].table) == 0;
		if (!is_there)
			fail_msg("%s (%s) is no table", aparts[i].table, aparts[i].why);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(every_value_counts, open_folder, close_folder),
	    cmocka_unit_test_setup_teardown(the_set_counts, open_folder, close_folder),
	    cmocka_unit_test_setup_teardown(left_out_are_tables, open_folder, close_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
