/* tests/unit/artefact_test.c: what a build tells of its machine code: the record there and back, each field
 * of a descriptor, and everything that a worker could say that is not so. */
#include "../../kernels/generate/generate.h"
#include "../../schema/artefact.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MATMUL "%0 = input f32[40,30]\n%1 = weight f32[30,48]\n%2 = matmul %0 %1\n%3 = relu %2\noutput %3\n"
#define CUT "%0 = input f32[40,30]\n%1 = weight f32[30,50]\n%2 = matmul %0 %1\noutput %2\n"
#define CONV                                                                                                 \
	"%0 = input f32[1,24,24,16]\n%1 = weight f32[3,3,16,16]\n"                                           \
	"%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1\noutput %2\n"
#define MAP "%0 = input f32[40,30]\n%1 = exp %0\noutput %1\n"

static struct spec
spec_of(struct arena *a, const char *graph)
{
	struct graph g;
	struct spec s;
	struct err e = {0};

	if (!graph_read(&g, a, str_of(graph), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(a, &g, &s);
	return s;
}

static struct artefact_kernel
kernel_of(struct arena *a, const struct spec *s, const char *schedule, const struct target *t)
{
	struct target with = *t;
	struct kernel_code code;
	struct err e = {0};

	with.winograd = true;
	if (!generate_kernel(a, s, str_of(schedule), &with, "k", &code, &e))
		fail_msg("%s", e.msg);
	return (struct artefact_kernel){code.desc, code.text};
}

static struct bytes
packed(struct arena *a, const struct artefact_kernel *k, uint32_t n)
{
	struct artefact all = {(struct artefact_kernel *)(uintptr_t)k, n, STR("prelude\n")};
	struct bytes out;
	struct err e = {0};

	if (!artefact_pack(a, &all, &out, &e))
		fail_msg("%s", e.msg);
	return out;
}

static bool
reads(struct arena *a, struct bytes b, const struct spec *s, struct artefact *out, struct err *e)
{
	return artefact_read(a, b, &s, 1, out, e);
}

/* ---- there and back --------------------------------------------------------------------------- */
static const struct {
	const char *graph, *schedule;
	const struct target *target;
	uint32_t packs, maps, overlaps, library;
} rows[] = {
    {MATMUL, "", &target_avx2, 1, 0, 0, 0},
    {CUT, "mr=4 nv=3 trace=1", &target_avx512, 1, 0, 0, 0},
    {CONV, "", &target_avx512, 0, 0, 0, 0},
    {CONV, "wino=4", &target_avx2, 1, 2, 0, 0},
    {CONV, "lib=onednn-2.6.3", &target_avx2, 0, 0, 0, 1},
    {MAP, "", &target_sse42, 0, 0, 1, 0},
    {MATMUL, "tm=4 tn=4", &target_cuda, 0, 0, 0, 0},
    {MAP, "threads=256", &target_cuda, 0, 0, 0, 0},
};

static void
there_and_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		const struct spec s = spec_of(&a, rows[i].graph);
		const struct artefact_kernel k = kernel_of(&a, &s, rows[i].schedule, rows[i].target);
		struct artefact got;
		struct bytes b = packed(&a, &k, 1), again;
		struct err e = {0};

		if (k.desc.n_packs != rows[i].packs)
			fail_msg("row %zu packs %u", i, k.desc.n_packs);
		assert_int_equal(k.desc.n_packs ? k.desc.packs[0].n_maps : 0, rows[i].maps);
		if (k.desc.n_overlaps != rows[i].overlaps)
			fail_msg("row %zu overlaps %u", i, k.desc.n_overlaps);
		assert_int_equal(k.desc.is_library, rows[i].library);
		if (!reads(&a, b, &s, &got, &e))
			fail_msg("%s", e.msg);
		assert_true(str_eq(got.kernels[0].text, k.text) && str_is(got.prelude, "prelude\n"));
		assert_true(descriptor_hash(&got.kernels[0].desc) == descriptor_hash(&k.desc));
		again = packed(&a, got.kernels, 1);
		assert_int_equal(again.n, b.n);
		assert_memory_equal(again.p, b.p, b.n);
		arena_fini(&a);
	}
}

/* ---- every field ------------------------------------------------------------------------------- */
struct changed {
	struct artefact_kernel k;
	struct pack pack;
	struct overlap overlap;
};

