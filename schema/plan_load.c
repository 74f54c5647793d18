/* schema/plan_load.c: a SQLite file -> struct plan.  The file is a stranger's: it may be cut,
 * flipped, or made to hurt, and one clear error is all that may come of it. */
#include "plan_file_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HOST_FACTS = 7, EXPECTED_FACTS = 4, MOST_CLOCK = 1000000 }; /* rows of table host: plan_save.c */
static const size_t max_blob = (size_t)64 << 30;

/* Rows of a table; their ids must be 0, 1, 2, ... */
uint32_t
pf_count_rows(struct plan_db *f, const char *table)
{
	char sql[128];
	sqlite3_stmt *s;
	int64_t n = 0, last = -1;

	(void)snprintf(sql, sizeof(sql), "SELECT count(*), coalesce(max(id), -1) FROM %s", table);
	s = pf_prepare(f, sql);
	if (pf_next_row(f, s)) {
		n = pf_get_int(f, s, 0);
		last = pf_get_int(f, s, 1);
	}
	(void)sqlite3_finalize(s);
	if (n < 0 || n > PLAN_MAX_ROWS || last != n - 1) {
		pf_damaged(f, "a table has gaps or too many rows");
		return 0;
	}
	return (uint32_t)n;
}

/* Row `want`, whose id must follow the one before. */
bool
pf_row_at(struct plan_db *f, sqlite3_stmt *s, uint32_t want)
{
	if (!pf_next_row(f, s)) {
		pf_damaged(f, "a row is missing");
		return false;
	}
	if (pf_get_int(f, s, 0) != want)
		pf_damaged(f, "rows are not numbered in order");
	return pf_is_well(f);
}

static struct str
fact(struct plan_db *f, sqlite3_stmt *s, const char *key, struct arena *a)
{
	struct str v = {"", 0};

	pf_bind_str(f, s, 1, str_of(key));
	if (pf_next_row(f, s))
		v = pf_get_str(f, s, 0, a);
	else
		pf_damaged(f, "a fact about the plan is missing");
	if (s)
		(void)sqlite3_reset(s);
	return v;
}

/* Formats before 5 may lack it. */
static bool
has_fact(struct plan_db *f, sqlite3_stmt *s, const char *key)
{
	bool has;

	pf_bind_str(f, s, 1, str_of(key));
	has = pf_next_row(f, s);
	if (s)
		(void)sqlite3_reset(s);
	return has;
}

static int64_t
fact_int(struct plan_db *f, sqlite3_stmt *s, const char *key, int64_t least, int64_t most, struct arena *a)
{
	struct str text = fact(f, s, key, a);
	int64_t v = least;

	if (pf_is_well(f) && (!str_to_i64(text, &v) || v < least || v > most)) {
		pf_damaged(f, "a number about the plan is out of range");
		v = least;
	}
	return v;
}

static double
fact_real(struct plan_db *f, sqlite3_stmt *s, const char *key, struct arena *a)
{
	struct str text = fact(f, s, key, a);
	double v = 0;

	if (pf_is_well(f) && !str_to_f64(text, &v))
		pf_damaged(f, "a number about the plan is no number");
	return v;
}

static double
fact_clock(struct plan_db *f, sqlite3_stmt *s, struct arena *a)
{
	double v = fact_real(f, s, "clock_ratio", a);

	if (pf_is_well(f) && !(v > 0 && v <= MOST_CLOCK))
		pf_damaged(f, "a number about the plan is out of range");
	return pf_is_well(f) ? v : 0;
}

