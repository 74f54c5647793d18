/* A column of a measurement is a row of proto/meas.def: it is in the store's tables, in the record on the
 * wire, in JSON and in an export, with a value of its own that comes back from each; pooling does what the
 * row says. */
#include "../../proto/range.h"
#include "store_rig.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const sql_types[] = {[MEAS_U64] = "INTEGER",
    [MEAS_I64] = "INTEGER",
    [MEAS_F64] = "REAL",
    [MEAS_TEXT] = "TEXT",
    [MEAS_HASH] = "BLOB"};

/* ---- the tables of the store ------------------------------------------------------------- */
/* What a table holds beside columns of meas.def. */
static bool
is_its_own(const char *table, const char *column)
{
	if (strcmp(column, "key") == 0)
		return true;
	return strcmp(column, strcmp(table, "repeat") == 0 ? "session" : "env") == 0;
}

static void
check_table(sqlite3 *db, const char *table)
{
	bool is_all = strcmp(table, "measurement") == 0, has[MEAS_COLS] = {0};
	sqlite3_stmt *s = NULL;

	assert_int_equal(sqlite3_prepare_v2(
			     db, "SELECT name, type, \"notnull\" FROM pragma_table_xinfo(?1)", -1, &s, NULL),
	    SQLITE_OK);
	(void)sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
	while (sqlite3_step(s) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(s, 0);
		const struct meas_col *c = meas_col_of(str_of(name));

		if (is_its_own(table, name))
			continue;
		if (!c)
			fail_msg("proto/meas.def lacks %s of the table %s", name, table);
		assert_string_equal(sqlite3_column_text(s, 1), sql_types[c->kind]);
		assert_int_equal(sqlite3_column_int(s, 2), 1);
		has[c - meas_cols] = true;
	}
	(void)sqlite3_finalize(s);
	for (uint32_t i = 0; i < MEAS_COLS; i++)
		if (has[i] != (is_all || meas_cols[i].is_repeated))
			fail_msg("the table %s %s %s, and proto/meas.def says otherwise", table,
			    has[i] ? "has" : "lacks", meas_cols[i].name);
}

static void
tables_have_the_columns(void **state)
{
	struct box b;
	sqlite3 *db = NULL;
	char path[128];
	struct err e = {0};

	(void)state;
	box_open(&b);
	assert_true(db_commit(b.db, &e));
	(void)snprintf(path, sizeof(path), "%s/korch.db", b.dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	check_table(db, "measurement");
	check_table(db, "repeat");
	(void)sqlite3_close(db);
	box_close(&b);
}

/* ---- values ------------------------------------------------------------------------------ */
static void *
field(const struct meas_col *c, struct m_measurement *m)
{
	return (char *)m + c->at[FORM_MEASUREMENT];
}

/* Each column has a value that no other one has, but where only some are possible. */
static void
fill(struct arena *a, struct m_measurement *m)
{
	*m = (struct m_measurement){.env = STR(""), .text = STR("")};
	for (uint32_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];
		int64_t number = 1000 + i;

		if (c->kind == MEAS_TEXT)
			*(struct str *)field(c, m) = str_of(arena_printf(a, "%s%u", c->name, i));
		else if (c->kind == MEAS_HASH)
			*(struct hash *)field(c, m) = hash_bytes(&number, sizeof(number));
		else if (c->kind == MEAS_F64)
			*(double *)field(c, m) = 0.5 + i;
		else
			*(int64_t *)field(c, m) = number;
	}
	m->row.fail = 0;
	m->heat = STR("hn");
}

static void
assert_same(const struct meas_col *c, struct m_measurement *x, struct m_measurement *y)
{
	const void *p = field(c, x), *q = field(c, y);
	bool same = c->kind == MEAS_TEXT
	    ? str_eq(*(const struct str *)p, *(const struct str *)q)
	    : memcmp(p, q, c->kind == MEAS_HASH ? sizeof(struct hash) : sizeof(int64_t)) == 0;

	if (!same)
		fail_msg("%s is not what it was", c->name);
}

static void
put(struct box *b, const struct m_measurement *m)
{
	struct meas_key k = box_env(b, "cpu", "m=1");
	static const struct hash model = {{1}};
	struct meas_origin from = {
#define FROM(KIND, N, ...) .N = m->N,
#include "../../proto/meas.def"
	};
	struct hash h;
	struct err e = {0};

	k.threads = m->threads;
	k.epoch = m->epoch;
	k.precision = m->precision;
	k.heat = m->heat;
	if (!spec_put(b->db, STR("S"), &model, &h, &e) || !meas_put(b->db, &h, &k, &m->row, 1, &from, &e))
		fail_msg("%s", e.msg);
}

