/* tests/prop/codegen_cuda_test.c: what kernels/codegen makes for a GPU: the program behind each pass is
 * verified and computes the same, whatever the order of its threads; so does the text, through the host shim;
 * NVRTC takes it. KORCH_CODEGEN_GRAPHS=N tries N random graphs (default 120), KORCH_CODEGEN_SEED=N from
 * there. */
#include "../../kernels/codegen/codegen.h"
#include "../harness/cuda_nvrtc.h"
#include "../harness/kernel.h"
#include "../harness/setting.h"
#include "every_prim.h"
#include "program_check.h"
#include "random_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- passes -------------------------------------------------------------------------------------------- */
static bool
look(void *self, const char *pass, const struct tir *p, struct err *e)
{
	struct checked *c = self;

	(void)e;
	c->what = pass;
	program_check_flat(c, p);
	return true;
}

/* given: a trace; NULL: what the rules propose, where a thread takes so many neighbours (0: nobody says). */
static void
check_trace(const struct spec *s, const char *given, int64_t neighbours, uint64_t seed)
{
	struct schedule_target target = space_schedule_target(&target_cuda);
	struct arena a = {0};
	struct tir scheduled, flat, p;
	struct strbuf trace;
	struct checked c;
	const struct codegen_watch w = {look, &c};
	struct err e = {0};

	target.chosen.vector = neighbours;
	program_check_begin(&c, &a, s, false, seed);
	sb_init(&trace, &a);
	if (given && !trace_apply(&c.p, str_of(given), &scheduled, &e))
		fail_msg("%s", e.msg);
	if (!given)
		schedule_propose(&c.p, &target, &trace, &scheduled);
	c.what = sb_str(&trace).p;
	program_check(&c, &scheduled);
	schedule_flat(&scheduled, &flat);
	if (!codegen_run(&flat, &w, &p, &e) && (given || e.code != ERR_INFEASIBLE))
		fail_msg("%s", e.msg);
	arena_fini(&a);
}

static bool
has_product(const struct spec *s)
{
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (prim_info[s->g.nodes[i].prim].class == CLASS_LINEAR)
			return true;
	return false;
}

static void
check_passes(void *self, const struct spec *s, uint64_t seed)
{
	(void)self;
	check_trace(s, NULL, 0, seed);
	if (!has_product(s))
		check_trace(s, NULL, seed % 2 ? 4 : 2, seed);
}

static void
test_passes_on_random_graphs(void **state)
{
	uint64_t n = setting("KORCH_CODEGEN_GRAPHS", 120), seed = setting("KORCH_CODEGEN_SEED", 1);

	(void)state;
	each_random_spec(n, seed, check_passes, NULL);
}

static void
test_passes_on_every_primitive(void **state)
{
	(void)state;
	every_prim(check_passes, NULL);
}

/* ---- texts --------------------------------------------------------------------------------------------- */
enum { BATCH = 24 };
struct batch {
	struct arena a;
	struct cuda_case list[BATCH];
	uint32_t n, kernels, refused, wrong;
	struct gpu *gpu; /* NULL: the host shim runs them */
	int sm;
	struct nvrtc_totals totals;
};

static void
flush(struct batch *b)
{
	if (b->n && b->gpu)
		cuda_nvrtc_compile(b->gpu, b->list, b->n, 0, b->sm, &b->totals);
	else if (b->n)
		b->wrong += cuda_cases_check(&b->a, b->list, b->n);
	b->kernels += b->n;
	b->n = 0;
	arena_fini(&b->a);
}

/* The spec lives until the batch is run. */
static void
add_text(struct batch *b, const struct spec *s, const char *trace, uint64_t seed)
{
	struct cuda_case *c = &b->list[b->n];
	struct target t = target_cuda;

	*c = (struct cuda_case){.spec = *s, .make = generate_by_trace, .schedule = trace, .seed = seed + 1};
	t.sm = b->gpu ? b->sm : t.sm;
	cuda_case_make(&b->a, c, &t, b->n);
	b->refused += c->refused;
	if (c->refused)
		print_message("seed %llu: %.*s\n", (unsigned long long)seed, STR_ARG(c->refusal));
	if (++b->n == BATCH)
		flush(b);
}

