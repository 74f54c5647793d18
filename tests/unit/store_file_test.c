/* Files of the store: exports are deterministic, strangers' files are refused whole, uploads go on where they
 * stood, what nobody needs goes.
 * memory: yes */
#include "store_rig.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct bytes export(struct box *b)
{
	struct bytes out;
	struct err e = {0};

	assert_true(cache_export(b->db, &b->a, STR(""), &out, &e));
	return out;
}

static void
fill(struct box *b, bool forward)
{
	struct meas_key k1, k2;

	if (forward) {
		k1 = box_env(b, "cpu", "m=1");
		k2 = box_env(b, "fake", "m=2");
	} else {
		k2 = box_env(b, "fake", "m=2");
		k1 = box_env(b, "cpu", "m=1");
	}
	for (int i = 0; i < 40; i++) {
		int n = forward ? i : 39 - i;
		char spec[16], schedule[16];

		(void)snprintf(spec, sizeof(spec), "spec%d", n % 13);
		(void)snprintf(schedule, sizeof(schedule), "s%d", n / 13);
		box_put(b, spec, n % 2 ? &k1 : &k2, box_row(schedule, 100 + n, 3), 7 + n);
		if (n % 5 == 0)
			box_again(b, spec, n % 2 ? &k1 : &k2, (uint8_t)n, (uint64_t)n,
			    box_row(schedule, 90 + n, 3));
	}
}

static void
import_export(void **state)
{
	struct box b, c;
	struct bytes one, two;
	struct str report;
	struct err e = {0};
	bool more;
	struct m_measurement *rows;
	struct m_count *counts;
	struct hash zero = {{0}};
	uint32_t n;

	(void)state;
	box_open(&b);
	fill(&b, true);
	one = export(&b);
	box_open(&c);
	assert_true(cache_import(c.db, &c.a, one, true, &report, &e));
	assert_true(export(&c).n < one.n);        /* a dry run changes nothing */
	for (int round = 0; round < 2; round++) { /* a second import neither */
		if (!cache_import(c.db, &c.a, one, false, &report, &e))
			fail_msg("%s", e.msg);
		two = export(&c);
		assert_true(one.n == two.n && memcmp(one.p, two.p, one.n) == 0);
	}
	assert_non_null(strstr(report.p, "\"measurements\":40,\"new\":0,\"pooled\":0,\"conflicts\":0"));
	assert_true(cache_list(c.db, &c.a, &zero, STR(""), 10, &rows, &n, &more, &e));
	assert_true(n >= 10 && n < 40 && more);
	assert_true(cache_show(c.db, &c.a, (struct bytes){rows[0].spec.b, 3}, &rows, &n, &e));
	assert_true(n >= 1 && rows[0].text.n);
	assert_true(cache_stats(c.db, &c.a, &counts, &n, &e));
	assert_true(str_is(counts[0].name, "measurements") && counts[0].value == 40);
	box_close(&c);
	box_open(&c);
	fill(&c, false); /* another order of arrival gives the same bytes */
	two = export(&c);
	assert_true(one.n == two.n && memcmp(one.p, two.p, one.n) == 0);
	assert_true(db_verify(c.db, &c.a, &report, &e));
	assert_string_equal(report.p, "");
	box_close(&c);
	box_close(&b);
}

static void
broken_imports(void **state)
{
	struct box b, c;
	struct bytes good, before, after;
	struct str report;
	struct err e = {0};
	uint8_t *p;

	(void)state;
	box_open(&b);
	box_open(&c);
	fill(&b, true);
	good = export(&b);
	before = export(&c);
	for (size_t n = 0; n < good.n; n += 7)
		assert_false(cache_import(c.db, &c.a, (struct bytes){good.p, n}, false, &report, &e));
	p = arena_dup(&c.a, good.p, good.n);
	for (size_t i = 14; i < good.n; i += 3) {
		p[i] ^= 0x55;
		assert_false(cache_import(c.db, &c.a, (struct bytes){p, good.n}, false, &report, &e));
		p[i] ^= 0x55;
	}
	assert_false(
	    cache_import(c.db, &c.a, (struct bytes){(const uint8_t *)"hello", 5}, false, &report, &e));
	assert_string_equal(e.msg, "import: not an export of a Korch cache");
	after = export(&c);
	assert_true(before.n == after.n && memcmp(before.p, after.p, after.n) == 0);
	box_close(&b);
	box_close(&c);
}

