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
static const char tile_softmax[] = "%0 = input f32[70,33]\n"
				   "%1 = weight f32[33,90]\n"
				   "%2 = matmul %0 %1 : f32[70,90]\n"
				   "%3 = rmax %2 axes=[1] : f32[70,1]\n"
				   "%4 = bcast %3 shape=[70,90] : f32[70,90]\n"
				   "%5 = sub %2 %4 : f32[70,90]\n"
				   "%6 = exp %5 : f32[70,90]\n"
				   "%7 = sum %6 axes=[1] : f32[70,1]\n"
				   "%8 = bcast %7 shape=[70,90] : f32[70,90]\n"
				   "%9 = div %6 %8 : f32[70,90]\n"
				   "output %9\n";
static const char column_sums[] = "%0 = input f32[2048,8]\n"
				  "%1 = weight f32[8,40]\n"
				  "%2 = matmul %0 %1 : f32[2048,40]\n"
				  "%3 = sum %2 axes=[0] : f32[1,40]\n"
				  "output %3\n";
static const char tall[] = "%0 = input f32[16,1024]\n"
			   "%1 = weight f32[1024,20]\n"
			   "%2 = matmul %0 %1 : f32[16,20]\n"
			   "output %2\n";
static const char pair[] = "%0 = input f32[50,20]\n"
			   "%1 = weight f32[20,40]\n"
			   "%2 = matmul %0 %1 : f32[50,40]\n"
			   "%3 = relu %2 : f32[50,40]\n"
			   "%4 = weight f32[40,24]\n"
			   "%5 = matmul %3 %4 : f32[50,24]\n"
			   "output %5\n";
static const char copy[] = "%0 = input f32[1024]\n"
			   "%1 = relu %0 : f32[1024]\n"
			   "output %1\n";

/* linear attention: rows whose divisor nearly cancels are ill-conditioned */
static const char attention[] = "%0 = input f32[40,64]\n"
				"%1 = input f32[64,24]\n"
				"%2 = input f32[64,1]\n"
				"%3 = matmul %0 %1 : f32[40,24]\n"
				"%4 = matmul %0 %2 : f32[40,1]\n"
				"%5 = bcast %4 shape=[40,24] : f32[40,24]\n"
				"%6 = div %3 %5 : f32[40,24]\n"
				"output %6\n";

