/* A GPU's worker on the fake driver: what is wrong with the host is said, what is wrong with a kernel costs
 * that kernel. memory: yes threads: yes */
#include "gpu_rig.h"

#include "../../kernels/generate/generate.h"
#include "../../kernels/device/gpu_fake.h"
#include "../../schema/artefact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Opening `device` fails as ERR_HOST with these words. */
static void
refuses(const char *device, const char *words)
{
	struct rig r;
	struct err e = {0};

	if (rig_open(&r, device, &e))
		fail_msg("%s opens", device);
	arena_fini(&r.a);
	if (e.code != ERR_HOST || !strstr(e.msg, words))
		fail_msg("%s: %s \"%s\", without \"%s\"", device, err_name(e.code), e.msg, words);
}
/* ---- a device in order -------------------------------------------------------------------- */
static void
measures(void **state)
{
	struct rig r, again;
	struct err e = {0};

	(void)state;
	if (!rig_open(&r, "cuda-fake:gpu=v100,seed=3", &e))
		fail_msg("%s", e.msg);
	assert_string_equal(r.d.class, "cuda:Fake-Tesla-V100-SXM2-16GB");
	rig_measure(&r, 1);
	for (int i = 0; i < RIG_N; i++) {
		if (r.out[i].fail)
			fail_msg("%.*s", STR_ARG(r.out[i].cause));
		assert_int_equal(r.out[i].n_rows, 1);
		if (r.out[i].rows[0].fail)
			fail_msg("%.*s", STR_ARG(r.out[i].rows[0].cause));
		if (!str_is(r.out[i].rows[0].state,
			"mhz=1530 lowest=1530 celsius=55..55 watt=210 throttled=0 disturbed=0 "
			"regs=32 blocks=32"))
			fail_msg("%.*s", STR_ARG(r.out[i].rows[0].state));
	}
	assert_int_equal(rig_n_good(&r), RIG_N);
	/* the same again has the same times: they come from the kernels alone */
	assert_true(rig_open(&again, "cuda-fake:gpu=v100,seed=3", &e));
	rig_measure(&again, 1);
	for (int i = 0; i < RIG_N; i++)
		assert_int_equal(again.out[i].rows[0].median_ns, r.out[i].rows[0].median_ns);
	assert_true(hash_eq(&r.d.env.hash, &again.d.env.hash));
	rig_close(&again);
	rig_close(&r);
}

static void
classes(void **state)
{
	struct rig r, s;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=3", &e));
	assert_true(rig_open(&s, "cuda-fake:gpu=a100,seed=3,mig=1", &e));
	assert_string_equal(r.d.class, "cuda:Fake-A100-SXM4-40GB");
	assert_string_equal(s.d.class, "cuda:Fake-A100-SXM4-40GB+mig-1g.5gb");
	assert_false(hash_eq(&r.d.env.hash, &s.d.env.hash));
	assert_int_equal(r.d.env.hw.sm, 80);
	assert_true(str_is(r.d.env.run_compat, "cuda sm_80"));
	rig_close(&s);
	/* other clocks are another environment of the same class */
	assert_true(rig_open(&s, "cuda-fake:gpu=a100,seed=3,app_mhz=1095", &e));
	assert_string_equal(r.d.class, s.d.class);
	assert_false(hash_eq(&r.d.env.hash, &s.d.env.hash));
	rig_close(&s);
	rig_close(&r);
}

/* ---- a host that is not set up -------------------------------------------------------------- */
static void
bad_hosts(void **state)
{
	(void)state;
	refuses("cuda-fake:n=0", "no device");
	refuses("cuda-fake:no_rtc=1", "NVRTC");
	refuses("cuda-fake:no_builtins=1", "builtins");
	refuses("cuda-fake:gpu=v100,rtc=13", "sm_70");
	refuses("cuda-fake:mps=1", "MPS");
	refuses("cuda-fake:mps=2", "MPS"); /* a driver that knows no attribute for it */
	refuses("cuda-fake:gpu=a100,rtc=13,driver=12040", "the driver is for CUDA 12.4");
	refuses("cuda-fake:gpu=a100,old_image=1", "newer toolkit than this driver");
}

/* What is known is faster than any launch can be: schedules beside it are ruled out, not timed.  Known a
 * little slower, they are timed. */
