/* tests/unit/emit_chain_test.c: what loops over maps are made of: no operator chooses its way in them, and a
 * product and a sum are rounded once unless --strict asks for each operator's own rounding (D11). */
#include "../harness/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 5, COLUMNS = 37 }; /* whole vectors and a rest */

/* One node of primitive `p` over operands of type `t`; NULL: it has no such operands. */
static const char *
graph_of_map(struct arena *a, enum prim p, const char *t)
{
	const struct prim_info *info = &prim_info[p];
	struct strbuf sb;
	struct spec s;
	struct err e = {0};

	sb_init(&sb, a);
	for (int i = 0; i < info->n_in; i++)
		sb_addf(
		    &sb, "%%%d = input %s[%d,%d]\n", i, p == PRIM_select && i > 0 ? "f32" : t, ROWS, COLUMNS);
	sb_addf(&sb, "%%%d = %s", info->n_in, info->name);
	for (int i = 0; i < info->n_in; i++)
		sb_addf(&sb, " %%%d", i);
	sb_addf(&sb, "%s\noutput %%%d\n", info->attrs & ATTR_BIT(to) ? " to=i32" : "", info->n_in);
	const char *text = sb_str(&sb).p;

	return kernel_spec(a, text, &s, &e) ? text : NULL;
}

/* Kernels have statements that branch only where a place is tested, and maps have no places to test. */
static void
assert_straight(struct arena *a, const char *graph, const struct target *t)
{
	static const char *const branches[] = {"if (", "switch", "goto", "while", "case "};
	struct spec s;
	struct kernel_code code;
	struct err e = {0};

	if (!kernel_spec(a, graph, &s, &e) || !generate_kernel(a, &s, STR(""), t, "k", &code, &e))
		fail_msg("%s\n%s", e.msg, graph);
	const char *text = strstr(str_dup(a, code.text), "*/"); /* behind the head, which tells the graph */

	assert_non_null(text);
	text = strstr(text, "for ("); /* behind the test of a range of one step */
	assert_non_null(text);
	for (size_t i = 0; i < COUNT_OF(branches); i++)
		if (strstr(text, branches[i]))
			fail_msg("%s in the loop of\n%s\n%s", branches[i], graph, text);
}

static void
test_maps_do_not_branch(void **state)
{
	static const char *const types[] = {"f32", "f16", "i32", "i64", "bool"};

	(void)state;
	for (int p = 0; p < PRIM_COUNT; p++) {
		uint32_t taken = 0;

		if (prim_info[p].class != CLASS_MAP)
			continue;
		for (size_t t = 0; t < COUNT_OF(types); t++) {
			struct arena a = {0};
			const char *graph = graph_of_map(&a, (enum prim)p, types[t]);

			if (graph) {
				assert_straight(&a, graph, &target_avx2);
				assert_straight(&a, graph, &target_avx512);
				taken++;
			}
			arena_fini(&a);
		}
		if (taken == 0)
			fail_msg("%s takes none of the types", prim_info[p].name);
	}
}

/* All maps of float32 in a row, in one loop. */
static void
test_chain_does_not_branch(void **state)
{
	struct arena a = {0};
	struct strbuf sb;
	int n = 2, x = 0;

	(void)state;
	sb_init(&sb, &a);
	sb_addf(&sb, "%%0 = input f32[%d,%d]\n%%1 = input f32[%d,%d]\n", ROWS, COLUMNS, ROWS, COLUMNS);
	for (int p = 0; p < PRIM_COUNT; p++) {
		const struct prim_info *info = &prim_info[p];

		if (info->class != CLASS_MAP || info->type != TYPE_SAME ||
		    !graph_of_map(&a, (enum prim)p, "f32"))
			continue;
		sb_addf(&sb, "%%%d = %s %%%d%s\n", n, info->name, x, info->n_in == 2 ? " %1" : "");
		x = n++;
	}
	sb_addf(&sb, "output %%%d\n", x);
	assert_true(n > 30);
	assert_straight(&a, sb_str(&sb).p, &target_avx2);
	arena_fini(&a);
}

/* (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 where it is rounded once, and 0 where the product is rounded first. */
static void
product_and_sum(bool strict, float want)
{
	struct arena a = {0};
	struct target t = target_avx2;
	struct rng r = {1};
	struct spec s;
	struct test_kernel k;
	struct err e = {0};
	char graph[256];

	t.strict = strict;
	(void)snprintf(graph, sizeof graph,
	    "%%0 = input f32[%d,%d]\n%%1 = input f32[%d,%d]\n%%2 = mul %%0 %%0\n%%3 = add %%2 %%1\noutput "
	    "%%3\n",
	    ROWS, COLUMNS, ROWS, COLUMNS);
	if (!kernel_spec(&a, graph, &s, &e) || !kernel_make(&a, &s, STR(""), &t, 0, &r, &k, &e) ||
	    !kernel_compile(&a, &k, 1, &t, &e))
		fail_msg("%s", e.msg);
	const struct node *mul =
	    &k.spec.g.nodes[k.spec.g.nodes[0].prim != PRIM_mul]; /* a spec has its own order */
	const int factor = mul->in[0].i == k.spec.g.inputs[1].i;
	const float *sum = k.buf[2];

	assert_int_equal(mul->prim, PRIM_mul);
	for (int i = 0; i < ROWS * COLUMNS; i++) {
		((float *)k.buf[factor])[i] = 1 + 0x1p-12f;
		((float *)k.buf[!factor])[i] = -(1 + 0x1p-11f);
	}
	kernel_run(&k, 1);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		if (sum[i] != want)
			fail_msg("element %d is %a, not %a", i, (double)sum[i], (double)want);
	arena_fini(&a);
}

static void
test_product_and_sum_are_rounded_once(void **state)
{
	(void)state;
	product_and_sum(false, 0x1p-24f);
}

static void
test_strict_rounds_both(void **state)
{
	(void)state;
	product_and_sum(true, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_maps_do_not_branch),
	    cmocka_unit_test(test_chain_does_not_branch),
	    cmocka_unit_test(test_product_and_sum_are_rounded_once),
	    cmocka_unit_test(test_strict_rounds_both)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
