/* A GPU's worker on the fake driver: what is wrong with the host is said, what is wrong with a kernel
 * costs that kernel, and what is wrong with the device costs no measurement.
 * memory: yes
 * threads: yes */
#include "../../worker/device.h"

#include "../../kernels/emit/emit.h"
#include "../../worker/gpu_fake/gpu_fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 6 };
static const volatile bool never = false;
static const char SPEC[] =
    "spec 1\n%%0 = input f32[%d,8]\n%%1 = exp %%0 : f32[%d,8]\noutput %%1\n";

struct rig {
	struct arena a;
	struct device_conf conf;
	struct device d;
	struct m_task task[N];
	struct m_outcome out[N];
};

static bool
rig_open(struct rig *r, const char *device, struct err *e)
{
	memset(r, 0, sizeof(*r));
	r->conf = (struct device_conf){.compiler = "", .quiet = true, .cancel = &never};
	return device_open(&r->a, str_of(device), &r->conf, &r->d, e);
}

static void
rig_measure(struct rig *r, int rows)
{
	for (int i = 0; i < N; i++) {
		r->task[i] = (struct m_task){.spec = str_of(arena_printf(&r->a, SPEC, (i + 1) * rows, (i + 1) * rows)), .effort = 1, .threads = 1,
		    .precision = STR("f32")};
		r->out[i] = (struct m_outcome){.cause = STR(""), .log = STR("")};
	}
	r->d.measure(r->d.self, &r->a, r->task, N, r->out);
}

static void
rig_close(struct rig *r)
{
	r->d.close(r->d.self);
	arena_fini(&r->a);
}

static uint32_t
n_good(const struct rig *r)
{
	uint32_t n = 0;

	for (int i = 0; i < N; i++)
		n += r->out[i].fail == 0 && r->out[i].n_rows > 0 && r->out[i].rows[0].median_ns > 0;
	return n;
}

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
	for (int i = 0; i < N; i++) {
		if (r.out[i].fail)
			fail_msg("%.*s", STR_ARG(r.out[i].cause));
		assert_int_equal(r.out[i].n_rows, 1);
		if (r.out[i].rows[0].fail)
			fail_msg("%.*s", STR_ARG(r.out[i].rows[0].cause));
		if (!str_is(r.out[i].rows[0].state, "mhz=1530 lowest=1530 celsius=55..55 watt=210 throttled=0 disturbed=0"))
			fail_msg("%.*s", STR_ARG(r.out[i].rows[0].state));
	}
	assert_int_equal(n_good(&r), N);
	/* the same again has the same times: they come from the kernels alone */
	assert_true(rig_open(&again, "cuda-fake:gpu=v100,seed=3", &e));
	rig_measure(&again, 1);
	for (int i = 0; i < N; i++)
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

/* What is known is faster than any launch can be: schedules beside it are ruled out, not timed.  Known a little
 * slower, they are timed. */
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
		struct m_task task = {.spec = str_of(arena_printf(&r.a, SPEC, 64, 64)), .effort = 3, .threads = 1,
		    .precision = STR("f32"), .known = &known, .n_known = 1};
		struct m_outcome out = {.cause = STR(""), .log = STR("")};

		r.d.measure(r.d.self, &r.a, &task, 1, &out);
		assert_int_equal(out.fail, 0);
		assert_true(out.n_rows > 1);
		for (uint32_t k = 0; k < out.n_rows; k++) {
			const char *cause = str_dup(&r.a, out.rows[k].cause);

			assert_int_equal(err_of_wire((int)out.rows[k].fail), rows[i].is_timed ? ERR_NONE : ERR_INFEASIBLE);
			assert_true(rows[i].is_timed || strstr(cause, "cannot win: its launches take ") != NULL);
			assert_int_equal(out.rows[k].median_ns > 0, rows[i].is_timed);
		}
	}
	rig_close(&r);
}

