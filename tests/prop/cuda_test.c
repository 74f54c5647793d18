/* tests/prop/cuda_test.c: generated CUDA text, run through the host shim in four orders of threads,
 * against the interpreter: random graphs, every primitive, tiles of linear stages.
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

static const char *const schedules[] = {"", "", "threads=32", "inline_flops=0",
    "inline_flops=64 unroll_red=0", "unroll_red=64 threads=64", "team=1", "team=0", "tm=0", "tm=1 tn=2 tk=8",
    "stages=1", "split=0", "splitk=2", "tm=0 splitk=8", "stages=3", "async=0", "vector=4",
    "threads=64 vector=8", "inline_flops=0 vector=2", "apart=1", "team=1 apart=1", "apart=0"};

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

/* ---- tiles ------------------------------------------------------------------------------------------------
 */
static const char *const linears[] = {
#include "cuda_cases.inc"
};
struct tile_setting {
	const char *schedule;
	int sm;
	enum precision precision;
	double by; /* rounded factors: 2^-11 of float32's 2e-5, with room */
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
static const char tile_words[] = "K_SHARED float part_a", join_words[] = "lanes, then warps",
		  pair_words[] = "the second product", apart_words[] = "K_SHARED float part_a";

/* Every text's kernel has `words`, under each `step`-th setting. */
static void
check_tiles(const char *const *texts, uint32_t n, const char *words, uint32_t step)
{
	static const struct tile_setting settings[] = {
	    {"", 80, PRECISION_F32, 1},
	    {"tm=8 tn=8 tk=8", 80, PRECISION_F32, 1},
	    {"tm=1 tn=1 tk=4 stages=1", 70, PRECISION_F32, 1},
	    {"tm=2 tn=8 tk=32 stages=1", 75, PRECISION_F32, 1},
	    {"", 80, PRECISION_TF32, 100},
	    {"tm=4 tn=1 tk=8", 90, PRECISION_TF32, 100},
	    {"", 80, PRECISION_F16, 100},
	    {"tm=1 tn=4 tk=32", 90, PRECISION_F16, 100},
	    {"", 75, PRECISION_F16, 100},
	    {"", 80, PRECISION_BF16, 800},
	    {"tm=2 tn=2 splitk=16", 80, PRECISION_F32, 1},
	    {"splitk=3", 80, PRECISION_F16, 100},
	    {"", 70, PRECISION_F16, 100},
	    {"tm=1 tn=1 tk=8 stages=1", 70, PRECISION_F16, 100},
	    {"stages=3", 80, PRECISION_F32, 1},
	    {"tm=2 tk=8 stages=4", 90, PRECISION_TF32, 100},
	    {"async=0", 80, PRECISION_F32, 1},
	};
	struct arena a = {0};
	uint32_t bad = 0;

	for (uint32_t k = 0; k < COUNT_OF(settings); k += step) {
		struct cuda_case list[BATCH];
		struct target t = target_cuda;

		t.sm = settings[k].sm;
		t.precision = settings[k].precision;
		for (uint32_t i = 0; i < n; i++) {
			list[i] = (struct cuda_case){
			    .seed = i + 1, .schedule = settings[k].schedule, .by = settings[k].by};
			text_case(&a, &list[i], texts[i], "f32");
			cuda_case_make(&a, &list[i], &t, i);
			assert_false(list[i].refused);
			if (!strstr(settings[k].schedule, "splitk") || words == tile_words)
				assert_non_null(strstr(list[i].code.text.p, words));
		}
		bad += cuda_cases_check(&a, list, n);
	}
	assert_int_equal(bad, 0);
	arena_fini(&a);
}

static void
test_tiles(void **state)
{
	(void)state;
	check_tiles(linears, COUNT_OF(linears), tile_words, 1);
}

/* Sums over rows and columns of a tile, and what is made of them while it is in registers. */
static void
test_joined_tiles(void **state)
{
	(void)state;
	check_tiles(joined, COUNT_OF(joined), join_words, 1);
}

/* Two products in a block, one of the other's rows. */
static void
test_paired_tiles(void **state)
{
	(void)state;
	check_tiles(pairs, COUNT_OF(pairs), pair_words, 2);
}

/* Two products in a block, turn by turn: in tiles, and where tiles are not wanted by all threads together. */
static void
test_swept_tiles(void **state)
{
	static const struct tile_setting settings[] = {
	    {"online=64", 80, PRECISION_F32, 1},
	    {"online=32 tm=2 tn=2 tk=8 stages=1", 70, PRECISION_F32, 1},
	    {"online=112 tm=8 tn=8 stages=3", 80, PRECISION_F32, 1},
	    {"online=64", 80, PRECISION_TF32, 100},
	    {"online=64 async=0", 90, PRECISION_F16, 100},
	    {"online=64", 70, PRECISION_F16, 100},
	    {"online=32", 80, PRECISION_BF16, 800},
	    {"online=48 tm=0", 80, PRECISION_F32, 1},
	};
	struct arena a = {0};
	uint32_t bad = 0;

	(void)state;
	for (uint32_t k = 0; k < COUNT_OF(settings); k++) {
		struct cuda_case list[COUNT_OF(sweeps)];
		struct target t = target_cuda;

		t.sm = settings[k].sm;
		t.precision = settings[k].precision;
		for (uint32_t i = 0; i < COUNT_OF(sweeps); i++) {
			list[i] = (struct cuda_case){
			    .seed = i + 1, .schedule = settings[k].schedule, .by = settings[k].by};
			text_case(&a, &list[i], sweeps[i], "f32");
			cuda_case_make(&a, &list[i], &t, i);
			assert_false(list[i].refused);
			assert_non_null(strstr(list[i].code.text.p, "turn++"));
			assert_int_equal(strstr(list[i].code.text.p, "behind the last turn") == NULL,
			    strstr(settings[k].schedule, "tm=0") != NULL);
		}
		bad += cuda_cases_check(&a, list, COUNT_OF(sweeps));
	}
	assert_int_equal(bad, 0);
	arena_fini(&a);
}

/* What keeps a product from tiles is in another pass, and no product is left over. */
static void
test_parted_tiles(void **state)
{
	struct arena a = {0};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(apart); i++) {
		struct cuda_case c = {.schedule = "apart=0"};
		uint32_t tiles[2] = {0};

