/* tests/unit/codegen_overlap_test.c: which results a kernel by way of the loop program may have on an
 * operand's bytes: of graphs by the rules of kernels/schedule, and of loop programs that no rule proposes.
 * That the text then computes the same is tested by prop/codegen_test. */
#include "../../kernels/codegen/codegen.h"
#include "../../kernels/schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define FLAT "tir flat\nbuf %0 f32[4,8] global operand 0\nbuf %1 f32[4,8] global result 0\n"

static const struct {
	const char *name, *text, *pairs; /* "result:operand ..." */
} rows[] = {
    {"a map", "%0 = input f32[40,30]\n%1 = exp %0\noutput %1\n", "0:0 "},
    {"a chain of maps, another shape",
	"%0 = input f32[40,30]\n%1 = exp %0\n%2 = reshape %1 shape=[1200]\n%3 = neg %2\noutput %3\n", "0:0 "},
    {"both operands", "%0 = input f32[40,30]\n%1 = input f32[40,30]\n%2 = add %0 %1\noutput %2\n",
	"0:0 0:1 "},
    {"few elements: no loop is a range", "%0 = input f32[4,3]\n%1 = exp %0\noutput %1\n", "0:0 "},
    {"a row for all rows stays where it is",
	"%0 = input f32[40,30]\n%1 = input f32[1,30]\n%2 = bcast %1 shape=[40,30]\n%3 = add %0 %2\noutput "
	"%3\n",
	"0:0 "},
    {"what is beside a sum of another operand",
	"%0 = input f32[40,300]\n%1 = sum %0 axes=[1]\n%2 = bcast %1 shape=[40,300]\n"
	"%3 = input f32[40,300]\n%4 = add %3 %2\noutput %4\n",
	"0:0 "},
    {"a second look at a row",
	"%0 = input f32[40,300]\n%1 = sum %0 axes=[1]\n%2 = bcast %1 shape=[40,300]\n%3 = div %0 %2\noutput "
	"%3\n",
	""},
    {"a map that reads across",
	"%0 = input f32[40,40]\n%1 = transpose %0 perm=[1,0]\n%2 = exp %1\noutput %2\n", ""},
    {"single elements that read across",
	"%0 = input f32[3,3]\n%1 = transpose %0 perm=[1,0]\n%2 = exp %1\noutput %2\n", ""},
    {"another element beside its own",
	"%0 = input f32[40,30]\n%1 = slice %0 start=[1,0] step=[1,1] shape=[39,30]\n"
	"%2 = pad %1 lo=[0,0] hi=[1,0] mode=0 value=0\n%3 = add %0 %2\noutput %3\n",
	""},
    {"the other end", "%0 = input f32[64]\n%1 = slice %0 start=[63] step=[-1] shape=[64]\noutput %1\n", ""},
    {"a window",
	"%0 = input f32[1,20,30,5]\n%1 = wmax %0 kernel=[1,3,3,1] stride=[1,1,1,1] dilation=[1,1,1,1] "
	"lo=[0,1,1,0] hi=[0,1,1,0]\noutput %1\n",
	""},
    {"a map behind a window, of another operand",
	"%0 = input f32[1,20,30,5]\n%1 = wmax %0 kernel=[1,3,3,1] stride=[1,1,1,1] dilation=[1,1,1,1] "
	"lo=[0,1,1,0] hi=[0,1,1,0]\n%2 = input f32[1,20,30,5]\n%3 = add %1 %2\noutput %3\n",
	"0:1 "},
    {"one result of two passes that read it",
	"%0 = input f32[40,30]\n%1 = exp %0\n%2 = input f32[1,30]\n%3 = bcast %2 shape=[40,30]\n"
	"%4 = add %0 %3\noutput %1\noutput %4\n",
	""},
    {"another type", "%0 = input f32[40,30]\n%1 = cast %0 to=f16\noutput %1\n", ""},
    {"another size", "%0 = input f32[40,30]\n%1 = sum %0 axes=[0]\noutput %1\n", ""},
    {"loops that were not the rules'",
	FLAT "for i in 0..4 parallel\n  for j in 0..8\n    store %1[i, j] = exp(%0[i, j])\n", "0:0 "},
    {"read for the element before",
	FLAT "for i in 0..4 parallel\n  for j in 0..8\n    store %1[i, j] = exp(%0[i, max(j - 1, 0)])\n", ""},
    {"two pieces of a loop",
	FLAT "for i in 0..4\n  for j in 0..3\n    store %1[i, j] = exp(%0[i, j])\n  for j' in 3..8\n"
	     "    store %1[i, j'] = %0[i, j']\n",
	"0:0 "},
    {"pieces of a range",
	FLAT "for i in 0..4 parallel\n  for j in 0..8\n"
	     "    store %1[i, j] = guard(0 <= i - 1 < 4, exp(%0[i, j]), %0[i, j])\n",
	"0:0 "},
    {"stored twice",
	FLAT "for i in 0..4\n  for j in 0..8\n    store %1[i, j] = %0[i, j]\nfor m in 0..4\n  for n in 0..8\n"
	     "    store %1[m, n] = exp(%0[m, n])\n",
	""},
    {"stored by two rounds",
	FLAT "for k in 0..2\n  for i in 0..4\n    for j in 0..8\n      store %1[i, j] = exp(%0[i, j])\n", ""},
    {"read behind its store",
	FLAT "buf %2 f32[4,8] global result 1\nfor i in 0..4\n  for j in 0..8\n"
	     "    store %1[i, j] = exp(%0[i, j])\n    store %2[i, j] = neg(%0[i, j])\n",
	"1:0 "},
};

