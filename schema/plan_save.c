/* schema/plan_save.c: struct plan -> a SQLite file, put in its place as kernels/base/out.h says.
 *
 * Most tables are plan_table.def's.  Lists of numbers are blobs of little-endian words; large bytes
 * (code, constants, graph, source) are cut into parts, so that no row is huge. */
#include "plan_file_int.h"

#include "../kernels/base/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE host(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE digest(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE io(id INTEGER PRIMARY KEY, is_output INTEGER NOT NULL, name TEXT NOT NULL,"
    " type TEXT NOT NULL, shape TEXT NOT NULL) STRICT;"
    "CREATE TABLE seal(id INTEGER PRIMARY KEY, signer BLOB NOT NULL, plan BLOB NOT NULL, build BLOB NOT NULL,"
    " build_key BLOB NOT NULL, worker TEXT NOT NULL) STRICT;"
    "CREATE TABLE part(name TEXT NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL,"
    " PRIMARY KEY(name, part)) STRICT;";

static char *
text_of_real(struct arena *a, double v)
{
	return arena_printf(a, "%a", v);
}

static void
save_fact(struct plan_db *f, sqlite3_stmt *s, const char *key, struct str value)
{
	pf_bind_str(f, s, 1, str_of(key));
	pf_bind_str(f, s, 2, value);
	pf_put_row(f, s);
}

static void
save_expected(struct plan_db *f, sqlite3_stmt *s, struct arena *tmp, const struct plan *p)
{
	save_fact(f, s, "expected_ns", str_of(arena_printf(tmp, "%" PRId64, p->expected_ns)));
	save_fact(f, s, "expected_low_ns", str_of(arena_printf(tmp, "%" PRId64, p->expected_low_ns)));
	save_fact(f, s, "expected_high_ns", str_of(arena_printf(tmp, "%" PRId64, p->expected_high_ns)));
	save_fact(f, s, "expected_of", str_of(arena_printf(tmp, "%" PRIu64, p->expected_of)));
}

static void
save_facts(struct plan_db *f, struct arena *tmp, const struct plan *p, const struct plan_host *h)
{
	sqlite3_stmt *s = pf_prepare(f, "INSERT INTO meta VALUES(?,?)");

#define TEXT_STR(N) p->N
#define TEXT_U32(N) str_of(arena_printf(tmp, "%" PRIu32, p->N))
#define TEXT_U64(N) str_of(arena_printf(tmp, "%" PRIu64, p->N))
#define TEXT_SIZE(N) str_of(arena_printf(tmp, "%zu", p->N))
#define TEXT_I64(N) str_of(arena_printf(tmp, "%" PRId64, p->N))
#define TEXT_BOOL(N) str_of(p->N ? "1" : "0")
#define TEXT_REAL(N) str_of(text_of_real(tmp, p->N))
#define X(KIND, N) save_fact(f, s, #N, TEXT_##KIND(N));
	PLAN_FACTS(X)
	PLAN_FACTS_5(X)
#undef X
	(void)sqlite3_finalize(s);
	s = pf_prepare(f, "INSERT INTO host VALUES(?,?)");
	save_fact(f, s, "measured_ns", str_of(arena_printf(tmp, "%" PRId64, p->measured_ns)));
	if (p->clock_ratio > 0)
		save_fact(f, s, "clock_ratio", str_of(text_of_real(tmp, p->clock_ratio)));
	save_fact(f, s, "runner_ns", str_of(arena_printf(tmp, "%" PRId64, p->runner_ns)));
	save_fact(f, s, "runner_measured_ns", str_of(arena_printf(tmp, "%" PRId64, p->runner_measured_ns)));
	save_fact(f, s, "runner", p->runner);
	if (p->expected_ns)
		save_expected(f, s, tmp, p);
	if (p->winner.n) {
		save_fact(f, s, "winner", p->winner);
		save_fact(
		    f, s, "least_measured_ns", str_of(arena_printf(tmp, "%" PRId64, p->least_measured_ns)));
	}
	save_fact(f, s, "wall_ns", str_of(arena_printf(tmp, "%" PRId64, h->wall_ns)));
	save_fact(f, s, "made_by", h->made_by);
	save_fact(f, s, "host", h->host);
	(void)sqlite3_finalize(s);
}

