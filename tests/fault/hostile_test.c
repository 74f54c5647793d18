/* A hostile worker beside an honest one, with the real planner: it has read the store (specs, environments,
 * keys of builds) and says of them whatever a worker can say, asked and unasked.  All of it is refused, and
 * the next job's plan is that of a farm where nobody lied. threads: yes */
#include "farm_proc.h"
#include "peer.h"

#include "../../schema/plan_file.h"
#include "../harness/sample.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

static const int64_t SECOND = 1000000000;
static const char OBJECT[] = "\x7f"
			     "ELF evil object";

/* ---- jobs --------------------------------------------------------------------------- */
static uint64_t
submit(const struct farm_proc *f, struct client *c, uint64_t effort)
{
	struct m_options o = {.device = STR("fake"),
	    .threads = 1,
	    .budget_ns = 3600 * SECOND,
	    .tolerance = 1e-3,
	    .fusion = STR("operator"),
	    .effort = effort,
	    .prove = true,
	    .unplaceable_ns = 300 * SECOND};
	char path[128];
	uint64_t job = 0;
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/mlp.onnx", f->dir);
	if (!client_submit(c, path, NULL, 0, &o, &job, &e))
		fail_msg("%s", e.msg);
	return job;
}

static void
take_model(const struct farm_proc *f)
{
	struct arena a = {0};
	struct bytes b;
	struct err e = {0};
	char to[128];

	(void)snprintf(to, sizeof(to), "%s/mlp.onnx", f->dir);
	if (!os_read_file(
		os_real(), &a, KORCH_SOURCE_DIR "/tests/fixtures/0941e29/mlp.onnx", 1 << 24, &b, &e) ||
	    !os_write_file(os_real(), to, b, &e))
		fail_msg("%s", e.msg);
	arena_fini(&a);
}

/* What a plan does: steps, kernels, their times and code.  Its duals hang on the order in which times came.
 */
static struct hash
deeds(const char *path)
{
	struct arena a = {0};
	struct strbuf sb;
	struct plan p;
	struct hash h;
	struct err e = {0};

	if (!plan_load(&a, path, &p, NULL, &e))
		fail_msg("%s", e.msg);
	assert_true(p.proved && p.n_kernels > 0);
	sb_init(&sb, &a);
	sb_addf(&sb, "%lld %lld ", (long long)p.latency_ns, (long long)p.measured_ns);
	for (uint32_t i = 0; i < p.n_kernels; i++)
		sb_addf(&sb, "%.*s %.*s %lld ", STR_ARG(p.kernels[i].spec), STR_ARG(p.kernels[i].schedule),
		    (long long)p.kernels[i].cost_ns);
	for (uint32_t i = 0; i < p.n_steps; i++)
		sb_addf(&sb, "%u ", p.steps[i].kernel);
	sb_add(&sb, (struct str){(const char *)p.module.p, p.module.n});
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&a);
	return h;
}

/* Runs to its end; `meanwhile` is called again and again. */
static struct hash
plan_of(struct farm_proc *f, struct client *c, uint64_t effort, void (*meanwhile)(void *self), void *self)
{
	uint64_t job = submit(f, c, effort), seq = 0;
	char path[128];
	struct err e = {0};

	for (bool is_final = false; !is_final;) {
		struct arena a = {0};
		struct msg m;

		if (!client_watch(c, &a, job, seq, SECOND / 100, &m, &e))
			fail_msg("%s", e.msg);
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			seq = m.job_events.events[i].seq;
			if (str_is(m.job_events.events[i].state, "failed"))
				fail_msg("the job failed: %.*s", STR_ARG(m.job_events.events[i].reason));
		}
		is_final = m.job_events.is_final;
		arena_fini(&a);
		if (meanwhile)
			meanwhile(self);
	}
	(void)snprintf(path, sizeof(path), "%s/plan.korch", f->dir);
	if (!client_fetch(c, job, path, &e))
		fail_msg("%s", e.msg);
	return deeds(path);
}

/* ---- what it has read ----------------------------------------------------------------- */
struct booty {
	struct arena a;
	struct m_env env; /* of the honest worker: class and key */
	struct hash *specs, *builds;
	uint32_t n_specs, n_builds;
	struct str precision;
	uint64_t epoch;
};

