/* tests/unit/rotation_test.c: packed weights of a race: as many copies as the last cache needs, by the size
 * that they have packed, and fewer where memory ends. memory: yes */
#include "../../worker/rotation.h"
#include "../harness/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Weights of 144 KiB, of 576 KiB in the form of F(4,3). */
static const char conv[] = "%0 = input f32[1,8,8,64]\n%1 = weight f32[3,3,64,64]\n"
			   "%2 = conv %0 %1 lo=[1,1] hi=[1,1] stride=[1,1] dilation=[1,1] ldil=[1,1] group=1 "
			   ": f32[1,8,8,64]\noutput %2\n";

/* A device of so many bytes. */
struct small {
	size_t left;
	uint32_t n_evicted; /* launches */
	const void *weight; /* of the last one */
	size_t n_bytes[3];  /* of its operands and result */
};

static void *
take(void *self, size_t n)
{
	struct small *s = self;

	if (n > s->left)
		return NULL;
	s->left -= n;
	return calloc(1, n);
}

static void
give_back(void *self, void *p, size_t n)
{
	struct small *s = self;

	s->left += n;
	free(p);
}

static void
move(void *self, void *to, const void *from, size_t n)
{
	(void)self;
	memcpy(to, from, n);
}

static void
note_evicted(void *self, const struct dev_launch *l, const size_t *n_bytes)
{
	struct small *s = self;

	s->n_evicted++;
	s->weight = l->buf[1];
	memcpy(s->n_bytes, n_bytes, sizeof(s->n_bytes));
}

struct bench {
	struct arena a;
	struct spec spec;
	struct kernel_code code;
	struct measure_kernel of;
	struct dev_kernel kernel;
	struct calibration calibration;
	struct small small;
	struct dev dev;
	struct race race;
	struct rotation copies;
};

static void
bench_open_on(struct bench *b, bool evicts, const char *schedule, const char *heat)
{
	struct err e = {0};

	*b = (struct bench){
	    .small = {SIZE_MAX}, .calibration.hw.level_bytes = {32 << 10, 256 << 10, 256 << 10}};
	if (!kernel_spec(&b->a, conv, &b->spec, &e) ||
	    !generate_kernel(&b->a, &b->spec, str_of(schedule), &target_avx2, "k", &b->code, &e))
		fail_msg("%s", e.msg);
	b->dev = (struct dev){.self = &b->small,
	    .reads_host = true,
	    .mem_new = take,
	    .mem_free = give_back,
	    .put = move,
	    .get = move,
	    .evict = evicts ? note_evicted : NULL};
	b->of = (struct measure_kernel){.code = &b->code};
	b->race = (struct race){.dev = &b->dev,
	    .spec = &b->spec,
	    .heat = str_of(heat),
	    .kernels = &b->kernel,
	    .of = &b->of,
	    .n = 1,
	    .calibration = &b->calibration};
	if (!rotation_open(&b->a, &b->race, 0, (size_t)1 << 30, &b->copies, &e))
		fail_msg("%s", e.msg);
}

static void
bench_open_at(struct bench *b, const char *schedule, const char *heat)
{
	bench_open_on(b, false, schedule, heat);
}

static void
bench_open(struct bench *b, const char *schedule)
{
	bench_open_at(b, schedule, "");
	assert_true(b->copies.n > 5); /* the activations are small: many of them fill the second cache */
}

/* How many different weights the launches meet, each in its turn. */
static uint32_t
lap_forms(const struct bench *b, const struct lap *l)
{
	const uint32_t w = b->code.desc.packs[0].operand;

	for (uint32_t i = 0; i < l->n; i++)
		assert_ptr_equal(l->launch[i].buf[w], l->own[i % l->n_own]);
	return l->n_own;
}

static void
as_many_as_the_cache_needs(void **state)
{
	static const struct {
		const char *schedule;
		uint32_t copies;
	} row[] = {{"", 5}, {"wino=4", 2}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct bench b;
		struct lap lap;
		struct err e = {0};

		bench_open(&b, row[i].schedule);
		assert_int_equal(b.code.desc.n_packs, 1);
		assert_true(lap_open(&b.a, &b.copies, &b.kernel, &b.code, &lap, &e));
		assert_int_equal(lap_forms(&b, &lap), row[i].copies);
		lap_close(&b.copies, &lap);
		rotation_close(&b.copies);
		arena_fini(&b.a);
	}
}