/* The same folder, once more, with a limit of so many bytes. */
static struct db *
reopen(struct box *b, uint64_t limit)
{
	struct db *db;
	struct err e = {0};

	assert_true(db_commit(b->db, &e));
	db_close(b->db);
	b->conf.blob_limit = limit;
	if (!db_open(&db, &b->conf, &e))
		fail_msg("%s", e.msg);
	assert_true(db_begin(db, &e));
	return db;
}

/* A job with `data` as its only file. */
static uint64_t
job_with(struct box *b, uint8_t request, const char *data, const char *state)
{
	struct m_job job = {.name = STR("m.onnx"), .state = str_of(state)};
	struct m_file file = {.name = STR("m.onnx"), .bytes = strlen(data)};
	bool is_new;
	struct err e = {0};

	assert_true(
	    blob_put(b->db, (struct bytes){(const uint8_t *)data, strlen(data)}, "model", &file.digest, &e));
	if (!job_add(b->db, (struct bytes){&request, 1}, &job, &file, 1, &job.id, &is_new, &e))
		fail_msg("%s", e.msg);
	return job.id;
}

static bool
send(struct box *b, uint64_t owner, const struct hash *h, uint64_t total, uint64_t offset, struct bytes data,
    uint64_t *next, struct err *e)
{
	struct blob_piece p = {
	    .digest = *h, .total = total, .offset = offset, .data = data, .kind = "model", .owner = owner};

	return blob_chunk(b->db, &p, next, e);
}

