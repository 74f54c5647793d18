/* Half floats on a GPU: the host shim's words convert every value as PTX documents cvt to (to nearest even;
 * what is not a number is 0x7fff), and NVRTC makes a few instructions of them. */
#include "../../kernels/device/gpu.h"
#include "../../kernels/sass/cubin.h"
#include "../harness/cuda_host.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* ---- the shim ---- */
static const char words[] =
    "void load(const unsigned short *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = "
    "k_load_f16(x[i]); }\n"
    "void store(const float *x, unsigned short *y, unsigned short *z, long n) {\n"
    "\tfor (long i = 0; i < n; i++) { y[i] = k_store_f16(x[i]); z[i] = k_store_bf16(x[i]); }\n"
    "}\n";
typedef void load_fn(const uint16_t *, float *, long);
typedef void store_fn(const float *, uint16_t *, uint16_t *, long);

static void
test_shim(void **state)
{
	enum { N = 1 << 20 };
	static uint16_t h[65536], y[N], z[N];
	static float x[N];
	struct arena a = {0};
	struct rng r = {5};
	void *lib = cuda_host_load(&a, str_of(words)), *p, *q;
	load_fn *load;
	store_fn *store;

	(void)state;
	assert_non_null(lib);
	p = dlsym(lib, "load");
	q = dlsym(lib, "store");
	assert_true(p && q);
	memcpy(&load, &p, sizeof(p));
	memcpy(&store, &q, sizeof(q));
	for (int i = 0; i < 65536; i++)
		h[i] = (uint16_t)i;
	load(h, x, 65536);
	for (int i = 0; i < 65536; i++) {
		float want = half_to_float((uint16_t)i);

		assert_true(want != want ? x[i] != x[i] : memcmp(&want, &x[i], 4) == 0);
	}
	/* any bits; about the range of halves; ties of both, and their neighbours */
	for (int i = 0; i < N; i++) {
		uint32_t u = (uint32_t)rng_next(&r);

		if (i % 4 == 1)
			u = (u & 0x8fffffffu) | 0x30000000u;
		if (i % 4 == 2)
			u = ((u & 0x8fffe000u) | 0x30001000u) + (u & 2) - 1;
		if (i % 4 == 3)
			u = (u & 0xffff0000u) | 0x8000u;
		memcpy(&x[i], &u, 4);
	}
	store(x, y, z, N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(y[i], x[i] != x[i] ? 0x7fff : float_to_half(x[i]));
		assert_int_equal(z[i], x[i] != x[i] ? 0x7fff : float_to_bf16(x[i]));
	}
	cuda_host_unload(lib);
	arena_fini(&a);
}

/* ---- NVRTC: instructions of all passes, by words that were bit arithmetic several times as many ---- */
#define CHAIN(T) "%0 = input " T "[64,1024]\n%1 = relu %0\noutput %1\n"
#define PRODUCT(T) "%0 = input " T "[512,512]\n%1 = weight " T "[512,512]\n%2 = matmul %0 %1\noutput %2\n"
static const struct {
	const char *graph;
	int sm;
	enum precision precision;
	uint32_t most;
} rows[] = {
    {CHAIN("f16"), 80, PRECISION_F32, 40},
    {CHAIN("bf16"), 80, PRECISION_F32, 40},
    {CHAIN("f16"), 75, PRECISION_F32, 40},
    {PRODUCT("f16"), 80, PRECISION_F16, 1100}, /* 3,208 */
    {PRODUCT("bf16"), 80, PRECISION_BF16, 1100},
    {PRODUCT("f16"), 90, PRECISION_F16, 1100},
    {PRODUCT("f16"), 70, PRECISION_F16, 1400},
};

static uint32_t
instructions(struct arena *a, const struct gpu *g, const char *text, int sm, enum precision precision)
{
	struct target t = target_cuda;
	struct graph *graph = NEW(a, struct graph);
	struct kernel_code *code = NEW(a, struct kernel_code);
	struct cubin *cubin = NEW(a, struct cubin);
	struct spec s;
	struct strbuf sb;
	struct bytes b;
	struct err e = {0};
	uint32_t n = 0;

	t.sm = sm;
	t.precision = precision;
	if (!graph_read(graph, a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(a, graph, &s);
	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, false));
	if (!generate_kernel(a, &s, STR(""), &t, "k", code, &e))
		fail_msg("%s", e.msg);
	sb_add(&sb, code->text);
	if (!gpu_compile(g, a, sb_str(&sb), sm, false, &b, &e) || !cubin_read(b, cubin, &e))
		fail_msg("%s", e.msg);
	for (uint32_t k = 0; k < cubin->n_kernels; k++)
		n += cubin->kernel[k].n_instructions;
	return n;
}

static void
test_instructions(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct gpu g;
		struct err e = {0};

		gpu_open(&g);
		if (gpu_rtc_choose(&g, rows[i].sm, &e)) {
			uint32_t n = instructions(&a, &g, rows[i].graph, rows[i].sm, rows[i].precision);

			printf(
			    "sm_%d row %zu: %u instructions, at most %u\n", rows[i].sm, i, n, rows[i].most);
			assert_true(n > 0 && n <= rows[i].most);
		} else
			printf("SKIP: 1 part: no instructions for sm_%d: %s\n", rows[i].sm, e.msg);
		gpu_close(&g);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_shim),
	    cmocka_unit_test(test_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
