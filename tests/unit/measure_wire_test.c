/* What worker and measuring child say to each other comes through as it was, and what makes no sense is
 * refused: each field that could mislead a reader, and every byte of a request changed.  label: pure */
#include "../../worker/measure_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "spec 1\n%0 = input f32[4,6]\n%1 = weight f32[6,5]\n%2 = matmul %0 %1 : f32[4,5]\noutput %2\n";

struct rig {
	struct arena a;
	struct spec spec;
	struct pack pack[2];
	struct kernel_code code[2];
	struct measure_kernel kernels[2];
	struct measure_item item;
	struct measure_batch batch;
	struct calibration calibration;
	bool settled[2];
	struct m_batch_ask ask;
};

static int
setup(void **state)
{
	struct rig *r = heap_alloc(sizeof(*r));
	struct err e = {0};

	*state = r;
	if (!spec_read(&r->a, str_of(text), &r->spec, &e))
		return -1;
	r->pack[0] = (struct pack){
	    .operand = 1, .rank = 2, .dim = {5, 6}, .coef = {1, 5}, .column = {1, 0}, .n_columns = 5};
	r->pack[1] = (struct pack){.operand = 1,
	    .rank = 2,
	    .dim = {4, 5},
	    .coef = {0, 1},
	    .n_columns = 5,
	    .n_maps = 1,
	    .map = {{.dim = 0, .n_taps = 3, .step = 5, .w = {{1, 2, 3}, {0.5, -1, 4}}}}};
	r->code[0] = (struct kernel_code){.desc = {.n_passes = 2,
					      .range = {7, 9},
					      .shared_bytes = 64,
					      .local_bytes = 32,
					      .packs = r->pack,
					      .n_packs = 2}};
	for (int i = 0; i < 2; i++)
		r->kernels[i] = (struct measure_kernel){.schedule = i ? STR("") : STR("mr=4"),
		    .symbol = i ? STR("k1") : STR("k0"),
		    .code = &r->code[i],
		    .bound_ns = 10 + i};
	r->item = (struct measure_item){.spec = &r->spec,
	    .heat = STR("hcn"),
	    .kernels = r->kernels,
	    .n_kernels = 2,
	    .known_ns = 77,
	    .tolerance = 1e-3};
	r->calibration = (struct calibration){.hw = {.flops_peak = 1e11,
						  .bytes_per_s = {4, 3, 2, 1},
						  .level_bytes = {1 << 15, 1 << 20, 1 << 25},
						  .call_ns = 50.25,
						  .simd_bytes = 32,
						  .lanes = 8,
						  .n_threads = 2,
						  .winograd = true},
	    .target = target_avx2,
	    .ref_ns = {123, 456}};
	(void)snprintf(r->calibration.info.device_class, DEV_CLASS_MAX, "cpu:x");
	(void)snprintf(r->calibration.info.environment, DEV_ENV_MAX, "class=cpu\ncompiler=gcc\n");
	r->calibration.info.fact[0] = 0.1;
	r->calibration.target.l2_bytes = 777216;
	r->calibration.target.library[0] = 20603;
	r->batch = (struct measure_batch){.module = {(const uint8_t *)"elf", 3},
	    .items = &r->item,
	    .n_items = 1,
	    .calibration = &r->calibration,
	    .budget_ns = 5000,
	    .tolerance = 1e-4,
	    .together = true,
	    .seed = 9};
	r->settled[1] = true;
	batch_pack(&r->a, &r->batch, r->settled, &r->ask);
	return 0;
}

static int
teardown(void **state)
{
	struct rig *r = *state;

	arena_fini(&r->a);
	free(r);
	return 0;
}

static struct bytes
packed(struct rig *r, struct m_batch_ask *ask)
{
	struct msg m = {.type = MSG_batch_ask, .batch_ask = *ask};
	struct bytes out;
	struct err e = {0};

	if (!msg_pack(&r->a, &m, MEASURE_MAX_BYTES, &out, &e))
		fail_msg("%s", e.msg);
	return out;
}

