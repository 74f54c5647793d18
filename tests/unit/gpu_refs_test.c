/* The reference kernels of GPUs, by this host's NVRTC for each architecture that it knows: those that show a
 * rate do hardly anything else in their loops, so that it is the unit's and not the issue slots'. */
#include "../../kernels/generate/generate.h"
#include "../../kernels/sass/cubin.h"
#include "../../kernels/sass/sass.h"
#include "../../worker/gpu_child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int archs[] = {70, 75, 80, 90};

static bool
compile(struct arena *a, struct gpu *g, enum gpu_ref r, int sm, struct bytes *out, struct err *e)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, prelude_cuda(a, false));
	sb_add(&sb, gpu_ref_text(r, sm));
	return gpu_compile(g, a, sb_str(&sb), sm, false, out, e);
}

/* Of the hot loop: the share of instructions that do what the reference is for. */
static double
share_of_work(const struct sass_kernel *k, enum gpu_ref r)
{
	const struct sass_loop *hot = sass_hot(k);
	uint32_t n = 0;

	if (!hot)
		return 0;
	for (uint32_t i = hot->first; i <= hot->last; i++)
		n += r == GPU_REF_TENSOR ? k->instr[i].mma_bits == 16 : k->instr[i].op->pipe == SASS_FMA;
	return (double)n / (hot->last - hot->first + 1);
}

static void
check(struct arena *a, struct gpu *g, enum gpu_ref r, int sm)
{
	struct cubin *cubin = NEW(a, struct cubin);
	struct sass_kernel k;
	struct bytes b;
	struct err e = {0};
	double share;

	if (!compile(a, g, r, sm, &b, &e) || !cubin_read(b, cubin, &e) || !sass_read(a, b, "k_p0", &k, &e))
		fail_msg("reference %d, sm_%d: %s", (int)r, sm, e.msg);
	if (!cubin_worth(&cubin->kernel[0], sm, 128, 0, &e))
		fail_msg("reference %d, sm_%d: %s", (int)r, sm, e.msg);
	/* four blocks of it on an SM, as it is started */
	assert_true(cubin_occupancy(&cubin->kernel[0], sm, 128, 0) >= 4);
	share = share_of_work(&k, r);
	if ((r == GPU_REF_TENSOR || r == GPU_REF_COMPUTE) && share < 0.85)
		fail_msg("reference %d, sm_%d: %.2f of its loop is its work", (int)r, sm, share);
}

static void
references_are_what_they_say(void **state)
{
	struct arena a = {0};
	struct gpu g;
	int n = 0;

	(void)state;
	gpu_open(&g);
	for (size_t i = 0; i < COUNT_OF(archs); i++) {
		struct err e = {0};

		if (!gpu_rtc_choose(&g, archs[i], &e)) {
			printf("SKIP: 1 part: sm_%d: %s\n", archs[i], e.msg);
			continue;
		}
		for (int r = 0; r < GPU_REFS; r++)
			check(&a, &g, (enum gpu_ref)r, archs[i]);
		n++;
	}
	gpu_close(&g);
	arena_fini(&a);
	if (n == 0)
		skip();
}

/* An operation of an element is as many as its text does: the rate stands on it. */
static void
texts_count_right(void **state)
{
	static const struct {
		int sm;
		const char *words, *call;
	} rows[] = {{70, "/* 32768 tensor flops */", "k_mma_f16_k4(d[j]"},
	    {75, "/* 32768 tensor flops */", "k_mma_f16_k8(d[j]"},
	    {80, "/* 65536 tensor flops */", "k_mma_f16(d[j]"},
	    {120, "/* 65536 tensor flops */", "k_mma_f16(d[j]"}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const char *text = gpu_ref_text(GPU_REF_TENSOR, rows[i].sm).p;

		assert_non_null(strstr(text, rows[i].words));
		assert_non_null(strstr(text, rows[i].call));
		assert_non_null(strstr(text, "i < 64"));
		assert_non_null(strstr(text, "j < 8"));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(references_are_what_they_say),
	    cmocka_unit_test(texts_count_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
