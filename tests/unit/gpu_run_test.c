/* GPU modules from outside are checked; where this host has an NVRTC, it compiles what is asked. */
#include "../../kernels/cost/gpu.h"
#include "../../kernels/emit/emit.h"
#include "../../kernels/run/gpu.h"
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
	struct gpu_kernel k[2] = {
	    {.symbol = STR("k0"), .cubin = {code, sizeof(code)}, .n_passes = 1, .pass = {{{4, 1, 1}, {128, 1, 1}, 64}}},
	    {.symbol = STR("k1"), .cubin = {code, sizeof(code)}, .n_passes = 2,
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
	sb_add(&sb, emit_cuda_prelude(&a, false));
	sb_addz(&sb, "K_KERNEL k_p0(void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi) {\n"
	    "\t(void)shared, (void)local, (void)lo, (void)hi;\n\t((float *)buf[0])[K_TID] = 1;\n}\n");
	if (!gpu_compile(&g, &a, sb_str(&sb), 80, false, &cubin, &e))
		fail_msg("%s", e.msg);
	assert_memory_equal(cubin.p, "\177ELF", 4);
	for (int i = 0; i < GPU_REFS; i++) {
		sb_init(&sb, &a);
		sb_add(&sb, emit_cuda_prelude(&a, false));
		sb_add(&sb, gpu_ref_text((enum gpu_ref)i));
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(module_comes_back), cmocka_unit_test(damaged_module),
	    cmocka_unit_test(bounds), cmocka_unit_test(real_nvrtc)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
