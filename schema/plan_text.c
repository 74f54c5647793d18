/* schema/plan_text.c: a plan as text, a line a row of its tables:
 *
 *   meta key="latency_ns" value="81230"
 *   step id=3 kernel=1 candidate=17 nodes="/conv1/Conv" places=[4,5,6]
 *   part name="constants" bytes=123456
 *
 * The rows go through a database in memory, by the code that writes and reads plan files, so that every table
 * and column is here by itself.  Lists of numbers stand in brackets (":8" behind those of 8 bytes), other
 * bytes in hexadecimal behind "x", real numbers behind "r"; parts by their sizes alone. */
#include "plan_file_int.h"

#include <inttypes.h>
#include <string.h>

static const char *const parts[] = {"graph", "source", "module", "constants"};

static bool
open_memory(struct plan_db *f, struct arena *tmp)
{
	*f = (struct plan_db){.path = "the plan's text", .version = PLAN_FILE_VERSION};
	f->rc = sqlite3_open_v2(":memory:", &f->db, SQLITE_OPEN_READWRITE, NULL);
	pf_create_all(f, tmp);
	return pf_is_well(f);
}

/* ---- out ---------------------------------------------------------------------------- */
static void
put_text(struct strbuf *sb, const char *p, size_t n)
{
	sb_addc(sb, '"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < 32 || c == 127 || c == '"' || c == '\\')
			sb_addf(sb, "\\x%02x", c);
		else
			sb_addc(sb, (char)c);
	}
	sb_addc(sb, '"');
}

static void
put_words(struct strbuf *sb, const uint8_t *p, size_t n, int size)
{
	sb_addc(sb, '[');
	for (size_t i = 0; i + (size_t)size <= n; i += (size_t)size) {
		uint64_t v = 0;

		for (int k = 0; k < size; k++)
			v |= (uint64_t)p[i + (size_t)k] << 8 * k;
		if (i)
			sb_addc(sb, ',');
		sb_addi(sb, (int64_t)v);
	}
	sb_addz(sb, size == 8 ? "]:8" : "]");
}

static void
put_value(struct strbuf *sb, sqlite3_stmt *s, int at, const char *table)
{
	const uint8_t *p;
	size_t n;
	int size;

	switch (sqlite3_column_type(s, at)) {
	case SQLITE_INTEGER:
		sb_addi(sb, sqlite3_column_int64(s, at));
		return;
	case SQLITE_FLOAT:
		sb_addc(sb, 'r');
		sb_adda(sb, sqlite3_column_double(s, at));
		return;
	case SQLITE_TEXT:
		put_text(sb, (const char *)sqlite3_column_text(s, at), (size_t)sqlite3_column_bytes(s, at));
		return;
	default:
		p = sqlite3_column_blob(s, at);
		n = p ? (size_t)sqlite3_column_bytes(s, at) : 0;
		size = pf_word_bytes(table, sqlite3_column_name(s, at));
		if (size) {
			put_words(sb, p, n, size);
			return;
		}
		sb_addc(sb, 'x');
		for (size_t i = 0; i < n; i++)
			sb_addf(sb, "%02x", p[i]);
	}
}

static void
put_table(struct strbuf *sb, struct plan_db *f, struct arena *tmp, const char *table)
{
	sqlite3_stmt *s = pf_prepare(f, arena_printf(tmp, "SELECT * FROM \"%s\" ORDER BY 1", table));

	while (pf_next_row(f, s)) {
		sb_addz(sb, table);
		for (int i = 0; i < sqlite3_column_count(s); i++) {
			sb_addf(sb, " %s=", sqlite3_column_name(s, i));
			put_value(sb, s, i, table);
		}
		sb_addc(sb, '\n');
	}
	(void)sqlite3_finalize(s);
}