/* Blocks that go from row to row are as many as the GPU holds at once; and never more than rows. */
static void
persistent_rows(void **state)
{
	static const char rows[] = "spec 1\n%%0 = input f32[%d,300]\n%%1 = sum %%0 axes=[1] : f32[%d,1]\noutput %%1\n";
	static const struct {
		const char *schedule;
		int rows;
		uint32_t grid;
	} cases[] = {{"threads=128", 5000, 5000}, {"threads=128 persist=1", 5000, 80 * 16}, {"threads=512 persist=1", 5000, 80 * 4},
	    {"threads=128 persist=1", 100, 100}};
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=v100,seed=3", &e)); /* 80 multiprocessors; kernels have 32 registers */
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct spec s;
		struct m_kernel one = {.symbol = STR("k0"), .schedule = str_of(cases[i].schedule)};
		struct m_build_ask ask = {.precision = STR("f32"), .n_kernels = 1, .kernels = &one};
		struct built built;
		struct gpu_kernel *k;
		uint32_t n;
		int sm;

		assert_true(spec_read(&r.a, str_of(arena_printf(&r.a, rows, cases[i].rows, cases[i].rows)), &s, &e));
		one.spec = s.text;
		if (!r.d.build(r.d.self, &r.a, &ask, &built, &e))
			fail_msg("%s", e.msg);
		assert_true(gpu_module_read(&r.a, built.object, &sm, &k, &n, &e) && n == 1);
		assert_int_equal(k[0].pass[0].grid[0], cases[i].grid);
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
	for (int i = 0; i < N; i++) {
		if (r.out[i].fail || r.out[i].n_rows != 1)
			fail_msg("%s: task %d: %.*s", fault, i, STR_ARG(r.out[i].cause));
		if (err_of_wire((int)r.out[i].rows[0].fail) != code || !strstr(str_dup(&r.a, r.out[i].rows[0].cause), words))
			fail_msg("%s: %s \"%.*s\"", fault, err_name(err_of_wire((int)r.out[i].rows[0].fail)),
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

/* Some kernels are bad: the good ones have the times that they have among good ones. */
static void
bad_among_good(void **state)
{
	struct rig r, clean;
	struct err e = {0};
	uint32_t bad = 0;

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=11", &e));
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=11,illegal=500000", &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	for (int i = 0; i < N; i++) {
		assert_int_equal(r.out[i].n_rows, 1);
		if (r.out[i].rows[0].fail) {
			assert_int_equal(err_of_wire((int)r.out[i].rows[0].fail), ERR_CRASH);
			bad++;
		} else
			assert_int_equal(r.out[i].rows[0].median_ns, clean.out[i].rows[0].median_ns);
	}
	assert_true(bad > 0 && bad < N);
	rig_close(&clean);
	rig_close(&r);
}

/* ---- code of another architecture ---------------------------------------------------------------- */
static const char KERNEL[] = "K_KERNEL k_p0(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi) {\n"
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
	sb_add(&sb, emit_cuda_prelude(&a, false));
	sb_addz(&sb, KERNEL);
	if (!gpu_fake_open(STR("gpu=a100"), &g, &e) || !gpu_compile(&g, &a, sb_str(&sb), 80, false, &one.cubin, &e))
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

/* A block of an A100 may have 163 KiB, and 48 of them unasked: beyond that the driver must be told, or refuses. */
static void
dynamic_shared(void **state)
{
	static const struct {
		uint32_t kib;
		bool tells;
		enum err_code found, ran;
	} rows[] = {{0, true, ERR_NONE, ERR_NONE}, {48, false, ERR_NONE, ERR_NONE}, {60, true, ERR_NONE, ERR_NONE},
	    {60, false, ERR_NONE, ERR_LAUNCH}, {163, true, ERR_NONE, ERR_NONE}, {164, true, ERR_LAUNCH, ERR_NONE}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct gpu g;
		struct dev d;
		struct dev_module *m = NULL;
		struct dev_kernel k = {.n_passes = 1, .range = {1}};
		struct gpu_kernel one = {.symbol = STR("k0"), .n_passes = 1, .pass = {{{1, 1, 1}, {32, 1, 1}, rows[i].kib << 10}}};
		struct bytes module;
		struct strbuf sb;
		struct err e = {0};
		bool is_lost;

		sb_init(&sb, &a);
		sb_add(&sb, emit_cuda_prelude(&a, false));
		sb_addz(&sb, KERNEL);
		if (!gpu_fake_open(STR("gpu=a100"), &g, &e) || !gpu_compile(&g, &a, sb_str(&sb), 80, false, &one.cubin, &e))
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
	for (int i = 0; i < N; i++) {
		const struct m_row *row = &r.out[i].rows[0];

		assert_int_equal(r.out[i].n_rows, 1);
		if (row->fail) {
			assert_int_equal(err_of_wire((int)row->fail), ERR_INFEASIBLE);
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
	assert_true(bad > 0 && bad < 3 * N);
}

/* ---- precision ---------------------------------------------------------------------------------- */
static const char MATMUL[] = "spec 1\n%0 = input f32[64,256]\n%1 = weight f32[256,64]\n%2 = matmul %0 %1 : f32[64,64]\noutput %2\n";

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
	r->task[0] = (struct m_task){.spec = str_of(MATMUL), .effort = 1, .threads = 1, .precision = str_of(precision)};
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
	assert_true(r.d.env.hw.half_flops >= 312e12 / 2 && r.d.env.hw.tf32_flops >= r.d.env.hw.half_flops / 4);
	at_precision(&r, "tf32:0.001");
	row = row_of(&r.out[0], "");
	assert_true(row && row->fail == 0);
	error = row->error;
	assert_true(error > 5e-5 && error < 1e-3);
	row = row_of(&r.out[0], "exact=1");
	assert_true(row && row->fail == 0 && row->error < 1e-6);
	at_precision(&r, "tf32:0.00001");
	row = row_of(&r.out[0], "");
	assert_true(row && err_of_wire((int)row->fail) == ERR_WRONG);
	row = row_of(&r.out[0], "exact=1");
	assert_true(row && row->fail == 0);
	at_precision(&r, "bf16:0.05");
	row = row_of(&r.out[0], "");
	assert_true(row && row->fail == 0 && row->error > 4 * error);
	at_precision(&r, "f8:0.1");
	assert_int_equal(err_of_wire((int)r.out[0].fail), ERR_INFEASIBLE);
	at_precision(&r, "tf32");
	assert_int_equal(err_of_wire((int)r.out[0].fail), ERR_INFEASIBLE);
	rig_close(&r);
	/* no tensor cores for it there */
	assert_true(rig_open(&r, "cuda-fake:gpu=v100,seed=5", &e));
	at_precision(&r, "tf32:0.001");
	assert_int_equal(err_of_wire((int)r.out[0].fail), ERR_INFEASIBLE);
	rig_close(&r);
	assert_true(rig_open(&r, "fake:seed=1", &e));
	at_precision(&r, "tf32:0.001");
	assert_int_equal(err_of_wire((int)r.out[0].fail), ERR_INFEASIBLE);
	rig_close(&r);
}

/* ---- kernels of libraries ------------------------------------------------------------------------- */
static const char PRODUCT[] = "spec 1\n%0 = weight f32[40]\n%1 = input f32[24,32]\n%2 = weight f32[32,40]\n"
    "%3 = reshape %0 shape=[1,40] : f32[1,40]\n%4 = bcast %3 shape=[24,40] : f32[24,40]\n"
    "%5 = matmul %1 %2 : f32[24,40]\n%6 = add %4 %5 : f32[24,40]\n%7 = relu %6 : f32[24,40]\noutput %7\n";
static const char PICTURE[] = "spec 1\n%0 = input f32[1,9,9,4]\n%1 = weight f32[3,3,4,8]\n%2 = input f32[1,9,9,8]\n"
    "%3 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,9,9,8]\n"
    "%4 = add %3 %2 : f32[1,9,9,8]\n%5 = sigmoid %4 : f32[1,9,9,8]\n%6 = mul %5 %4 : f32[1,9,9,8]\noutput %6\n";

static const char SCALED[] = "spec 1\n%0 = input f32[24,40]\n%1 = input f32[24,32]\n%2 = input f32[32,40]\n%3 = const f32[1,1] -0x1p-2\n"
    "%4 = bcast %3 shape=[24,40] : f32[24,40]\n%5 = matmul %1 %2 : f32[24,40]\n%6 = mul %4 %5 : f32[24,40]\n"
    "%7 = add %0 %6 : f32[24,40]\noutput %7\n";
static const char CLIPPED[] = "spec 1\n%0 = input f32[1,9,9,4]\n%1 = weight f32[3,3,4,8]\n%2 = const f32[1,1,1,1] 0x1p-1\n"
    "%3 = bcast %2 shape=[1,9,9,8] : f32[1,9,9,8]\n"
    "%4 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 : f32[1,9,9,8]\n"
    "%5 = const f32[1,1,1,1] -0x1p-2\n%6 = bcast %5 shape=[1,9,9,8] : f32[1,9,9,8]\n"
    "%7 = max %4 %6 : f32[1,9,9,8]\n%8 = min %3 %7 : f32[1,9,9,8]\noutput %8\n";

static void
ask_one(struct rig *r, const char *spec, const char *precision, uint32_t effort)
{
	struct err e = {0};
	struct spec s;

	if (!spec_read(&r->a, str_of(spec), &s, &e))
		fail_msg("%s", e.msg);
	r->task[0] = (struct m_task){.spec = s.text, .effort = effort, .threads = 1, .precision = str_of(precision)};
	r->out[0] = (struct m_outcome){.cause = STR(""), .log = STR("")};
	r->d.measure(r->d.self, &r->a, r->task, 1, r->out);
	if (r->out[0].fail)
		fail_msg("%.*s", STR_ARG(r->out[0].cause));
}

struct tally {
	uint32_t n, good, wrong, failed, none;
	struct str best;         /* the fastest of all */
	struct str cause;        /* of the first library's kernel that failed */
};

static bool
has(struct str s, const char *words)
{
	size_t n = strlen(words);

	for (size_t i = 0; i + n <= s.n; i++)
		if (memcmp(s.p + i, words, n) == 0)
			return true;
	return false;
}

/* Of the rows whose schedule has these words. */
static struct tally
tally_of(const struct m_outcome *o, const char *words)
{
	struct tally t = {.best = STR(""), .cause = STR("")};
	int64_t best = INT64_MAX;

	for (uint32_t i = 0; i < o->n_rows; i++) {
		const struct m_row *row = &o->rows[i];
		enum err_code fail = err_of_wire((int)row->fail);

		if (fail == ERR_NONE && row->median_ns < best) {
			best = row->median_ns;
			t.best = row->schedule;
		}
		if (!has(row->schedule, words))
			continue;
		t.n++;
		t.good += fail == ERR_NONE;
		t.wrong += fail == ERR_WRONG;
		t.failed += fail == ERR_LAUNCH;
		t.none += fail == ERR_INFEASIBLE;
		if (fail != ERR_NONE && !t.cause.n)
			t.cause = row->cause;
	}
	return t;
}

/* Good rows of kernels that are no library's. */
static uint32_t
n_generated(const struct m_outcome *o)
{
	return tally_of(o, "").good - tally_of(o, "lib=").good;
}

/* They stand among the schedules, are checked and timed like the others, and win where they are faster. */
static void
libraries_compete(void **state)
{
	static const char *const libs[] = {"lib=cublaslt-13.1.0", "lib=cudnn-9.19.0"}, *const specs[] = {PRODUCT, PICTURE};
	struct rig r;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tally t;

		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vfast=1", &e));
		assert_true(has(r.d.env.key, "library=cublaslt-13.1.0\nlibrary=cudnn-9.19.0\n"));
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		if (t.n < 5 || t.good + t.none < t.n || t.good < 4)
			fail_msg("%s: %u rows, %u good, %u beyond its list: %.*s", libs[i], t.n, t.good, t.none, STR_ARG(t.cause));
		assert_true(has(t.best, libs[i]));
		assert_true(n_generated(&r.out[0]) > 0);
		ask_one(&r, specs[i], "tf32:0.01", 12);
		assert_true(tally_of(&r.out[0], "math=1").good >= 4);
		rig_close(&r);
		/* each fault costs its row */
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vwrong=1000000", &e));
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		assert_true(t.wrong >= 4 && t.good == 0 && has(t.cause, "reference says"));
		assert_true(n_generated(&r.out[0]) > 0);
		rig_close(&r);
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vfail=1000000", &e));
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		assert_true(t.failed >= 4 && t.good == 0 && n_generated(&r.out[0]) > 0);
		rig_close(&r);
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vwork=1000000000", &e)); /* more than is allowed */
		ask_one(&r, specs[i], "f32", 12);
		t = tally_of(&r.out[0], libs[i]);
		assert_true(t.none == t.n && t.n > 0 && n_generated(&r.out[0]) > 0);
		rig_close(&r);
		assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,no_lt=1,no_dnn=1", &e));
		assert_false(has(r.d.env.key, "library="));
		ask_one(&r, specs[i], "f32", 12);
		assert_int_equal(tally_of(&r.out[0], "lib=").n, 0);
		rig_close(&r);
	}
}

/* A factor on the products, bounds of what follows: numbers that a call and its bytes carry. */
static void
library_numbers(void **state)
{
	static const char *const libs[] = {"lib=cublaslt-13.1.0", "lib=cudnn-9.19.0"}, *const specs[] = {SCALED, CLIPPED};
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5,vfast=1", &e));
	for (int i = 0; i < 2; i++) {
		struct tally t;

		ask_one(&r, specs[i], "f32", 2);
		t = tally_of(&r.out[0], libs[i]);
		if (t.good < 4 || t.wrong)
			fail_msg("%s: %u rows, %u good, %u wrong: %.*s", libs[i], t.n, t.good, t.wrong, STR_ARG(t.cause));
	}
	rig_close(&r);
}

/* What is built for a plan is the algorithm itself: it loads and runs without asking for a list. */
static void
library_in_a_module(void **state)
{
	struct rig r;
	struct err e = {0};
	struct spec s;
	struct m_kernel one;
	struct m_build_ask ask = {.precision = STR("f32"), .n_kernels = 1, .kernels = &one};
	struct built built;
	struct gpu_kernel *k;
	uint32_t n;
	int sm;

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=5", &e));
	assert_true(spec_read(&r.a, str_of(PICTURE), &s, &e));
	one = (struct m_kernel){.symbol = STR("k0"), .spec = s.text, .schedule = STR("lib=cudnn-9.19.0 algo=2")};
	if (!r.d.build(r.d.self, &r.a, &ask, &built, &e))
		fail_msg("%s", e.msg);
	assert_true(gpu_module_read(&r.a, built.object, &sm, &k, &n, &e) && n == 1);
	assert_memory_equal(k[0].cubin.p, "KORCHLB2", 8);
	one.schedule = STR("lib=cudnn-9.18.0 algo=2");
	assert_false(r.d.build(r.d.self, &r.a, &ask, &built, &e));
	assert_int_equal(e.code, ERR_DEVICE);
	one.schedule = STR("lib=cudnn-9.19.0 algo=77");
	assert_false(r.d.build(r.d.self, &r.a, &ask, &built, &e));
	assert_int_equal(e.code, ERR_INFEASIBLE);
	rig_close(&r);
}

/* ---- faults of the machine ---------------------------------------------------------------------- */
static void
machine_faults(void **state)
{
	static const struct {
		const char *fault;
		enum err_code code;
		const char *words;
		int rows;
	} rows[] = {
	    {"lost=1000000", ERR_DEVLOST, "busy or unavailable", 1},
	    {"throttle=1000000", ERR_THROTTLED, "thermal", 1},
	    {"mig=1,throttle=1000000", ERR_THROTTLED, "thermal", 1}, /* a slice's own handle tells no reasons */
	    {"foreign=1000000", ERR_BUSY, "another process", 1},
	    {"memory=3", ERR_MEMORY, "memory", 30000}, /* a megabyte for the smallest of them */
	};
	struct rig r;
	struct err e = {0};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(rows); k++) {
		char device[96];

		(void)snprintf(device, sizeof(device), "cuda-fake:gpu=h200,seed=5,%s", rows[k].fault);
		if (!rig_open(&r, device, &e))
			fail_msg("%s: %s", rows[k].fault, e.msg);
		rig_measure(&r, rows[k].rows);
		for (int i = 0; i < N; i++) {
			if (r.out[i].n_rows)
				fail_msg("%s: task %d has a row", rows[k].fault, i);
			if (err_of_wire((int)r.out[i].fail) != rows[k].code || !strstr(str_dup(&r.a, r.out[i].cause), rows[k].words))
				fail_msg("%s: %s \"%.*s\"", rows[k].fault, err_name(err_of_wire((int)r.out[i].fail)), STR_ARG(r.out[i].cause));
		}
		rig_close(&r);
	}
}

/* Lost at some moment of a batch, whoever's turn it is: what was measured by then has its time, all else is the
 * machine's fault, and nothing is kept that has no time. */
static void
lost_at_any_moment(void **state)
{
	static const int moments[] = {3, 6, 9, 40, 90, 250};
	struct rig clean;
	struct err e = {0};
	uint32_t n_lost = 0;

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=15", &e));
	rig_measure(&clean, 1);
	for (size_t k = 0; k < COUNT_OF(moments); k++) {
		int at = moments[k];
		char device[64];
		struct rig r;

		(void)snprintf(device, sizeof(device), "cuda-fake:gpu=a100,seed=15,lost_at=%d", at);
		assert_true(rig_open(&r, device, &e));
		rig_measure(&r, 1);
		for (int i = 0; i < N; i++) {
			if (r.out[i].fail)
				n_lost++;
			if (r.out[i].fail ? err_of_wire((int)r.out[i].fail) != ERR_DEVLOST || r.out[i].n_rows : r.out[i].n_rows != 1 ||
			    r.out[i].rows[0].fail || r.out[i].rows[0].median_ns != clean.out[i].rows[0].median_ns)
				fail_msg("lost at %d, task %d: %.*s, %u rows, the first of %lld ns", at, i, STR_ARG(r.out[i].cause),
				    r.out[i].n_rows, (long long)(r.out[i].n_rows ? r.out[i].rows[0].median_ns : 0));
		}
		rig_close(&r);
	}
	assert_true(n_lost > 0);
	rig_close(&clean);
}

/* Now and then throttled or disturbed: those samples do not count, and the times are the clean ones. */
static void
voids_samples(void **state)
{
	struct rig r, clean;
	struct err e = {0};
	int n_told = 0;

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=12", &e));
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=12,throttle=200000,foreign=100000", &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	assert_int_equal(n_good(&r), N);
	for (int i = 0; i < N; i++) {
		const char *state_now = str_dup(&r.a, r.out[i].rows[0].state);

		assert_int_equal(r.out[i].rows[0].median_ns, clean.out[i].rows[0].median_ns);
		/* what did not count is told with its reason, and its clock and heat are not among those kept */
		n_told += strstr(state_now, "reasons=thermal") && !strstr(state_now, "throttled=0");
		n_told += strstr(state_now, "disturbed=0") == NULL;
		assert_non_null(strstr(state_now, "lowest=1410 celsius=55..55"));
	}
	assert_true(n_told > N);
	rig_close(&clean);
	rig_close(&r);
}

/* Clocks that rise while it works: what is timed before they have risen would be no measurement. */
static void
warms_up(void **state)
{
	struct rig r, clean;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&clean, "cuda-fake:gpu=a100,seed=14", &e));
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=14,cold=50", &e));
	rig_measure(&clean, 1);
	rig_measure(&r, 1);
	assert_int_equal(n_good(&r), N);
	for (int i = 0; i < N; i++)
		assert_int_equal(r.out[i].rows[0].median_ns, clean.out[i].rows[0].median_ns);
	rig_close(&clean);
	rig_close(&r);
}

