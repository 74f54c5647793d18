/* tests/unit/measure_test.c: the measuring child: right kernels are timed, and each way of being
 * wrong costs one row with its cause while the rest of the batch goes on.  label: cpu */
#include "../../schema/plan_file.h"
#include "../../worker/measure_int.h"
#include "../harness/plan_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 1000 };

/* out = relu(in), in several hands. */
static const char text[] =
    "#define PASS(NAME) void NAME##_p0(void *const *b, char *s, char *l, long lo, long hi)\n"
    "#define X const float *x = b[0]; float *y = b[1]; long i; (void)s; (void)l\n"
    "PASS(good) { X; for (i = lo; i < hi; i++) y[i] = x[i] > 0 ? x[i] : 0; }\n"
    "PASS(slow) { X; for (i = lo; i < hi; i++) for (volatile int k = 0; k < 40; k++) y[i] = x[i] > 0 ? x[i] "
    ": 0; }\n"
    "PASS(wrong) { X; for (i = lo; i < hi; i++) y[i] = x[i] > 0 ? x[i] : 0.001f; }\n"
    "PASS(tail) { X; for (i = lo; i < hi - 1; i++) y[i] = x[i] > 0 ? x[i] : 0; }\n"
    "PASS(over) { X; for (i = lo; i < hi + 1; i++) y[i] = i < hi && x[i] > 0 ? x[i] : 0; }\n"
    "PASS(operand) { X; for (i = lo; i < hi; i++) y[i] = x[i] > 0 ? x[i] : 0; ((float *)x)[0] = 1; }\n"
    "PASS(crash) { X; (void)x; for (i = lo; i < hi; i++) y[i] = 0; *(volatile int *)8 = 1; }\n"
    "PASS(leave) { X; (void)x; (void)y; (void)i; extern void _exit(int); _exit(7); }\n"
    "PASS(program) { X; (void)x; (void)y; (void)i; extern int execl(const char *, const char *, ...);"
    " execl(\"/bin/true\", \"true\", (char *)0); }\n"
    "PASS(socket) { X; (void)x; (void)y; (void)i; extern int socket(int, int, int); socket(2, 1, 0); }\n"
    "PASS(file) { X; extern int creat(const char *, int); for (i = lo; i < hi; i++) y[i] = x[i] > 0 ? x[i] : "
    "0;"
    " if (creat(\"/tmp/korch-not-to-be\", 0600) >= 0) y[0] = 1e9f; }\n"
    "PASS(late) { X; static int n; if (++n == 12) *(volatile int *)8 = 1;"
    " for (i = lo; i < hi; i++) y[i] = x[i] > 0 ? x[i] : 0; }\n"
    "PASS(babble) { X; (void)x; (void)y; (void)i; extern long send(int, const void *, unsigned long, int);"
    " static const char junk[64] = {-1, -1, -1, -1}; for (int fd = 0; fd < 64; fd++) send(fd, junk, 64, "
    "0x4000); }\n"
    "PASS(hang) { X; (void)x; (void)y; (void)i; for (volatile int k = 1; k;) ; }\n";

static const char *const names[] = {
    "good", "wrong", "tail", "crash", "over", "operand", "leave", "hang", "slow", "missing"};

struct bench {
	struct arena a;
	struct measure_child *child;
	struct spec spec;
	struct bytes module;
	struct calibration calibration;
	bool is_held, is_refused; /* the host; nobody gets it */
	uint32_t n_held;
};

static bool
hold(void *self, bool take, struct err *e)
{
	struct bench *b = self;

	assert_true(take != b->is_held);
	if (b->is_refused)
		return err_set(e, ERR_BUSY, "somebody has it");
	b->is_held = take;
	b->n_held += take;
	return true;
}

/* A kernel may be silent for silence_ns; 0: as long as a user's, so that a host at its disk fails no test. */
static void
open_child(struct bench *b, const char *device, const char *fake, int64_t silence_ns)
{
	struct measure_opts o = {.program = KORCH_BINARY_DIR "/bin/korch-measure",
	    .device = device,
	    .fake = fake,
	    .n_threads = 1,
	    .kernel_ns = silence_ns,
	    .hold = hold,
	    .hold_self = b};
	struct err e = {0};

	if (!measure_open(&o, &b->child, &e))
		fail_msg("%s", e.msg);
}

