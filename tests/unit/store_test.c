/* The store: keys are compared whole, samples pool, one owner a folder, what was written before is read,
 * answers come after the commit.
 * threads: yes */
#include "../../schema/whole.h"
#include "../../schema/build.h"
#include "../../schema/env.h"
#include "../../schema/job_end.h"
#include "../../schema/plan_file.h"
#include "../../kernels/ir/ir.h"
#include "store_rig.h"

#include "../../kernels/base/epoch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>

static void
best_and_pool(void **state)
{
	struct box b;
	struct meas_key k, other;
	struct m_row bad = {.schedule = STR("s3"), .fail = 32, .cause = STR("differs"), .stop = STR("")};
	struct m_count *counts;
	struct m_cost c;
	struct err e = {0};
	uint64_t reused = 0;
	uint32_t n;

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "m=1");
	other = box_env(&b, "cpu", "m=2");
	assert_false(k.env == other.env);
	assert_false(box_find(&b, "A", &k, 1).is_cached);
	box_put(&b, "A", &k, box_row("s1", 100, 10), 5);
	box_put(&b, "A", &k, box_row("s2", 90, 10), 5);
	box_put(&b, "A", &k, bad, 5);
	c = box_find(&b, "A", &k, 1);
	assert_true(c.is_cached && c.median_ns == 90 && c.effort == 4 && c.fail == 0);
	assert_true(str_is(c.schedule, "s2"));
	assert_false(box_find(&b, "A", &other, 1).is_cached);
	k.threads = 2;
	assert_false(box_find(&b, "A", &k, 1).is_cached);
	k.threads = 1;
	k.epoch = 2;
	assert_false(box_find(&b, "A", &k, 1).is_cached);
	k.epoch = 1;
	/* the very sample again changes nothing; another one is pooled by weight */
	box_put(&b, "A", &k, box_row("s2", 90, 10), 5);
	assert_true(box_find(&b, "A", &k, 1).samples == 10);
	box_put(&b, "A", &k, box_row("s2", 120, 20), 6);
	box_put(&b, "A", &k, box_row("s1", 104, 10), 6);
	c = box_find(&b, "A", &k, 1);
	assert_true(c.median_ns == 102 && c.samples == 20 && str_is(c.schedule, "s1"));
	/* success beats failure, whichever came first */
	box_put(&b, "A", &k, box_row("s3", 10, 1), 4);
	assert_true(box_find(&b, "A", &k, 2).median_ns == 10);
	box_put(&b, "A", &k, bad, 9);
	assert_true(box_find(&b, "A", &k, 2).median_ns == 10);
	/* the two hits on behalf of another model count as reuse */
	assert_true(db_commit(b.db, &e));
	assert_true(cache_stats(b.db, &b.a, &counts, &n, &e));
	for (uint32_t i = 0; i < n; i++)
		if (str_is(counts[i].name, "reuse_across_models"))
			reused = counts[i].value;
	assert_int_equal(reused, 2);
	box_close(&b);
}

static uint64_t
counter(struct box *b, const char *name)
{
	struct m_count *counts;
	uint32_t n;
	struct err e = {0};

	assert_true(db_commit(b->db, &e) && db_begin(b->db, &e));
	assert_true(cache_stats(b->db, &b->a, &counts, &n, &e));
	for (uint32_t i = 0; i < n; i++)
		if (str_is(counts[i].name, name))
			return counts[i].value;
	return 0;
}

static struct m_sibling *
siblings_of(struct box *b, const struct hash *structure, const struct meas_key *k, uint32_t most, uint32_t *n)
{
	struct m_sibling *out;
	struct err e = {0};

	if (!meas_siblings(b->db, &b->a, structure, k, most, &out, n, &e))
		fail_msg("%s", e.msg);
	return out;
}

/* Kernels that compute the same with other extents are found, each by its best row, with what else was tried;
 * others, and those of other environments, are not. */