static struct hash *
hashes(struct arena *a, sqlite3 *db, const char *sql, uint32_t *n)
{
	sqlite3_stmt *s;
	struct hash *list = NULL;
	uint32_t cap = 0;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	while (sqlite3_step(s) == SQLITE_ROW) {
		GROW(a, list, *n, cap);
		assert_int_equal(sqlite3_column_bytes(s, 0), (int)sizeof(list->b));
		memcpy(list[(*n)++].b, sqlite3_column_blob(s, 0), sizeof(list->b));
	}
	assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
	return list;
}

static const char *
word(struct arena *a, sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s;
	const char *v;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	v = str_dup(a, str_of((const char *)sqlite3_column_text(s, 0)));
	assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
	return v;
}

static void
read_store(const struct farm_proc *f, struct booty *b)
{
	char path[96];
	sqlite3 *db;

	*b = (struct booty){0};
	(void)snprintf(path, sizeof(path), "%s/data/korch.db", f->dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	b->specs = hashes(&b->a, db, "SELECT DISTINCT spec FROM measurement WHERE fail = 0", &b->n_specs);
	b->builds = hashes(&b->a, db, "SELECT key FROM build", &b->n_builds);
	b->precision = str_of(word(&b->a, db, "SELECT precision FROM measurement LIMIT 1"));
	b->env = sample_env(word(&b->a, db, "SELECT class FROM environment"),
	    word(&b->a, db, "SELECT text FROM environment"));
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_true(b->n_specs > 0 && b->n_builds > 0);
}

/* ---- what it says unasked ---------------------------------------------------------------- */
static void
enter(struct peer *p, const char *url, const struct m_env *env)
{
	struct msg welcome;
	struct err e = {0};

	peer_open(p, url);
	if (!peer_hello(p, "evil", env, NULL, 0, &welcome, &e))
		fail_msg("%s", e.msg);
}

static void
is_refused(struct peer *p, struct m_outcome *o, struct str class)
{
	struct msg m = {.type = MSG_result}, got;

	o->cause = o->cause.p ? o->cause : STR("");
	o->log = STR("");
	m.result.outcomes = o;
	m.result.n_outcomes = 1;
	m.result.class = class;
	peer_want(p, &m, MSG_ok, &got);
	if (got.ok.value != 1)
		fail_msg("taken: kind %llu, generation %llu, %u rows", (unsigned long long)o->kind,
		    (unsigned long long)o->gen, o->n_rows);
}

static const struct m_row lies[] = {
    {.median_ns = 1, .p10_ns = 1, .p90_ns = 1, .min_ns = 1, .samples = 1000000},
    {.median_ns = 100, .p10_ns = 99, .p90_ns = 101, .min_ns = 99, .samples = 20},
    {.median_ns = -5, .samples = 1},
    {.median_ns = 5, .p10_ns = (int64_t)1 << 62, .p90_ns = -((int64_t)1 << 62), .min_ns = 6, .samples = 1},
    {.median_ns = INT64_MAX, .p10_ns = 1, .p90_ns = INT64_MAX, .min_ns = 1, .samples = 5},
    {.median_ns = 100, .p10_ns = 100, .p90_ns = 100, .min_ns = 100, .samples = ((uint64_t)1 << 60) - 1},
    {.median_ns = 100, .p10_ns = 99, .p90_ns = 101, .min_ns = 99, .samples = 3, .error = (double)NAN},
    {.fail = 30, .median_ns = 1},
};
enum { IMPOSSIBLE = 2 }; /* the first of those that are no measurement of anything */

static struct m_row
lie_of(size_t i)
{
	struct m_row r = lies[i % COUNT_OF(lies)];

	r.schedule = STR("evil=1");
	r.cause = r.fail ? STR("says evil") : STR("");
	r.stop = STR("converged");
	r.state = STR("");
	r.clock_ratio = 1;
	return r;
}

/* Every kind of task, of every spec and every build that it knows, by keys that it makes up or has read. */
static void
says_all(struct peer *p, const struct booty *b)
{
	struct str class = b->env.class;

	for (uint32_t s = 0; s < b->n_specs; s++)
		for (size_t i = 0; i < COUNT_OF(lies); i++)
			for (uint64_t kind = 0; kind <= TASK_KINDS; kind++) {
				struct m_row row = lie_of(i);
				struct m_outcome o = {.key = b->specs[s],
				    .gen = 1 + i,
				    .kind = kind,
				    .spec = b->specs[s],
				    .effort = 1,
				    .threads = 1,
				    .precision = b->precision,
				    .rows = &row,
				    .n_rows = 1};

				is_refused(p, &o, class);
			}
	for (uint32_t s = 0; s < b->n_specs; s++) {
		struct m_outcome o = {.key = b->specs[s],
		    .gen = 7,
		    .spec = b->specs[s],
		    .effort = 1,
		    .threads = 1,
		    .precision = b->precision,
		    .fail = 30,
		    .cause = STR("never compiles")};

		is_refused(p, &o, class);
	}
}

/* An object of its own in the place of every build. */
static void
replaces_builds(struct peer *p, const struct booty *b, struct str class)
{
	struct msg m = {.type = MSG_blob_put}, got;
	struct hash digest = hash_bytes(OBJECT, sizeof(OBJECT));

	m.blob_put.digest = digest;
	m.blob_put.total = sizeof(OBJECT);
	m.blob_put.data = (struct bytes){(const uint8_t *)OBJECT, sizeof(OBJECT)};
	m.blob_put.kind = STR("artefact");
	peer_want(p, &m, MSG_blob_at, &got);
	for (uint32_t i = 0; i < b->n_builds; i++) {
		struct m_outcome o = {.key = b->builds[i],
		    .gen = 1,
		    .kind = TASK_BUILD,
		    .precision = STR(""),
		    .artefact = digest};

		is_refused(p, &o, class);
	}
}

/* ---- what it says when it is asked -------------------------------------------------------- */
struct liar {
	struct farm_proc *f;
	struct peer *p;
	struct str class;
	uint64_t n_lies;
};

/* Takes what there is, and lies about it in another way each time; once it has lied, the honest worker comes.
 */
static void
lies_on(void *self)
{
	struct liar *l = self;
	struct msg m = {.type = MSG_lease}, got;

	m.lease.max = 4;
	m.lease.class = l->class;
	peer_want(l->p, &m, MSG_grant, &got);
	for (uint32_t i = 0; i < got.grant.n_tasks; i++) {
		const struct m_task *t = &got.grant.tasks[i];
		struct m_row row = lie_of(IMPOSSIBLE + l->n_lies % (COUNT_OF(lies) - IMPOSSIBLE));
		struct m_outcome o = task_outcome(t);

		o.artefact = hash_bytes("nowhere", 7);
		if (t->kind == TASK_BUILD && l->n_lies % 2) { /* here, but made as nobody has asked */
			o.artefact = hash_bytes(OBJECT, sizeof(OBJECT));
			o.took = (struct bytes){(const uint8_t *)"\7", 1};
		}
		o.rows = &row;
		o.n_rows = t->kind == TASK_MEASURE;
		if (t->kind == TASK_CANARY)
			o.kind = TASK_BUILD;
		is_refused(l->p, &o, l->class);
		l->n_lies++;
	}
	if (l->n_lies && !l->f->worker) {
		farm_proc_worker(l->f, 0);
		farm_proc_await(&l->f->worker_ready);
	}
}

/* ---- the test -------------------------------------------------------------------------- */
static void
start(struct farm_proc *f, struct client **c)
{
	farm_proc_init(f, "fake:seed=5");
	take_model(f);
	farm_proc_daemon(f, 0);
	farm_proc_worker(f, 0);
	farm_proc_await(&f->worker_ready);
	*c = farm_proc_client(f, NULL, NULL);
}

static void
plans_stay(void **state)
{
	struct farm_proc f;
	struct client *c;
	struct booty b;
	struct peer same, other;
	struct m_env odd = sample_env("other-class", "class=other-class x");
	struct liar l = {.f = &f, .p = &same};
	struct hash want[2], have[2];

	(void)state;
	start(&f, &c);
	for (uint64_t i = 0; i < 2; i++)
		want[i] = plan_of(&f, c, i + 1, NULL, NULL);
	client_close(c);
	farm_proc_fini(&f);

	start(&f, &c);
	have[0] = plan_of(&f, c, 1, NULL, NULL);
	read_store(&f, &b);
	enter(&same, f.url, &b.env); /* the honest worker's own environment, copied */
	enter(&other, f.url, &odd);
	says_all(&same, &b);
	replaces_builds(&same, &b, b.env.class);
	replaces_builds(&other, &b, odd.class);
	l.class = b.env.class;
	assert_int_equal(farm_proc_kill(&f.worker, SIGTERM), 0);
	have[1] = plan_of(&f, c, 2, lies_on, &l);
	assert_true(l.n_lies > 0);
	for (int i = 0; i < 2; i++)
		if (!hash_eq(&want[i], &have[i]))
			fail_msg("plan %d is another", i);
	peer_close(&same);
	peer_close(&other);
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&b.a);
}

