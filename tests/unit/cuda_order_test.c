/* tests/unit/cuda_order_test.c: which of a spec's GPU kernels is timed first, with real machine code and
 * without. */
#include "../../worker/cuda_int.h"
#include "../harness/gold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 8 };
struct rig {
	struct arena a;
	struct cuda c;
	struct unit u;
	struct measure_kernel kernel[MOST];
	struct kernel_code code[MOST];
	struct cuda_made made[MOST];
	struct gold *gold;
	uint32_t n_gold;
};

/* An A100. */
static struct rig *
rig_new(void)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct graph *g;
	struct err e = {0};

	assert_non_null(r);
	g = NEW(&r->a, struct graph);
	r->c.fake = "";
	r->c.facts =
	    (struct gpu_facts){.name = "NVIDIA A100-SXM4-40GB", .sm = 80, .n_sm = 108, .sm_mhz = 1410};
	r->c.cal.hw = (struct hw){.call_ns = 2000, .n_threads = 1};
	r->u = (struct unit){.kernels = r->kernel, .codes = r->code, .made = r->made, .target = target_cuda};
	r->u.target.precision = PRECISION_F16;
	r->gold = NEW_ARRAY(&r->a, struct gold, GOLD_KERNELS);
	r->n_gold = gold_list(&r->a, r->gold);
	assert_true(graph_read(g, &r->a,
	    STR("%0 = input f32[4096,4096]\n%1 = input f32[4096,4096]\n%2 = matmul %0 %1\noutput %2\n"), &e));
	spec_of_graph(&r->a, g, &r->u.spec);
	return r;
}

static void
rig_free(struct rig *r)
{
	arena_fini(&r->a);
	free(r);
}

/* The golden kernel of that name, made by the generator of before, with what that said of it: tiles of 128 x
 * 128 or 64 x 64 by 256 threads; `cubin`: instead of its machine code. */
static void
add(struct rig *r, const char *name, const char *cubin)
{
	const double tile = strcmp(name, "gemm_f16_22") == 0 ? 64 : 128;
	const uint32_t at = r->u.n++, blocks = (uint32_t)(4096 / tile * (4096 / tile));

	r->kernel[at] = (struct measure_kernel){.schedule = str_of(name), .code = &r->code[at]};
	for (uint32_t i = 0; i < r->n_gold; i++) {
		if (strcmp(r->gold[i].name, name) != 0 || r->gold[i].sm != 80)
			continue;
		r->code[at] =
		    (struct kernel_code){.desc = {.n_passes = 1,
					     .range = {blocks},
					     .launch = {{.grid = {blocks, 1, 1}, .block = {256, 1, 1}}}},
			.work = {{.multiply_adds = 4096 * tile * tile}}};
		r->made[at].cubin = cubin ? (struct bytes){(const uint8_t *)cubin, strlen(cubin)}
					  : gold_cubin(&r->a, &r->gold[i]);
		return;
	}
	assert_string_equal(name, "lib=cublaslt-13.0.0");
	r->code[at] = (struct kernel_code){.desc = {.is_library = true, .n_passes = 1}};
}

static void
assert_order(const struct rig *r, const char *const *names)
{
	for (uint32_t i = 0; i < r->u.n; i++) {
		assert_true(str_is(r->kernel[i].schedule, names[i]));
		assert_ptr_equal(r->kernel[i].code, &r->code[i]);
	}
}

/* By the model: one stage, of which two blocks fit; two stages; the small tile, which has most warps but
 * copies and converts most. */
static void
test_machine_code_orders(void **state)
{
	static const char *const want[] = {"lib=cublaslt-13.0.0", "gemm_f16_1", "gemm_f16", "gemm_f16_22"};
	struct rig *r = rig_new();

	(void)state;
	add(r, "gemm_f16_22", NULL);
	add(r, "gemm_f16", NULL);
	add(r, "gemm_f16_1", NULL);
	add(r, "lib=cublaslt-13.0.0", NULL);
	cuda_order_all(&r->c, &r->a, &r->u, 1);
	assert_order(r, want);
	/* 137 GFLOP in less than 440 us: no tensor core of an A100 does it; these cannot in less than a third
	 * more */
	assert_int_equal(r->kernel[0].bound_ns, 0);
	for (int i = 1; i < 4; i++)
		assert_true(r->kernel[i].bound_ns > 600000 && r->kernel[i].bound_ns < 6000000);
	rig_free(r);
}

/* What cannot be read is no bound and no order: the space's own stays. */
static void
test_without_machine_code(void **state)
{
	static const char *const want[] = {"gemm_f16_22", "gemm_f16", "gemm_f16_1"};
	struct rig *r = rig_new();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(want); i++)
		add(r, want[i], "made by no compiler");
	cuda_order_all(&r->c, &r->a, &r->u, 1);
	assert_order(r, want);
	for (size_t i = 0; i < COUNT_OF(want); i++)
		assert_int_equal(r->kernel[i].bound_ns, 0);
	rig_free(r);
}

/* The fake GPU's machine code is there to be read and edited, and says nothing of its times. */
static void
test_fake_gpu(void **state)
{
	static const char *const names[] = {"gemm_f16_22", "gemm_f16", "gemm_f16_1"};
	struct rig *r = rig_new();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++)
		add(r, names[i], NULL);
	r->c.fake = "gpu=a100";
	cuda_order_all(&r->c, &r->a, &r->u, 1);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		assert_true(r->kernel[i].bound_ns > 0 && r->kernel[i].bound_ns < 600000);
	rig_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_machine_code_orders),
	    cmocka_unit_test(test_without_machine_code),
	    cmocka_unit_test(test_fake_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
