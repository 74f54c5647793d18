/* tests/unit/runner_test.c: a plan on the device that it asks for: the same plan on a CPU and on the fake
 * GPU, from the host's and from the device's memory; and what is said where it cannot run. */
#include "../../kernels/generate/generate.h"
#include "../../kernels/run/gpu_plan.h"
#include "../../kernels/device/gpu_fake.h"
#include "../harness/plan_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 32 };
#define PASS(NAME)                                                                                           \
	"K_KERNEL K_BOUNDS(32) " NAME                                                                        \
	"(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi)\n{\n"                             \
	"\t(void)shared, (void)local;\n\tfor (k_i64 i = lo + K_BLOCK * 32 + K_TID; i < hi; i += K_BLOCKS * " \
	"32)\n\t\t"
static const char *const texts[2] = {
    PASS("k_p0") "((float *)buf[2])[i] = 2 * ((const float *)buf[0])[i] + ((const float *)buf[1])[i];\n}\n",
    PASS("k_p0") "((float *)shared)[i] = ((const float *)buf[0])[36 - i];\n}\n" PASS(
	"k_p1") "((float *)buf[1])[i] = ((const float *)buf[0])[i] + ((const float *)shared)[i];\n}\n"};

/* The sample plan for sm_80, its code by the fake compiler. */
static void
sample(struct arena *a, const struct gpu *g, struct plan *out)
{
	struct gpu_kernel k[2];

	plan_sample_dry(a, out);
	out->run_compat = STR("cuda sm_80");
	for (int i = 0; i < 2; i++) {
		struct strbuf sb;
		struct err e = {0};

		sb_init(&sb, a);
		sb_add(&sb, prelude_cuda(a, false));
		sb_addz(&sb, texts[i]);
		k[i] = (struct gpu_kernel){
		    .symbol = out->kernels[i].symbol, .n_passes = out->kernels[i].n_passes};
		for (uint32_t q = 0; q < k[i].n_passes; q++)
			k[i].pass[q] = (struct gpu_pass){.grid = {2, 1, 1}, .block = {BLOCK, 1, 1}};
		if (!gpu_compile(g, a, sb_str(&sb), 80, false, &k[i].cubin, &e))
			fail_msg("%s", e.msg);
	}
	gpu_module_pack(a, 80, k, 2, &out->module);
}

static void
open_fake(const char *settings, struct gpu *g)
{
	struct err e = {0};

	if (!gpu_fake_open(str_of(settings), g, &e))
		fail_msg("%s", e.msg);
}

static void
fill(float *x, int seed)
{
	for (int i = 0; i < SAMPLE_N; i++)
		x[i] = (float)(i * seed % 11);
}

static void
is_right(const float *x, const float *z, const float *same)
{
	float want[SAMPLE_N];

	plan_sample_expect(x, want);
	assert_memory_equal(z, want, sizeof(want));
	assert_memory_equal(same, x, sizeof(want));
}

static void
run_some(struct runner *r)
{
	float x[SAMPLE_N], z[SAMPLE_N], same[SAMPLE_N];
	const void *in[] = {x};
	void *out[] = {z, same};
	int64_t ns, step_ns[2];
	struct err e = {0};

	for (int seed = 1; seed < 4; seed++) {
		fill(x, seed);
		memset(z, 0xff, sizeof(z));
		memset(same, 0xff, sizeof(same));
		if (!runner_run(r, in, out, &ns, seed == 2 ? step_ns : NULL, &e))
			fail_msg("%s", e.msg);
		is_right(x, z, same);
		assert_true(ns > 0);
	}
	assert_true(step_ns[0] > 0 && step_ns[1] > 0);
}