/* What NVML tells of a slice, and of a GPU whose processes it does not list: that is no stranger's presence. */
static void
what_nvml_tells(void **state)
{
	static const char seen[] = "mhz=1410 lowest=1410 celsius=55..55 watt=280 throttled=0 disturbed=0";
	static const struct {
		const char *device, *words;
	} rows[] = {{"gpu=a100,seed=9", ""}, {"gpu=a100,seed=9,mig=1", ""}, {"gpu=a100,seed=9,no_list=1", " processes=unseen"}};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(rows); k++) {
		char device[96];
		struct rig r;
		struct err e = {0};

		(void)snprintf(device, sizeof(device), "cuda-fake:%s", rows[k].device);
		if (!rig_open(&r, device, &e))
			fail_msg("%s", e.msg);
		rig_measure(&r, 1);
		for (int i = 0; i < N; i++) {
			struct strbuf sb;

			sb_init(&sb, &r.a);
			sb_addf(&sb, "%s%s", seen, rows[k].words);
			if (r.out[i].fail || r.out[i].n_rows != 1 || !str_eq(r.out[i].rows[0].state, sb_str(&sb)))
				fail_msg("%s: %.*s%.*s", rows[k].device, STR_ARG(r.out[i].cause),
				    STR_ARG(r.out[i].n_rows ? r.out[i].rows[0].state : STR("")));
		}
		rig_close(&r);
	}
}

