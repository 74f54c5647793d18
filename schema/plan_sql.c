/* schema/plan_sql.c: statements on a plan file that stick at their first failure, so that the
 * code for a table reads like the table. */
#include "plan_file_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool
pf_is_well(const struct plan_db *f)
{
	return f->rc == SQLITE_OK && !f->bad;
}

void
pf_note(struct plan_db *f, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE || !pf_is_well(f))
		return;
	f->rc = rc;
	(void)snprintf(f->why, sizeof(f->why), "%s", sqlite3_errmsg(f->db));
}

void
pf_run_sql(struct plan_db *f, const char *sql)
{
	if (pf_is_well(f))
		pf_note(f, sqlite3_exec(f->db, sql, NULL, NULL, NULL));
}

sqlite3_stmt *
pf_prepare(struct plan_db *f, const char *sql)
{
	sqlite3_stmt *s = NULL;

	if (pf_is_well(f))
		pf_note(f, sqlite3_prepare_v2(f->db, sql, -1, &s, NULL));
	return s;
}

void
pf_bind_int(struct plan_db *f, sqlite3_stmt *s, int at, int64_t v)
{
	if (pf_is_well(f))
		pf_note(f, sqlite3_bind_int64(s, at, v));
}

void
pf_bind_str(struct plan_db *f, sqlite3_stmt *s, int at, struct str v)
{
	if (pf_is_well(f))
		pf_note(f, sqlite3_bind_text64(s, at, v.n ? v.p : "", v.n, SQLITE_TRANSIENT, SQLITE_UTF8));
}

void
pf_bind_real(struct plan_db *f, sqlite3_stmt *s, int at, double v)
{
	if (pf_is_well(f))
		pf_note(f, sqlite3_bind_double(s, at, v));
}

void
pf_bind_bytes(struct plan_db *f, sqlite3_stmt *s, int at, const void *p, size_t n)
{
	if (pf_is_well(f))
		pf_note(f,
		    n ? sqlite3_bind_blob64(s, at, p, n, SQLITE_TRANSIENT) : sqlite3_bind_zeroblob(s, at, 0));
}

void
pf_bind_shape(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *tmp, const struct shape *shape)
{
	struct strbuf sb;

	sb_init(&sb, tmp);
	for (int i = 0; i < shape->rank; i++)
		sb_addf(&sb, "%s%" PRId64, i ? "," : "", shape->dim[i]);
	pf_bind_str(f, s, at, sb_str(&sb));
}

/* Numbers as little-endian words of `size` bytes. */
void
pf_bind_words(
    struct plan_db *f, sqlite3_stmt *s, int at, struct arena *tmp, const void *v, uint32_t n, int size)
{
	struct arena_mark mark = arena_mark(tmp);
	uint8_t *b = arena_alloc(tmp, ck_mul(n, (size_t)size));

	for (uint32_t i = 0; i < n; i++) {
		uint64_t w = size == 4 ? ((const uint32_t *)v)[i] : (uint64_t)((const int64_t *)v)[i];

		for (int k = 0; k < size; k++)
			b[i * (uint32_t)size + (uint32_t)k] = (uint8_t)(w >> 8 * k);
	}
	pf_bind_bytes(f, s, at, b, (size_t)n * (size_t)size);
	arena_reset(tmp, mark);
}

void
pf_put_row(struct plan_db *f, sqlite3_stmt *s)
{
	if (!pf_is_well(f))
		return;
	pf_note(f, sqlite3_step(s));
	pf_note(f, sqlite3_reset(s));
}

bool
pf_next_row(struct plan_db *f, sqlite3_stmt *s)
{
	int rc;

	if (!pf_is_well(f))
		return false;
	rc = sqlite3_step(s);
	pf_note(f, rc);
	return rc == SQLITE_ROW;
}

void
pf_damaged(struct plan_db *f, const char *what)
{
	if (pf_is_well(f)) {
		f->bad = true;
		(void)snprintf(f->why, sizeof(f->why), "%s", what);
	}
}

int64_t
pf_get_int(struct plan_db *f, sqlite3_stmt *s, int at)
{
	if (!pf_is_well(f))
		return 0;
	if (sqlite3_column_type(s, at) != SQLITE_INTEGER) {
		pf_damaged(f, "a number is missing");
		return 0;
	}
	return sqlite3_column_int64(s, at);
}

uint32_t
pf_get_u32(struct plan_db *f, sqlite3_stmt *s, int at)
{
	int64_t v = pf_get_int(f, s, at);

	if (v < 0 || v > UINT32_MAX) {
		pf_damaged(f, "a number is out of range");
		return 0;
	}
	return (uint32_t)v;
}