static void
bounds_rule_out(void **state)
{
	static const struct {
		const char *known_ns;
		bool is_timed;
	} rows[] = {{"1", false}, {"1000000000", true}};
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=v100,seed=3", &e));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct m_kv known = {.name = STR("lanes=16"), .value = str_of(rows[i].known_ns)};
		struct m_task task = {.spec = str_of(arena_printf(&r.a, RIG_SPEC, 64, 64)),
		    .effort = 3,
		    .threads = 1,
		    .precision = STR("f32"),
		    .known = &known,
		    .n_known = 1};
		struct m_outcome out = {.cause = STR(""), .log = STR("")};

		r.d.measure(r.d.self, &r.a, &task, 1, &out);
		assert_int_equal(out.fail, 0);
		assert_true(out.n_rows > 1);
		for (uint32_t k = 0; k < out.n_rows; k++) {
			const char *cause = str_dup(&r.a, out.rows[k].cause);

			assert_int_equal(
			    err_of_wire(out.rows[k].fail), rows[i].is_timed ? ERR_NONE : ERR_INFEASIBLE);
			assert_true(
			    rows[i].is_timed || strstr(cause, "cannot win: its launches take ") != NULL);
			assert_int_equal(out.rows[k].median_ns > 0, rows[i].is_timed);
		}
	}
	rig_close(&r);
}

/* A task of any effort times each kernel of its space once: knobs that say nothing to a spec have no row. */
static void
no_kernel_twice(void **state)
{
	struct rig r;
	struct m_task task = {
	    .spec = STR("spec 1\n%0 = input f32[40,304]\n%1 = relu %0 : f32[40,304]\noutput %1\n"),
	    .effort = 40,
	    .threads = 1,
	    .precision = STR("f32")};
	struct m_outcome out = {.cause = STR(""), .log = STR("")};
	uint64_t made[40];
	struct spec s;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=3", &e));
	assert_true(spec_read(&r.a, task.spec, &s, &e));
	r.d.measure(r.d.self, &r.a, &task, 1, &out);
	assert_int_equal(out.fail, 0);
	assert_true(out.n_rows > 3 && out.n_rows < COUNT_OF(made));
	for (uint32_t k = 0; k < out.n_rows; k++) {
		assert_true(trace_outcome(&r.a, &s, out.rows[k].schedule, &r.d.target, &made[k]));
		for (uint32_t i = 0; i < k; i++)
			if (made[i] == made[k])
				fail_msg("'%.*s' and '%.*s' are one kernel", STR_ARG(out.rows[i].schedule),
				    STR_ARG(out.rows[k].schedule));
	}
	rig_close(&r);
}

/* What describes a kernel of a build is what its schedule gives under the symbol that was asked for, although
 * it is compiled under another one. */
static void
is_described(struct rig *r, const struct spec *s, const struct m_kernel *k, struct bytes description)
{
	struct artefact got;
	struct kernel_code code;
	struct err e = {0};

	if (!artefact_read(&r->a, description, &s, 1, &got, &e) ||
	    !generate_kernel(&r->a, s, k->schedule, &r->d.target, str_dup(&r->a, k->symbol), &code, &e))
		fail_msg("%s", e.msg);
	assert_true(str_eq(got.kernels[0].text, code.text) && code.text.n > 100);
	assert_true(descriptor_hash(&got.kernels[0].desc) == descriptor_hash(&code.desc));
	assert_true(str_eq(got.prelude, prelude_cuda(&r->a, false)));
}

/* A block a row, as the description that is made of the build says. */
static void
a_block_a_row(void **state)
{
	static const char rows[] =
	    "spec 1\n%%0 = input f32[%d,300]\n%%1 = sum %%0 axes=[1] : f32[%d,1]\noutput %%1\n";
	static const struct {
		const char *schedule;
		int rows;
		uint32_t grid;
	} cases[] = {{"", 5000, 5000}, {"trace=1", 100, 100}};
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(
	    &r, "cuda-fake:gpu=v100,seed=3", &e)); /* 80 multiprocessors; kernels have 32 registers */
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct spec s;
		struct m_kernel one = {.symbol = STR("k0"), .schedule = str_of(cases[i].schedule)};
		struct m_build_ask ask = {.precision = STR("f32"), .n_kernels = 1, .kernels = &one};
		struct built built;
		struct gpu_kernel *k;
		uint32_t n;
		int sm;

		assert_true(
		    spec_read(&r.a, str_of(arena_printf(&r.a, rows, cases[i].rows, cases[i].rows)), &s, &e));
		one.spec = s.text;
		if (!r.d.build(r.d.self, &r.a, &ask, &built, &e))
			fail_msg("%s", e.msg);
		assert_true(gpu_module_read(&r.a, built.object, &sm, &k, &n, &e) && n == 1);
		assert_int_equal(k[0].pass[0].grid[0], cases[i].grid);
		is_described(&r, &s, &one, built.description);
	}
	rig_close(&r);
}