static const struct mutation {
	const char *name, *graph, *schedule;
	enum precision precision;
	const char *find; /* its `nth` occurrence, from 0, ... */
	int nth;
	const char *put; /* ... becomes this */
	int sm;
} mutations[] = {
    {"maximum read before it is there", softmax, "threads=128", PRECISION_F32, "K_BARRIER();", 0, "", 80},
    {"row's maximum read before it is stored", softmax, "threads=128", PRECISION_F32, "K_BARRIER();", 2, "",
	80},
    {"sum read before it is there", softmax, "threads=128", PRECISION_F32, "K_BARRIER();", 4, "", 80},
    {"row's sum read before it is stored", softmax, "threads=128", PRECISION_F32, "K_BARRIER();", 6, "", 80},
    {"one thread passes a barrier", softmax, "threads=128", PRECISION_F32, "K_BARRIER();", 0,
	"if (K_TID != 5) K_BARRIER();", 80},
    {"one warp waits", softmax, "threads=128", PRECISION_F32, "K_BARRIER();", 3,
	"if (K_TID < 32) K_BARRIER();", 80},
    {"wrong lane, sum of a block", softmax, "threads=128", PRECISION_F32, ", 16)", 1, ", 8)", 80},
    {"wrong lane, sum", softmax, "threads=32", PRECISION_F32, ", 2)", 1, ", 4)", 80},
    {"a shuffle that some lanes skip", softmax, "threads=128", PRECISION_F32, "const float other4 =", 0,
	"float other4 = acc1; if (K_TID != 3) other4 =", 80},
    {"scratch of a row overrun", softmax, "threads=128", PRECISION_F32, "l4[i12] =", 0, "l4[i12 + 1] =", 80},
    {"tile used before it is loaded", matmul, "stages=1", PRECISION_F32, "K_BARRIER();", 0, "", 80},
    {"tile overwritten while in use", matmul, "stages=1", PRECISION_F32, "K_BARRIER();", 1, "", 80},
    {"first part used before it is loaded", matmul, "stages=2 async=0", PRECISION_F32, "K_BARRIER();", 0, "",
	80},
    {"next part used before it is loaded", matmul, "stages=2 async=0", PRECISION_F32, "K_BARRIER();", 1, "",
	80},
    {"tile overrun", matmul, "", PRECISION_F32, "[ty + 16 * i]", 0, "[ty + 16 * i + 40]", 80},
    {"wrong buffer", matmul, "stages=2 async=0", PRECISION_F32, "part_b[buffer ^ 1]", 0, "part_b[buffer]",
	80},
    {"operand overrun", matmul, "", PRECISION_F32, "at < 100", 0, "at < 101", 80},
    {"fragments of a exchanged", matmul, "", PRECISION_F16, "a[i][1] =", 0, "a[i][2] =", 80},
    {"halves of k exchanged", matmul, "", PRECISION_TF32, "lane_t + 4]", 0, "lane_t + 0]", 80},
    {"rows by the wrong part of the lane", matmul, "", PRECISION_TF32, "K_TID % 32 / 4", 0, "K_TID % 8", 80},
    {"columns of the result exchanged", matmul, "", PRECISION_BF16, "c % 2", 0, "1 - c % 2", 80},
    {"a tile's row maximum read before it is joined", tile_softmax, "stages=1", PRECISION_F32, "K_BARRIER();",
	2, "", 80},
    {"and before it is stored", tile_softmax, "stages=1", PRECISION_F32, "K_BARRIER();", 3, "", 80},
    {"a tile's row sum read before it is stored", tile_softmax, "stages=1", PRECISION_F32, "K_BARRIER();", 5,
	"", 80},
    {"lanes of a tile's row left out", tile_softmax, "", PRECISION_F32, "(j7[h], 4)", 0, "(j7[h], 2)", 80},
    {"lanes of another row joined", tile_softmax, "", PRECISION_TF32, "(j7[h], 2)", 0, "(j7[h], 4)", 80},
    {"warps of a row exchanged", tile_softmax, "", PRECISION_F16, "f7[K_TID / 32 % 4]", 0,
	"f7[K_TID / 32 % 3]", 80},
    {"another row's sum", tile_softmax, "", PRECISION_F32, "r7[m - m0]", 0, "r7[n - n0]", 80},
    {"a tile's column sums read before they are there", column_sums, "", PRECISION_F32, "K_BARRIER();", 2, "",
	80},
    {"a warp's rows left out", column_sums, "", PRECISION_F32, "f4[7][e]", 0, "f4[6][e]", 80},
    {"warps that take turns overwrite each other", column_sums, "tm=8", PRECISION_TF32, "f4[K_TID / 128]", 0,
	"f4[K_TID / 256]", 80},
    {"a part of a split sum left out", tall, "splitk=4", PRECISION_F32, "< 4; i", 0, "< 3; i", 80},
    {"parts of a split sum in one place", tall, "splitk=4", PRECISION_F32, "320*i0", 0, "0*i0", 80},
    {"a copy used before it has arrived", matmul, "", PRECISION_F32, "K_ASYNC_WAIT(0);", 0, "", 80},
    {"the last copy but one taken for arrived", matmul, "stages=3", PRECISION_F32, "K_ASYNC_WAIT(1)", 0,
	"K_ASYNC_WAIT(2)", 80},
    {"other threads' copies taken for arrived", matmul, "stages=3", PRECISION_F32, "K_BARRIER();", 1, "", 80},
    {"a buffer copied to while the tile before uses it", matmul, "", PRECISION_F32, "K_BARRIER();", 0, "",
	80},
    {"copies without a commit", matmul, "", PRECISION_F32, "K_ASYNC_COMMIT();", 1, "", 80},
    {"a copy into the part in use", matmul, "stages=4", PRECISION_F32, "&part_a[into]", 1, "&part_a[buffer]",
	80},
    {"a copy from outside", matmul, "", PRECISION_F32, "inside = 1", 0, "inside = 1; from += 100000", 80},
    {"Volta's halves of a warp exchanged", matmul, "", PRECISION_F16, "lane / 16 * 4;", 0,
	"(1 - lane / 16) * 4;", 70},
    {"Volta's four products exchanged", matmul, "", PRECISION_F16, "lane / 8 % 2 * 8, lane_b", 0,
	"lane / 4 % 2 * 8, lane_b", 70},
    {"Volta's rows of results exchanged", matmul, "", PRECISION_F16, "(c / 2 % 2)", 0, "(c % 2)", 70},
    {"Volta's neighbours in k exchanged", matmul, "", PRECISION_F16, "a[i][1] =", 0, "a[i][0] =", 70},
    {"Turing's fragments of a exchanged", matmul, "", PRECISION_F16, "a[i][1] =", 0, "a[i][0] =", 75},
    {"rows handed on before they are there", pair, "stages=1", PRECISION_F32, "K_BARRIER();", 2, "", 80},
    {"rows and columns exchanged as they are handed on", pair, "", PRECISION_F32, "hand[n - n0][m - m0]", 0,
	"hand[m - m0][n - n0]", 80},
    {"the first part handed on each time", pair, "", PRECISION_F16, "hand[done + ", 0, "hand[0 + ", 80},
    {"divisor without its last term", attention, "", PRECISION_F32, "< 64; r", 0, "< 63; r", 80},
    {"divisor with a wrong index", attention, "", PRECISION_F32, "x2[i13]", 0, "x2[i13 ^ 1]", 80},
    {"divisor with a swapped sign", attention, "", PRECISION_F32, "(v0 * v1)", 0,
	"(r12 == 10 ? -v0 * v1 : v0 * v1)", 80},
    {"numerator without a term", attention, "", PRECISION_F32, "+= a[i] * b[j]", 0,
	"+= k0 + kk == 21 ? 0 : a[i] * b[j]", 80},
    {"last element missing", attention, "", PRECISION_F32, "t19 < 24;", 0, "t19 < 24 - (o0 == 39);", 80},
    {"a word that begins inside one, with the right elements", copy, "vector=4", PRECISION_F32,
	"k_move_16(&word0[0], &x0[o0]);", 0,
	"word0[0] = x0[o0]; k_move_8(&word0[1], &x0[o0 + 1]); word0[3] = x0[o0 + 3];", 80},
    {"a result's word that begins inside one", copy, "vector=4", PRECISION_F32,
	"k_move_16(&y0[o0], &made1[0]);", 0,
	"y0[o0] = made1[0]; k_move_8(&y0[o0 + 1], &made1[1]); y0[o0 + 3] = made1[3];", 80},
    {"a neighbour's element", copy, "vector=4", PRECISION_F32, "= word0[2]", 0, "= word0[1]", 80},
    {"a word behind the last", copy, "vector=4", PRECISION_F32, "o < hi", 0, "o <= hi", 80},
    {"operand overrun by one", copy, "", PRECISION_F32, "o < hi", 0, "o <= hi", 80},
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
