/* GPU modules from outside are checked; where this host has an NVRTC, it compiles what is asked. */
#include "../../kernels/cost/gpu.h"
#include "../../kernels/generate/generate.h"
#include "../../kernels/device/gpu.h"
#include "../../worker/gpu_child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bytes
sample(struct arena *a)
{
	static const uint8_t code[] = "not really a cubin";
	struct gpu_kernel k[2] = {{.symbol = STR("k0"),
				      .cubin = {code, sizeof(code)},
				      .n_passes = 1,
				      .pass = {{{4, 1, 1}, {128, 1, 1}, 64}}},
	    {.symbol = STR("k1"),
		.cubin = {code, sizeof(code)},
		.n_passes = 2,
		.pass = {{{1, 1, 1}, {32, 1, 1}, 0}, {{9, 1, 1}, {256, 1, 1}, 0}}}};
	struct bytes b;

	gpu_module_pack(a, 80, k, 2, &b);
	return b;
}

static void
module_comes_back(void **state)
{
	struct arena a = {0};
	struct bytes b = sample(&a);
	struct gpu_kernel *k;
	struct err e = {0};
	uint32_t n;
	int sm;

	(void)state;
	assert_true(gpu_module_read(&a, b, &sm, &k, &n, &e));
	assert_int_equal(sm, 80);
	assert_int_equal(n, 2);
	assert_true(str_is(k[1].symbol, "k1"));
	assert_int_equal(k[1].pass[1].grid[0], 9);
	assert_int_equal(k[0].pass[0].shared, 64);
	arena_fini(&a);
}

/* Every prefix is refused, and no changed byte reads past the end (a sanitizer sees that). */
static void
damaged_module(void **state)
{
	struct arena a = {0};
	struct bytes b = sample(&a);
	struct gpu_kernel *k;
	struct err e = {0};
	uint32_t n;
	int sm;

	(void)state;
	for (size_t i = 0; i < b.n; i++) {
		uint8_t *cut = heap_alloc(i + 1), *changed = heap_alloc(b.n);

		memcpy(cut, b.p, i);
		assert_false(gpu_module_read(&a, (struct bytes){cut, i}, &sm, &k, &n, &e));
		memcpy(changed, b.p, b.n);
		for (int v = 0; v < 3; v++) {
			changed[i] = (uint8_t)(v * 127 + 1);
			(void)!gpu_module_read(&a, (struct bytes){changed, b.n}, &sm, &k, &n, &e);
		}
		free(cut);
		free(changed);
	}
	arena_fini(&a);
}

static void
bounds(void **state)
{
	struct hw v = cost_gpu_hw("Tesla V100-SXM2-16GB", 70, 80, 1530, 898e9, 6 << 20);
	struct hw slice = cost_gpu_hw("NVIDIA A100-SXM4-40GB", 80, 14, 1410, 1555e9, 5 << 20);
	struct hw whole = cost_gpu_hw("NVIDIA A100-SXM4-40GB", 80, 108, 1410, 1555e9, 40 << 20);

	(void)state;
	assert_true(v.flops_peak >= 15.7e12 && v.flops_peak < 20e12);
	assert_true(v.bytes_per_s[3] >= 900e9 && v.bytes_per_s[3] < 1100e9);
	assert_true(slice.flops_peak < whole.flops_peak / 6);
	assert_true(cost_gpu_tensor_flops("NVIDIA H200", 90, 132, 1980, true) >= 990e12);
}

/* A library of that soname in `dir` that claims to be NVRTC MAJOR for two architectures. */
static void
make_nvrtc(const char *dir, const char *soname, int major, int arch, int other)
{
	static const char *const flags[] = {"-w", NULL};
	struct compile_opts o = {.flags = flags};
	struct arena a = {0};
	struct bytes so;
	struct err e = {0};
	const char *text = arena_printf(&a,
	    "int nvrtcVersion(int *a, int *b) { *a = %d; *b = 0; return 0; }\n"
	    "int nvrtcGetNumSupportedArchs(int *n) { *n = 2; return 0; }\n"
	    "int nvrtcGetSupportedArchs(int *v) { v[0] = %d; v[1] = %d; return 0; }\n"
	    "int nvrtcCreateProgram(void) { return 1; }\nint nvrtcCompileProgram(void) { return 1; }\n"
	    "int nvrtcGetProgramLogSize(void) { return 1; }\nint nvrtcGetProgramLog(void) { return 1; }\n"
	    "int nvrtcGetCUBINSize(void) { return 1; }\nint nvrtcGetCUBIN(void) { return 1; }\n"
	    "int nvrtcDestroyProgram(void) { return 1; }\n",
	    major, arch, other);

	if (!compile_c(&a, str_of(text), &o, &so, &e) ||
	    !os_write_file(os_real(), arena_printf(&a, "%s/%s", dir, soname), so, &e))
		fail_msg("%s", e.msg);
	arena_fini(&a);
}

static int driver_says;
static int
driver_version(int *v)
{
	*v = driver_says;
	return 0;
}

/* Two of them in a folder of their own; what KORCH_CUDA_LIB was, to be given back. */
static char *
two_nvrtcs(char *dir)
{
	const char *before = getenv("KORCH_CUDA_LIB");
	char *kept = before ? strdup(before) : NULL;

	assert_non_null(mkdtemp(dir));
	make_nvrtc(dir, "libnvrtc.so.13", 13, 90, 110);
	make_nvrtc(dir, "libnvrtc.so.12", 12, 70, 90);
	assert_int_equal(setenv("KORCH_CUDA_LIB", dir, 1), 0);
	return kept;
}