static int
setup(void **state)
{
	static const char *const flags[] = {"-O2", NULL};
	struct bench *b = heap_alloc(sizeof(*b));
	struct compile_opts o = {.flags = flags};
	struct err e = {0};

	*state = b;
	if (!compile_c(&b->a, str_of(text), &o, &b->module, &e) ||
	    !spec_read(&b->a, STR("spec 1\n%0 = input f32[1000]\n%1 = relu %0 : f32[1000]\noutput %1\n"),
		&b->spec, &e)) {
		(void)fprintf(stderr, "%s\n", e.msg);
		return -1;
	}
	open_child(b, "cpu", NULL, 0);
	b->calibration =
	    (struct calibration){.hw = {.level_bytes = {32768, 524288, 1 << 24}}, .ref_ns = {20000, 20000}};
	return 0;
}

static int
teardown(void **state)
{
	struct bench *b = *state;

	measure_close(b->child);
	arena_fini(&b->a);
	free(b);
	return 0;
}

static struct m_measured *
run(struct bench *b, const char *const *symbols, uint32_t n, bool check_only)
{
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {N}}};
	struct measure_kernel *k = NEW_ARRAY(&b->a, struct measure_kernel, n);
	struct measure_item item = {.spec = &b->spec, .kernels = k, .n_kernels = n};
	struct measure_batch batch = {.module = b->module,
	    .items = &item,
	    .n_items = 1,
	    .calibration = &b->calibration,
	    .check_only = check_only,
	    .budget_ns = 50000000,
	    .seed = 3};
	struct m_measured *rows;
	struct err e = {0};

	for (uint32_t i = 0; i < n; i++)
		k[i] = (struct measure_kernel){
		    .schedule = str_of(symbols[i]), .symbol = str_of(symbols[i]), .code = &code};
	if (!measure_batch_run(b->child, &b->a, &batch, &rows, &e))
		fail_msg("%s", e.msg);
	return rows;
}

static void
expect(const struct m_measured *r, enum err_code fail, const char *words)
{
	const struct m_row *row = &r->row;

	if (err_of_wire(row->fail) != fail || !memmem(row->cause.p, row->cause.n, words, strlen(words)))
		fail_msg("wanted %s \"%s\", have %s \"%.*s\"", err_name(fail), words,
		    err_name(err_of_wire(row->fail)), STR_ARG(row->cause));
}

static void
each_fault_costs_one_row(void **state)
{
	struct bench *b = *state;
	const struct m_measured *r;

	measure_close(b->child);
	open_child(b, "cpu", NULL, 3000000000);
	r = run(b, names, COUNT_OF(names), true);
	expect(&r[0], ERR_NONE, "");
	assert_true(r[0].row.error < 1e-6);
	expect(&r[1], ERR_WRONG, "the reference says");
	expect(&r[2], ERR_WRONG, "element 999");
	/* By signal 11; the address sanitizer makes that a status of its own. */
	expect(&r[3], ERR_CRASH, "the kernel ended its process");
	expect(&r[4], ERR_WRONG, "writes outside output 0");
	expect(&r[5], ERR_WRONG, "writes into operand 0");
	expect(&r[6], ERR_CRASH, "status 7");
	expect(&r[7], ERR_TIMEOUT, "did not end");
	expect(&r[8], ERR_NONE, "");
	expect(&r[9], ERR_FORMAT, "no function missing_p0");
}

/* The filter needs a kernel that knows it; sanitized builds do without. */
static void
generated_code_starts_and_writes_nothing(void **state)
{
	static const char *const three[] = {"program", "socket", "file"};
	const struct m_measured *r;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
	(void)unlink("/tmp/korch-not-to-be");
	r = run(*state, three, 3, true);
	expect(&r[0], ERR_CRASH, "signal 31");
	expect(&r[1], ERR_CRASH, "signal 31");
	expect(&r[2], ERR_NONE, "");
	assert_int_not_equal(access("/tmp/korch-not-to-be", F_OK), 0);
}

