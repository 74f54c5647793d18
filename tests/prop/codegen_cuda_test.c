/* tests/prop/codegen_cuda_test.c: what kernels/codegen makes for a GPU: the program behind each pass is
 * verified and computes the same, whatever the order of its threads; so does the text, through the host shim;
 * NVRTC takes it. KORCH_CODEGEN_GRAPHS=N tries N random graphs (default 120), KORCH_CODEGEN_SEED=N from
 * there. */
#include "../../kernels/codegen/codegen.h"
#include "../harness/cuda_nvrtc.h"
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

static void
check_passes(void *self, const struct spec *s, uint64_t seed)
{
	const struct schedule_target target = emit_schedule_target(&target_cuda);
	struct arena a = {0};
	struct tir scheduled, flat, p;
	struct strbuf trace;
	struct checked c;
	const struct codegen_watch w = {look, &c};
	struct err e = {0};

	(void)self;
	program_check_begin(&c, &a, s, false, seed);
	sb_init(&trace, &a);
	schedule_propose(&c.p, &target, &trace, &scheduled);
	c.what = sb_str(&trace).p;
	program_check(&c, &scheduled);
	schedule_flat(&scheduled, &flat);
	if (!codegen_run(&flat, &w, &p, &e) && e.code != ERR_INFEASIBLE)
		fail_msg("%s", e.msg);
	arena_fini(&a);
}

static void
test_passes_on_random_graphs(void **state)
{
	uint64_t n = setting("KORCH_CODEGEN_GRAPHS", 120), seed = setting("KORCH_CODEGEN_SEED", 1);

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		struct arena a = {0};
		struct rng r = {seed + i};
		struct spec s;

		random_spec(&a, &r, &s);
		check_passes(NULL, &s, seed + i);
		arena_fini(&a);
	}
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
add_text(struct batch *b, const struct spec *s, uint64_t seed)
{
	struct cuda_case *c = &b->list[b->n];
	struct target t = target_cuda;

	*c = (struct cuda_case){.spec = *s, .make = emit_by_trace, .schedule = "", .seed = seed + 1};
	t.sm = b->gpu ? b->sm : t.sm;
	cuda_case_make(&b->a, c, &t, b->n);
	b->refused += c->refused;
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
	add_text(b, kept, seed);
}

static void
random_texts(struct batch *b, uint64_t n)
{
	const uint64_t seed = setting("KORCH_CODEGEN_SEED", 1);

	for (uint64_t i = 0; i < n; i++) {
		struct rng r = {seed + i};
		struct spec s;

		random_spec(&b->a, &r, &s);
		add_text(b, &s, seed + i);
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
	    cmocka_unit_test(test_nvrtc_compiles_texts),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