static void
siblings(void **state)
{
	static const char *const text[] = {"spec 1\n%0 = input f32[64]\n%1 = exp %0 : f32[64]\noutput %1\n",
	    "spec 1\n%0 = input f32[128]\n%1 = exp %0 : f32[128]\noutput %1\n",
	    "spec 1\n%0 = input f32[64]\n%1 = relu %0 : f32[64]\noutput %1\n", "no spec"};
	struct box b;
	struct meas_key k;
	struct m_sibling *have;
	struct spec exp64, relu;
	struct err e = {0};
	uint32_t n;

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "cpu=one");
	for (size_t i = 0; i < COUNT_OF(text); i++)
		box_put(&b, text[i], &k, box_row("slow", 200, 10), 1);
	box_put(&b, text[1], &k, box_row("fast", 100, 10), 2);
	assert_true(
	    spec_read(&b.a, str_of(text[0]), &exp64, &e) && spec_read(&b.a, str_of(text[2]), &relu, &e));
	have = siblings_of(&b, &exp64.structure, &k, 4, &n);
	assert_int_equal(n, 2);
	assert_true(str_is(have[0].spec, text[1]) && str_is(have[0].schedule, "fast"));
	assert_int_equal(have[0].median_ns, 100);
	assert_int_equal(have[0].n_tried, 2);
	assert_true(str_is(have[0].tried[1].schedule, "slow") && have[0].tried[1].median_ns == 200);
	assert_int_equal(have[1].n_tried, 1);
	assert_true(str_is(have[1].spec, text[0]));
	(void)siblings_of(&b, &exp64.structure, &k, 1, &n);
	assert_int_equal(n, 1);
	(void)siblings_of(&b, &relu.structure, &k, 4, &n);
	assert_int_equal(n, 1);
	k = box_env(&b, "cpu", "cpu=another");
	(void)siblings_of(&b, &exp64.structure, &k, 4, &n);
	assert_int_equal(n, 0);
	box_close(&b);
}

/* What was timed again costs the median of its repeats; what it was picked by stays beside it. */
static void
repeats(void **state)
{
	struct m_row crash = {.schedule = STR("s1"), .fail = 33, .cause = STR(""), .stop = STR("")};
	struct m_row lost = {.schedule = STR("s1"), .fail = 37, .cause = STR(""), .stop = STR("")};
	struct m_row on_gpu = box_row("s2", 95, 10);
	struct box b;
	struct meas_key k;
	struct m_cost c;
	struct hash session = {{3}}, a = hash_bytes("A", 1);
	struct m_measurement *rows;
	struct gc_done gone;
	struct err e = {0};
	uint32_t n;

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "m=1");
	box_put(&b, "A", &k, box_row("s1", 90, 10), 5);
	on_gpu.state = STR("mhz=1410 throttled=2 disturbed=0 reasons=power cap");
	box_put(&b, "A", &k, on_gpu, 5);
	box_again(&b, "A", &k, 1, 1, box_row("s1", 130, 10));
	c = box_find(&b, "A", &k, 1);
	/* s2 was slower in the race that both ran in: its old time is no reason to take it now */
	assert_true(str_is(c.schedule, "s1") && c.median_ns == 130 && c.first_ns == 90 && c.repeats == 1);
	box_again(&b, "A", &k, 2, 2, box_row("s1", 110, 10));
	assert_int_equal(box_find(&b, "A", &k, 1).median_ns, 120);
	box_again(&b, "A", &k, 3, 3, box_row("s1", 112, 10));
	assert_int_equal(box_find(&b, "A", &k, 1).median_ns, 112);
	/* the same result sent twice is one row; the same work done twice is one row and is counted */
	box_again(&b, "A", &k, 3, 3, box_row("s1", 112, 10));
	assert_int_equal(counter(&b, "pooled"), 0);
	box_again(&b, "A", &k, 3, 4, box_row("s1", 500, 10));
	assert_int_equal(counter(&b, "pooled"), 1);
	assert_int_equal(counter(&b, "repeated"), 3);
	/* a crash is a repeat without a time, the machine's fault is none, an unknown schedule neither */
	box_again(&b, "A", &k, 4, 5, crash);
	box_again(&b, "A", &k, 5, 6, lost);
	box_again(&b, "A", &k, 6, 7, box_row("s9", 1, 10));
	c = box_find(&b, "A", &k, 1);
	assert_true(c.median_ns == 112 && c.repeats == 4 && c.fail == 0);
	assert_true(repeat_session(b.db, &session, &n, &e) && n == 1);
	/* all of them are shown, under the row that they repeat */
	assert_true(cache_show(b.db, &b.a, (struct bytes){a.b, 4}, &rows, &n, &e) && n == 2);
	assert_true(str_is(rows[0].row.schedule, "s1") && rows[0].n_repeats == 4 && rows[1].n_repeats == 0);
	assert_true(rows[0].row.state.n == 0 && str_eq(rows[1].row.state, on_gpu.state));
	assert_true(rows[0].repeats[1].row.median_ns == 110 && rows[0].repeats[1].session.b[0] == 2 &&
	    rows[0].repeats[3].row.fail == 33);
	/* a schedule that was found later and won its race is taken at what it won by */
	box_put(&b, "A", &k, box_row("s3", 40, 10), 5);
	c = box_find(&b, "A", &k, 1);
	assert_true(str_is(c.schedule, "s3") && c.median_ns == 40 && c.repeats == 0);
	assert_true(
	    cache_gc(b.db, &(struct gc_ask){.older_ns = -box_clock_ns, .measurements = true}, &gone, &e));
	assert_int_equal(gone.measurements, 3);
	assert_true(repeat_session(b.db, &session, &n, &e) && n == 0);
	box_close(&b);
}