/* What comes over the socket is believed no more than what comes over a network. */
static void
a_kernel_speaks_for_its_child(void **state)
{
	static const char *const two[] = {"babble", "good"};
	const struct m_measured *r = run(*state, two, 2, true);

	expect(&r[0], ERR_CRASH, "wrote over the memory of its process");
	expect(&r[1], ERR_NONE, "");
}

/* Another worker may check while this one does, and time when a kernel has died here. */
static void
the_host_is_held_while_kernels_are_timed_alone(void **state)
{
	static const char *const two[] = {"good", "late"};
	struct bench *b = *state;
	const struct m_measured *r = run(b, two, 1, true);

	expect(&r[0], ERR_NONE, "");
	assert_int_equal(b->n_held, 0);
	r = run(b, two, 2, false);
	expect(&r[0], ERR_NONE, "");
	expect(&r[1], ERR_CRASH, "the kernel ended its process");
	/* once with the kernel that died, once without */
	assert_int_equal(b->n_held, 2);
	assert_false(b->is_held);
}

/* Who does not get the host measures nothing, and says why. */
static void
no_host(void **state)
{
	struct bench *b = *state;
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {N}}};
	struct measure_kernel k = {.schedule = STR("good"), .symbol = STR("good"), .code = &code};
	struct measure_item item = {.spec = &b->spec, .kernels = &k, .n_kernels = 1};
	struct measure_batch batch = {.module = b->module,
	    .items = &item,
	    .n_items = 1,
	    .calibration = &b->calibration,
	    .budget_ns = 50000000,
	    .seed = 3};
	struct m_measured *rows;
	struct err e = {0};

	b->is_refused = true;
	assert_false(measure_batch_run(b->child, &b->a, &batch, &rows, &e));
	assert_int_equal(e.code, ERR_BUSY);
	assert_string_equal(e.msg, "somebody has it");
	b->is_refused = false;
	e = (struct err){0};
	assert_true(measure_batch_run(b->child, &b->a, &batch, &rows, &e)); /* by a child of its own again */
	expect(&rows[0], ERR_NONE, "");
}

static void
times_are_ranked(void **state)
{
	static const char *const two[] = {"slow", "good", "wrong"};
	const struct m_measured *r = run(*state, two, 3, false);

	expect(&r[0], ERR_NONE, "");
	expect(&r[1], ERR_NONE, "");
	expect(&r[2], ERR_WRONG, "");
	assert_true(r[1].row.median_ns > 0 && r[1].row.median_ns < r[0].row.median_ns);
	assert_true(r[1].row.min_ns <= r[1].row.p10_ns && r[1].row.p10_ns <= r[1].row.median_ns &&
	    r[1].row.median_ns <= r[1].row.p90_ns);
	/* How many samples a kernel gets hangs on the clock; that the last one is out first does not. */
	assert_false(str_is(r[1].row.stop, "race"));
	assert_true(str_is(r[0].row.stop, "race"));
	assert_true(r[0].row.samples < r[1].row.samples);
	assert_int_equal(r[2].row.samples, 0);
}