/* The caller's spec goes before the batch is run. */
static void
check_text(void *self, const struct spec *s, uint64_t seed)
{
	struct batch *b = self;
	struct spec *kept = NEW(&b->a, struct spec);
	struct err e = {0};

	if (!spec_read(&b->a, str_of(str_dup(&b->a, s->text)), kept, &e))
		fail_msg("%s", e.msg);
	add_text(b, kept, "", seed);
}

static void
random_texts(struct batch *b, uint64_t n)
{
	const uint64_t seed = setting("KORCH_CODEGEN_SEED", 1);

	for (uint64_t i = 0; i < n; i++) {
		struct rng r = {seed + i};
		struct spec s;

		random_spec(&b->a, &r, &s);
		add_text(b, &s, "", seed + i);
	}
	flush(b);
}

static void
end_texts(struct batch *b)
{
	flush(b);
	print_message("%u kernels, %u refused\n", b->kernels, b->refused);
	assert_int_equal(b->wrong, 0);
	if (b->kernels == 0 || b->refused > b->kernels / 20)
		fail_msg("%u kernels, %u refused", b->kernels, b->refused);
	free(b);
}

static void
test_text_of_random_graphs(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	random_texts(b, setting("KORCH_CODEGEN_GRAPHS", 120));
	end_texts(b);
}

static void
test_text_of_every_primitive(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	every_prim(check_text, b);
	end_texts(b);
}

static void
test_text_of_every_map(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	every_map(check_text, b);
	end_texts(b);
}

/* ---- products by a warp's instructions ------------------------------------------------------------------
 */
#define TILES(ROWS, COLUMNS, RESULT, SUM)                                                                    \
	"split " RESULT ".i0 " ROWS "; split " RESULT ".i1 " COLUMNS "; reorder " RESULT ".i0.o " RESULT     \
	".i1.o " RESULT ".i0.i; fuse " RESULT ".i0.o " RESULT ".i1.o; bind " RESULT ".i0.o~" RESULT          \
	".i1.o block; compute_at " SUM " " RESULT ".i0.o~" RESULT ".i1.o; split " SUM ".k0 16; "
#define STAGED(SUM, DEPTH)                                                                                   \
	"stage %0 " SUM ".k0.o; share %0's; stage %1 " SUM ".k0.o 1,0; share %1's; fuse t0's.i0 t0's.i1; "   \
	"split t0's.i0~t0's.i1 32; bind t0's.i0~t0's.i1.i lane; fuse t1's.i0 t1's.i1; "                      \
	"split t1's.i0~t1's.i1 32; bind t1's.i0~t1's.i1.i lane; pipeline " SUM ".k0.o " DEPTH "; "