static void
load_facts(struct plan_db *f, struct arena *a, struct plan *p, struct plan_host *h)
{
	sqlite3_stmt *s = pf_prepare(f, "SELECT value FROM meta WHERE key = ?");

#define FACT_STR(N) fact(f, s, #N, a)
#define FACT_U32(N) (uint32_t) fact_int(f, s, #N, 0, UINT32_MAX, a)
#define FACT_U64(N) (uint64_t) fact_int(f, s, #N, 0, INT64_MAX, a)
#define FACT_SIZE(N) (size_t) fact_int(f, s, #N, 0, INT64_MAX, a)
#define FACT_I64(N) fact_int(f, s, #N, INT64_MIN, INT64_MAX, a)
#define FACT_BOOL(N) (fact_int(f, s, #N, 0, 1, a) == 1)
#define FACT_REAL(N) fact_real(f, s, #N, a)
#define X(KIND, N) p->N = FACT_##KIND(N);
	PLAN_FACTS(X)
#undef X
	p->values = STR("");
#define X(KIND, N)                                                                                           \
	if (f->version >= 5)                                                                                 \
		p->N = FACT_##KIND(N);
	PLAN_FACTS_5(X)
#undef X
	(void)sqlite3_finalize(s);
	s = pf_prepare(f, "SELECT value FROM host WHERE key = ?");
	p->measured_ns = fact_int(f, s, "measured_ns", INT64_MIN, INT64_MAX, a);
	if (has_fact(f, s, "clock_ratio")) /* not in older plans, nor where nobody knows it */
		p->clock_ratio = fact_clock(f, s, a);
	p->runner = STR("");
	if (f->version >= 5 || has_fact(f, s, "runner_ns")) {
		p->runner_ns = fact_int(f, s, "runner_ns", 0, INT64_MAX, a);
		p->runner_measured_ns = fact_int(f, s, "runner_measured_ns", 0, INT64_MAX, a);
		p->runner = fact(f, s, "runner", a);
	}
	if (has_fact(f, s, "expected_ns")) { /* not in older plans */
		p->expected_ns = fact_int(f, s, "expected_ns", 0, INT64_MAX, a);
		p->expected_low_ns = fact_int(f, s, "expected_low_ns", 0, INT64_MAX, a);
		p->expected_high_ns = fact_int(f, s, "expected_high_ns", 0, INT64_MAX, a);
		p->expected_of = (uint64_t)fact_int(f, s, "expected_of", 0, INT64_MAX, a);
	}
	p->winner = STR("");
	if (has_fact(f, s, "winner")) { /* not in older plans, nor where the least sum stayed */
		p->winner = fact(f, s, "winner", a);
		p->least_measured_ns = fact_int(f, s, "least_measured_ns", 0, INT64_MAX, a);
	}
	h->wall_ns = fact_int(f, s, "wall_ns", INT64_MIN, INT64_MAX, a);
	h->made_by = fact(f, s, "made_by", a);
	h->host = fact(f, s, "host", a);
	(void)sqlite3_finalize(s);
}

static void
load_ios(struct plan_db *f, struct arena *a, struct plan *p)
{
	uint32_t n = pf_count_rows(f, "io");
	struct plan_io *io = NEW_ARRAY(a, struct plan_io, n);
	sqlite3_stmt *s = pf_prepare(f, "SELECT id, is_output, name, type, shape FROM io ORDER BY id");

	for (uint32_t i = 0; i < n && pf_row_at(f, s, i); i++) {
		bool is_output = pf_get_bool(f, s, 1);

		if (!is_output && p->n_outputs)
			pf_damaged(f, "inputs and outputs are mixed");
		*(is_output ? &p->n_outputs : &p->n_inputs) += 1;
		io[i].name = pf_get_str(f, s, 2, a);
		io[i].type = pf_get_dtype(f, s, 3, a);
		io[i].shape = pf_get_shape(f, s, 4, a);
	}
	(void)sqlite3_finalize(s);
	p->inputs = io;
	p->outputs = io + p->n_inputs;
}

static size_t
blob_bytes(struct plan_db *f, const char *name)
{
	sqlite3_stmt *s = pf_prepare(f, "SELECT coalesce(sum(length(data)), 0) FROM part WHERE name = ?");
	int64_t n = 0;

	pf_bind_str(f, s, 1, str_of(name));
	if (pf_next_row(f, s))
		n = pf_get_int(f, s, 0);
	(void)sqlite3_finalize(s);
	if (n < 0 || (uint64_t)n > max_blob)
		pf_damaged(f, "a blob has an impossible size");
	return pf_is_well(f) ? (size_t)n : 0;
}

/* The parts of a blob, one behind the other, PLAN_ALIGNed and followed by a zero byte. */
static struct bytes
load_blob(struct plan_db *f, struct arena *a, const char *name)
{
	size_t n = blob_bytes(f, name), at = 0;
	uint8_t *p = arena_alloc(a, n + PLAN_ALIGN + 1);
	sqlite3_stmt *s = pf_prepare(f, "SELECT part, data FROM part WHERE name = ? ORDER BY part");

	p += -(uintptr_t)p % PLAN_ALIGN;
	pf_bind_str(f, s, 1, str_of(name));
	for (uint32_t i = 0; at < n && pf_row_at(f, s, i); i++) {
		struct bytes b = pf_get_bytes(f, s, 1);

		if (b.n == 0 || b.n > n - at) {
			pf_damaged(f, "the parts of a blob do not fit together");
			break;
		}
		memcpy(p + at, b.p, b.n);
		at += b.n;
	}
	(void)sqlite3_finalize(s);
	return (struct bytes){p, at};
}

