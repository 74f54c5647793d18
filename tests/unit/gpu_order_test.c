/* tests/unit/gpu_order_test.c: the fake GPU's machine code: what its compiler writes is read whole, has no
 * hazard and room for a better order; a better order is faster by its clock; what reads too early is found
 * out. */
#include "../../kernels/sass/machine.h"
#include "../../kernels/sass/search.h"
#include "../../worker/gpu_fake/gpu_fake_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TEXTS = 20 };
static const int archs[] = {70, 75, 80, 90};

static struct bytes
cubin_of(struct arena *a, int sm, uint64_t text, struct fake_code *head)
{
	const struct fake_figures f = {.registers = 32};
	struct bytes out;

	*head = (struct fake_code){.magic = "FAKECUB", .sm = (uint32_t)sm, .text = text};
	gpu_fake_cubin(a, head, (struct bytes){(const uint8_t *)"", 0}, STR("k_p0( k_p1("), &f, &out);
	return out;
}

static void
as_compiled(void **state)
{
	struct arena a = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(archs); i++)
		for (uint64_t text = 1; text <= TEXTS; text++) {
			struct fake_code head;
			struct bytes b = cubin_of(&a, archs[i], text * 977, &head);
			struct fake_order o = gpu_fake_order(b.p, &head, 1);
			struct sass_kernel k;
			struct err e = {0};

			if (!sass_read(&a, b, "k_p1", &k, &e))
				fail_msg("%s", e.msg);
			for (uint32_t n = 0; n < k.n_instr; n++)
				if (k.instr[n].flags & SASS_UNKNOWN)
					fail_msg("sm_%d: instruction %u is not known", archs[i], n);
			assert_non_null(sass_hot(&k));
			if (machine_hazard(&a, b, "k_p1", &e))
				fail_msg("sm_%d: %s", archs[i], e.msg);
			assert_true(!o.is_edited && !o.is_early && o.ratio == 1);
		}
	arena_fini(&a);
}

static void
better_orders(void **state)
{
	struct arena a = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(archs); i++)
		for (uint64_t text = 1; text <= TEXTS; text++) {
			const struct sass_search s = {
			    .method = SASS_ANNEAL, .seed = 1, .tries = 3000, .warps = 1, .blocks = 1};
			struct fake_code head;
			struct bytes b = cubin_of(&a, archs[i], text * 977, &head), edited;
			struct sass_found found;
			struct fake_order o;
			struct err e = {0};

			if (!sass_search(&a, b, "k_p0", &s, &found, &e) || found.n_best == 0)
				fail_msg("sm_%d, text %d: nothing was found: %s", archs[i], (int)text, e.msg);
			if (!sass_moves_apply(&a, b, &found.best[0].moves, &edited, &e))
				fail_msg("%s", e.msg);
			o = gpu_fake_order(edited.p, &head, 0);
			assert_true(o.is_edited);
			if (o.is_early)
				fail_msg(
				    "sm_%d, text %d: a legal order reads too early", archs[i], (int)text);
			assert_true(o.ratio < 1);
			o = gpu_fake_order(edited.p, &head, 1); /* the other pass is as it was */
			assert_false(o.is_edited);
		}
	arena_fini(&a);
}

/* Exchanges two neighbours. */
static void
swap(uint8_t *p)
{
	uint8_t word[SASS_BYTES];

	memcpy(word, p, SASS_BYTES);
	memmove(p, p + SASS_BYTES, SASS_BYTES);
	memcpy(p + SASS_BYTES, word, SASS_BYTES);
}

/* The stall count, bits 105 to 108. */
static void
hurry(uint8_t *p)
{
	p[13] = (uint8_t)((p[13] & ~0x1e) | 1 << 1);
}

/* A sum before the wait for what it adds; the branch right behind what its guard is made by. */
static void
too_early(void **state)
{
	static const struct {
		const char *name;
		void (*spoil)(uint8_t *p);
	} row[] = {{"FFMA", swap}, {"ISETP", hurry}};
	struct arena a = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct fake_code head;
		struct bytes b = cubin_of(&a, 80, 977, &head);
		uint8_t *p = arena_dup(&a, b.p, b.n);
		struct sass_kernel k;
		struct fake_order o;
		struct err e = {0};
		uint32_t at = 0;

		assert_true(sass_read(&a, b, "k_p0", &k, &e));
		while (strcmp(k.instr[at].op->name, row[i].name) != 0)
			at++;
		row[i].spoil(p + k.at + (uint64_t)at * SASS_BYTES);
		o = gpu_fake_order(p, &head, 0);
		assert_true(o.is_edited);
		if (!o.is_early)
			fail_msg("%s spoilt: nobody noticed", row[i].name);
	}
	arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_compiled), cmocka_unit_test(better_orders), cmocka_unit_test(too_early)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
