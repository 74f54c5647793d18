/* deploy/docs/sql.c: the tables of the store and of a plan file as pages.  Facts are read from a store and a
 * plan that are made here, so that they are those of the code; words are those of schema/words.def. */
#include "docs.h"

#include "../../schema/plan_file.h"
#include "../../schema/store.h"

#include <sqlite3.h>
#include <string.h>

struct words {
	const char *table, *column, *words;
	bool is_key;
};
static const struct words of_store[] = {
#define STORE(TABLE, COLUMN, WORDS) {#TABLE, #COLUMN, WORDS, false},
#define PLAN(TABLE, COLUMN, WORDS)
#define PLAN_KEY(TABLE, KEY, WORDS)
#include "../../schema/words.def"
};
static const struct words of_plan[] = {
#define STORE(TABLE, COLUMN, WORDS)
#define PLAN(TABLE, COLUMN, WORDS) {#TABLE, #COLUMN, WORDS, false},
#define PLAN_KEY(TABLE, KEY, WORDS) {#TABLE, #KEY, WORDS, true},
#include "../../schema/words.def"
};

struct page {
	struct docs *d;
	struct strbuf *sb;
	sqlite3 *db;
	const char *macro; /* of words.def */
	const struct words *words;
	size_t n_words;
	bool used[1024];
};

static sqlite3_stmt *
query(struct page *p, const char *fmt, const char *name)
{
	char *sql = sqlite3_mprintf(fmt, name);
	sqlite3_stmt *s = NULL;

	if (!sql || sqlite3_prepare_v2(p->db, sql, -1, &s, NULL) != SQLITE_OK)
		bug("%s: %s", sql, sqlite3_errmsg(p->db));
	sqlite3_free(sql);
	return s;
}

static const char *
text(sqlite3_stmt *s, int column)
{
	const unsigned char *t = sqlite3_column_text(s, column);

	return t ? (const char *)t : "";
}

static void
put_words(struct page *p, const char *table, const char *column)
{
	for (size_t i = 0; i < p->n_words; i++)
		if (!p->words[i].is_key && strcmp(p->words[i].table, table) == 0 &&
		    strcmp(p->words[i].column, column) == 0) {
			p->used[i] = true;
			docs_cell(p->sb, str_of(p->words[i].words));
			return;
		}
	docs_fault(p->d, "schema/words.def lacks: %s(%s, %s, \"what it is\")", p->macro, table, column);
}

/* "-> environment(id)" of a column that refers to another table. */
static void
put_reference(struct page *p, const char *table, const char *column)
{
	sqlite3_stmt *s =
	    query(p, "SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(%Q)", table);

	while (sqlite3_step(s) == SQLITE_ROW)
		if (strcmp(text(s, 0), column) == 0)
			sb_addf(p->sb, " → [%s](#%s)", text(s, 1), text(s, 1));
	(void)sqlite3_finalize(s);
}

static void
put_columns(struct page *p, const char *table)
{
	sqlite3_stmt *s = query(p, "SELECT name, type, pk FROM pragma_table_xinfo(%Q)", table);

	sb_addz(p->sb, "\n| column | type | |\n|---|---|---|\n");
	while (sqlite3_step(s) == SQLITE_ROW) {
		sb_addf(p->sb, "| `%s`%s | %s", text(s, 0), sqlite3_column_int(s, 2) ? " *" : "", text(s, 1));
		put_reference(p, table, text(s, 0));
		sb_addz(p->sb, " | ");
		put_words(p, table, text(s, 0));
		sb_addz(p->sb, " |\n");
	}
	(void)sqlite3_finalize(s);
}

/* A table whose rows are facts by name. */
static bool
has_keys(const struct page *p, const char *table)
{
	for (size_t i = 0; i < p->n_words; i++)
		if (p->words[i].is_key && strcmp(p->words[i].table, table) == 0)
			return true;
	return false;
}