/* Side by side: all get their samples, whoever is behind; a crash costs its kernel. */
static void
many_race_together(void **state)
{
	static const char *const symbols[] = {"good", "crash", "slow"};
	struct bench *b = *state;
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {N}}};
	struct measure_kernel k[COUNT_OF(symbols)];
	struct measure_item item[COUNT_OF(symbols)];
	struct measure_batch batch = {.module = b->module,
	    .items = item,
	    .n_items = COUNT_OF(symbols),
	    .calibration = &b->calibration,
	    .together = true,
	    .budget_ns = 30000000,
	    .seed = 3};
	struct m_measured *rows;
	struct err e = {0};

	for (uint32_t i = 0; i < COUNT_OF(symbols); i++) {
		k[i] = (struct measure_kernel){
		    .schedule = str_of(symbols[i]), .symbol = str_of(symbols[i]), .code = &code};
		item[i] = (struct measure_item){.spec = &b->spec, .kernels = &k[i], .n_kernels = 1};
	}
	if (!measure_batch_run(b->child, &b->a, &batch, &rows, &e))
		fail_msg("%s", e.msg);
	expect(&rows[0], ERR_NONE, "");
	expect(&rows[1], ERR_CRASH, "the kernel ended its process");
	expect(&rows[2], ERR_NONE, "");
	/* Whoever is behind stays in the race: alone the slow one leaves it (times_are_ranked). */
	assert_true(!str_is(rows[0].row.stop, "race") && !str_is(rows[2].row.stop, "race"));
	assert_true(rows[0].row.samples >= 5 && rows[2].row.samples >= 5);
	assert_true(rows[2].row.median_ns > rows[0].row.median_ns);
}

/* A kernel of a library beside generated ones, behind the same filter; one that is not there costs its row.
 */
static void
calls_of_libraries_are_measured(void **state)
{
	struct bench *b = *state;
	int64_t version = dev_cpu_library(LIBRARY_onednn);
	struct kernel_code code = {.desc = {.n_passes = 1, .range = {1}, .is_library = true}};
	struct measure_kernel k[2] = {
	    {STR("lib=cudnn-9.10.2"), STR("k0"), &code, 0}, {STR("lib=onednn-2.6.3"), STR("k1"), &code, 0}};
	struct graph g;
	struct spec s;
	struct measure_item item = {.spec = &s, .kernels = k, .n_kernels = 2};
	struct measure_batch batch = {.module = b->module,
	    .items = &item,
	    .n_items = 1,
	    .calibration = &b->calibration,
	    .budget_ns = 50000000,
	    .seed = 3};
	struct m_measured *rows;
	struct strbuf sb;
	struct err e = {0};

	assert_true(graph_read(&g, &b->a,
	    STR("%0 = input f32[40,30]\n%1 = weight f32[30,50]\n%2 = matmul %0 %1\n"
		"%3 = relu %2\noutput %3\n"),
	    &e));
	spec_of_graph(&b->a, &g, &s);
	sb_init(&sb, &b->a);
	sb_addz(&sb, "lib=");
	library_print(&sb, LIBRARY_onednn, version);
	if (version)
		k[1].schedule = sb_str(&sb);
	if (!measure_batch_run(b->child, &b->a, &batch, &rows, &e))
		fail_msg("%s", e.msg);
	expect(&rows[0], ERR_HOST, "a call of cuDNN");
	if (version) {
		expect(&rows[1], ERR_NONE, "");
		assert_true(rows[1].row.median_ns > 0 && rows[1].row.error < 1e-4);
	} else {
		expect(&rows[1], ERR_HOST, "KORCH_ONEDNN=ON");
	}
}

static void
a_module_that_cannot_load_fails_every_row(void **state)
{
	struct bench *b = *state;
	struct bytes whole = b->module;
	const struct m_measured *r;

	b->module.n = 40;
	r = run(b, names, 2, true);
	expect(&r[0], ERR_FORMAT, "no shared object");
	expect(&r[1], ERR_FORMAT, "no shared object");
	b->module = whole;
	r = run(b, names, 1, true);
	expect(&r[0], ERR_NONE, "");
}