static void
a_batch_comes_through(void **state)
{
	struct rig *r = *state;
	struct child_batch b;
	const struct measure_kernel *k;
	struct msg m;
	struct err e = {0};

	assert_true(msg_unpack(&r->a, packed(r, &r->ask), &m, &e));
	if (!batch_unpack(&r->a, &m.batch_ask, &b, &e))
		fail_msg("%s", e.msg);
	assert_true(b.batch.n_items == 1 && b.batch.items[0].n_kernels == 2 && b.batch.seed == 9);
	assert_true(b.batch.together && !b.batch.check_only && !b.batch.in_pairs && b.batch.module.n == 3);
	assert_true(hash_eq(&b.batch.items[0].spec->hash, &r->spec.hash));
	assert_true(str_is(b.batch.items[0].heat, "hcn") && b.batch.items[0].known_ns == 77);
	assert_true(!b.skip[0][0] && b.skip[0][1]);
	k = b.batch.items[0].kernels;
	assert_string_equal(k[0].symbol.p, "k0");
	assert_true(str_is(k[0].schedule, "mr=4") && k[0].bound_ns == 10 && k[1].bound_ns == 11);
	assert_true(k[0].code->desc.n_passes == 2 && k[0].code->desc.range[1] == 9 &&
	    k[0].code->desc.shared_bytes == 64);
	assert_true(
	    k[0].code->desc.n_packs == 2 && k[1].code->desc.n_packs == 0 && k[1].code->desc.n_passes == 0);
	for (int i = 0; i < 2; i++)
		assert_memory_equal(&k[0].code->desc.packs[i], &r->pack[i], sizeof(r->pack[i]));
	assert_memory_equal(&b.calibration.hw, &r->calibration.hw, sizeof(r->calibration.hw));
	assert_true(b.calibration.ref_ns[REF_COMPUTE] == 123 && b.calibration.ref_ns[REF_STREAM] == 456);
}

static void
a_calibration_comes_through(void **state)
{
	struct rig *r = *state;
	struct calibration got;
	struct m_calibration c, back;
	struct bytes b;
	struct err e = {0};

	calibration_pack(&r->a, &r->calibration, &c);
	if (!rec_pack(&r->a, "calibration", &c, &b, &e) || !rec_unpack(&r->a, "calibration", b, &back, &e) ||
	    !calibration_unpack(&back, &got, &e))
		fail_msg("%s", e.msg);
	assert_memory_equal(&got, &r->calibration, sizeof(got));
}

/* ---- what makes no sense ----------------------------------------------------------------- */
static void
other_operand(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[0].operand = 2;
}
static void
far_operand(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[0].operand = (uint64_t)1 << 32;
}
static void
beyond_the_operand(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[0].base = 1;
}
static void
before_the_operand(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[0].base = -1;
}
static void
endless(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[0].dims[0].dim = INT64_MAX;
}
static void
few_weights(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[1].maps[0].n_w = 17;
}
static void
many_taps(struct m_batch_ask *q)
{
	q->items[0].kernels[0].packs[1].maps[0].n_taps = (int64_t)1 << 32 | 3;
}
static void
no_heat(struct m_batch_ask *q)
{
	q->items[0].heat = STR("warm");
}
static void
no_spec(struct m_batch_ask *q)
{
	q->items[0].spec = STR("spec 1\nout");
}
static void
few_levels(struct m_batch_ask *q)
{
	q->calibration.hw.n_bytes_per_s = 3;
}
static void
wide_vectors(struct m_batch_ask *q)
{
	q->calibration.hw.simd_bytes = (int64_t)1 << 40;
}