/* Those of words.def in its order; each must be in the table, and each of the table among them. */
static void
put_keys(struct page *p, const char *table)
{
	sqlite3_stmt *column = query(p, "SELECT name FROM pragma_table_info(%Q) LIMIT 1", table), *s;
	const char *first = sqlite3_step(column) == SQLITE_ROW ? text(column, 0) : "";
	char *sql = sqlite3_mprintf("SELECT DISTINCT \"%w\" FROM \"%%w\"", first);

	s = query(p, sql, table);
	while (sqlite3_step(s) == SQLITE_ROW) {
		bool found = false;

		for (size_t i = 0; i < p->n_words && !found; i++) {
			found = p->words[i].is_key && strcmp(p->words[i].table, table) == 0 &&
			    strcmp(p->words[i].column, text(s, 0)) == 0;
			p->used[i] |= found;
		}
		if (!found)
			docs_fault(p->d, "schema/words.def lacks: %s_KEY(%s, %s, \"what it is\")", p->macro,
			    table, text(s, 0));
	}
	sb_addf(p->sb, "\n| %s | |\n|---|---|\n", first);
	for (size_t i = 0; i < p->n_words; i++)
		if (p->words[i].is_key && strcmp(p->words[i].table, table) == 0) {
			sb_addf(p->sb, "| `%s` | ", p->words[i].column);
			docs_cell(p->sb, str_of(p->words[i].words));
			sb_addz(p->sb, " |\n");
		}
	sqlite3_free(sql);
	(void)sqlite3_finalize(s);
	(void)sqlite3_finalize(column);
}

static void
put_table(struct page *p, const char *table)
{
	sb_addf(p->sb, "\n### %s\n\n", table);
	put_words(p, table, "ROW");
	sb_addc(p->sb, '\n');
	put_columns(p, table);
	if (has_keys(p, table))
		put_keys(p, table);
}

/* All tables and views of a file, in the order in which they were made. */
static void
put_file(struct page *p, const char *path)
{
	sqlite3_stmt *s;

	if (sqlite3_open_v2(path, &p->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		bug("%s: %s", path, sqlite3_errmsg(p->db));
	s = query(p,
	    "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE %Q ORDER BY "
	    "rowid",
	    "sqlite_%");
	while (sqlite3_step(s) == SQLITE_ROW)
		put_table(p, text(s, 0));
	(void)sqlite3_finalize(s);
	(void)sqlite3_close(p->db);
	for (size_t i = 0; i < p->n_words; i++)
		if (!p->used[i])
			docs_fault(p->d, "schema/words.def: there is no %s %s of %s", p->macro,
			    p->words[i].column, p->words[i].table);
}

static void
make_store(const char *dir)
{
	struct store_conf conf = {.dir = dir, .os = os_real()};
	struct err e = {0};
	struct db *db;

	if (!db_open(&db, &conf, &e))
		bug("%s", e.msg);
	db_close(db);
}

/* A plan of nothing, but with something in each large part. */
static void
make_plan(const char *path)
{
	static const uint8_t byte[1];
	struct plan plan = {.graph = STR(" "),
	    .clock_ratio = 1, /* rows that not every plan has */
	    .expected_ns = 1,
	    .source = STR(" "),
	    .winner = STR(" "),
	    .module = {byte, sizeof(byte)},
	    .constants = {byte, sizeof(byte)}};
	struct plan_host host = {0};
	struct err e = {0};

	if (!plan_save(path, &plan, &host, &e))
		bug("%s", e.msg);
}

static void
put_made(struct page *p, void (*make)(const char *path), const char *name, const char *file)
{
	char dir[OS_PATH_MAX];
	struct err e = {0};
	char *path;

	if (!os_temp_dir("docs", dir, &e)) {
		docs_fault(p->d, "%s", e.msg);
		return;
	}
	path = arena_printf(p->d->a, "%s/%s", dir, name);
	make(path);
	put_file(p, arena_printf(p->d->a, "%s%s", path, file));
	os_remove_tree(dir);
}

void
sql_store(struct docs *d, struct strbuf *sb)
{
	struct page p = {
	    .d = d, .sb = sb, .macro = "STORE", .words = of_store, .n_words = COUNT_OF(of_store)};

	put_made(&p, make_store, "store", "/korch.db");
}

void
sql_plan(struct docs *d, struct strbuf *sb)
{
	struct page p = {.d = d, .sb = sb, .macro = "PLAN", .words = of_plan, .n_words = COUNT_OF(of_plan)};

	put_made(&p, make_plan, "plan", "");
}