		text_case(&a, &c, apart[i], "f32");
		for (int k = 0; k < 2; k++) {
			cuda_case_make(&a, &c, &target_cuda, i);
			assert_false(c.refused);
			for (uint32_t q = 0; q < c.code.desc.n_passes; q++)
				tiles[k] += c.code.tiled[q];
			c.schedule = "";
		}
		assert_true(tiles[1] > tiles[0]);
	}
	arena_fini(&a);
	check_tiles(apart, COUNT_OF(apart), apart_words, 2);
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
test_nvrtc_compiles_tiles(void **state)
{
	static const struct {
		int sm;
		enum precision precision;
		const char *schedule;
	} settings[] = {{70, PRECISION_F16, ""}, {75, PRECISION_F16, ""}, {80, PRECISION_TF32, ""},
	    {90, PRECISION_F32, "stages=3"}, {100, PRECISION_BF16, "splitk=4"}};
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
		failed += compile_all(&gpu, linears, COUNT_OF(linears), settings[k].sm, settings[k].precision,
		    settings[k].schedule);
		failed += compile_all(&gpu, pairs, COUNT_OF(pairs), settings[k].sm, settings[k].precision,
		    settings[k].schedule);
		failed += compile_all(&gpu, joined, COUNT_OF(joined), settings[k].sm, settings[k].precision,
		    settings[k].schedule);
		failed += compile_all(&gpu, apart, COUNT_OF(apart), settings[k].sm, settings[k].precision,
		    settings[k].schedule);
	}
	assert_int_equal(failed, 0);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tiles),
	    cmocka_unit_test(test_joined_tiles),
	    cmocka_unit_test(test_paired_tiles),
	    cmocka_unit_test(test_swept_tiles),
	    cmocka_unit_test(test_parted_tiles),
	    cmocka_unit_test(test_nvrtc_compiles_tiles),
	    cmocka_unit_test(test_every_primitive),
	    cmocka_unit_test(test_random_graphs),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