static void
failures(void **state)
{
	struct box b;
	struct meas_key k;
	struct m_row lost = {.schedule = STR("s"), .fail = 37, .cause = STR(""), .stop = STR("")};
	struct m_row odd = box_row("s", 10, 1);
	struct meas_origin from = {.worker = STR("w"), .gen = 1, .effort = 4};
	struct hash h;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "m=1");
	box_put(&b, "A", &k, lost, 5);
	assert_false(box_find(&b, "A", &k, 1).is_cached); /* the machine's fault is not the kernel's */
	assert_true(spec_put(b.db, STR("B"), &h, &h, &e));
	for (uint64_t fail = 34; fail <= 35; fail++) { /* memory, time */
		assert_true(attempt_put(b.db, &h, &k, 4, fail, STR("20 s"), &e));
		assert_int_equal(box_find(&b, "B", &k, 1).fail, fail);
		box_clock_ns += (int64_t)86400 * 1000000000; /* a day later it is worth another try */
		assert_int_equal(box_find(&b, "B", &k, 1).fail, 0);
	}
	assert_true(attempt_put(b.db, &h, &k, 4, 32, STR("wrong"), &e));
	box_clock_ns += (int64_t)86400 * 1000000000;
	assert_int_equal(box_find(&b, "B", &k, 1).fail, 32);
	odd.fail = 32;
	assert_false(meas_put(b.db, &h, &k, &odd, 1, &from, &e));
	assert_int_equal(e.code, ERR_PROTO);
	box_close(&b);
}

/* Numbers at the ends of their ranges are pooled within them, and no worker's row is a fault of the store:
 * what is sent again for ever must be a matter of disks alone. */
static void
pools_of_extremes(void **state)
{
	static const struct {
		int64_t ns[2];
		uint64_t samples[2];
		int64_t want_ns;
		uint64_t want_samples;
	} row[] = {
	    {{INT64_MAX, INT64_MAX}, {1, 2}, INT64_MAX, 3},
	    {{INT64_MAX, INT64_MAX - 1}, {5, 1}, INT64_MAX, 6},
	    {{7, 7}, {((uint64_t)1 << 60) - 1, 3}, 7, ((uint64_t)1 << 60) - 1},
	    {{7, 8}, {0, 0}, 7, 0},
	    {{100, 200}, {1, 3}, 175, 4},
	};
	struct box b;
	struct meas_key k;
	struct m_row odd = box_row("s", 5, 1);
	struct meas_origin from = {.worker = STR("w"), .gen = 1, .effort = 4};
	struct hash h;
	struct err e = {0};

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "m=1");
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		char spec[16];
		struct m_cost c;

		(void)snprintf(spec, sizeof(spec), "pool %zu", i);
		for (int t = 0; t < 2; t++) {
			struct m_row r = box_row("s", 5, row[i].samples[t]);

			r.median_ns = row[i].ns[t];
			box_put(&b, spec, &k, r, 5 + t);
		}
		c = box_find(&b, spec, &k, 1);
		if (c.median_ns != row[i].want_ns || c.samples != row[i].want_samples)
			fail_msg("row %zu: %lld ns of %llu samples", i, (long long)c.median_ns,
			    (unsigned long long)c.samples);
	}
	assert_true(spec_put(b.db, STR("pool 0"), &h, &h, &e));
	odd.samples = (uint64_t)1 << 60;
	assert_false(meas_put(b.db, &h, &k, &odd, 1, &from, &e));
	assert_int_equal(e.code, ERR_PROTO);
	k.env = 12345; /* nobody's: the table refuses it */
	odd.schedule = STR("t");
	odd.samples = 1;
	e = (struct err){0};
	assert_false(meas_put(b.db, &h, &k, &odd, 1, &from, &e));
	assert_int_equal(e.code, ERR_PROTO);
	box_close(&b);
}