/* ---- hardware ----------------------------------------------------------------------------- */
struct odd {
	const char *name;
	struct m_hw hw;
};

/* All fields as little, and as much, as a row of hw.def lets them be; and each alone not known. */
static struct odd *
oddities(struct arena *a, uint32_t *n)
{
	struct odd *o = NEW_ARRAY(a, struct odd, 64);
	const struct m_hw good = sample_env("", "").hw;

	o[0] = (struct odd){.name = "nothing known"};
	o[1].name = "least of all";
	o[2].name = "most of all";
	*n = 3;
#define HW(KIND, FIELD, LEAST, MOST, WITH)                                                                   \
	o[1].hw.FIELD = (LEAST);                                                                             \
	o[2].hw.FIELD = (MOST);                                                                              \
	o[*n] = (struct odd){"no " #FIELD, good};                                                            \
	o[(*n)++].hw.FIELD = 0;                                                                              \
	o[*n] = (struct odd){"least " #FIELD, good};                                                         \
	o[(*n)++].hw.FIELD = (LEAST);
#include "../../proto/hw.def"
#undef HW
	o[1].hw.sm = o[2].hw.sm = 0; /* a CPU */
	return o;
}

/* Says of all that it is given that it cannot. */
static void
cannot(struct peer *p, const char *class)
{
	struct msg m = {.type = MSG_lease}, got;

	m.lease.max = 4;
	m.lease.class = str_of(class);
	peer_want(p, &m, MSG_grant, &got);
	for (uint32_t i = 0; i < got.grant.n_tasks; i++) {
		struct m_outcome o = task_outcome(&got.grant.tasks[i]);
		struct msg r = {.type = MSG_result}, answer;

		o.fail = (uint64_t)err_wire(ERR_COMPILE);
		o.cause = STR("no compiler");
		r.result.outcomes = &o;
		r.result.n_outcomes = 1;
		r.result.class = str_of(class);
		peer_want(p, &r, MSG_ok, &answer);
	}
}

/* A plan for such a device: its planner ends by itself, with one or without. */
static void
is_planned(
    const struct farm_proc *f, struct client *c, struct peer *p, const struct odd *o, const char *class)
{
	struct m_options opts = {
	    .device = str_of(class), .threads = 1, .tolerance = 1e-3, .fusion = STR("operator"), .effort = 1};
	struct arena a = {0};
	char path[128];
	struct msg m;
	uint64_t job, seq = 0;
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/mlp.onnx", f->dir);
	if (!client_submit(c, path, NULL, 0, &opts, &job, &e))
		fail_msg("%s", e.msg);
	do {
		if (!client_watch(c, &a, job, seq, SECOND / 50, &m, &e))
			fail_msg("%s", e.msg);
		for (uint32_t i = 0; i < m.job_events.n_events; i++) {
			const struct m_event *ev = &m.job_events.events[i];

			seq = ev->seq;
			if (ev->code == (uint64_t)err_wire(ERR_CRASH) ||
			    memmem(ev->reason.p, ev->reason.n, "planner", 7))
				fail_msg("%s: %.*s", o->name, STR_ARG(ev->reason));
		}
		cannot(p, class);
	} while (!m.job_events.is_final);
	arena_fini(&a);
}

/* A vector is refused at the door, or planners can work with it. */
static void
odd_hardware(void **state)
{
	struct arena a = {0};
	struct farm_proc f;
	struct client *c;
	uint32_t n, n_in = 0;
	struct odd *o = oddities(&a, &n);

	(void)state;
	farm_proc_init(&f, "");
	take_model(&f);
	farm_proc_daemon(&f, 0);
	c = farm_proc_client(&f, NULL, NULL);
	for (uint32_t i = 0; i < n; i++) {
		const char *class = arena_printf(&a, "odd:%u", i);
		struct m_env env = sample_env(class, class);
		struct msg welcome;
		struct peer p;
		struct err e = {0};

		env.hw = o[i].hw;
		peer_open(&p, f.url);
		if (peer_hello(&p, "odd", &env, NULL, 0, &welcome, &e)) {
			is_planned(&f, c, &p, &o[i], class);
			n_in++;
		} else if (!strstr(e.msg, "hw."))
			fail_msg("%s: %s", o[i].name, e.msg);
		peer_close(&p);
	}
	print_message("%u of %u were taken\n", n_in, n);
	assert_true(n_in > 0 && n_in < n);
	client_close(c);
	farm_proc_fini(&f);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(plans_stay), cmocka_unit_test(odd_hardware)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