static struct str
load_text(struct plan_db *f, struct arena *a, const char *name)
{
	struct bytes b = load_blob(f, a, name);

	return (struct str){(const char *)b.p, b.n};
}

static void
load_digest(struct plan_db *f, const char *name, uint8_t *out, size_t n)
{
	sqlite3_stmt *s = pf_prepare(f, "SELECT value FROM digest WHERE name = ?");
	struct bytes b = {0};

	pf_bind_str(f, s, 1, str_of(name));
	if (pf_next_row(f, s))
		b = pf_get_bytes(f, s, 0);
	if (b.n == n)
		memcpy(out, b.p, n);
	else
		pf_damaged(f, "its digest is missing");
	(void)sqlite3_finalize(s);
}

static void
check_sum(struct plan_db *f, const struct plan *p, const struct plan_host *h)
{
	uint8_t b[8] = {0};
	uint64_t sum = 0;

	load_digest(f, "sum", b, sizeof(b));
	for (int i = 0; i < 8; i++)
		sum |= (uint64_t)b[i] << 8 * i;
	if (pf_is_well(f) && sum != plan_sum(p, h))
		pf_damaged(f, "its content does not fit its checksum");
}

/* ---- opening a stranger's file ------------------------------------------------------------- */
static int64_t
pragma_int(struct plan_db *f, const char *sql)
{
	sqlite3_stmt *s = pf_prepare(f, sql);
	int64_t v = 0;

	if (pf_next_row(f, s))
		v = pf_get_int(f, s, 0);
	(void)sqlite3_finalize(s);
	return v;
}

/* A damaged tree may loop; no honest plan needs so many steps of the virtual machine. */
static int
count_down(void *left)
{
	int64_t *n = left;

	return --*n < 0;
}

void
pf_limit_steps(struct plan_db *f, int64_t *left)
{
	*left = 1000000;
	sqlite3_progress_handler(f->db, 1000, count_down, left);
}

/* No views, triggers or virtual tables: reading must run no code of the file's. */
static void
check_kinds(struct plan_db *f)
{
	if (pragma_int(f,
		"SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table','index')"
		" OR (type = 'index' AND sql IS NOT NULL)"
		" OR (type = 'table' AND sql NOT LIKE 'CREATE TABLE%')") != 0)
		pf_damaged(f, "it holds more than tables");
}