static void
made(struct arena *a, struct m_measurement *m)
{
	fill(a, m);
	m->spec = hash_bytes("S", 1);
	m->row.samples = 1000;
}

/* The one row of a store, as lists show it. */
static struct m_measurement
only_row(struct box *b)
{
	static const struct hash first;
	struct m_measurement *rows;
	uint32_t n;
	bool more;
	struct err e = {0};

	if (!cache_list(b->db, &b->a, &first, STR(""), 10, &rows, &n, &more, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(n, 1);
	return rows[0];
}

static void
every_column_comes_back(void **state)
{
	struct box from, to;
	struct m_measurement m, got;
	struct bytes all, packed;
	struct strbuf json;
	struct str report;
	struct err e = {0};

	(void)state;
	box_open(&from);
	box_open(&to);
	made(&from.a, &m);
	put(&from, &m);
	got = only_row(&from);
	for (uint32_t i = 0; i < MEAS_COLS; i++)
		assert_same(&meas_cols[i], &m, &got);
	if (!cache_export(from.db, &from.a, STR(""), &all, &e) ||
	    !cache_import(to.db, &to.a, all, false, &report, &e))
		fail_msg("%s", e.msg);
	got = only_row(&to);
	for (uint32_t i = 0; i < MEAS_COLS; i++)
		assert_same(&meas_cols[i], &m, &got);
	assert_true(rec_pack(&to.a, "measurement", &m, &packed, &e));
	assert_true(rec_unpack(&to.a, "measurement", packed, &got, &e));
	sb_init(&json, &to.a);
	rec_json(&json, "measurement", &m);
	for (uint32_t i = 0; i < MEAS_COLS; i++) {
		assert_same(&meas_cols[i], &m, &got);
		if (!strstr(json.p, arena_printf(&to.a, "\"%s\":", meas_cols[i].name)))
			fail_msg("JSON has no %s", meas_cols[i].name);
	}
	box_close(&from);
	box_close(&to);
}

/* Repeats have the columns that are REPEATED, and come with an export. */
static void
every_repeated_column_comes_back(void **state)
{
	static const struct hash session = {{7}};
	struct box from, to, *boxes[] = {&from, &to};
	struct m_measurement m, *rows;
	struct meas_key k;
	struct meas_origin origin = {.worker = STR("again"), .gen = 77, .wall_ns = 78};
	struct bytes all;
	struct str report;
	uint32_t n;
	struct err e = {0};

	(void)state;
	box_open(&from);
	box_open(&to);
	made(&from.a, &m);
	put(&from, &m);
	k = box_env(&from, "cpu", "m=1");
	k.threads = m.threads;
	k.epoch = m.epoch;
	k.precision = m.precision;
	k.heat = m.heat;
	m.worker = origin.worker;
	m.gen = origin.gen;
	m.wall_ns = origin.wall_ns;
	if (!repeat_put(from.db, &m.spec, &k, &session, &m.row, &origin, &e) ||
	    !cache_export(from.db, &from.a, STR(""), &all, &e) ||
	    !cache_import(to.db, &to.a, all, false, &report, &e))
		fail_msg("%s", e.msg);
	for (size_t b = 0; b < COUNT_OF(boxes); b++) {
		assert_true(
		    cache_show(boxes[b]->db, &boxes[b]->a, (struct bytes){m.spec.b, 4}, &rows, &n, &e));
		assert_int_equal(n, 1);
		assert_int_equal(rows[0].n_repeats, 1);
		assert_true(hash_eq(&rows[0].repeats[0].session, &session));
		rows[0].row = rows[0].repeats[0].row;
		rows[0].worker = rows[0].repeats[0].worker;
		rows[0].gen = rows[0].repeats[0].gen;
		rows[0].wall_ns = rows[0].repeats[0].wall_ns;
		for (uint32_t i = 0; i < MEAS_COLS; i++)
			if (meas_cols[i].is_repeated)
				assert_same(&meas_cols[i], &m, &rows[0]);
	}
	box_close(&from);
	box_close(&to);
}

/* ---- pooling ----------------------------------------------------------------------------- */
/* Of two numbers that a column had, the second one later, with 1000 and 3000 samples. */
static double
pooled(const struct meas_col *c, double x, double y)
{
	switch (c->pool) {
	case POOL_FIRST:
	case POOL_IDENTITY:
		return x;
	case POOL_LAST:
		return y;
	case POOL_LEAST:
		return fmin(x, y);
	case POOL_MOST:
		return fmax(x, y);
	case POOL_SUM:
		return x + y;
	case POOL_MEAN:
		return x / 4 + y * 3 / 4;
	}
	fail_msg("pool %d", (int)c->pool);
	return 0;
}

static void
pooling_is_as_the_rows_say(void **state)
{
	struct box b;
	struct m_measurement m, later, got;

	(void)state;
	box_open(&b);
	made(&b.a, &m);
	later = m;
	for (uint32_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];
		int step = i % 2 ? 400 : -400; /* some rise and some fall */

		if (c->pool == POOL_IDENTITY || c->kind == MEAS_HASH || strcmp(c->name, "fail") == 0)
			continue;
		if (c->kind == MEAS_TEXT)
			*(struct str *)field(c, &later) = STR("later");
		else if (c->kind == MEAS_F64)
			*(double *)field(c, &later) += step;
		else
			*(int64_t *)field(c, &later) += step;
	}
	later.row.samples = 3000;
	later.wall_ns = m.wall_ns + 1;
	put(&b, &m);
	put(&b, &later);
	got = only_row(&b);
	for (uint32_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];

		if (c->kind == MEAS_TEXT || c->kind == MEAS_HASH)
			assert_same(c, c->pool == POOL_LAST ? &later : &m, &got);
		else if (fabs(meas_number(c, FORM_MEASUREMENT, &got) -
			     pooled(c, meas_number(c, FORM_MEASUREMENT, &m),
				 meas_number(c, FORM_MEASUREMENT, &later))) > 0)
			fail_msg("%s is pooled in another way", c->name);
	}
	box_close(&b);
}