/* While a kernel is measured the physical GPU is locked, for MIG slices of it too: one measurement at a time.  The
 * kernel hangs, so that the watcher is sure to look while it is there. */
struct watch {
	const char *lock;
	atomic_bool is_over, was_held;
};

static void *
watch(void *arg)
{
	struct watch *w = arg;

	while (!w->is_over && !w->was_held) {
		int fd = open(w->lock, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			break;
		if (flock(fd, LOCK_EX | LOCK_NB) != 0)
			w->was_held = true;
		(void)close(fd);
		(void)sched_yield();
	}
	return NULL;
}

static void
one_at_a_time(void **state)
{
	static const char *const devices[] = {"cuda-fake:gpu=a100,seed=16,hang=1000000,kernel_ms=100",
	    "cuda-fake:gpu=a100,seed=16,mig=1,hang=1000000,kernel_ms=100"};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(devices); k++) {
		struct watch w = {.lock = "/tmp/korch-gpu-FAKE:10:00.0.lock"}; /* of seed 16, device 0 */
		struct rig r;
		pthread_t thread;
		struct err e = {0};

		assert_true(rig_open(&r, devices[k], &e));
		assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
		rig_measure(&r, 1);
		w.is_over = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(w.was_held);
		rig_close(&r);
	}
}