static void
on_both(void **state)
{
	struct arena a = {0};
	struct gpu g;
	struct plan cpu, gpu;
	struct gpu_facts facts;
	struct runner *r;
	struct err e = {0};

	(void)state;
	open_fake("gpu=a100,n=2,seed=1,replay=1", &g);
	sample(&a, &g, &gpu);
	if (!plan_sample(&a, &cpu, &e) || !runner_open(&cpu, &(struct runner_opts){.n_threads = 1}, &r, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(runner_dev(r)->name, "cpu");
	run_some(r);
	runner_close(r);
	for (uint32_t number = 0; number <= 2; number++) { /* 0: the first that fits */
		if (!runner_open(&gpu, &(struct runner_opts){.gpu = &g, .gpu_number = number}, &r, &e))
			fail_msg("%s", e.msg);
		assert_string_equal(runner_dev(r)->name, "cuda");
		if (!gpu_facts(&g, number ? (int)number - 1 : 0, &facts, &e))
			fail_msg("%s", e.msg);
		assert_string_equal(dev_cuda_facts(runner_dev(r))->uuid, facts.uuid);
		run_some(r);
		runner_close(r);
	}
	arena_fini(&a);
}

/* Each of a plan's tensors in the GPU's memory or in the host's, in every mixture; what changes between runs
 * goes into the graph's tables. */
static void
from_device_memory(void **state)
{
	struct arena a = {0};
	struct gpu g;
	struct dev d, other;
	struct plan p;
	struct gpu_plan *on;
	struct err e = {0};
	float x[SAMPLE_N], z[SAMPLE_N], same[SAMPLE_N];
	void *mem[2][3], *far, *pinned;
	int64_t ns;

	(void)state;
	open_fake("gpu=a100,n=2,seed=1,replay=1", &g);
	sample(&a, &g, &p);
	if (!dev_cuda_open(&g, 1, &other, &e))
		fail_msg("%s", e.msg);
	far = other.mem_new(
	    other.self, sizeof(x)); /* of the GPU whose context this thread has: the one opened last */
	if (!dev_cuda_open(&g, 0, &d, &e) || !gpu_plan_open(&d, &p, 0, &on, &e))
		fail_msg("%s", e.msg);
	for (int k = 0; k < 6; k++)
		mem[k / 3][k % 3] = d.mem_new(d.self, sizeof(x));
	for (unsigned turn = 0; turn < 24; turn++) {
		void **m = mem[turn / 8 % 2];
		const void *in[] = {turn & 1 ? m[0] : x};
		void *out[] = {turn & 2 ? m[1] : z, turn & 4 ? m[2] : same};

		fill(x, (int)turn + 1);
		memset(z, 0x77, sizeof(z));
		memset(same, 0x77, sizeof(same));
		d.put(d.self, m[0], x, sizeof(x));
		d.put(d.self, m[1], z, sizeof(z));
		d.put(d.self, m[2], same, sizeof(same));
		if (!gpu_plan_run(on, in, out, &ns, &e))
			fail_msg("%s", e.msg);
		if (turn & 2)
			d.get(d.self, z, m[1], sizeof(z));
		if (turn & 4)
			d.get(d.self, same, m[2], sizeof(same));
		is_right(x, z, same);
		if ((turn & 3) != 3)
			continue;
		/* used where it lies: the steps alone, run again, see what stands there now */
		fill(x, (int)turn + 5);
		d.put(d.self, m[0], x, sizeof(x));
		if (!gpu_plan_time(on, &ns, &e))
			fail_msg("%s", e.msg);
		d.get(d.self, z, m[1], sizeof(z));
		is_right(x, z, x);
	}
	/* pinned for the host is the host's, and may begin anywhere */
	pinned = gpu_host_new(&d, sizeof(x) + 4);
	assert_non_null(pinned);
	memcpy((char *)pinned + 4, x, sizeof(x));
	if (!gpu_plan_run(on, (const void *[]){(char *)pinned + 4}, (void *[]){z, same}, &ns, &e))
		fail_msg("%s", e.msg);
	is_right(x, z, same);
	gpu_host_free(&d, pinned);
	/* kernels may move whole words: memory that begins inside one is refused, not read */
	assert_false(gpu_plan_run(
	    on, (const void *[]){(char *)mem[0][0] + 4}, (void *[]){mem[0][1], mem[0][2]}, &ns, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "input 0 of the plan begins at"));
	assert_false(gpu_plan_run(on, (const void *[]){x}, (void *[]){z, far}, &ns, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(
	    strstr(e.msg, "output 1 of the plan lies in the memory of GPU 1, and the plan runs on GPU 0"));
	if (!gpu_plan_run(on, (const void *[]){x}, (void *[]){z, same}, &ns, &e)) /* none of it lasts */
		fail_msg("%s", e.msg);
	is_right(x, z, same);
	other.mem_free(other.self, far, sizeof(x));
	for (int k = 0; k < 6; k++)
		d.mem_free(d.self, mem[k / 3][k % 3], sizeof(x));
	gpu_plan_close(on);
	other.close(other.self);
	d.close(d.self);
	arena_fini(&a);
}

static void
refused(const struct plan *p, const struct gpu *g, enum err_code code, const char *words)
{
	struct runner *r;
	struct err e = {0};

	if (runner_open(p, &(struct runner_opts){.n_threads = 1, .gpu = g}, &r, &e))
		fail_msg("it opens, and should say \"%s\"", words);
	if (e.code != code || !strstr(e.msg, words))
		fail_msg("%s: \"%s\" without \"%s\"", err_name(e.code), e.msg, words);
}

static void
where_it_cannot_run(void **state)
{
	struct arena a = {0};
	struct gpu g, none = {.why = {[GPU_CUDA] = "the NVIDIA driver is not here"}};
	struct plan p;
	struct runner *r;
	struct err e = {0};

	(void)state;
	open_fake("gpu=a100,seed=1", &g);
	sample(&a, &g, &p);
	refused(&p, &none, ERR_HOST, "the NVIDIA driver is not here");
	open_fake("gpu=a100,n=0", &g);
	refused(&p, &g, ERR_HOST, "no device");
	assert_false(runner_open(&p, &(struct runner_opts){.gpu = &g, .gpu_number = 1}, &r, &e));
	assert_non_null(strstr(e.msg, "no device"));
	open_fake("gpu=a100,n=2", &g);
	assert_false(runner_open(&p, &(struct runner_opts){.gpu = &g, .gpu_number = 3}, &r, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "GPU 2 was asked for; this host has 2"));
	open_fake("gpu=v100,seed=1", &g);
	assert_false(runner_open(&p, &(struct runner_opts){.gpu = &g, .gpu_number = 1}, &r, &e));
	assert_int_equal(e.code, ERR_DEVICE);
	assert_non_null(strstr(e.msg, "GPU 0"));
	refused(&p, &g, ERR_DEVICE, "no GPU of this host fits");
	open_fake("gpu=a100,seed=1,illegal=1000000", &g);
	refused(&p, &g, ERR_CRASH, "illegal address");
	open_fake("gpu=a100,seed=1,gone=1", &g);
	refused(&p, &g, ERR_DEVLOST, "GPU 0");
	p.work_bytes = (size_t)3 << 20;
	open_fake("gpu=a100,seed=1,memory=2", &g);
	refused(&p, &g, ERR_MEMORY, "work memory");
	arena_fini(&a);
}

/* What lay in a context that a fault has broken goes with the context, and the fake driver's contexts go with
 * the process. */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:fake_mem_new\nleak:fake_function\nleak:fake_host_new\nleak:fake_event_new\nleak:fake_"
	       "stream_new\nleak:fake_load\nleak:fake_graph\n";
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(on_both), cmocka_unit_test(from_device_memory),
	    cmocka_unit_test(where_it_cannot_run)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