size_t
pf_get_size(struct plan_db *f, sqlite3_stmt *s, int at)
{
	int64_t v = pf_get_int(f, s, at);

	if (v < 0)
		pf_damaged(f, "a size is negative");
	return v < 0 ? 0 : (size_t)v;
}

bool
pf_get_bool(struct plan_db *f, sqlite3_stmt *s, int at)
{
	int64_t v = pf_get_int(f, s, at);

	if (v != 0 && v != 1)
		pf_damaged(f, "a flag is neither 0 nor 1");
	return v == 1;
}

double
pf_get_real(struct plan_db *f, sqlite3_stmt *s, int at)
{
	if (!pf_is_well(f))
		return 0;
	if (sqlite3_column_type(s, at) != SQLITE_FLOAT) {
		pf_damaged(f, "a real number is missing");
		return 0;
	}
	return sqlite3_column_double(s, at);
}

struct str
pf_get_str(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a)
{
	const void *p;
	size_t n;

	if (!pf_is_well(f))
		return (struct str){"", 0};
	if (sqlite3_column_type(s, at) != SQLITE_TEXT) {
		pf_damaged(f, "a text is missing");
		return (struct str){"", 0};
	}
	p = sqlite3_column_text(s, at);
	n = (size_t)sqlite3_column_bytes(s, at);
	if (!p || n > PLAN_MAX_TEXT || memchr(p, 0, n)) {
		pf_damaged(f, "a text is no text");
		return (struct str){"", 0};
	}
	return (struct str){str_dup(a, (struct str){p, n}), n};
}

struct bytes
pf_get_bytes(struct plan_db *f, sqlite3_stmt *s, int at)
{
	struct bytes b = {0};

	if (!pf_is_well(f))
		return b;
	if (sqlite3_column_type(s, at) != SQLITE_BLOB) {
		pf_damaged(f, "a blob is missing");
		return b;
	}
	b.p = sqlite3_column_blob(s, at);
	b.n = b.p ? (size_t)sqlite3_column_bytes(s, at) : 0;
	return b;
}

uint32_t *
pf_get_u32s(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a, uint32_t *n)
{
	struct bytes b = pf_get_bytes(f, s, at);
	uint32_t *v;

	if (b.n % 4 || b.n / 4 > PLAN_MAX_ROWS) {
		pf_damaged(f, "a list of numbers has an odd length");
		b.n = 0;
	}
	*n = (uint32_t)(b.n / 4);
	v = NEW_ARRAY(a, uint32_t, *n);
	for (uint32_t i = 0; i < *n; i++)
		for (uint32_t k = 0; k < 4; k++)
			v[i] |= (uint32_t)b.p[i * 4 + k] << 8 * k;
	return v;
}

enum dtype
pf_get_dtype(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a)
{
	enum dtype t = DT_f32;

	if (!dtype_of_name(pf_get_str(f, s, at, a), &t))
		pf_damaged(f, "there is no such element type");
	return t;
}

/* "2,3"; "" is a scalar. */
struct shape
pf_get_shape(struct plan_db *f, sqlite3_stmt *s, int at, struct arena *a)
{
	struct str rest = pf_get_str(f, s, at, a);
	struct shape sh = {0};
	size_t n_bytes;

	while (rest.n && sh.rank < MAX_RANK && pf_is_well(f))
		if (!str_to_i64(str_cut(&rest, ','), &sh.dim[sh.rank++]))
			pf_damaged(f, "a shape is no list of numbers");
	if (rest.n || !shape_bytes(&sh, DT_f64, &n_bytes))
		pf_damaged(f, "a shape is impossible");
	return sh;
}

bool
pf_file_error(const struct plan_db *f, bool is_reading, struct err *e)
{
	int rc = f->rc & 255;

	if (f->bad)
		return err_set(e, ERR_FORMAT, "%s: the plan is damaged: %s; make it again", f->path, f->why);
	if (rc == SQLITE_FULL)
		return err_set(e, ERR_FULL, "%s: no space left", f->path);
	if (rc == SQLITE_NOTADB)
		return err_set(e, ERR_FORMAT, "%s: is not a plan made by korch-submit", f->path);
	if (is_reading &&
	    (rc == SQLITE_CORRUPT || rc == SQLITE_ERROR || rc == SQLITE_TOOBIG || rc == SQLITE_NOMEM ||
		rc == SQLITE_INTERRUPT))
		return err_set(e, ERR_FORMAT, "%s: the plan is damaged (%s); make it again", f->path, f->why);
	return err_set(e, ERR_IO, "%s: %s: %s", f->path, is_reading ? "cannot read" : "cannot write", f->why);
}