/* ---- faults of kernels ------------------------------------------------------------------------ */
/* Every kernel has this fault: each costs its own row, and the next device is in order. */
static void
each_fails(const char *fault, enum err_code code, const char *words)
{
	char device[96];
	struct rig r;
	struct err e = {0};

	(void)snprintf(device, sizeof(device), "cuda-fake:gpu=a100,seed=5,%s", fault);
	if (!rig_open(&r, device, &e))
		fail_msg("%s", e.msg);
	rig_measure(&r, 1);
	for (int i = 0; i < RIG_N; i++) {
		if (r.out[i].fail || r.out[i].n_rows != 1)
			fail_msg("%s: task %d: %.*s", fault, i, STR_ARG(r.out[i].cause));
		if (err_of_wire(r.out[i].rows[0].fail) != code ||
		    !strstr(str_dup(&r.a, r.out[i].rows[0].cause), words))
			fail_msg("%s: %s \"%.*s\"", fault, err_name(err_of_wire(r.out[i].rows[0].fail)),
			    STR_ARG(r.out[i].rows[0].cause));
	}
	if (!r.d.canary(r.d.self, &e))
		fail_msg("%s: afterwards: %s", fault, e.msg);
	rig_close(&r);
}

static void
kernel_faults(void **state)
{
	(void)state;
	each_fails("compile=1000000", ERR_COMPILE, "fake compiler");
	each_fails("spill=1000000", ERR_INFEASIBLE, "spills: k_p0 stores 1024 bytes");
	each_fails("unfit=1000000", ERR_INFEASIBLE, "does not fit: k_p0 on sm_80");
	each_fails("launch=1000000", ERR_LAUNCH, "too many resources");
	each_fails("illegal=1000000", ERR_CRASH, "illegal address");
	each_fails("wrong=1000000", ERR_WRONG, "reference says");
	each_fails("hang=1000000,kernel_ms=300", ERR_TIMEOUT, "did not end");
}

/* Kernels of which some are bad, by the draw of a seed: the good ones have the times that they have among
 * good ones. */
