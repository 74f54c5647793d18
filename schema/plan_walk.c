/* schema/plan_walk.c: what a plan file is, as one number: SHA-256 over its tables as they stand in the file,
 * whoever reads them.  A chain: each item (a table's name and statement; a row, each value behind its kind
 * and length) is hashed together with the digest so far.  The order is that of the names, and of the first
 * two columns, which name a row in every table; a table of one column is none of ours. */
#include "plan_file_int.h"

#include <string.h>

enum { MAX_TABLES = 64, MAX_NAME = 32 };

/* Not what a plan is: when and where it was made, the digests themselves, and who signed them. */
static const char *const apart[] = {"host", "digest", "seal"};

struct walk {
	struct plan_db *f;
	struct arena tmp;
	struct strbuf item;
	struct hash sum;
};

static void
put_u64(struct walk *w, uint64_t v)
{
	char b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (char)(v >> 8 * i & 255);
	sb_add(&w->item, (struct str){b, 8});
}

static void
put_bytes(struct walk *w, const void *p, size_t n)
{
	put_u64(w, n);
	if (n)
		sb_add(&w->item, (struct str){p, n});
}

static void
begin_item(struct walk *w)
{
	w->item.n = 0;
	put_bytes(w, w->sum.b, sizeof(w->sum.b));
}

static void
end_item(struct walk *w)
{
	w->sum = hash_bytes(w->item.p, w->item.n);
}

static void
put_value(struct walk *w, sqlite3_stmt *s, int at)
{
	int kind = sqlite3_column_type(s, at);
	double real;
	uint64_t bits;

	put_u64(w, (uint64_t)kind);
	switch (kind) {
	case SQLITE_INTEGER:
		put_u64(w, (uint64_t)sqlite3_column_int64(s, at));
		break;
	case SQLITE_FLOAT:
		real = sqlite3_column_double(s, at);
		memcpy(&bits, &real, sizeof(bits));
		put_u64(w, bits);
		break;
	case SQLITE_NULL:
		break;
	default: { /* the pointer before the length: SQLite's order */
		const void *p = sqlite3_column_blob(s, at);

		put_bytes(w, p, (size_t)sqlite3_column_bytes(s, at));
	}
	}
}

static void
put_rows(struct walk *w, const char *table)
{
	struct strbuf sql;
	sqlite3_stmt *s;

	sb_init(&sql, &w->tmp);
	sb_addf(&sql, "SELECT * FROM %s ORDER BY 1, 2", table);
	s = pf_prepare(w->f, sql.p);
	while (pf_next_row(w->f, s)) {
		int n = sqlite3_column_count(s);

		begin_item(w);
		put_u64(w, (uint64_t)n);
		for (int i = 0; i < n; i++)
			put_value(w, s, i);
		end_item(w);
	}
	(void)sqlite3_finalize(s);
}

static bool
is_apart(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(apart); i++)
		if (strcmp(apart[i], name) == 0)
			return true;
	return false;
}

/* It goes into a statement. */
static bool
is_plain_name(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] != '_' && (name.p[i] < 'a' || name.p[i] > 'z') &&
		    (name.p[i] < '0' || name.p[i] > '9'))
			return false;
	return name.n > 0 && name.n <= MAX_NAME;
}

/* Names of the tables; their statements enter the sum here, so that a column is missed or seen. */
static uint32_t
put_tables(struct walk *w, const char *names[MAX_TABLES])
{
	sqlite3_stmt *s =
	    pf_prepare(w->f, "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
	uint32_t n = 0;

	while (pf_next_row(w->f, s)) {
		struct str name = pf_get_str(w->f, s, 0, &w->tmp), type = pf_get_str(w->f, s, 1, &w->tmp);

		if (is_apart(name.p))
			continue;
		begin_item(w);
		for (int i = 0; i < 3; i++)
			put_value(w, s, i);
		end_item(w);
		if (!str_is(type, "table"))
			continue;
		if (n == MAX_TABLES || !is_plain_name(name))
			pf_damaged(w->f, "it holds tables that are no plan's");
		else
			names[n++] = name.p;
	}
	(void)sqlite3_finalize(s);
	return n;
}

struct hash
pf_walk(struct plan_db *f)
{
	struct walk w = {.f = f};
	const char *names[MAX_TABLES];
	uint32_t n;

	sb_init(&w.item, &w.tmp);
	begin_item(&w);
	put_u64(&w, (uint64_t)f->version);
	end_item(&w);
	n = put_tables(&w, names);
	for (uint32_t i = 0; i < n; i++) {
		begin_item(&w);
		put_bytes(&w, names[i], strlen(names[i]));
		end_item(&w);
		put_rows(&w, names[i]);
	}
	arena_fini(&w.tmp);
	return w.sum;
}