static void
blobs(void **state)
{
	struct box b;
	struct hash h = hash_bytes("hello world", 11);
	const uint8_t *p = (const uint8_t *)"hello world";
	struct bytes got;
	uint64_t next = 0, total;
	struct err e = {0};

	(void)state;
	box_open(&b);
	assert_false(blob_size(b.db, &h, &total));
	assert_true(send(&b, 1, &h, 11, 0, (struct bytes){p, 5}, &next, &e));
	assert_int_equal(next, 5);
	assert_true(send(&b, 1, &h, 11, 0, (struct bytes){p, 5}, &next, &e)); /* repeated */
	assert_int_equal(next, 5);
	assert_true(send(&b, 1, &h, 11, 9, (struct bytes){p, 2}, &next, &e)); /* too early */
	assert_int_equal(next, 5);
	assert_true(send(&b, 1, &h, 11, 5, (struct bytes){p + 5, 6}, &next, &e));
	assert_int_equal(next, 11);
	assert_true(blob_size(b.db, &h, &total) && total == 11);
	assert_true(blob_read(b.db, &b.a, &h, 6, 100, &got, &total, &e));
	assert_true(got.n == 5 && memcmp(got.p, "world", 5) == 0);
	/* nobody's request goes after an hour, a job's model stays */
	assert_true(blob_put(b.db, (struct bytes){p, 3}, "request", &h, &e));
	box_clock_ns += (int64_t)3601 * 1000000000;
	assert_true(store_tidy(b.db, &next, &e));
	assert_int_equal(next, 1);
	assert_false(blob_size(b.db, &h, &total));
	assert_false(access(blob_path(&b.a, b.db, &h), F_OK) == 0);
	h = hash_bytes("hello world", 11);
	assert_true(blob_size(b.db, &h, &total));
	h = hash_bytes("other", 5);
	assert_false(send(&b, 1, &h, 11, 0, (struct bytes){p, 11}, &next, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_false(blob_read(b.db, &b.a, &h, 0, 100, &got, &total, &e));
	box_close(&b);
}

static int64_t clock_ns;

static int64_t
moved_mono(void *self)
{
	(void)self;
	return clock_ns;
}

static uint32_t
n_parts(const struct box *b)
{
	char path[128];
	DIR *d;
	struct dirent *entry;
	uint32_t n = 0;

	(void)snprintf(path, sizeof(path), "%s/tmp", b->dir);
	d = opendir(path);
	assert_non_null(d);
	while ((entry = readdir(d)) != NULL)
		n += strstr(entry->d_name, ".part") != NULL;
	(void)closedir(d);
	return n;
}

/* Each uploader has a file of its own: wrong bytes of one spoil nothing of another's.  An upload that stands
 * still ends, and none outlives this life of the store. */
static void
uploads_are_apart(void **state)
{
	static const int64_t minute = (int64_t)60 * 1000000000;
	const uint8_t *p = (const uint8_t *)"hello world", *wrong = (const uint8_t *)"HELLO WORLD";
	struct box b;
	struct hash h = hash_bytes("hello world", 11);
	uint64_t next, total;
	struct err e = {0};

	(void)state;
	box_open(&b);
	b.os.mono_ns = moved_mono;
	assert_true(send(&b, 1, &h, 11, 0, (struct bytes){p, 5}, &next, &e) && next == 5);
	assert_true(send(&b, 2, &h, 11, 0, (struct bytes){wrong, 5}, &next, &e) && next == 5);
	assert_int_equal(n_parts(&b), 2);
	assert_false(send(&b, 2, &h, 11, 5, (struct bytes){wrong + 5, 6}, &next, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_int_equal(n_parts(&b), 1);
	assert_true(send(&b, 2, &h, 1000, 0, (struct bytes){wrong, 5}, &next, &e)); /* nor another length */
	assert_true(send(&b, 1, &h, 11, 5, (struct bytes){p + 5, 6}, &next, &e) && next == 11);
	assert_true(blob_size(b.db, &h, &total) && total == 11);
	assert_true(
	    send(&b, 2, &h, 1000, 5, (struct bytes){wrong, 5}, &next, &e) && next == 11); /* it is here */
	assert_int_equal(n_parts(&b), 0);
	/* nobody goes on with one, somebody with the other */
	h.b[0] ^= 1;
	assert_true(send(&b, 1, &h, 11, 0, (struct bytes){p, 5}, &next, &e));
	assert_true(send(&b, 2, &h, 11, 0, (struct bytes){p, 5}, &next, &e));
	clock_ns += 6 * minute;
	assert_true(send(&b, 2, &h, 11, 5, (struct bytes){p, 1}, &next, &e));
	clock_ns += 6 * minute;
	assert_true(store_make_room(b.db, 0, &total, &e));
	assert_int_equal(n_parts(&b), 1);
	assert_true(send(&b, 1, &h, 11, 5, (struct bytes){p, 1}, &next, &e) && next == 0);
	assert_true(send(&b, 2, &h, 11, 6, (struct bytes){p, 1}, &next, &e) && next == 7);
	b.db = reopen(&b, 0);
	assert_int_equal(n_parts(&b), 0);
	assert_true(send(&b, 2, &h, 11, 7, (struct bytes){p, 1}, &next, &e) && next == 0);
	box_close(&b);
}

/* What one uploader may have under way, and what the folder takes. */
static void
uploads_have_a_quota(void **state)
{
	struct box b;
	struct hash h = {{0}};
	struct blob_piece art = {.total = 200, .kind = "artefact", .owner = 9, .is_worker = true};
	uint64_t next;
	struct err e = {0};

	(void)state;
	box_open(&b);
	b.os.mono_ns = moved_mono;
	assert_false(send(&b, 1, &h, (uint64_t)1 << 62, 0, (struct bytes){0}, &next, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	for (h.b[0] = 1; h.b[0] <= 8; h.b[0]++)
		assert_true(send(&b, 1, &h, 10, 0, (struct bytes){h.b, 1}, &next, &e));
	assert_false(send(&b, 1, &h, 10, 0, (struct bytes){h.b, 1}, &next, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_non_null(strstr(e.msg, "8 uploads are under way on this connection"));
	assert_true(send(&b, 2, &h, 10, 0, (struct bytes){h.b, 1}, &next, &e));

	b.db = reopen(&b, 100);
	assert_false(send(&b, 1, &h, 101, 0, (struct bytes){0}, &next, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	(void)job_with(&b, 1, "forty-one bytes of a job that goes on ...", "planning");
	assert_false(send(&b, 1, &h, 60, 0, (struct bytes){0}, &next, &e));
	assert_int_equal(e.code, ERR_FULL);
	assert_true(send(&b, 1, &h, 59, 0, (struct bytes){h.b, 30}, &next, &e));
	h.b[1] = 7; /* what lies there and what is on its way, together */
	e = (struct err){0};
	assert_false(send(&b, 2, &h, 30, 0, (struct bytes){0}, &next, &e));
	assert_int_equal(e.code, ERR_FULL);
	assert_true(blob_chunk(b.db, &art, &next, &e)); /* a job that was taken gets its builds */
	box_close(&b);
}

static bool
is_there(struct box *b, const char *data)
{
	struct hash h = hash_bytes(data, strlen(data));
	uint64_t bytes;

	return blob_size(b->db, &h, &bytes);
}

/* Beyond the limit the longest unused go, also those of ended jobs; not what a job that goes on needs, nor
 * what was used just now, nor any measurement. */
static void
limit_by_size(void **state)
{
	static const int64_t hour = (int64_t)3600 * 1000000000;
	struct box b;
	struct meas_key k;
	struct hash h;
	struct m_file *files;
	uint64_t ended, dropped;
	uint32_t n;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "m=1");
	box_put(&b, "A", &k, box_row("s1", 100, 10), 5);
	(void)job_with(&b, 1, "of one that goes on", "running");
	ended = job_with(&b, 2, "of one that ended", "done");
	box_clock_ns += hour;
	assert_true(blob_put(b.db, (struct bytes){(const uint8_t *)"a plan, later", 13}, "plan", &h, &e));
	box_clock_ns += 2 * hour;
	assert_true(blob_put(b.db, (struct bytes){(const uint8_t *)"a plan, just now", 16}, "plan", &h, &e));
	assert_true(store_tidy(b.db, &dropped, &e) && dropped == 0); /* no limit */
	b.db = reopen(&b, 19 + 17 + 13 + 16 - 1);
	assert_true(store_tidy(b.db, &dropped, &e) && dropped == 1);
	assert_false(is_there(&b, "of one that ended"));
	assert_true(job_files(b.db, &b.a, ended, &files, &n, &e) && n == 0);
	assert_true(is_there(&b, "a plan, later"));
	b.db = reopen(&b, 1);
	assert_true(store_tidy(b.db, &dropped, &e) && dropped == 1);
	assert_false(is_there(&b, "a plan, later"));
	assert_true(is_there(&b, "of one that goes on") && is_there(&b, "a plan, just now"));
	assert_true(box_find(&b, "A", &k, 1).is_cached);
	box_close(&b);
}

/* Files and ended jobs go by age; measurements only by their own word; a dry run tells the same and does
 * nothing. */
static void
gc_keeps_measurements(void **state)
{
	static const int64_t day = (int64_t)86400 * 1000000000;
	struct gc_ask ask = {.older_ns = day, .is_dry = true};
	struct gc_done would, did;
	struct box b;
	struct meas_key k;
	struct hash h;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "m=1");
	box_put(&b, "A", &k, box_row("s1", 100, 10), box_clock_ns);
	(void)job_with(&b, 1, "of one that goes on", "planning");
	(void)job_with(&b, 2, "of one that ended", "done");
	box_clock_ns += 2 * day;
	box_put(&b, "B", &k, box_row("s1", 100, 10), box_clock_ns);
	assert_true(
	    blob_put(b.db, (struct bytes){(const uint8_t *)"asked of a worker", 17}, "request", &h, &e));
	for (int dry = 1; dry >= 0; dry--) {
		ask.is_dry = dry;
		assert_true(cache_gc(b.db, &ask, dry ? &would : &did, &e));
		assert_true(is_there(&b, "of one that ended") == dry);
	}
	assert_memory_equal(&would, &did, sizeof(did));
	assert_true(did.files == 1 && did.bytes == 17 && did.jobs == 1 && did.measurements == 1);
	assert_true(box_find(&b, "A", &k, 1).is_cached && is_there(&b, "of one that goes on"));
	ask = (struct gc_ask){0}; /* all, and still no measurement, nor what goes on */
	assert_true(cache_gc(b.db, &ask, &did, &e) && did.files == 0 && did.measurements == 2);
	assert_true(is_there(&b, "asked of a worker") && box_find(&b, "A", &k, 1).is_cached);
	ask = (struct gc_ask){.older_ns = day, .measurements = true, .is_dry = true};
	assert_true(cache_gc(b.db, &ask, &would, &e) && would.measurements == 1 &&
	    box_find(&b, "A", &k, 1).is_cached);
	ask.is_dry = false;
	assert_true(cache_gc(b.db, &ask, &did, &e) && did.measurements == 1);
	assert_true(!box_find(&b, "A", &k, 1).is_cached && box_find(&b, "B", &k, 1).is_cached);
	box_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(import_export),
	    cmocka_unit_test(broken_imports),
	    cmocka_unit_test(blobs),
	    cmocka_unit_test(uploads_are_apart),
	    cmocka_unit_test(uploads_have_a_quota),
	    cmocka_unit_test(gc_keeps_measurements),
	    cmocka_unit_test(limit_by_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