bool
pf_open_stranger(struct plan_db *f, struct err *e)
{
	struct stat st;
	int64_t id;

	if (stat(f->path, &st) != 0)
		return err_set(e, ERR_IO, "%s: cannot open: %s", f->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_IO, "%s: is not a file", f->path);
	f->rc =
	    sqlite3_open_v2(f->path, &f->db, f->writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY, NULL);
	if (f->rc != SQLITE_OK) {
		(void)snprintf(f->why, sizeof(f->why), "%s", f->db ? sqlite3_errmsg(f->db) : "out of memory");
		return pf_file_error(f, true, e);
	}
	(void)sqlite3_db_config(f->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(f->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void)sqlite3_db_config(f->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	(void)sqlite3_db_config(f->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	pf_run_sql(f, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;");
	id = pragma_int(f, "PRAGMA application_id");
	if (pf_is_well(f) && id != PLAN_FILE_ID)
		return err_set(e, ERR_FORMAT, "%s: is not a plan made by korch-submit", f->path);
	f->version = pragma_int(f, "PRAGMA user_version");
	if (pf_is_well(f) && f->version > PLAN_FILE_VERSION)
		return err_set(e, ERR_NEWER,
		    "%s: was made by a newer Korch (format %" PRId64
		    ", this one knows %d); update Korch or make the plan again",
		    f->path, f->version, PLAN_FILE_VERSION);
	if (pf_is_well(f) && f->version < 1)
		pf_damaged(f, "it has no format version");
	if (pf_is_well(f) && f->version < PLAN_FILE_OLDEST)
		return err_set(e, ERR_FORMAT,
		    "%s: was made by an older Korch (format %" PRId64
		    ", this one needs %d or newer); make the plan again",
		    f->path, f->version, PLAN_FILE_OLDEST);
	check_kinds(f);
	return pf_is_well(f) || pf_file_error(f, true, e);
}

void
pf_load_rows(struct plan_db *f, struct arena *a, struct plan *p, struct plan_host *h)
{
	load_facts(f, a, p, h);
	load_ios(f, a, p);
	pf_load_tables(f, a, p);
}

static void
load_all(struct plan_db *f, struct arena *a, struct plan *p, struct plan_host *h)
{
	pf_load_rows(f, a, p, h);
	p->graph = load_text(f, a, "graph");
	p->source = load_text(f, a, "source");
	p->module = load_blob(f, a, "module");
	p->constants = load_blob(f, a, "constants");
	if (pf_is_well(f))
		check_sum(f, p, h);
}

/* Before format 5 nothing says what belongs there. */
static void
check_sets(struct plan_db *f, const struct plan *p)
{
	int64_t n_some = (p->expected_ns ? EXPECTED_FACTS : 0) + (p->winner.n ? 2 : 0) + (p->clock_ratio > 0);

	if (f->version >= 5 &&
	    (pragma_int(f, "SELECT count(*) FROM host") != HOST_FACTS + n_some ||
		(f->version >= 6 && pragma_int(f, "SELECT count(*) FROM seal") > 1) ||
		pragma_int(f, "SELECT count(*) FROM digest") != 2))
		pf_damaged(f, "the tables 'host', 'digest' and 'seal' hold more than they should");
}

/* full (may be NULL) receives the digest of what the file holds; h->digest is what it claims. */
static void
load_digests(struct plan_db *f, const struct plan *p, struct plan_host *h, struct hash *full)
{
	load_digest(f, "plan", h->digest.b, sizeof(h->digest.b));
	check_sets(f, p);
	if (!full || !pf_is_well(f))
		return;
	if (f->version < 5)
		plan_digest_before_5(p, full);
	else
		*full = pf_walk(f);
}

static bool
load_file(struct arena *a, const char *path, struct plan *out, struct plan_host *h, struct hash *full,
    struct err *e)
{
	struct plan_db f = {.path = path};
	int64_t steps_left;
	bool ok;

	*out = (struct plan){0};
	ok = pf_open_stranger(&f, e);
	if (ok) {
		pf_limit_steps(&f, &steps_left);
		load_all(&f, a, out, h);
		load_digests(&f, out, h, full);
		pf_load_seal(&f, a, &h->seal);
		ok = pf_is_well(&f) || pf_file_error(&f, true, e);
	}
	if (sqlite3_close(f.db) != SQLITE_OK)
		bug("a statement on a plan file was left open");
	if (ok && !plan_check(out, e))
		return err_in(e, "%s", path);
	return ok;
}

bool
plan_load(struct arena *a, const char *path, struct plan *out, struct plan_host *h, struct err *e)
{
	struct plan_host unused = {0};

	return load_file(a, path, out, h ? h : &unused, NULL, e);
}

/* Without loading: what the file holds may be no plan. */
bool
plan_file_digest(const char *path, struct hash *out, struct err *e)
{
	struct plan_db f = {.path = path};
	int64_t steps_left;
	bool ok = pf_open_stranger(&f, e);

	if (ok && f.version >= 5) {
		pf_limit_steps(&f, &steps_left);
		*out = pf_walk(&f);
		ok = pf_is_well(&f) || pf_file_error(&f, true, e);
	}
	if (sqlite3_close(f.db) != SQLITE_OK)
		bug("a statement on a plan file was left open");
	return ok && f.version < 5 ? plan_file_check(path, out, e) : ok;
}

bool
plan_file_check(const char *path, struct hash *out, struct err *e)
{
	struct arena tmp = {0};
	struct plan_host h = {0};
	struct plan p;
	bool ok = load_file(&tmp, path, &p, &h, out, e);

	if (ok && !hash_eq(&h.digest, out))
		ok = err_set(
		    e, ERR_FORMAT, "%s: the plan is not the one its digest names; make it again", path);
	arena_fini(&tmp);
	return ok;
}