/* A device that is gone fails its canary, and takes no task. */
static void
gone(void **state)
{
	struct rig r;
	struct err e = {0};

	(void)state;
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=13", &e)); /* calibrated while it was well */
	rig_close(&r);
	assert_true(rig_open(&r, "cuda-fake:gpu=a100,seed=13,gone=1", &e));
	assert_false(r.d.canary(r.d.self, &e));
	assert_int_equal(e.code, ERR_DEVLOST);
	rig_measure(&r, 1);
	for (int i = 0; i < N; i++)
		assert_int_equal(err_of_wire((int)r.out[i].fail), ERR_DEVLOST);
	rig_close(&r);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(measures), cmocka_unit_test(classes), cmocka_unit_test(bad_hosts), cmocka_unit_test(foreign_code),
	    cmocka_unit_test(bounds_rule_out), cmocka_unit_test(persistent_rows), cmocka_unit_test(dynamic_shared),
	    cmocka_unit_test(kernel_faults), cmocka_unit_test(bad_among_good), cmocka_unit_test(spills_are_not_run), cmocka_unit_test(precisions), cmocka_unit_test(libraries_compete), cmocka_unit_test(library_numbers),
	    cmocka_unit_test(library_in_a_module), cmocka_unit_test(machine_faults), cmocka_unit_test(lost_at_any_moment),
	    cmocka_unit_test(voids_samples), cmocka_unit_test(what_nvml_tells), cmocka_unit_test(warms_up), cmocka_unit_test(one_at_a_time), cmocka_unit_test(gone)};
	char cache[] = "/tmp/korch-gpu-test-XXXXXX", cmd[64];
	int failed;

	/* calibrations of its own, and children of this build */
	if (!mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1) != 0 || setenv("KORCH_LIBEXEC", KORCH_BINARY_DIR "/bin", 1) != 0)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", cache);
	return system(cmd) == 0 ? failed : 1;
}