static uint32_t
bad_by(unsigned seed)
{
	struct rig r, clean;
	struct err e = {0};
	char good[64], some[64];
	uint32_t bad = 0;

	(void)snprintf(good, sizeof good, "cuda-fake:gpu=a100,seed=%u", seed);
	(void)snprintf(some, sizeof some, "cuda-fake:gpu=a100,seed=%u,illegal=500000", seed);
	assert_true(rig_open(&clean, good, &e));
	assert_true(rig_open(&r, some, &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	for (int i = 0; i < RIG_N; i++) {
		assert_int_equal(r.out[i].n_rows, 1);
		if (r.out[i].rows[0].fail) {
			assert_int_equal(err_of_wire(r.out[i].rows[0].fail), ERR_CRASH);
			bad++;
		} else
			assert_int_equal(r.out[i].rows[0].median_ns, clean.out[i].rows[0].median_ns);
	}
	rig_close(&clean);
	rig_close(&r);
	return bad;
}

/* Which ones are bad hangs on the kernels' text too, so that a seed may draw all or none of so few. */
static void
bad_among_good(void **state)
{
	enum { SEEDS = 6 };
	uint32_t mixed = 0;

	(void)state;
	for (unsigned seed = 11; seed < 11 + SEEDS; seed++) {
		uint32_t bad = bad_by(seed);

		mixed += bad > 0 && bad < RIG_N;
	}
	assert_true(mixed > 0);
}

/* ---- code of another architecture ---------------------------------------------------------------- */
static const char KERNEL[] =
    "K_KERNEL k_p0(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi) {\n"
    "\t(void)buf, (void)shared, (void)local, (void)lo, (void)hi;\n}\n";

/* A V100 gets a module that says sm `says` around code for sm_80. */
static void
foreign(int says, const char *words)
{
	struct arena a = {0};
	struct gpu g;
	struct dev d;
	struct dev_module *m = NULL;
	struct dev_kernel k = {.n_passes = 1};
	struct gpu_kernel one = {.symbol = STR("k0"), .n_passes = 1, .pass = {{{1, 1, 1}, {32, 1, 1}, 0}}};
	struct bytes module;
	struct strbuf sb;
	struct err e = {0};

	sb_init(&sb, &a);
	sb_add(&sb, prelude_cuda(&a, false));
	sb_addz(&sb, KERNEL);
	if (!gpu_fake_open(STR("gpu=a100"), &g, &e) ||
	    !gpu_compile(&g, &a, sb_str(&sb), 80, false, &one.cubin, &e))
		fail_msg("%s", e.msg);
	gpu_module_pack(&a, says, &one, 1, &module);
	if (!gpu_fake_open(STR("gpu=v100"), &g, &e) || !dev_cuda_open(&g, 0, &d, &e))
		fail_msg("%s", e.msg);
	assert_false(d.load(d.self, module, &m, &e) && d.find(d.self, m, "k0", &k, &e));
	assert_int_equal(e.code, ERR_DEVICE);
	if (!strstr(e.msg, words))
		fail_msg("\"%s\" without \"%s\"", e.msg, words);
	d.unload(d.self, m);
	d.close(d.self);
	arena_fini(&a);
}

static void
foreign_code(void **state)
{
	(void)state;
	foreign(80, "the code is for sm_80, and this GPU (Fake Tesla V100-SXM2-16GB) is sm_70");
	foreign(70, "no kernel image for this GPU's architecture");
}

/* ---- shared memory that is asked for at the launch -------------------------------------------------- */
static int
forgets(void *fn, int which, int v)
{
	(void)fn, (void)which, (void)v;
	return 0;
}

/* A block of an A100 may have 163 KiB, and 48 of them unasked: beyond that the driver must be told, or
 * refuses. */
static void
dynamic_shared(void **state)
{
	static const struct {
		uint32_t kib;
		bool tells;
		enum err_code found, ran;
	} rows[] = {{0, true, ERR_NONE, ERR_NONE}, {48, false, ERR_NONE, ERR_NONE},
	    {60, true, ERR_NONE, ERR_NONE}, {60, false, ERR_NONE, ERR_LAUNCH},
	    {163, true, ERR_NONE, ERR_NONE}, {164, true, ERR_LAUNCH, ERR_NONE}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct gpu g;
		struct dev d;
		struct dev_module *m = NULL;
		struct dev_kernel k = {.n_passes = 1, .range = {1}};
		struct gpu_kernel one = {
		    .symbol = STR("k0"), .n_passes = 1, .pass = {{{1, 1, 1}, {32, 1, 1}, rows[i].kib << 10}}};
		struct bytes module;
		struct strbuf sb;
		struct err e = {0};
		bool is_lost;

		sb_init(&sb, &a);
		sb_add(&sb, prelude_cuda(&a, false));
		sb_addz(&sb, KERNEL);
		if (!gpu_fake_open(STR("gpu=a100"), &g, &e) ||
		    !gpu_compile(&g, &a, sb_str(&sb), 80, false, &one.cubin, &e))
			fail_msg("%s", e.msg);
		if (!rows[i].tells)
			g.cu.set_function = forgets;
		gpu_module_pack(&a, 80, &one, 1, &module);
		assert_true(dev_cuda_open(&g, 0, &d, &e));
		if (!d.load(d.self, module, &m, &e) || !d.find(d.self, m, "k0", &k, &e)) {
			assert_int_equal(e.code, rows[i].found);
		} else {
			void *none[1] = {NULL};
			const struct dev_launch l = {.kernel = &k, .buf = none};

			assert_int_equal(rows[i].found, ERR_NONE);
			assert_true(d.reserve(d.self, 0, 0, &e));
			d.run(d.self, &l, 1, NULL);
			assert_int_equal(d.fault(d.self, &is_lost, &e), rows[i].ran == ERR_NONE);
			assert_int_equal(rows[i].ran == ERR_NONE ? ERR_NONE : e.code, rows[i].ran);
		}
		d.unload(d.self, m);
		d.close(d.self);
		arena_fini(&a);
	}
}

/* ---- what is never timed ------------------------------------------------------------------------ */
/* A kernel that spills is not even loaded, and the others have their times. */
static uint32_t
n_spilled(int seed)
{
	char device[96];
	struct rig r, clean;
	struct err e = {0};
	uint32_t bad = 0;

	(void)snprintf(device, sizeof(device), "cuda-fake:gpu=a100,seed=%d", seed);
	assert_true(rig_open(&clean, device, &e));
	(void)snprintf(device, sizeof(device), "cuda-fake:gpu=a100,seed=%d,spill=300000,unfit=200000", seed);
	assert_true(rig_open(&r, device, &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	for (int i = 0; i < RIG_N; i++) {
		const struct m_row *row = &r.out[i].rows[0];

		assert_int_equal(r.out[i].n_rows, 1);
		if (row->fail) {
			assert_int_equal(err_of_wire(row->fail), ERR_INFEASIBLE);
			assert_int_equal(row->samples, 0);
			bad++;
		} else
			assert_int_equal(row->median_ns, clean.out[i].rows[0].median_ns);
	}
	rig_close(&clean);
	rig_close(&r);
	return bad;
}

static void
spills_are_not_run(void **state)
{
	uint32_t bad = 0;

	(void)state;
	for (int seed = 21; seed < 24; seed++)
		bad += n_spilled(seed);
	assert_true(bad > 0 && bad < 3 * RIG_N);
}

/* ---- precision ---------------------------------------------------------------------------------- */
static const char MATMUL[] =
    "spec 1\n%0 = input f32[64,256]\n%1 = weight f32[256,64]\n%2 = matmul %0 %1 : f32[64,64]\noutput %2\n";

static const struct m_row *
row_of(const struct m_outcome *o, const char *schedule)
{
	for (uint32_t i = 0; i < o->n_rows; i++)
		if (str_is(o->rows[i].schedule, schedule))
			return &o->rows[i];
	return NULL;
}

/* One task at that precision; *error of its first schedule. */
static void
at_precision(struct rig *r, const char *precision)
{
	r->task[0] = (struct m_task){
	    .spec = str_of(MATMUL), .effort = 1, .threads = 1, .precision = str_of(precision)};
	r->out[0] = (struct m_outcome){.cause = STR(""), .log = STR("")};
	r->d.measure(r->d.self, &r->a, r->task, 1, r->out);
}

/* Rounded products are taken up to the tolerance of the task; beyond it the float32 form is left. */
static void
precisions(void **state)
{
	struct rig r;
	struct err e = {0};
	const struct m_row *row;
	double error;

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5", &e));
	assert_true(
	    r.d.env.hw.half_flops >= 312e12 / 2 && r.d.env.hw.tf32_flops >= r.d.env.hw.half_flops / 4);
	at_precision(&r, "tf32:0.001");
	row = row_of(&r.out[0], "trace=1");
	assert_true(row && row->fail == 0);
	error = row->error;
	assert_true(error > 5e-5 && error < 1e-3);
	row = row_of(&r.out[0], "exact=1 trace=1");
	assert_true(row && row->fail == 0 && row->error < 1e-6);
	at_precision(&r, "tf32:0.00001");
	row = row_of(&r.out[0], "trace=1");
	assert_true(row && err_of_wire(row->fail) == ERR_WRONG);
	row = row_of(&r.out[0], "exact=1 trace=1");
	assert_true(row && row->fail == 0);
	at_precision(&r, "bf16:0.05");
	row = row_of(&r.out[0], "trace=1");
	assert_true(row && row->fail == 0 && row->error > 4 * error);
	at_precision(&r, "f8:0.1");
	assert_int_equal(err_of_wire(r.out[0].fail), ERR_INFEASIBLE);
	at_precision(&r, "tf32");
	assert_int_equal(err_of_wire(r.out[0].fail), ERR_INFEASIBLE);
	rig_close(&r);
	/* no tensor cores for it there */
	assert_true(rig_open(&r, "cuda-fake:gpu=v100,seed=5", &e));
	at_precision(&r, "tf32:0.001");
	assert_int_equal(err_of_wire(r.out[0].fail), ERR_INFEASIBLE);
	rig_close(&r);
	assert_true(rig_open(&r, "fake:seed=1", &e));
	at_precision(&r, "tf32:0.001");
	assert_int_equal(err_of_wire(r.out[0].fail), ERR_INFEASIBLE);
	rig_close(&r);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(measures),
	    cmocka_unit_test(classes),
	    cmocka_unit_test(bad_hosts),
	    cmocka_unit_test(foreign_code),
	    cmocka_unit_test(bounds_rule_out),
	    cmocka_unit_test(no_kernel_twice),
	    cmocka_unit_test(a_block_a_row),
	    cmocka_unit_test(dynamic_shared),
	    cmocka_unit_test(kernel_faults),
	    cmocka_unit_test(bad_among_good),
	    cmocka_unit_test(spills_are_not_run),
	    cmocka_unit_test(precisions),
	};
	struct rig_home home;

	return rig_enter(&home, argc > 1 ? argv[1] : NULL)
	    ? rig_leave(&home, cmocka_run_group_tests(tests, NULL, NULL))
	    : 1;
}
