/* tests/prop/cuda_test.c: generated CUDA text, run through the host shim in four orders of threads,
 * against the interpreter: random graphs, every primitive, products.
 * KORCH_EMIT_GRAPHS=N tries N random graphs (default 320), KORCH_EMIT_SEED=N from there. */
#include "../../kernels/base/base.h"
#include "../harness/cuda_nvrtc.h"
#include "../harness/setting.h"
#include "random_graph.h"
#include "random_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 40 };

static const char *const schedules[] = {"", "", "exact=1"};

static void
random_case(struct arena *a, struct cuda_case *c, uint64_t seed)
{
	struct rng r = {seed};
	struct spec spec;

	random_spec(a, &r, &spec);
	*c = (struct cuda_case){
	    .spec = spec, .seed = seed, .schedule = schedules[rng_below(&r, COUNT_OF(schedules))]};
}

static void
test_random_graphs(void **state)
{
	uint64_t n = setting("KORCH_EMIT_GRAPHS", 320), seed = setting("KORCH_EMIT_SEED", 1) + 2000000;
	uint32_t bad = 0, refused = 0;

	(void)state;
	for (uint64_t from = 0; from < n && bad < 5; from += BATCH) {
		struct arena a = {0};
		struct cuda_case *list = NEW_ARRAY(&a, struct cuda_case, BATCH);

		for (uint32_t i = 0; i < BATCH; i++) {
			random_case(&a, &list[i], seed + from + i);
			cuda_case_make(&a, &list[i], &target_cuda, i);
			refused += list[i].refused;
		}
		bad += cuda_cases_check(&a, list, BATCH);
		arena_fini(&a);
	}
	print_message("%llu graphs, %u refused as infeasible\n", (unsigned long long)n, refused);
	assert_int_equal(bad, 0);
}

/* Graph text; @ stands for the type. */
static void
text_case(struct arena *a, struct cuda_case *c, const char *text, const char *type)
{
	struct graph *g = NEW(a, struct graph);
	struct strbuf sb;
	struct err e = {0};

	sb_init(&sb, a);
	for (; *text; text++) {
		if (*text == '@')
			sb_addz(&sb, type);
		else
			sb_addc(&sb, *text);
	}
	if (!graph_read(g, a, sb_str(&sb), &e))
		fail_msg("%s in\n%s", e.msg, sb_str(&sb).p);
	spec_of_graph(a, g, &c->spec);
}

static const char *const shapely[] = {
#include "emit_cases.inc"
};

static void
test_every_primitive(void **state)
{
	static const char *const types[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8"};
	struct arena a = {0};
	struct cuda_case *list = NEW_ARRAY(&a, struct cuda_case, BATCH);
	uint32_t n = 0, bad = 0, all = 0;

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(shapely) * COUNT_OF(types); i++) {
		const char *text = shapely[i / COUNT_OF(types)], *type = types[i % COUNT_OF(types)];

		if (i % COUNT_OF(types) && !strchr(text, '@'))
			continue;
		list[n] = (struct cuda_case){.seed = i + 1, .schedule = ""};
		text_case(&a, &list[n], text, type);
		cuda_case_make(&a, &list[n], &target_cuda, n);
		assert_false(list[n].refused);
		all++;
		if (++n == BATCH) {
			bad += cuda_cases_check(&a, list, n);
			n = 0;
		}
	}
	bad += n ? cuda_cases_check(&a, list, n) : 0;
	print_message("%u kernels\n", all);
	assert_int_equal(bad, 0);
	arena_fini(&a);
}

/* ---- products --------------------------------------------------------------------------------------------
 */
static const char *const linears[] = {
#include "cuda_cases.inc"
};
static const char *const joined[] = {
#include "cuda_joined.inc"
};
static const char *const pairs[] = {
#include "cuda_pairs.inc"
};
static const char *const sweeps[] = {
#include "cuda_sweeps.inc"
};
static const char *const apart[] = {
#include "cuda_apart.inc"
};
static const char *const rows[] = {
#include "cuda_rows.inc"
};
/* few: kernels whose products are too thin for tiles, or for tensor cores' */
static const struct list {
	const char *name;
	const char *const *text;
	uint32_t n, few, few_mma;
} lists[] = {{"products", linears, COUNT_OF(linears), 1, 4},
    {"rows behind one", joined, COUNT_OF(joined), 0, 0}, {"two", pairs, COUNT_OF(pairs), 0, 0},
    {"a softmax between two", sweeps, COUNT_OF(sweeps), 0, 0},
    {"rows before one", apart, COUNT_OF(apart), 0, 0},
    {"one row", rows, COUNT_OF(rows), COUNT_OF(rows), COUNT_OF(rows)}};
struct way {
	const char *schedule;
	int sm;
	enum precision precision;
	double by;   /* rounded factors: 2^-11 of float32's 2e-5, with room */
	bool by_mma; /* tensor cores multiply; */
	bool asks;   /* for tiles that not every product suits */
};