static void
fewer_where_memory_ends(void **state)
{
	struct bench b;
	struct lap lap;
	size_t one;
	struct err e = {0};

	(void)state;
	bench_open(&b, "wino=4");
	one = pack_bytes(&b.code.desc.packs[0], DT_f32);
	b.small.left = one + one / 2;
	assert_true(lap_open(&b.a, &b.copies, &b.kernel, &b.code, &lap, &e));
	assert_int_equal(lap_forms(&b, &lap), 1);
	lap_close(&b.copies, &lap);
	b.small.left = one - 1;
	assert_false(lap_open(&b.a, &b.copies, &b.kernel, &b.code, &lap, &e));
	assert_int_equal(e.code, ERR_MEMORY);
	assert_non_null(strstr(e.msg, "bytes"));
	lap_close(&b.copies, &lap);
	rotation_close(&b.copies);
	arena_fini(&b.a);
}

/* Buffers that the launches of a lap meet, one behind the other: operands, then results. */
static uint32_t
met(const struct lap *l, uint32_t buffer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t before = 0;

		while (before < i && l->launch[before].buf[buffer] != l->launch[i].buf[buffer])
			before++;
		n += before == i;
	}
	return n;
}

/* What is hot has one copy and is touched before each sample; what is near goes round several second-level
 * caches; what is cold does as it did before there was a word for it. */
static void
copies_by_heat(void **state)
{
	static const struct {
		const char *heat;
		uint32_t n[3]; /* activation, weight, result */
		bool is_hot;
	} row[] = {{"", {34, 5, 34}, false}, {"hhh", {1, 1, 1}, true}, {"hch", {1, 5, 1}, true},
	    {"hnh", {1, 9, 1}, true}, {"chc", {34, 1, 34}, true}, {"cnc", {7, 7, 7}, false},
	    {"cch", {66, 5, 1}, true}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct bench b;
		struct lap lap;
		struct err e = {0};

		bench_open_at(&b, "", row[i].heat);
		assert_true(lap_open(&b.a, &b.copies, &b.kernel, &b.code, &lap, &e));
		assert_int_equal(b.copies.is_hot, row[i].is_hot);
		for (uint32_t k = 0; k < 3; k++)
			if (met(&lap, k) != MIN_OF(row[i].n[k], (uint32_t)RING_MAX_COPIES))
				fail_msg("heat '%s', buffer %u: %u copies, not %u", row[i].heat, k,
				    met(&lap, k), row[i].n[k]);
		lap_close(&b.copies, &lap);
		rotation_close(&b.copies);
		arena_fini(&b.a);
	}
}

/* Where lines can be put out of the caches, cold weights are, in the form that the kernel reads, and what is
 * not cold stays; no sample has more calls than there are copies. */
static void
cold_weights_are_evicted(void **state)
{
	static const struct {
		const char *schedule, *heat;
		uint32_t copies, fresh; /* of the weight; UINT32_MAX: one copy is met again and again */
		bool is_cold;
	} row[] = {{"", "", 9, 9, true}, {"wino=4", "", 9, 9, true}, {"wino=4", "hch", 9, 9, true},
	    {"", "hhh", 1, UINT32_MAX, false}, {"", "cnc", 7, 7, false}, {"", "chc", 1, 34, false}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct bench b;
		struct lap lap;
		struct err e = {0};
		size_t bytes;

		bench_open_on(&b, true, row[i].schedule, row[i].heat);
		bytes = pack_bytes(&b.code.desc.packs[0], DT_f32);
		assert_true(lap_open(&b.a, &b.copies, &b.kernel, &b.code, &lap, &e));
		assert_int_equal(met(&lap, 1), row[i].copies);
		assert_int_equal(b.copies.n_fresh, row[i].fresh);
		lap_chill(&b.copies, &lap, lap.n - 1, 3); /* round the ring's end */
		assert_int_equal(b.small.n_evicted, 3);
		assert_ptr_equal(b.small.weight, lap.launch[(lap.n + 1) % lap.n].buf[1]);
		assert_int_equal(b.small.n_bytes[1], row[i].is_cold ? bytes : 0);
		assert_true(b.small.n_bytes[0] == 0 && b.small.n_bytes[2] == 0);
		lap_close(&b.copies, &lap);
		rotation_close(&b.copies);
		arena_fini(&b.a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_many_as_the_cache_needs),
	    cmocka_unit_test(fewer_where_memory_ends), cmocka_unit_test(copies_by_heat),
	    cmocka_unit_test(cold_weights_are_evicted)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