static void
no_nvrtcs(const char *dir, char *kept)
{
	char cmd[64];

	if (kept)
		(void)setenv("KORCH_CUDA_LIB", kept, 1);
	else
		(void)unsetenv("KORCH_CUDA_LIB");
	free(kept);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

/* Two NVRTCs on a host: the one that knows the architecture, and whose code the driver loads. */
static void
chooses_nvrtc(void **state)
{
	static const struct {
		int sm, driver, major; /* 0: none fits */
		const char *words;
	} rows[] = {{90, 13000, 13, ""}, {70, 13000, 12, ""}, {90, 12040, 12, ""}, {110, 13000, 13, ""},
	    {110, 12080, 0, "the driver is for CUDA 12.8"}, {50, 13000, 0, "knows no sm_50"}};
	char dir[] = "/tmp/korch-nvrtc-XXXXXX", *kept;

	(void)state;
	kept = two_nvrtcs(dir);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct gpu g;
		struct err e = {0};
		int major = 0, minor;

		gpu_open(&g);
		g.has[GPU_CUDA] = true; /* as if there were a driver */
		g.cu.version = driver_version;
		driver_says = rows[i].driver;
		if (gpu_rtc_choose(&g, rows[i].sm, &e) != (rows[i].major != 0))
			fail_msg("sm_%d: %s", rows[i].sm, e.msg);
		if (rows[i].major) {
			assert_int_equal(g.rtc.version(&major, &minor), 0);
			assert_int_equal(major, rows[i].major);
		} else if (!strstr(e.msg, rows[i].words))
			fail_msg("\"%s\" without \"%s\"", e.msg, rows[i].words);
		g.has[GPU_CUDA] = false;
		gpu_close(&g);
	}
	no_nvrtcs(dir, kept);
}

/* One table asked for several architectures: each has the NVRTC that it has alone, in whatever order. */
static void
choice_forgets_the_last_one(void **state)
{
	static const struct {
		int sm, major;
	} rows[] = {{70, 12}, {90, 13}, {110, 13}, {70, 12}, {50, 0}, {70, 12}, {50, 0}, {110, 13}};
	char dir[] = "/tmp/korch-nvrtc-XXXXXX", *kept;
	struct gpu g;

	(void)state;
	kept = two_nvrtcs(dir);
	gpu_open(&g);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct err e = {0};
		int major = 0, minor;

		if (gpu_rtc_choose(&g, rows[i].sm, &e) != (rows[i].major != 0))
			fail_msg("row %zu, sm_%d: %s", i, rows[i].sm, e.msg);
		assert_int_equal(e.code, rows[i].major ? ERR_NONE : ERR_HOST);
		assert_true(g.has[GPU_NVRTC]);
		if (!rows[i].major) {
			assert_non_null(strstr(e.msg, "110")); /* of the first one */
			continue;
		}
		assert_int_equal(g.rtc.version(&major, &minor), 0);
		if (major != rows[i].major)
			fail_msg("row %zu, sm_%d: NVRTC %d", i, rows[i].sm, major);
	}
	gpu_close(&g);
	no_nvrtcs(dir, kept);
}

static void
real_nvrtc(void **state)
{
	struct arena a = {0};
	struct gpu g;
	struct bytes cubin;
	struct err e = {0};
	struct strbuf sb;

	(void)state;
	if (!getenv("KORCH_CUDA_LIB"))
		(void)setenv("KORCH_CUDA_LIB", "/usr/local/cuda/lib64", 1);
	gpu_open(&g);
	if (!g.has[GPU_NVRTC]) {
		printf("SKIP: 1 part: %s\n", g.why[GPU_NVRTC]);
		gpu_close(&g);
		skip();
	}
	sb_init(&sb, &a);
	sb_add(&sb, prelude_cuda(&a, false));
	sb_addz(&sb,
	    "K_KERNEL k_p0(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi) {\n"
	    "\t(void)shared, (void)local, (void)lo, (void)hi;\n\t((float *)buf[0])[K_TID] = 1;\n}\n");
	if (!gpu_compile(&g, &a, sb_str(&sb), 80, false, &cubin, &e))
		fail_msg("%s", e.msg);
	assert_memory_equal(cubin.p, "\177ELF", 4);
	for (int i = 0; i < GPU_REFS; i++) {
		sb_init(&sb, &a);
		sb_add(&sb, prelude_cuda(&a, false));
		sb_add(&sb, gpu_ref_text((enum gpu_ref)i, 90));
		if (!gpu_compile(&g, &a, sb_str(&sb), 90, false, &cubin, &e))
			fail_msg("reference %d: %s", i, e.msg);
	}
	assert_false(gpu_compile(&g, &a, STR("this is no CUDA"), 80, false, &cubin, &e));
	assert_int_equal(e.code, ERR_COMPILE);
	assert_false(gpu_compile(&g, &a, sb_str(&sb), 20, false, &cubin, &e));
	assert_int_equal(e.code, ERR_HOST);
	gpu_close(&g);
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(module_comes_back),
	    cmocka_unit_test(damaged_module), cmocka_unit_test(bounds), cmocka_unit_test(chooses_nvrtc),
	    cmocka_unit_test(choice_forgets_the_last_one), cmocka_unit_test(real_nvrtc)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