static void
calibration_is_plausible(void **state)
{
	struct bench *b = *state;
	struct calibration c;
	struct dev_info again;
	struct err e = {0};

	if (!measure_calibrate(b->child, false, &c, &e))
		fail_msg("%s", e.msg);
	assert_true(c.hw.flops_peak > 1e9 && c.hw.flops_peak < 1e13);
	assert_true(c.hw.linear_flops > 0.9 * c.hw.flops_peak && c.hw.linear_flops < c.hw.flops_peak);
	assert_true(c.hw.exp_per_s > 1e7 && c.hw.exp_per_s < c.hw.flops_peak / 4);
	assert_true(c.hw.div_per_s > 1e7 && c.hw.div_per_s < c.hw.flops_peak / 2);
	assert_true(c.hw.bytes_per_s[0] >= c.hw.bytes_per_s[1] && c.hw.bytes_per_s[3] > 1e8);
	assert_true(c.hw.call_ns >= 1 && c.hw.call_ns < 1e5);
	assert_true(c.ref_ns[REF_COMPUTE] > 1000 && c.ref_ns[REF_STREAM] > 1000);
	assert_non_null(strstr(c.info.environment, "compiler="));
	/* The words come out the same without measuring. */
	if (!measure_environment(&c.target, &again, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(again.environment, c.info.environment);
}

/* The last cache of a socket is shared: what counts is how much of it comes back fast, between two sizes by
 * how far the rate has fallen. */
static void
a_cache_is_as_large_as_it_is_fast(void **state)
{
	static const struct {
		double rate[4], claimed, is;
	} row[] = {{{26, 25, 24, 13}, 64e6, 64e6}, {{26, 25, 15, 13}, 480e6, 37.12e6},
	    {{26, 15, 25, 13}, 480e6, 19.78e6}, {{26, 25, 24, 13}, 480e6, 70.98e6},
	    {{26, 25, 25, 24}, 480e6, 480e6}, {{26, 14, 14, 13}, 8e6, 8e6}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct cache_reach r = {.n = 4, .bytes = {16000000, 32000000, 64000000, 192000000}};
		double is;

		memcpy(r.rate, row[i].rate, sizeof(row[i].rate));
		is = cache_reach(&r, row[i].claimed);
		if (is < 0.99 * row[i].is || is > 1.01 * row[i].is)
			fail_msg("row %zu: %.0f, not %.0f", i, is, row[i].is);
	}
}

static void
plans_are_timed_side_by_side(void **state)
{
	struct bench *b = *state;
	char path[] = "/tmp/korch-measure-XXXXXX";
	int fd = mkstemp(path);
	const char *paths[] = {path, "/nowhere/none.korch", path};
	struct plan_host h = {0};
	struct m_plan_timed t[3];
	struct plan p;
	struct err e = {0};

	assert_true(fd >= 0);
	(void)close(fd);
	if (!plan_sample(&b->a, &p, &e))
		fail_msg("%s", e.msg);
	for (uint32_t i = 0; i < p.n_kernels; i++)
		p.kernels[i].spec = b->spec.text;
	if (!plan_save(path, &p, &h, &e) ||
	    !measure_plans(b->child, &b->a, &b->calibration, paths, 3, 20000000, 1, t, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(t[0].fail, 0);
	assert_true(t[0].timing.median_ns >= t[0].timing.min_ns && t[0].timing.samples >= 5);
	assert_true(t[2].timing.median_ns >= t[2].timing.min_ns && t[2].timing.samples >= 5);
	assert_int_equal(err_of_wire(t[1].fail), ERR_IO);
	/* the references had their turns among them */
	assert_true(t[0].timing.clock_ratio > 0 && t[2].timing.clock_ratio > 0);
	assert_true(t[1].timing.clock_ratio == 0);
	assert_true(measure_plans(b->child, &b->a, NULL, paths, 1, 20000000, 1, t, &e));
	assert_true(t[0].fail == 0 && t[0].timing.clock_ratio == 0); /* beside no calibration */
	(void)unlink(path);
}

/* Another number's threads would share the child's cores with its own. */
static void
plans_run_on_the_childs_own_threads(void **state)
{
	struct bench *b = *state;
	char path[] = "/tmp/korch-measure-XXXXXX";
	int fd = mkstemp(path);
	const char *paths[] = {path};
	struct plan_host h = {0};
	struct m_plan_timed t;
	struct plan p;
	struct err e = {0};

	assert_true(fd >= 0);
	(void)close(fd);
	if (!plan_sample(&b->a, &p, &e))
		fail_msg("%s", e.msg);
	p.n_threads = 3;
	assert_true(plan_save(path, &p, &h, &e) &&
	    measure_plans(b->child, &b->a, NULL, paths, 1, 20000000, 1, &t, &e));
	assert_int_equal(err_of_wire(t.fail), ERR_PROTO);
	assert_non_null(strstr(t.cause.p, "the plan is for 3 threads, and it is to be timed on 1"));
	(void)unlink(path);
}

/* Their frozen times are of one thread: scores stand on the ratio, whatever the kernels run on. */
static void
references_run_on_one_thread(void **state)
{
	struct arena a = {0};
	struct bytes code;
	struct refs r;
	struct dev d;
	struct err e = {0};

	(void)state;
	if (!dev_cpu_open(3, false, &d, &e) || !refs_compile(&a, &code, &e) || !refs_open(&d, code, &r, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(r.dev->n_threads, 1);
	for (int i = 0; i < REF_COUNT; i++)
		assert_true(refs_time(&r, (enum measure_ref)i) > 0);
	refs_close(&r);
	d.close(d.self);
	arena_fini(&a);
}

/* A device whose threads are away as often as its `self` says. */
static bool
is_away(void *self)
{
	uint32_t *n = self;

	return *n && (*n)--;
}

/* Samples without all threads do not count, but for good: a machine may be busy all the time. */
static void
samples_of_fewer_threads_are_void(void **state)
{
	uint32_t n_away = 3, n_void = 0;
	struct dev d = {.self = &n_away, .is_short = is_away};

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_false(had_all_threads(&d, &n_void));
	assert_true(had_all_threads(&d, &n_void));
	assert_int_equal(n_void, 3);
	n_away = 2 * MOST_VOID;
	for (int i = 3; i < MOST_VOID; i++)
		assert_false(had_all_threads(&d, &n_void));
	assert_true(had_all_threads(&d, &n_void) && had_all_threads(&d, &n_void));
	assert_true(n_away > 0);
	d.is_short = NULL;
	n_void = 0;
	assert_true(had_all_threads(&d, &n_void));
}

static void
fake_faults_walk_the_same_way(void **state)
{
	struct bench *b = *state;
	struct m_measured *r, *again;
	static const char *many[40];
	uint32_t n_crash = 0, n_ok = 0;

	for (uint32_t i = 0; i < COUNT_OF(many); i++)
		many[i] = arena_printf(&b->a, "k%u", i);
	measure_close(b->child);
	open_child(b, "fake", "seed=4,crash=100000,wrong=100000", 0);
	b->calibration.hw = hw_fastest;
	r = run(b, many, COUNT_OF(many), false);
	again = run(b, many, COUNT_OF(many), false);
	for (uint32_t i = 0; i < COUNT_OF(many); i++) {
		n_crash += err_of_wire(r[i].row.fail) == ERR_CRASH;
		n_ok += r[i].row.fail == 0;
		assert_int_equal(r[i].row.fail, again[i].row.fail);
		assert_int_equal(r[i].row.median_ns, again[i].row.median_ns);
	}
	assert_true(n_crash > 0 && n_ok > 20);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_fault_costs_one_row, setup, teardown),
	    cmocka_unit_test_setup_teardown(generated_code_starts_and_writes_nothing, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_kernel_speaks_for_its_child, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_host_is_held_while_kernels_are_timed_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_host, setup, teardown),
	    cmocka_unit_test_setup_teardown(times_are_ranked, setup, teardown),
	    cmocka_unit_test_setup_teardown(many_race_together, setup, teardown),
	    cmocka_unit_test_setup_teardown(calls_of_libraries_are_measured, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_module_that_cannot_load_fails_every_row, setup, teardown),
	    cmocka_unit_test_setup_teardown(calibration_is_plausible, setup, teardown),
	    cmocka_unit_test(a_cache_is_as_large_as_it_is_fast),
	    cmocka_unit_test_setup_teardown(plans_are_timed_side_by_side, setup, teardown),
	    cmocka_unit_test_setup_teardown(plans_run_on_the_childs_own_threads, setup, teardown),
	    cmocka_unit_test(references_run_on_one_thread),
	    cmocka_unit_test(samples_of_fewer_threads_are_void),
	    cmocka_unit_test_setup_teardown(fake_faults_walk_the_same_way, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