static void
nonsense_is_refused(void **state)
{
	static void (*const twist[])(struct m_batch_ask * q) = {other_operand, far_operand,
	    beyond_the_operand, before_the_operand, endless, few_weights, many_taps, no_heat, no_spec,
	    few_levels, wide_vectors};
	struct rig *r = *state;

	for (size_t i = 0; i < COUNT_OF(twist); i++) {
		struct child_batch b;
		struct err e = {0};

		batch_pack(&r->a, &r->batch, r->settled, &r->ask);
		twist[i](&r->ask);
		if (batch_unpack(&r->a, &r->ask, &b, &e) || !e.msg[0])
			fail_msg("twist %zu is taken", i);
	}
}

static void
broken_calibrations_are_refused(void **state)
{
	struct rig *r = *state;
	struct calibration got;

	for (int i = 0; i < 5; i++) {
		struct m_calibration c;
		struct err e = {0};

		calibration_pack(&r->a, &r->calibration, &c);
		if (i == 0)
			c.environment = (struct str){"a\0b", 3};
		else if (i == 1)
			c.n_facts--;
		else if (i == 2)
			c.target = STR("abacus");
		else if (i == 3)
			c.target = STR("avx2,simd=99999999999");
		else
			c.hw.lanes = -1;
		assert_false(calibration_unpack(&c, &got, &e));
		assert_int_equal(e.code, ERR_PROTO);
	}
}

/* Whatever a byte is changed to: what is taken is packed again (a kernel has a byte at least). */
static void
changed_bytes_do_no_harm(void **state)
{
	struct rig *r = *state;
	struct bytes whole = packed(r, &r->ask);

	for (size_t i = 0; i < whole.n; i++)
		for (unsigned v = 0; v < 256; v += 5) {
			struct arena tmp = {0};
			uint8_t *p = arena_dup(&tmp, whole.p, whole.n);
			struct child_batch b;
			struct m_batch_ask again;
			struct msg m;
			struct err e = {0};

			p[i] = (uint8_t)v;
			if (msg_unpack(&tmp, (struct bytes){p, whole.n}, &m, &e) && m.type == MSG_batch_ask &&
			    batch_unpack(&tmp, &m.batch_ask, &b, &e)) {
				b.batch.calibration = &b.calibration;
				batch_pack(&tmp, &b.batch, NEW_ARRAY(&tmp, bool, whole.n), &again);
			}
			arena_fini(&tmp);
		}
}

static void
another_build_is_known(void **state)
{
	struct m_child_welcome w = measure_welcome();

	(void)state;
	assert_true(measure_is_same_build(&w));
	w.method++;
	assert_false(measure_is_same_build(&w));
	w = measure_welcome();
	w.program = STR("0.0.1");
	assert_false(measure_is_same_build(&w));
}

/* The seeds of fuzz/measure_fuzz are requests that are taken, or it would look at nothing but refusals. */
static void
seeds_are_taken(void **state)
{
	static const char *const seeds[] = {"batch", "maps"};
	struct rig *r = *state;

	for (size_t i = 0; i < COUNT_OF(seeds); i++) {
		const char *path =
		    arena_printf(&r->a, "%s/tests/fuzz/corpus/measure/%s", KORCH_SOURCE_DIR, seeds[i]);
		struct child_batch b;
		struct bytes in;
		struct msg m;
		struct err e = {0};

		if (!os_read_file(os_real(), &r->a, path, 1 << 20, &in, &e) ||
		    !msg_unpack(&r->a, (struct bytes){in.p + 1, in.n - 1}, &m, &e) ||
		    !batch_unpack(&r->a, &m.batch_ask, &b, &e))
			fail_msg("%s: %s", seeds[i], e.msg);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_batch_comes_through, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_calibration_comes_through, setup, teardown),
	    cmocka_unit_test_setup_teardown(nonsense_is_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(broken_calibrations_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(changed_bytes_do_no_harm, setup, teardown),
	    cmocka_unit_test(another_build_is_known),
	    cmocka_unit_test_setup_teardown(seeds_are_taken, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