static void
codegen_of(struct arena *a, const char *text, struct codegen_kernel *k)
{
	const struct schedule_target target = {.lanes = 8, .n_vregs = 16, .l1_bytes = 32768};
	const struct codegen_form form = {.lanes = 8};
	struct tir flat, p;
	struct err e = {0};

	if (str_starts(str_of(text), "tir")) {
		if (!tir_read(&flat, a, str_of(text), &e) || !tir_verify(&flat, &e))
			fail_msg("%s\n%s", e.msg, text);
	} else {
		struct graph g;
		struct spec s;
		struct tir nest, scheduled;
		struct strbuf trace;

		if (!graph_read(&g, a, str_of(text), &e))
			fail_msg("%s\n%s", e.msg, text);
		spec_of_graph(a, &g, &s);
		schedule_lower(a, &s, false, &nest);
		sb_init(&trace, a);
		schedule_propose(&nest, &target, &trace, &scheduled);
		schedule_flat(&scheduled, &flat);
	}
	if (!codegen_run(&flat, NULL, &p, &e) || !codegen_c(a, &p, 2, "k", &form, k, &e))
		fail_msg("%s\n%s", e.msg, text);
}

static void
pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct arena a = {0};
		struct codegen_kernel k;
		struct strbuf sb;

		codegen_of(&a, rows[i].text, &k);
		sb_init(&sb, &a);
		for (uint32_t n = 0; n < k.n_overlaps; n++)
			sb_addf(&sb, "%u:%u ", k.overlaps[n].result, k.overlaps[n].operand);
		if (!str_is(sb_str(&sb), rows[i].pairs))
			fail_msg("%s: '%.*s' in place of '%s'\n%.*s", rows[i].name, STR_ARG(sb_str(&sb)),
			    rows[i].pairs, STR_ARG(k.text));
		arena_fini(&a);
	}
}

/* What the loop is told: an accumulator in memory, or a second look, would make it untrue. */
static const struct {
	const char *name, *text;
	bool told;
} loops[] = {
    {"each iteration an element of its own",
	FLAT "for i in 0..4 parallel\n  for j in 0..8\n    store %1[i, j] = exp(%0[i, j])\n", true},
    {"what the iteration before has stored",
	FLAT "for i in 0..4\n  store %1[i, 0] = %0[i, 0]\n  for j in 1..8\n"
	     "    store %1[i, j] = add(%1[i, j - 1], %0[i, j])\n",
	false},
    {"an element that many iterations store",
	FLAT "buf %2 f32[2] global result 1\nfor i in 0..4\n  for j in 0..8\n"
	     "    store %2[min(j, 1)] = neg(%0[i, j])\n    store %1[i, j] = exp(%0[i, j])\n",
	false},
};

static void
independence(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(loops); i++) {
		struct arena a = {0};
		struct codegen_kernel k;

		codegen_of(&a, loops[i].text, &k);
		if (k.n_overlaps != 1 || !!strstr(k.text.p, "K_INDEPENDENT") != loops[i].told ||
		    !strstr(k.text.p, "\tconst float *x0,") || !strstr(k.text.p, "\tfloat *y0,"))
			fail_msg("%s: %u pairs\n%s", loops[i].name, k.n_overlaps, k.text.p);
		arena_fini(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(independence)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