static void
save_ios(struct plan_db *f, struct arena *tmp, const struct plan *p)
{
	sqlite3_stmt *s = pf_prepare(f, "INSERT INTO io VALUES(?,?,?,?,?)");

	for (uint32_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
		bool is_output = i >= p->n_inputs;
		const struct plan_io *io = is_output ? &p->outputs[i - p->n_inputs] : &p->inputs[i];

		pf_bind_int(f, s, 1, i);
		pf_bind_int(f, s, 2, is_output);
		pf_bind_str(f, s, 3, io->name);
		pf_bind_str(f, s, 4, str_of(dtype_name(io->type)));
		pf_bind_shape(f, s, 5, tmp, &io->shape);
		pf_put_row(f, s);
	}
	(void)sqlite3_finalize(s);
}

static void
save_blob(struct plan_db *f, const char *name, const void *p, size_t n)
{
	sqlite3_stmt *s = pf_prepare(f, "INSERT INTO part VALUES(?,?,?)");
	int64_t part = 0;

	for (size_t at = 0; at < n && pf_is_well(f); at += PLAN_PART_BYTES, part++) {
		pf_bind_str(f, s, 1, str_of(name));
		pf_bind_int(f, s, 2, part);
		pf_bind_bytes(f, s, 3, (const char *)p + at, MIN_OF(n - at, (size_t)PLAN_PART_BYTES));
		pf_put_row(f, s);
	}
	(void)sqlite3_finalize(s);
}

static void
save_digests(struct plan_db *f, const struct plan *p, const struct plan_host *h)
{
	sqlite3_stmt *s = pf_prepare(f, "INSERT INTO digest VALUES(?,?)");
	uint64_t sum = plan_sum(p, h);
	struct hash full = pf_walk(f);
	uint8_t b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (uint8_t)(sum >> 8 * i);
	pf_bind_str(f, s, 1, STR("plan"));
	pf_bind_bytes(f, s, 2, full.b, sizeof(full.b));
	pf_put_row(f, s);
	pf_bind_str(f, s, 1, STR("sum"));
	pf_bind_bytes(f, s, 2, b, sizeof(b));
	pf_put_row(f, s);
	(void)sqlite3_finalize(s);
}

void
pf_create_all(struct plan_db *f, struct arena *tmp)
{
	pf_create_tables(f, tmp);
	pf_run_sql(f, schema);
}

void
pf_save_rows(struct plan_db *f, struct arena *tmp, const struct plan *p, const struct plan_host *h)
{
	save_facts(f, tmp, p, h);
	save_ios(f, tmp, p);
	pf_save_tables(f, tmp, p);
}

static void
save_all(struct plan_db *f, const struct plan *p, const struct plan_host *h)
{
	struct arena tmp = {0};
	char version[64];

	(void)snprintf(version, sizeof(version), "PRAGMA application_id=%d; PRAGMA user_version=%d;",
	    PLAN_FILE_ID, PLAN_FILE_VERSION);
	/* Nobody sees the file before it is renamed, so it needs no journal. */
	pf_run_sql(f, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA page_size=8192;");
	pf_run_sql(f, version);
	pf_run_sql(f, "BEGIN");
	pf_create_all(f, &tmp);
	pf_save_rows(f, &tmp, p, h);
	save_blob(f, "graph", p->graph.p, p->graph.n);
	save_blob(f, "source", p->source.p, p->source.n);
	save_blob(f, "module", p->module.p, p->module.n);
	save_blob(f, "constants", p->constants.p, p->constants.n);
	save_digests(f, p, h);
	pf_save_seal(f, &h->seal);
	pf_run_sql(f, "COMMIT");
	arena_fini(&tmp);
}

static bool
save_file(const char *path, const struct plan *p, const struct plan_host *h, const struct sign_key *key,
    struct err *e)
{
	struct plan_db f = {.path = path, .version = PLAN_FILE_VERSION};
	struct out o;

	if (!out_begin(&o, path, e))
		return false;
	f.rc = sqlite3_open_v2(o.made, &f.db, SQLITE_OPEN_READWRITE, NULL);
	if (f.rc != SQLITE_OK)
		(void)snprintf(f.why, sizeof(f.why), "%s", f.db ? sqlite3_errmsg(f.db) : "out of memory");
	save_all(&f, p, h);
	if (sqlite3_close(f.db) != SQLITE_OK)
		bug("a statement on a plan file was left open");
	if (!pf_is_well(&f))
		(void)pf_file_error(&f, false, e);
	else if (!key || plan_seal(o.made, key, e))
		return out_end(&o, e);
	out_drop(&o);
	return false;
}

bool
plan_save(const char *path, const struct plan *p, const struct plan_host *h, struct err *e)
{
	return save_file(path, p, h, NULL, e);
}

bool
plan_save_sealed(const char *path, const struct plan *p, const struct plan_host *h,
    const struct sign_key *key, struct err *e)
{
	return save_file(path, p, h, key, e);
}