/* NULL: by the rules. */
static const struct {
	const char *graph, *trace;
} products[] = {
    {"%0 = input f16[64,48]\n%1 = weight f16[48,40]\n%2 = matmul %0 %1\noutput %2\n", NULL},
    {"%0 = input f16[3,32,64]\n%1 = input f16[3,64,24]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n", NULL},
    {"%0 = input bf16[32,32]\n%1 = weight bf16[32,16]\n%2 = matmul %0 %1\n%3 = weight bf16[1,16]\n"
     "%4 = bcast %3 shape=[32,16]\n%5 = add %2 %4\noutput %5\n",
	NULL},
    {"%0 = input f16[32,32]\n%1 = weight f16[32,17]\n%2 = matmul %0 %1\noutput %2\n", NULL},
    {"%0 = input f16[32,48]\n%1 = weight f16[48,32]\n%2 = matmul %0 %1\noutput %2\n",
	TILES("16", "16", "t2", "t2'acc") "split t2'acc.i1 8; reorder t2'acc.k0.o t2'acc.i1.o t2'acc.i0 "
					  "t2'acc.i1.i t2'acc.k0.i; " STAGED(
					      "t2'acc", "2") "tensorize t2'acc.i0 mma_f16"},
    {"%0 = input f16[64,80]\n%1 = weight f16[80,64]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n",
	"inline t2; " TILES("32", "32", "t3", "t2'acc") "split t2'acc.i0 16; split t2'acc.i1 8; "
							"reorder t2'acc.k0.o t2'acc.i0.o t2'acc.i1.o "
							"t2'acc.i0.i t2'acc.i1.i t2'acc.k0.i; " STAGED(
							    "t2'acc", "3") "tensorize t2'acc.i0.i mma_f16"},
    {"%0 = input bf16[32,32]\n%1 = weight bf16[32,16]\n%2 = matmul %0 %1\noutput %2\n",
	"split t2.i0 16; bind t2.i0.o block; compute_at t2'acc t2.i0.o; split t2'acc.k0 16; split t2'acc.i1 "
	"8; "
	"reorder t2'acc.k0.o t2'acc.i1.o t2'acc.i0 t2'acc.i1.i t2'acc.k0.i; stage %0 t2'acc.k0.o; share "
	"%0's; stage %1 t2'acc.k0.o 1,0; "
	"share %1's; split t0's.i0 2; fuse t0's.i0.i t0's.i1; bind t0's.i0.i~t0's.i1 lane; split t1's.i0 2; "
	"fuse t1's.i0.i t1's.i1; bind t1's.i0.i~t1's.i1 lane; "
	"tensorize t2'acc.i0 mma_bf16"},
};

static void
product_texts(struct batch *b)
{
	for (size_t i = 0; i < COUNT_OF(products); i++) {
		struct spec *s = NEW(&b->a, struct spec);
		struct err e = {0};

		if (!kernel_spec(&b->a, products[i].graph, s, &e))
			fail_msg("%s", e.msg);
		if (!b->gpu)
			check_trace(s, products[i].trace, 0, i);
		add_text(b, s, products[i].trace ? products[i].trace : "", i);
	}
}

static void
test_products(void **state)
{
	struct batch *b = heap_alloc(sizeof *b);

	(void)state;
	product_texts(b);
	end_texts(b);
}

/* ---- NVRTC --------------------------------------------------------------------------------------------- */
static void
test_nvrtc_compiles_texts(void **state)
{
	static const int sms[] = {70, 75, 80, 90, 100};
	struct gpu gpu;
	uint32_t n = 0;

	(void)state;
	gpu_open(&gpu);
	for (uint32_t k = 0; k < COUNT_OF(sms); k++) {
		struct batch *b = heap_alloc(sizeof *b);
		struct err e = {0};

		b->gpu = &gpu;
		b->sm = sms[k];
		if (gpu_rtc_choose(&gpu, sms[k], &e)) {
			random_texts(b, BATCH);
			if (sms[k] >= 80)
				product_texts(b);
			flush(b);
			cuda_nvrtc_print(&b->totals, b->sm, "random graphs");
			assert_int_equal(b->totals.failed, 0);
			n++;
		} else {
			printf("SKIP: 1 part: not compiled for sm_%d: %s\n", sms[k], e.msg);
		}
		free(b);
	}
	gpu_close(&gpu);
	if (n == 0)
		skip();
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_passes_on_random_graphs),
	    cmocka_unit_test(test_passes_on_every_primitive),
	    cmocka_unit_test(test_text_of_every_map),
	    cmocka_unit_test(test_text_of_every_primitive),
	    cmocka_unit_test(test_text_of_random_graphs),
	    cmocka_unit_test(test_products),
	    cmocka_unit_test(test_nvrtc_compiles_texts),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