static void
put_tables(struct strbuf *sb, struct plan_db *f, struct arena *tmp)
{
	sqlite3_stmt *s = pf_prepare(f, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid");

	while (pf_next_row(f, s))
		put_table(sb, f, tmp, str_dup(tmp, pf_get_str(f, s, 0, tmp)));
	(void)sqlite3_finalize(s);
}

bool
plan_text_print(struct strbuf *sb, const struct plan *p, struct err *e)
{
	const size_t bytes[COUNT_OF(parts)] = {p->graph.n, p->source.n, p->module.n, p->constants.n};
	const struct plan_host host = {0};
	struct arena tmp = {0};
	struct plan_db f;
	bool ok;

	if (open_memory(&f, &tmp)) {
		pf_save_rows(&f, &tmp, p, &host);
		put_tables(sb, &f, &tmp);
	}
	for (size_t i = 0; i < COUNT_OF(parts); i++)
		sb_addf(sb, "part name=\"%s\" bytes=%zu\n", parts[i], bytes[i]);
	ok = pf_is_well(&f) || pf_file_error(&f, false, e);
	(void)sqlite3_close(f.db);
	arena_fini(&tmp);
	return ok;
}

/* ---- in ----------------------------------------------------------------------------- */
enum { MAX_COLUMNS = 32 };
struct reader {
	struct plan_db *f;
	struct arena *tmp;
	struct plan *out;
	struct err *e;
	struct str line; /* what is left of it */
};
struct value {
	struct str column, text; /* text: as it stands, quotes and all */
};

static bool
is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || s.p[i] == '_' ||
			(i && s.p[i] >= '0' && s.p[i] <= '9')))
			return false;
	return s.n > 0 && s.n < 64;
}

/* "column=value"; a text may hold blanks. */
static bool
next_value(struct reader *r, struct value *v)
{
	size_t n = 0;

	r->line = str_trim(r->line);
	v->column = str_cut(&r->line, '=');
	if (!is_name(v->column))
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no column", STR_ARG(v->column));
	if (r->line.n && r->line.p[0] == '"')
		for (n = 1; n < r->line.n && r->line.p[n] != '"'; n++)
			;
	while (n < r->line.n && r->line.p[n] != ' ')
		n++;
	v->text = (struct str){r->line.p, n};
	r->line = (struct str){r->line.p + n, r->line.n - n};
	return true;
}

static int
hex_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct str
text_of(struct reader *r, struct str quoted)
{
	struct str s = quoted.n >= 2 ? (struct str){quoted.p + 1, quoted.n - 2} : STR("");
	struct strbuf sb;

	sb_init(&sb, r->tmp);
	for (size_t i = 0; i < s.n; i++) {
		bool is_escape = s.p[i] == '\\' && s.n - i >= 4 && s.p[i + 1] == 'x' &&
		    hex_of(s.p[i + 2]) >= 0 && hex_of(s.p[i + 3]) >= 0;

		sb_addc(&sb, is_escape ? (char)(hex_of(s.p[i + 2]) * 16 + hex_of(s.p[i + 3])) : s.p[i]);
		i += is_escape ? 3 : 0;
	}
	return sb_str(&sb);
}

/* "[1,2]" or "[1,2]:8" */
static bool
bind_words(struct reader *r, sqlite3_stmt *s, int at, struct str text)
{
	struct str rest = {text.p + 1, text.n - 1}, list = str_cut(&rest, ']'), all = list;
	int size = str_is(rest, ":8") ? 8 : 4;
	uint8_t *b = arena_alloc(r->tmp, 8 * (text.n + 1));
	size_t n = 0;

	while (list.n) {
		int64_t v;

		if (!str_to_i64(str_cut(&list, ','), &v))
			return err_set(r->e, ERR_FORMAT, "'%.*s' is no list of numbers", STR_ARG(all));
		for (int k = 0; k < size; k++)
			b[n++] = (uint8_t)((uint64_t)v >> 8 * k);
	}
	pf_bind_bytes(r->f, s, at, b, n);
	return true;
}

static bool
bind_hex(struct reader *r, sqlite3_stmt *s, int at, struct str text)
{
	uint8_t *b = arena_alloc(r->tmp, text.n);
	size_t n = 0;

	for (size_t i = 1; i + 1 < text.n; i += 2) {
		if (hex_of(text.p[i]) < 0 || hex_of(text.p[i + 1]) < 0)
			return err_set(r->e, ERR_FORMAT, "'%.*s' is not hexadecimal", STR_ARG(text));
		b[n++] = (uint8_t)(hex_of(text.p[i]) * 16 + hex_of(text.p[i + 1]));
	}
	pf_bind_bytes(r->f, s, at, b, n);
	return true;
}

