/* tests/prop/cuda_mutation_test.c: does the host shim catch what goes wrong on a GPU?  Generated
 * kernels are broken in one place each: a barrier dropped or passed by one thread only, a shuffle
 * with another lane, fragments exchanged, an index past an end.  Each must end in a fault or in a
 * wrong result under at least one order of threads; unbroken they must agree in all. */
#include "../../kernels/base/base.h"
#include "../harness/cuda_host.h"
#include "../harness/cuda_kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char softmax[] = "%0 = input f32[5,300]\n"
			      "%1 = rmax %0 axes=[1] : f32[5,1]\n"
			      "%2 = bcast %1 shape=[5,300] : f32[5,300]\n"
			      "%3 = sub %0 %2 : f32[5,300]\n"
			      "%4 = exp %3 : f32[5,300]\n"
			      "%5 = sum %4 axes=[1] : f32[5,1]\n"
			      "%6 = bcast %5 shape=[5,300] : f32[5,300]\n"
			      "%7 = div %4 %6 : f32[5,300]\n"
			      "output %7\n";
static const char matmul[] = "%0 = input f32[100,70]\n"
			     "%1 = weight f32[70,90]\n"
			     "%2 = matmul %0 %1 : f32[100,90]\n"
			     "output %2\n";
static const char tall[] = "%0 = input f32[16,1024]\n"
			   "%1 = weight f32[1024,20]\n"
			   "%2 = matmul %0 %1 : f32[16,20]\n"
			   "output %2\n";
static const char copy[] = "%0 = input f32[1024]\n"
			   "%1 = relu %0 : f32[1024]\n"
			   "output %1\n";

static const struct mutation {
	const char *name, *graph, *schedule;
	enum precision precision;
	const char *find; /* its `nth` occurrence, from 0, ... */
	int nth;
	const char *put; /* ... becomes this */
	int sm;
} mutations[] = {
    {"elements of a row left out", softmax, "", PRECISION_F32, "< 300 ?", 1, "< 172 ?", 80},
    {"a row overrun", softmax, "", PRECISION_F32, "< 300 ?", 0, "< 384 ?", 80},
    {"a team's sum of half of its threads", softmax, "", PRECISION_F32, "(r7, 128)", 0, "(r7, 64)", 80},
    {"a team's join that a thread skips", softmax, "", PRECISION_F32, "r5 = r5 + k_team", 0,
	"if (K_TID != 5) r5 = r5 + k_team", 80},
    {"another element of a thread's", softmax, "", PRECISION_F32, "? r4[i6]", 0, "? r4[2 - i6]", 80},
    {"tile overwritten while in use", matmul, "", PRECISION_F32, "K_BARRIER();", 0, "", 80},
    {"tile used before it is loaded", matmul, "", PRECISION_F32, "K_BARRIER();", 1, "", 80},
    {"one thread passes a barrier", matmul, "", PRECISION_F32, "K_BARRIER();", 0,
	"if (K_TID != 5) K_BARRIER();", 80},
    {"one warp waits", matmul, "", PRECISION_F32, "K_BARRIER();", 1, "if (K_TID < 32) K_BARRIER();", 80},
    {"tile overrun", matmul, "", PRECISION_F32, "(l6[8*i8", 0, "(l6[40 + 8*i8", 80},
    {"rows taken for columns", matmul, "", PRECISION_F32, "l6[8*i8 + k_quotient_i32(", 0,
	"l6[8*i8 + k_rest_i32(", 80},
    {"operand overrun", matmul, "", PRECISION_F32, "< 70 ?", 0, "< 80 ?", 80},
    {"a step of the sum left out", matmul, "", PRECISION_F32, "i2 < 5", 0, "i2 < 4", 80},
    {"an element of each step left out", matmul, "", PRECISION_F32, "i8 < 16", 0, "i8 < 15", 80},
    {"the next part used before it is loaded", matmul, "", PRECISION_F16, "K_BARRIER();", 2, "", 80},
    {"the last part used before it is loaded", matmul, "", PRECISION_F16, "K_BARRIER();", 3, "", 80},
    {"a copy into the part in use", matmul, "", PRECISION_F16, "k_rest_i32(i13 + 1, 2)", 0,
	"k_rest_i32(i13, 2)", 80},
    {"rows by the wrong part of the lane", matmul, "", PRECISION_F16, "K_TID % 32 / 4", 0, "K_TID % 8", 80},
    {"fragments of a exchanged", matmul, "", PRECISION_BF16, "(g + i % 2 * 8)", 0, "(g + i / 2 * 8)", 80},
    {"halves of k exchanged", matmul, "", PRECISION_F16, "t + i / 2 * 8", 0, "t + i % 2 * 8", 80},
    {"quarters of k exchanged", matmul, "", PRECISION_TF32, "t + i / 2 * 4", 0, "t + i % 2 * 4", 80},
    {"Turing's rows left out", matmul, "", PRECISION_F16, "(g + i % 2 * 8)", 0, "(g + 0 * i)", 75},
    {"a part of a split sum left out", tall, "splitk=4", PRECISION_F32, "i2 < 4; i2", 0, "i2 < 3; i2", 80},
    {"parts of a split sum in one place", tall, "splitk=4", PRECISION_F32, "160*k_quotient_i32(i0, 3) +", 0,
	"160*(k_quotient_i32(i0, 3) % 2) +", 80},
    {"a word that begins inside one, with the right elements", copy, "vector=4", PRECISION_F32,
	"k_move_16(&l2[0], &x0[512*i0 + 4*i1]);", 0,
	"for (int e = 0; e < 4; e += 3) l2[e] = x0[512*i0 + 4*i1 + e]; k_move_8(&l2[1], &x0[512*i0 + 4*i1 + "
	"1]);",
	80},
    {"a result's word that begins inside one", copy, "vector=4", PRECISION_F32,
	"k_move_16(&y0[512*i0 + 4*i1], &l3[0]);", 0,
	"for (int e = 0; e < 4; e += 3) y0[512*i0 + 4*i1 + e] = l3[e]; k_move_8(&y0[512*i0 + 4*i1 + 1], "
	"&l3[1]);",
	80},
    {"a neighbour's element", copy, "vector=4", PRECISION_F32, "(l2[i2])", 0, "(l2[3 - i2])", 80},
    {"a word behind the last", copy, "vector=4", PRECISION_F32, "o < hi", 0, "o <= hi", 80},
    {"operand overrun by a block", copy, "", PRECISION_F32, "o < hi", 0, "o <= hi", 80},
};