/* Calls of a library, packed and overlapping: no kernel is all of it, and the record can say it. */
static void
all_of_it(struct changed *c)
{
	*c = (struct changed){
	    .k.desc = {.n_passes = 2, .shared_bytes = 3, .local_bytes = 4, .is_library = true},
	    .k.text = STR("text"),
	    .pack = {.operand = 1, .rank = 2, .base = 1, .n_columns = 5, .n_maps = 1},
	    .overlap = {1, 2}};
	c->pack.map[0] = (struct pack_map){.dim = 1, .n_taps = 2, .step = 3, .w = {{1}}};
	for (int i = 0; i < 2; i++) {
		c->k.desc.range[i] = 7 + i;
		c->k.desc.launch[i] =
		    (struct launch){.grid = {1, 2, 3}, .block = {4, 5, 6}, .smem = 7, .persists = true};
		c->pack.dim[i] = 10 + i;
		c->pack.coef[i] = 20 + i;
		c->pack.column[i] = 30 + i;
	}
	c->k.desc.packs = &c->pack;
	c->k.desc.n_packs = 1;
	c->k.desc.overlaps = &c->overlap;
	c->k.desc.n_overlaps = 1;
}

static void
no_field_is_lost(void **state)
{
	struct arena a = {0};
	struct changed c;
	struct bytes was, is;

	(void)state;
	all_of_it(&c);
	was = packed(&a, &c.k, 1);
#define CHANGED(FIELD)                                                                                       \
	all_of_it(&c);                                                                                       \
	(FIELD)++;                                                                                           \
	is = packed(&a, &c.k, 1);                                                                            \
	if (is.n == was.n && memcmp(is.p, was.p, is.n) == 0)                                                 \
	fail_msg("the record says nothing of %s", #FIELD)
	CHANGED(c.k.desc.range[0]);
	CHANGED(c.k.desc.range[1]);
	CHANGED(c.k.desc.shared_bytes);
	CHANGED(c.k.desc.local_bytes);
	CHANGED(c.k.desc.n_passes);
	for (int i = 0; i < 3; i++) {
		CHANGED(c.k.desc.launch[1].grid[i]);
		CHANGED(c.k.desc.launch[1].block[i]);
	}
	CHANGED(c.k.desc.launch[1].smem);
	CHANGED(c.pack.operand);
	CHANGED(c.pack.rank);
	CHANGED(c.pack.base);
	CHANGED(c.pack.n_columns);
	CHANGED(c.pack.n_maps);
	CHANGED(c.pack.dim[1]);
	CHANGED(c.pack.coef[1]);
	CHANGED(c.pack.column[1]);
	CHANGED(c.pack.map[0].dim);
	CHANGED(c.pack.map[0].n_taps);
	CHANGED(c.pack.map[0].step);
	CHANGED(c.pack.map[0].w[PACK_MAP_ROWS - 1][PACK_MAP_TAPS - 1]);
	CHANGED(c.overlap.result);
	CHANGED(c.overlap.operand);
	CHANGED(c.k.text.n);
#undef CHANGED
	all_of_it(&c);
	c.k.desc.is_library = false;
	is = packed(&a, &c.k, 1);
	assert_false(is.n == was.n && memcmp(is.p, was.p, is.n) == 0);
	all_of_it(&c);
	c.k.desc.launch[0].persists = false;
	is = packed(&a, &c.k, 1);
	assert_false(is.n == was.n && memcmp(is.p, was.p, is.n) == 0);
	arena_fini(&a);
}

/* ---- what is not so ----------------------------------------------------------------------------- */
static void
lies_are_refused(void **state)
{
	struct arena a = {0};
	const struct spec s = spec_of(&a, CUT), map = spec_of(&a, MAP);
	const struct artefact_kernel good = kernel_of(&a, &s, "mr=4 nv=3", &target_avx512),
				     exp = kernel_of(&a, &map, "", &target_avx2);
	struct artefact_kernel k, two[2] = {exp, exp};
	struct artefact got;
	struct pack p[2];
	struct overlap o[2];
	struct err e = {0};

	(void)state;
	assert_true(reads(&a, packed(&a, &good, 1), &s, &got, &e));
#define LIE(OF, SPEC, ...)                                                                                   \
	k = OF;                                                                                              \
	memset(p, 0, sizeof(p));                                                                             \
	if (k.desc.n_packs)                                                                                  \
		p[0] = p[1] = k.desc.packs[0];                                                               \
	o[0] = o[1] = k.desc.n_overlaps ? k.desc.overlaps[0] : (struct overlap){0};                          \
	k.desc.packs = p;                                                                                    \
	k.desc.overlaps = o;                                                                                 \
	__VA_ARGS__;                                                                                         \
	e = (struct err){0};                                                                                 \
	if (reads(&a, packed(&a, &k, 1), &SPEC, &got, &e) || e.code != ERR_PROTO)                            \
	fail_msg("taken, or refused otherwise: %s (%s)", #__VA_ARGS__, e.msg)
	LIE(good, s, k.desc.range[0] = -1);
	LIE(good, s, k.desc.n_passes = 0);
	LIE(good, s, k.desc.shared_bytes = SIZE_MAX / 4);
	LIE(good, s, k.desc.local_bytes = SIZE_MAX / 4);
	LIE(good, s, k.desc.launch[0].smem = SIZE_MAX / 4);
	LIE(good, s, k.desc.launch[0].grid[0] = UINT32_MAX);
	LIE(good, s, k.desc.is_library = true);
	LIE(good, s, p[0].operand = 0); /* no constant */
	LIE(good, s, p[0].operand = 2);
	LIE(good, s, p[0].operand = UINT32_MAX);
	LIE(good, s, k.desc.n_packs = 2); /* the same twice */
	LIE(good, s, p[0].dim[0] = 0);
	LIE(good, s, p[0].dim[0] = INT64_MAX / 2);
	LIE(good, s, p[0].dim[0] = 1 << 22; p[0].coef[0] = 0;
	    p[0].column[0] = 0);                                 /* a gigabyte of a few weights */
	LIE(good, s, p[0].dim[0]++; p[0].n_columns = INT64_MAX); /* reads on behind the operand */
	LIE(good, s, p[0].n_columns += 16);
	LIE(good, s, p[0].base = -1);
	LIE(good, s, p[0].base++);
	LIE(good, s, p[0].coef[1]++);
	LIE(good, s, p[0].rank = 2; p[0].dim[0] = 1100000; p[0].dim[1] = 1; p[0].coef[0] = p[0].column[0] = 1;
	    p[0].n_columns = 1500); /* a million panels, of which all but a few are zeros */
	LIE(good, s, p[0].coef[1] = -p[0].coef[1]);
	LIE(good, s, p[0].column[2] = -1);
	LIE(good, s, p[0].n_maps = 1); /* of a dimension with a coef */
	LIE(good, s, p[0].n_maps = 1; p[0].coef[0] = 0;
	    p[0].map[0] = (struct pack_map){.dim = 0, .n_taps = 3, .step = 1000});
	LIE(good, s, k.text = STR("\033[2J"));
	LIE(exp, map, o[0].operand = 1);
	LIE(exp, map, o[0].result = 1);
	LIE(exp, map, k.desc.n_overlaps = 2);
	LIE(exp, s, k.desc.n_overlaps = 1); /* of 1,200 elements and 2,000 */
	LIE(good, map, (void)0);
#undef LIE
	k = exp;
	assert_false(reads(&a, packed(&a, two, 2), &map, &got, &e));
	assert_false(reads(&a, (struct bytes){(const uint8_t *)"", 0}, &map, &got, &e));
	arena_fini(&a);
}

/* Weights that are no numbers: a sum with one is none, whatever the operand is. */
static void
maps_are_numbers(void **state)
{
	struct arena a = {0};
	const struct spec s = spec_of(&a, CONV);
	struct artefact_kernel k = kernel_of(&a, &s, "wino=4", &target_avx2);
	struct artefact got;
	struct err e = {0};

	(void)state;
	assert_true(reads(&a, packed(&a, &k, 1), &s, &got, &e));
	k.desc.packs[0].map[1].w[2][1] = (double)NAN;
	assert_false(reads(&a, packed(&a, &k, 1), &s, &got, &e));
	arena_fini(&a);
}

/* Cut anywhere, and with any byte another one, it is refused or read; what is read is checked. */
static void
broken_bytes(void **state)
{
	struct arena a = {0};
	const struct spec s = spec_of(&a, CUT);
	const struct artefact_kernel k = kernel_of(&a, &s, "", &target_avx2);
	struct bytes b = packed(&a, &(struct artefact_kernel){k.desc, STR("text")}, 1);
	uint8_t *copy = arena_dup(&a, b.p, b.n);

	(void)state;
	for (size_t n = 0; n < b.n; n++) {
		struct arena tmp = {0};
		struct artefact got;
		struct err e = {0};

		assert_false(reads(&tmp, (struct bytes){b.p, n}, &s, &got, &e));
		arena_fini(&tmp);
	}
	for (size_t at = 0; at < b.n; at++)
		for (int bit = 0; bit < 8; bit++) {
			struct arena tmp = {0};
			struct artefact got;
			struct err e = {0};

			copy[at] ^= (uint8_t)(1 << bit);
			if (reads(&tmp, (struct bytes){copy, b.n}, &s, &got, &e) &&
			    got.kernels[0].desc.n_packs) {
				const struct tensor *t = graph_tensor(&s.g, s.g.inputs[1]);
				size_t n = pack_bytes(&got.kernels[0].desc.packs[0], t->type);
				void *data = heap_alloc(ck_size(shape_count(&t->shape)) * 4),
				     *out = heap_alloc(n);

				pack_apply(&got.kernels[0].desc.packs[0], t, data, out);
				free(data);
				free(out);
			}
			copy[at] ^= (uint8_t)(1 << bit);
			arena_fini(&tmp);
		}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(there_and_back),
	    cmocka_unit_test(no_field_is_lost),
	    cmocka_unit_test(lies_are_refused),
	    cmocka_unit_test(maps_are_numbers),
	    cmocka_unit_test(broken_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