static bool
bind_value(struct reader *r, sqlite3_stmt *s, int at, const struct value *v)
{
	double real;
	int64_t i;

	if (v->text.n && v->text.p[0] == '"')
		pf_bind_str(r->f, s, at, text_of(r, v->text));
	else if (v->text.n && v->text.p[0] == '[')
		return bind_words(r, s, at, v->text);
	else if (v->text.n && v->text.p[0] == 'x')
		return bind_hex(r, s, at, v->text);
	else if (v->text.n && v->text.p[0] == 'r' &&
	    str_to_f64((struct str){v->text.p + 1, v->text.n - 1}, &real))
		pf_bind_real(r->f, s, at, real);
	else if (str_to_i64(v->text, &i))
		pf_bind_int(r->f, s, at, i);
	else
		return err_set(
		    r->e, ERR_FORMAT, "%.*s: '%.*s' is no value", STR_ARG(v->column), STR_ARG(v->text));
	return true;
}

static bool
put_row(struct reader *r, struct str table, const struct value *v, int n)
{
	struct strbuf sql;
	sqlite3_stmt *s;
	bool ok = true;

	sb_init(&sql, r->tmp);
	sb_addf(&sql, "INSERT INTO \"%.*s\"(", STR_ARG(table));
	for (int i = 0; i < n; i++)
		sb_addf(&sql, "%s%.*s", i ? "," : "", STR_ARG(v[i].column));
	sb_addz(&sql, ") VALUES(?");
	for (int i = 1; i < n; i++)
		sb_addz(&sql, ",?");
	sb_addc(&sql, ')');
	s = pf_prepare(r->f, sql.p);
	for (int i = 0; i < n && ok; i++)
		ok = bind_value(r, s, i + 1, &v[i]);
	if (ok)
		pf_put_row(r->f, s);
	(void)sqlite3_finalize(s);
	return ok && (pf_is_well(r->f) || pf_file_error(r->f, true, r->e));
}

/* The size of a part; its bytes are not here. */
static bool
put_part(struct reader *r, const struct value *v, int n)
{
	struct plan *p = r->out;
	size_t *const bytes[COUNT_OF(parts)] = {&p->graph.n, &p->source.n, &p->module.n, &p->constants.n};
	int64_t size;

	for (size_t i = 0; i < COUNT_OF(parts) && n == 2; i++)
		if (str_eq(text_of(r, v[0].text), str_of(parts[i])) && str_to_i64(v[1].text, &size) &&
		    size >= 0) {
			*bytes[i] = (size_t)size;
			return true;
		}
	return err_set(r->e, ERR_FORMAT, "'part name=\"constants\" bytes=N' is wanted");
}

static bool
read_line(struct reader *r)
{
	struct str table = str_cut(&r->line, ' ');
	struct value v[MAX_COLUMNS];
	int n = 0;

	if (table.n == 0 || table.p[0] == '#')
		return true;
	if (!is_name(table))
		return err_set(r->e, ERR_FORMAT, "'%.*s' is no table", STR_ARG(table));
	while (r->line.n) {
		if (n == MAX_COLUMNS)
			return err_set(r->e, ERR_FORMAT, "more than %d columns", MAX_COLUMNS);
		if (!next_value(r, &v[n++]))
			return false;
	}
	return str_is(table, "part") ? put_part(r, v, n) : put_row(r, table, v, n);
}

bool
plan_text_read(struct arena *a, struct str text, struct plan *out, struct err *e)
{
	struct arena tmp = {0};
	struct plan_host host;
	struct plan_db f;
	struct reader r = {.f = &f, .tmp = &tmp, .out = out, .e = e};
	struct plan sizes;
	bool ok = open_memory(&f, &tmp);

	*out = (struct plan){0};
	pf_run_sql(&f, "BEGIN");
	for (uint32_t n = 1; ok && text.n; n++) {
		r.line = str_trim(str_cut(&text, '\n'));
		ok = read_line(&r) || err_in(e, "line %u", n);
	}
	pf_run_sql(&f, "COMMIT");
	sizes = *out;
	if (ok)
		pf_load_rows(&f, a, out, &host);
	out->graph.n = sizes.graph.n;
	out->source.n = sizes.source.n;
	out->module.n = sizes.module.n;
	out->constants.n = sizes.constants.n;
	if (ok && !pf_is_well(&f))
		ok = pf_file_error(&f, true, e);
	(void)sqlite3_close(f.db);
	arena_fini(&tmp);
	return ok && plan_check(out, e);
}