/* Does a block multiply what it shares? */
static bool
has_tiles(const struct cuda_case *c)
{
	for (uint32_t q = 0; q < c->code.desc.n_passes; q++)
		if (c->code.work[q].multiply_adds > 0)
			return true;
	return false;
}

/* Kernels have tiles in shared memory, multiplied as is asked for, and are right. */
static void
check_products(const struct list *l, const struct way *way)
{
	struct arena a = {0};
	struct cuda_case list[BATCH];
	struct target t = target_cuda;
	uint32_t tiled = 0, multiplied = 0;

	t.sm = way->sm;
	t.precision = way->precision;
	for (uint32_t i = 0; i < l->n; i++) {
		list[i] = (struct cuda_case){.seed = i + 1, .schedule = way->schedule, .by = way->by};
		text_case(&a, &list[i], l->text[i], "f32");
		cuda_case_make(&a, &list[i], &t, i);
		assert_false(list[i].refused);
		tiled += has_tiles(&list[i]);
		multiplied += strstr(list[i].code.text.p, "k_mma") != NULL;
	}
	print_message("%s, %s '%s': %u of %u in tiles, %u by tensor cores\n", l->name,
	    precision_name(t.precision), way->schedule, tiled, l->n, multiplied);
	assert_true(way->asks || tiled + l->few >= l->n);
	assert_true(way->by_mma ? way->asks || multiplied + l->few_mma >= l->n : multiplied == 0);
	assert_int_equal(cuda_cases_check(&a, list, l->n), 0);
	arena_fini(&a);
}

static void
test_products(void **state)
{
	static const struct way ways[] = {
	    {"", 70, PRECISION_F32, 1, false, false},
	    {"", 80, PRECISION_F16, 100, true, false},
	    {"", 75, PRECISION_F16, 100, true, false},
	    {"", 80, PRECISION_BF16, 800, true, false},
	    {"", 90, PRECISION_TF32, 100, true, false},
	    {"exact=1", 90, PRECISION_F16, 1, false, false},
	    {"tm=4 tn=4", 80, PRECISION_F32, 1, false, true},
	    {"tm=8 tn=8 tk=8", 80, PRECISION_F32, 1, false, true},
	    {"tm=3 tn=3 splitk=1", 80, PRECISION_F32, 1, false, true},
	    {"tm=1 tn=16 tk=32 splitk=4", 80, PRECISION_F32, 1, false, true},
	    {"splitk=3", 80, PRECISION_F16, 100, true, true},
	};

	(void)state;
	for (size_t k = 0; k < COUNT_OF(ways); k++)
		for (size_t i = 0; i < (ways[k].asks ? 1 : COUNT_OF(lists)); i++)
			check_products(&lists[i], &ways[k]);
}

/* ---- NVRTC ------------------------------------------------------------------------------------------------
 */
static uint32_t
compile_all(const struct gpu *gpu, const char *const *texts, uint32_t n, int sm, enum precision precision,
    const char *schedule)
{
	struct arena a = {0};
	struct cuda_case list[BATCH];
	struct nvrtc_totals totals = {0};
	struct target t = target_cuda;

	t.sm = sm;
	t.precision = precision;
	for (uint32_t i = 0; i < n; i++) {
		list[i] = (struct cuda_case){.seed = i + 1, .schedule = schedule};
		text_case(&a, &list[i], texts[i], "f32");
		cuda_case_make(&a, &list[i], &t, i);
	}
	cuda_nvrtc_compile(gpu, list, n, 0, sm, &totals);
	cuda_nvrtc_print(&totals, sm, precision_name(precision));
	arena_fini(&a);
	return totals.failed;
}

/* A real compiler for the GPU takes the same text, for each architecture that it knows. */
static void
test_nvrtc_compiles_products(void **state)
{
	static const struct {
		int sm;
		enum precision precision;
	} settings[] = {{70, PRECISION_F32}, {75, PRECISION_F16}, {80, PRECISION_TF32}, {90, PRECISION_F32},
	    {100, PRECISION_BF16}};
	struct gpu gpu;
	struct err e;
	uint32_t failed = 0;

	(void)state;
	gpu_open(&gpu);
	for (uint32_t k = 0; k < COUNT_OF(settings); k++) {
		if (!gpu_rtc_choose(&gpu, settings[k].sm, &e)) {
			print_message("not compiled for sm_%d: %s\n", settings[k].sm, e.msg);
			continue;
		}
		for (size_t i = 0; i < COUNT_OF(lists); i++)
			failed += compile_all(
			    &gpu, lists[i].text, lists[i].n, settings[k].sm, settings[k].precision, "");
	}
	assert_int_equal(failed, 0);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_products),
	    cmocka_unit_test(test_nvrtc_compiles_products),
	    cmocka_unit_test(test_every_primitive),
	    cmocka_unit_test(test_random_graphs),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