static long
on_nfs(const char *dir)
{
	(void)dir;
	return 0x6969;
}

static void
owners_and_versions(void **state)
{
	struct box b;
	struct db *second;
	struct err e = {0};
	sqlite3 *raw;
	char path[128];
	uint64_t boot;

	(void)state;
	box_open(&b);
	boot = db_boot(b.db);
	assert_true(db_commit(b.db, &e));
	assert_false(db_open(&second, &b.conf, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "owns this data folder"));
	db_close(b.db);
	assert_true(db_open(&b.db, &b.conf, &e));
	assert_true(db_boot(b.db) == boot + 1);
	db_close(b.db);
	b.db = NULL;
	b.conf.fs_type = on_nfs;
	assert_false(db_open(&second, &b.conf, &e));
	assert_non_null(strstr(e.msg, "network file system (NFS)"));
	b.conf.fs_type = NULL;
	(void)snprintf(path, sizeof(path), "%s/korch.db", b.dir);
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, "PRAGMA user_version=999", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
	assert_false(db_open(&second, &b.conf, &e));
	assert_int_equal(e.code, ERR_NEWER);
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(raw, "PRAGMA user_version=1; PRAGMA application_id=7", NULL, NULL, NULL), 0);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
	assert_false(db_open(&second, &b.conf, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	assert_int_equal(truncate(path, 100), 0);
	assert_false(db_open(&second, &b.conf, &e));
	assert_int_equal(e.code, ERR_FORMAT);
	box_close(&b);
}

/* ---- the thread ---- */
struct put_op {
	struct store_op op;
	bool fails;
	int *n_done;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rung = PTHREAD_COND_INITIALIZER;
static int n_rung;

static void
ring(void *self)
{
	(void)self;
	(void)pthread_mutex_lock(&lock);
	n_rung++;
	(void)pthread_cond_signal(&rung);
	(void)pthread_mutex_unlock(&lock);
}

static bool
run_put(struct db *db, struct store_op *op)
{
	struct put_op *p = (struct put_op *)(void *)op;
	struct hash h;
	static const struct hash model;
	char text[32];

	(void)snprintf(text, sizeof(text), "%p", (void *)op);
	return spec_put(db, str_of(text), &model, &h, &op->err) &&
	    (!p->fails || err_set(&op->err, ERR_FAILED, "as asked"));
}

static void
done_put(struct store_op *op)
{
	struct put_op *p = (struct put_op *)(void *)op;

	assert_true(op->ok == !p->fails);
	if (p->fails)
		assert_string_equal(op->err.msg, "as asked");
	++*p->n_done;
}

static void
thread_groups(void **state)
{
	enum { N = 1000 };
	static struct put_op ops[N];
	struct box b;
	struct store *s;
	struct store_op *op;
	struct err e = {0};
	int n_done = 0;

	(void)state;
	box_open(&b);
	db_close(b.db);
	b.db = NULL;
	assert_true(store_open(&s, &b.conf, (struct store_wake){ring, NULL}, &e));
	for (int i = 0; i < N; i++) {
		ops[i] = (struct put_op){
		    .op = {.run = run_put, .done = done_put}, .fails = i % 10 == 3, .n_done = &n_done};
		store_post(s, &ops[i].op);
	}
	while (n_done < N) {
		(void)pthread_mutex_lock(&lock);
		while (n_rung == 0)
			(void)pthread_cond_wait(&rung, &lock);
		n_rung = 0;
		(void)pthread_mutex_unlock(&lock);
		while ((op = store_take(s)) != NULL)
			op->done(op);
	}
	store_close(s);
	/* what was acknowledged is there, what failed is not */
	assert_true(db_open(&b.db, &b.conf, &e));
	for (int i = 0; i < N; i++) {
		char text[32];
		struct str got;
		struct hash h;

		(void)snprintf(text, sizeof(text), "%p", (void *)&ops[i].op);
		h = hash_bytes(text, strlen(text));
		assert_true(spec_text(b.db, &b.a, &h, &got, &e) == !ops[i].fails);
	}
	box_close(&b);
}

/* ---- whole plans --------------------------------------------------------------------- */
static struct m_whole
whole_of(uint8_t plan, int64_t sum_ns, int64_t measured_ns)
{
	return (struct m_whole){.plan = {{plan}},
	    .model = {{7}},
	    .sum_ns = sum_ns,
	    .measured_ns = measured_ns,
	    .kernels = 3,
	    .hot_bytes = 4,
	    .near_bytes = 5,
	    .cold_bytes = 6,
	    .clock_ratio = 0.75};
}

/* Kept for a device's class and threads; a plan that is timed again takes its own place. */
static void
whole_plans(void **state)
{
	struct box b;
	struct meas_key k, other;
	struct m_whole w[2] = {whole_of(1, 100, 110), whole_of(2, 200, 210)}, *have, bad = whole_of(3, 0, 5);
	struct err e = {0};
	uint32_t n;

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu", "cpu=fixture isa=avx2");
	other = k;
	other.threads++;
	assert_true(whole_put(b.db, &k, w, 2, &e));
	w[1].measured_ns = 250;
	w[1].clock_ratio = 0;
	assert_true(whole_put(b.db, &k, &w[1], 1, &e));
	assert_true(whole_list(b.db, &b.a, &k, &have, &n, &e));
	assert_int_equal(n, 2);
	for (uint32_t i = 0; i < n; i++) {
		const struct m_whole *want = &w[have[i].plan.b[0] - 1];

		assert_true(have[i].sum_ns == want->sum_ns && have[i].measured_ns == want->measured_ns);
		assert_true(have[i].kernels == 3 && have[i].hot_bytes == 4 && have[i].near_bytes == 5);
		assert_true(have[i].cold_bytes == 6 && hash_eq(&have[i].model, &want->model));
		assert_true(have[i].clock_ratio == want->clock_ratio);
	}
	assert_true(whole_list(b.db, &b.a, &other, &have, &n, &e) && n == 0);
	assert_false(whole_put(b.db, &k, &bad, 1, &e));
	assert_int_equal(e.code, ERR_PROTO);
	bad = whole_of(3, 5, 5);
	bad.clock_ratio = -1;
	assert_false(whole_put(b.db, &k, &bad, 1, &e));
	box_close(&b);
}

/* Timings of one race, each with its clock, in their order. */
static void
plan_times(void **state)
{
	struct box b;
	struct hash key = {{4}}, other = {{5}};
	struct m_timing t[2] =
	    {{.median_ns = 10, .min_ns = 9, .spread_ns = 1, .samples = 5, .clock_ratio = 0.94},
		{.median_ns = 20, .min_ns = 19, .spread_ns = 2, .samples = 6}},
			*have;
	struct err e = {0};
	uint32_t n;

	(void)state;
	box_open(&b);
	assert_true(plan_time_put(b.db, &key, t, 2, &e) && plan_time_find(b.db, &b.a, &key, &have, &n, &e));
	assert_int_equal(n, 2);
	assert_memory_equal(have, t, sizeof(t));
	assert_true(plan_time_find(b.db, &b.a, &other, &have, &n, &e) && n == 0);
	box_close(&b);
}

/* ---- how jobs ended ------------------------------------------------------------------ */
struct ended {
	struct hash key, specs[2];
	struct meas_key k;
};

static struct m_end_have
end_now(struct box *b, const struct ended *x)
{
	static const struct hash model = {{7}};
	struct m_end_have have, alone;
	struct err e = {0};

	if (!job_end_read(b->db, &b->a, &x->key, &alone, &e) ||
	    !job_end_find(b->db, &b->a, &x->key, &x->k, &model, &have, &e))
		fail_msg("%s", e.msg);
	assert_true((alone.has_plan || !have.has_plan) && hash_eq(&alone.end.plan, &have.end.plan));
	return have;
}

/* A plan that the store's own key has signed: without code, so that it needs no build. */
static struct bytes
signed_plan(struct box *b)
{
	const char *path = arena_printf(&b->a, "%s/p.korch", b->dir);
	struct plan_host host = {0};
	struct plan plan = {0};
	struct bytes file = {0};
	struct err e = {0};

	if (!plan_save(path, &plan, &host, &e) || !db_seal_plan(b->db, path, &e) ||
	    !os_read_file(os_real(), &b->a, path, 1 << 20, &file, &e))
		fail_msg("%s", e.msg);
	(void)unlink(path);
	return file;
}

/* Keeps an end that rests on two specs, with such a plan. */
static void
keep_end(struct box *b, struct ended *x)
{
	struct bytes plan = signed_plan(b);
	struct m_job_end end = {.budget_ns = 5,
	    .specs = {x->specs[0].b, sizeof(x->specs)},
	    .effort = 4,
	    .progress = {.phase = STR("done"), .latency_ns = 100}};
	struct err e = {0};

	assert_true(blob_put(b->db, plan, "plan", &end.plan, &e));
	end.plan_bytes = plan.n;
	if (!job_end_put(b->db, &x->key, &x->k, &end, &e))
		fail_msg("%s", e.msg);
}

/* The folder as its next life finds it, its key deleted meanwhile. */
static void
other_key(struct box *b)
{
	struct err e = {0};

	db_close(b->db);
	assert_int_equal(unlink(arena_printf(&b->a, "%s/sign.key", b->dir)), 0);
	if (!db_open(&b->db, &b->conf, &e))
		fail_msg("%s", e.msg);
}

/* By which of its schedules each kernel was made, and what describes them, is kept with the object.  Without
 * the description, or with another one than was signed with it, the object is as good as not there. */
static void
builds_keep_what_was_taken(void **state)
{
	static const uint8_t object[] = "object", words[] = "words", lies[] = "lies", took[] = {0, 1, 0};
	struct box b;
	struct meas_key k;
	struct hash key = {{7}}, other;
	struct m_build_have put = {.log = STR(""), .worker = STR("w"), .took = {took, sizeof(took)}}, have;
	struct err e = {0};
	sqlite3 *raw;
	bool found;

	(void)state;
	box_open(&b);
	k = box_env(&b, "cpu:x", "device=x");
	if (!blob_put(b.db, (struct bytes){object, sizeof(object)}, "artefact", &put.digest, &e) ||
	    !blob_put(b.db, (struct bytes){words, sizeof(words)}, "artefact", &put.description, &e) ||
	    !blob_put(b.db, (struct bytes){lies, sizeof(lies)}, "artefact", &other, &e) ||
	    !build_put(b.db, &b.a, &key, &k, &put, &e) ||
	    !build_find(b.db, &b.a, &key, &k, &have, &found, &e))
		fail_msg("%s", e.msg);
	assert_true(found && have.took.n == sizeof(took));
	assert_memory_equal(have.took.p, took, sizeof(took));
	assert_true(hash_eq(&have.description, &put.description));
	assert_int_equal(access(str_dup(&b.a, have.description_path), R_OK), 0);
	assert_true(db_commit(b.db, &e));
	db_close(b.db);
	assert_int_equal(sqlite3_open(arena_printf(&b.a, "%s/korch.db", b.dir), &raw), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(raw,
		"UPDATE build SET description = (SELECT digest FROM blob WHERE bytes = 5 LIMIT 1)", NULL,
		NULL, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_changes(raw), 1);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
	if (!db_open(&b.db, &b.conf, &e) || !db_begin(b.db, &e) ||
	    !build_find(b.db, &b.a, &key, &k, &have, &found, &e))
		fail_msg("%s", e.msg);
	assert_false(found);
	box_close(&b);
}

/* An end stands until anything that is known of its candidates changes: a row more, better or not, a repeat,
 * rows that go; what concerns others does not touch it. */
static void
ends_of_jobs(void **state)
{
	struct box b;
	struct ended x = {.key = {{3}}};
	struct m_end_have have;
	struct meas_key other;
	struct err e = {0};
	struct gc_done gone;
	struct bytes plan;
	uint64_t hits;

	(void)state;
	box_open(&b);
	x.k = box_env(&b, "cpu", "cpu=a");
	other = box_env(&b, "cpu", "cpu=b");
	box_put(&b, "spec a", &x.k, box_row("s1", 100, 10), 10);
	x.specs[0] = hash_bytes("spec a", 6);
	x.specs[1] = hash_bytes("spec b", 6);
	assert_int_equal(end_now(&b, &x).end.plan_bytes, 0);
	keep_end(&b, &x);
	hits = counter(&b, "hit");
	have = end_now(&b, &x);
	assert_true(
	    have.is_same && have.has_plan && have.cached == 1 && have.failed == 0 && have.end.budget_ns == 5);
	assert_int_equal(have.end.progress.latency_ns, 100);
	assert_int_equal(counter(&b, "hit"), hits + 1);
	box_put(&b, "spec c", &x.k, box_row("s1", 5, 10), 10);
	box_put(&b, "spec a", &other, box_row("s1", 5, 10), 10);
	assert_true(end_now(&b, &x).is_same);

	box_put(&b, "spec b", &x.k, box_row("s1", 500, 10), 10);
	have = end_now(&b, &x);
	assert_true(!have.is_same && have.has_plan && have.cached == 2);
	keep_end(&b, &x);
	assert_true(end_now(&b, &x).is_same);
	box_again(&b, "spec a", &x.k, 8, 1, box_row("s1", 101, 10));
	assert_false(end_now(&b, &x).is_same);
	keep_end(&b, &x);
	box_put(&b, "spec a", &x.k, box_row("s0", 90, 10), 11);
	assert_false(end_now(&b, &x).is_same);
	keep_end(&b, &x);
	assert_true(end_now(&b, &x).is_same);
	assert_true(cache_gc(b.db, &(struct gc_ask){.measurements = true}, &gone, &e) && gone.files > 0);
	assert_int_equal(end_now(&b, &x).end.plan_bytes, 0);

	keep_end(&b, &x);
	have = end_now(&b, &x);
	assert_true(have.is_same && have.has_plan && have.cached == 0);
	plan = signed_plan(&b);
	other_key(&b);
	assert_false(end_now(&b, &x).has_plan); /* nobody who asks now trusts who signed it */
	keep_end(&b, &x);
	have = end_now(&b, &x);
	assert_true(have.is_same && have.has_plan);
	((uint8_t *)(uintptr_t)plan.p)[plan.n - 1] ^= 1;
	assert_true(os_write_file(os_real(), blob_path(&b.a, b.db, &have.end.plan), plan, &e));
	assert_false(end_now(&b, &x).has_plan); /* the same size, other bytes */
	box_close(&b);
}

/* ---- stores of earlier versions -------------------------------------------------------- */
/* A folder whose database is that of stores/schemaN.sql. */
static void
box_of_schema(struct box *b, int version)
{
	char path[512];
	struct bytes sql;
	sqlite3 *raw;
	struct err e = {0};

	box_make(b);
	(void)snprintf(path, sizeof(path), "%s/tests/unit/stores/schema%d.sql", KORCH_SOURCE_DIR, version);
	if (!os_read_file(os_real(), &b->a, path, 1 << 20, &sql, &e))
		fail_msg("every schema before this one needs a store of its time: %s", e.msg);
	(void)snprintf(path, sizeof(path), "%s/korch.db", b->dir);
	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	if (sqlite3_exec(raw, str_dup(&b->a, (struct str){(const char *)sql.p, sql.n}), NULL, NULL, NULL) !=
	    SQLITE_OK)
		fail_msg("schema%d.sql: %s", version, sqlite3_errmsg(raw));
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

/* What was measured then counts now, and what has a table since finds it. */
static void
look_into(struct box *b, int version)
{
	struct ended x = {.key = {{3}}};
	struct m_job *jobs;
	struct m_timing *times;
	struct m_whole *wholes;
	struct hash plan = {{5}}, build = {{7}};
	struct m_build_have have;
	struct str problems;
	bool found;
	struct err e = {0};
	uint32_t n;

	assert_true(db_begin(b->db, &e));
	x.k = box_env(b, "cpu", "cpu=fixture isa=avx2");
	assert_int_equal(box_find(b, "spec a", &x.k, 1).median_ns, version < 3 ? 100 : 110);
	assert_int_equal(box_find(b, "spec a", &x.k, 1).first_ns, 100);
	assert_int_equal(box_find(b, "spec b", &x.k, 1).median_ns, 101);
	assert_true(
	    job_list(b->db, &b->a, true, 10, &jobs, &n, &e) && n == 1 && str_is(jobs[0].name, "m.onnx"));
	assert_true(plan_time_find(b->db, &b->a, &plan, &times, &n, &e) && n == (version < 2 ? 0 : 1));
	assert_true(n == 0 || (times[0].median_ns == 500 && times[0].clock_ratio == 0)); /* nobody knew it */
	assert_true(whole_list(b->db, &b->a, &x.k, &wholes, &n, &e) && n == (version < 14 ? 0 : 1));
	assert_true(n == 0 || (wholes[0].measured_ns == 230 && wholes[0].clock_ratio == 0));
	/* nothing describes the builds of before: they are made again */
	assert_true(build_find(b->db, &b->a, &build, &x.k, &have, &found, &e) && !found);
	if (!db_verify(b->db, &b->a, &problems, &e) || problems.n)
		fail_msg("schema %d: %s%.*s", version, e.msg, STR_ARG(problems));
	box_again(b, "spec b", &x.k, 1, 1, box_row("fast", 130, 10));
	assert_int_equal(box_find(b, "spec b", &x.k, 1).median_ns, 130);
	x.specs[0] = hash_bytes("spec a", 6);
	x.specs[1] = hash_bytes("spec b", 6);
	keep_end(b, &x);
	assert_true(end_now(b, &x).is_same);
	assert_true(db_commit(b->db, &e));
}

static void
earlier_schemas(void **state)
{
	(void)state;
	for (int version = 1; version < STORE_SCHEMA; version++) {
		struct box b;
		struct err e = {0};
		char copy[128];

		box_of_schema(&b, version);
		if (!db_open(&b.db, &b.conf, &e))
			fail_msg("schema %d: %s", version, e.msg);
		look_into(&b, version);
		(void)snprintf(copy, sizeof(copy), "%s/korch.db.schema%d", b.dir, version);
		assert_int_equal(access(copy, F_OK), 0); /* as it was, beside it */
		db_close(b.db);
		assert_true(db_open(&b.db, &b.conf, &e)); /* once is enough */
		box_close(&b);
	}
}

/* The copy is of the store as it is now, whatever bears its name; without one there is no migration. */
static void
copies_before_migration(void **state)
{
	struct box b;
	struct str text;
	struct hash a = hash_bytes("spec a", 6);
	struct err e = {0};
	char copy[128], part[140];
	int64_t version = -1;
	sqlite3 *raw;
	sqlite3_stmt *s;

	(void)state;
	box_of_schema(&b, 1);
	(void)snprintf(copy, sizeof(copy), "%s/korch.db.schema1", b.dir);
	(void)snprintf(part, sizeof(part), "%s.part", copy);
	assert_true(os_write_file(os_real(), copy, (struct bytes){(const uint8_t *)"half", 4}, &e));
	assert_true(os_make_dirs(part, &e)); /* nothing can be written there */
	assert_false(db_open(&b.db, &b.conf, &e));
	assert_non_null(strstr(e.msg, "keeping a copy of schema 1"));
	assert_int_equal(rmdir(part), 0);
	assert_true(db_open(&b.db, &b.conf, &e));
	assert_true(db_begin(b.db, &e) && spec_text(b.db, &b.a, &a, &text, &e) && db_commit(b.db, &e));
	assert_int_equal(access(part, F_OK), -1);
	assert_int_equal(sqlite3_open(copy, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(raw, "PRAGMA user_version", -1, &s, NULL), SQLITE_OK);
	if (sqlite3_step(s) == SQLITE_ROW)
		version = sqlite3_column_int64(s, 0);
	assert_int_equal(version, 1);
	(void)sqlite3_finalize(s);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
	box_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(siblings),
	    cmocka_unit_test(best_and_pool),
	    cmocka_unit_test(pools_of_extremes),
	    cmocka_unit_test(copies_before_migration),
	    cmocka_unit_test(repeats),
	    cmocka_unit_test(failures),
	    cmocka_unit_test(owners_and_versions),
	    cmocka_unit_test(builds_keep_what_was_taken),
	    cmocka_unit_test(ends_of_jobs),
	    cmocka_unit_test(whole_plans),
	    cmocka_unit_test(plan_times),
	    cmocka_unit_test(earlier_schemas),
	    cmocka_unit_test(thread_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