/* ---- what may stand in a column ---------------------------------------------------------- */
static void
set(const struct meas_col *c, struct m_row *r, double v)
{
	void *p = (char *)r + c->at[FORM_ROW];

	if (c->kind == MEAS_F64)
		*(double *)p = v;
	else
		*(int64_t *)p = (int64_t)v;
}

/* A number beyond its range is refused by name, and a failure with what only a time leaves. */
static void
ranges_hold(void **state)
{
	struct m_row good = box_row("s", 1000, 20);
	struct err e = {0};

	(void)state;
	assert_true(row_check(&good, &e));
	for (uint32_t i = 0; i < MEAS_COLS; i++) {
		const struct meas_col *c = &meas_cols[i];
		struct m_row bad = good, failed = {.fail = (uint64_t)err_wire(ERR_COMPILE)};

		if (c->check == CHECK_FREE)
			continue;
		assert_true(row_check(&failed, &e));
		set(c, &bad, c->most < DBL_MAX ? c->most * 2 : (double)INFINITY);
		assert_false(row_check(&bad, &e));
		set(c, &bad, -1);
		if (c->kind != MEAS_U64)
			assert_false(row_check(&bad, &e));
		set(c, &failed, 7);
		assert_int_equal(row_check(&failed, &e), c->check != CHECK_TIMED);
		meas_untime(&failed);
		assert_true(row_check(&failed, &e));
	}
}

/* What SQLite has no word for comes back as a number; texts are cut to their limits. */
static void
no_numbers_and_long_texts(void **state)
{
	struct box b;
	struct m_measurement m, got;

	(void)state;
	box_open(&b);
	made(&b.a, &m);
	m.row.error = m.row.clock_ratio = (double)NAN;
	put(&b, &m);
	got = only_row(&b);
	assert_true(got.row.error >= DBL_MAX && got.row.clock_ratio <= 0);
	m.row.cause = (struct str){arena_alloc(&b.a, 600), 600};
	meas_cut(&m.row);
	assert_int_equal(m.row.cause.n, meas_col_of(STR("cause"))->limit);
	assert_int_equal(m.row.cause.n, 512);
	box_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tables_have_the_columns),
	    cmocka_unit_test(every_column_comes_back),
	    cmocka_unit_test(every_repeated_column_comes_back),
	    cmocka_unit_test(pooling_is_as_the_rows_say),
	    cmocka_unit_test(ranges_hold),
	    cmocka_unit_test(no_numbers_and_long_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