static void
spec_of_text(struct arena *a, const char *text, struct spec *s)
{
	struct graph *g = NEW(a, struct graph);
	struct err e = {0};

	if (!graph_read(g, a, str_of(text), &e))
		fail_msg("%s", e.msg);
	spec_of_graph(a, g, s);
}

static void
make(struct arena *a, const struct mutation *m, struct cuda_case *c)
{
	struct target t = target_cuda;

	t.precision = m->precision;
	t.sm = m->sm;
	*c = (struct cuda_case){.schedule = m->schedule,
	    .seed = 3,
	    .by = m->precision == PRECISION_F32  ? 1
		: m->precision == PRECISION_BF16 ? 800
						 : 100};
	spec_of_text(a, m->graph, &c->spec);
	cuda_case_make(a, c, &t, 0);
	assert_false(c->refused);
	for (uint32_t q = 0; q < c->code.desc.n_passes; q++) /* several steps or tiles on one block */
		c->code.desc.launch[q].grid[0] = 1;
}

static bool
break_it(struct arena *a, const struct mutation *m, struct str *text)
{
	const char *from = text->p, *at = from;
	struct strbuf sb;

	for (int i = 0; (at = strstr(at, m->find)); i++, at++)
		if (i == m->nth)
			break;
	if (!at)
		return false;
	sb_init(&sb, a);
	sb_add(&sb, (struct str){from, (size_t)(at - from)});
	sb_addz(&sb, m->put);
	sb_addz(&sb, at + strlen(m->find));
	*text = sb_str(&sb);
	return true;
}

/* What the compiler refuses would count as caught, and prove nothing of the shim. */
static void
compiles(struct arena *a, struct str text, const char *name)
{
	void *lib = cuda_host_load(a, text);

	if (!lib)
		fail_msg("'%s' does not compile", name);
	cuda_host_unload(lib);
}

static void
test_unbroken(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(mutations); i++) {
		struct arena a = {0};
		struct cuda_case c;

		make(&a, &mutations[i], &c);
		if (cuda_cases_check(&a, &c, 1))
			fail_msg("the kernel behind '%s' is wrong as it is", mutations[i].name);
		arena_fini(&a);
	}
}

static void
test_each_mutation_is_caught(void **state)
{
	uint32_t missed = 0;

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(mutations); i++) {
		struct arena a = {0};
		struct cuda_case c;

		make(&a, &mutations[i], &c);
		if (!break_it(&a, &mutations[i], &c.code.text))
			fail_msg("'%s': nothing to break", mutations[i].name);
		compiles(&a, c.code.text, mutations[i].name);
		print_message("%s:\n", mutations[i].name);
		if (!cuda_cases_check(&a, &c, 1)) {
			print_error("not caught: %s\n", mutations[i].name);
			missed++;
		}
		arena_fini(&a);
	}
	assert_int_equal(missed, 0);
}

/* One argument: the tests whose names match it. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_unbroken),
	    cmocka_unit_test(test_each_mutation_is_caught),
	};

	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
