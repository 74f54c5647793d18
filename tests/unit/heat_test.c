/* Where operands lie is decided from the graph: what is hot, near and cold in chains, over long ways, with
 * weights that fit or do not; and what the word says. */
#include "../../daemon/identify/heat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Activations of 16 KiB, weights of 9 and 1 KiB: x -> conv -> max -> conv -> add with what the first one
 * made. */
#define HEAD                                                                                                 \
	"%0 = input f32[1,16,16,16] \"x\"\n%1 = weight f32[3,3,16,16]\n%2 = weight f32[1,1,16,16]\n"         \
	"%3 = const f32[1,1,1,1] 0x0p+0\n%4 = bcast %3 shape=[1,16,16,16]\n"
#define CONV(Y, X, W, PAD)                                                                                   \
	"%" #Y " = conv %" #X " %" #W " stride=[1,1] dilation=[1,1] ldil=[1,1] lo=" PAD " hi=" PAD           \
	" group=1\n"
#define BODY CONV(5, 0, 1, "[1,1]") "%6 = max %5 %4\n" CONV(7, 6, 2, "[0,0]") "%8 = add %7 %5\n"
#define TAIL "output %8 \"y\"\n"
/* The first convolution once more, in pieces: another maker, larger than all the rest, which no run takes. */
#define OTHER_MAKER                                                                                          \
	"%9 = concat %0 %0 %0 %0 %0 %0 %0 %0 axis=0\n%10 = slice %9 start=[0,0,0,0] step=[1,1,1,1] "         \
	"shape=[1,16,16,16]\n"                                                                               \
	"%5 = conv %10 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1 !reassoc\n"

/* 64 KiB, reduced to 1 KiB, and on from there. */
#define WIDE_THEN_NARROW                                                                                     \
	"%0 = input f32[64,256] \"x\"\n%1 = exp %0\n%2 = rmin %1 axes=[0]\n%3 = rmax %1 axes=[0]\n"          \
	"%4 = sqrt %3\n%5 = reshape %4 shape=[16,16]\n%6 = transpose %5 perm=[1,0]\n%7 = reshape %6 "        \
	"shape=[1,256]\n%8 = add %7 %4\n%9 = add %8 %2\noutput %9 \"y\"\n"

/* A weight of 1 MiB at three steps of a recurrent net, others of 8 MiB between the first two, one of 4
 * behind. */
#define STEPS                                                                                                \
	"%0 = input f32[1,512] \"x\"\n%1 = weight f32[512,512]\n%2 = weight f32[512,2048]\n"                 \
	"%3 = weight f32[2048,512]\n%4 = weight f32[512,2048]\n%5 = matmul %0 %1\n%6 = matmul %5 %2\n"       \
	"%7 = matmul %6 %3\n%8 = matmul %7 %1\n%9 = matmul %8 %1\n%10 = matmul %9 %4\noutput %10 \"y\"\n"

static const struct heat_case {
	const char *name, *text;
	size_t own, last;
	uint32_t result; /* of the primitive, alone, that is asked about */
	const char *word;
	uint32_t n_cores;
} cases[] = {
    {"all of a run fits", HEAD BODY TAIL, 1 << 20, 1 << 24, 5, "hhh", 1},
    {"so it does for the last one", HEAD BODY TAIL, 1 << 20, 1 << 24, 8, "hhh", 1},
    {"no cache is known", HEAD BODY TAIL, 0, 0, 5, "", 1},
    {"an input was touched a run ago", HEAD BODY TAIL, 100 << 10, 1 << 24, 5, "chh", 1},
    {"what was just made is hot", HEAD BODY TAIL, 64 << 10, 1 << 24, 7, "hnh", 1},
    {"an activation alone is too large", HEAD BODY TAIL, 30 << 10, 1 << 24, 7, "cnc", 1},
    {"nothing passes through the last cache", HEAD BODY TAIL, 66 << 10, 30 << 10, 7, "hnh", 1},
    {"what does not fit into the core's own does", HEAD BODY TAIL, 30 << 10, 30 << 10, 7, "", 1},
    {"weights fit into no cache", HEAD BODY TAIL, 64 << 10, 20 << 10, 7, "hch", 1},
    {"of two operands the older one is cold", HEAD BODY TAIL, 34 << 10, 1 << 24, 8, "hcc", 1},
    {"another maker changes nothing", HEAD BODY OTHER_MAKER TAIL, 1 << 20, 1 << 24, 7, "hhh", 1},
    {"nor what lies between", HEAD BODY OTHER_MAKER TAIL, 100 << 10, 1 << 24, 8, "hhc", 1},
    {"what was large has died by then", WIDE_THEN_NARROW, 40 << 10, 1 << 24, 4, "hh", 1},
    {"what is large has not", WIDE_THEN_NARROW, 40 << 10, 1 << 24, 1, "", 1},
    {"a weight is used again", STEPS, 1 << 20, (size_t)15 << 20, 8, "hnh", 1},
    {"it would fill the last cache", STEPS, 1 << 20, (size_t)10 << 20, 8, "hch", 1},
    {"of two uses one comes too late", STEPS, 1 << 20, (size_t)8 << 20, 8, "hch", 1},
    {"so soon that it is hot", STEPS, (size_t)20 << 20, (size_t)10 << 20, 8, "hhh", 1},
    {"near as all weights are, hot by its last use", STEPS, (size_t)20 << 20, (size_t)16 << 20, 8, "hhh", 1},
    {"another is used once", STEPS, 1 << 20, (size_t)10 << 20, 6, "hcc", 1},
    {"two cores have a part of an activation each", HEAD BODY TAIL, 33 << 10, 1 << 24, 7, "hnh", 2},
    {"and all of a weight", HEAD BODY TAIL, 80 << 10, 1 << 24, 7, "hnh", 8},
    {"the older one fits, too", HEAD BODY TAIL, 100 << 10, 1 << 24, 8, "hhc", 1},
};

static struct str
word_of(struct arena *a, const struct heat_case *c)
{
	const struct heat_caches caches = {c->own, c->last, c->n_cores};
	struct graph g, sorted;
	struct cand_set set;
	tensor_id *map;
	struct str *words;
	struct err e = {0};

	if (!graph_read(&g, a, str_of(c->text), &e))
		fail_msg("%s: %s", c->name, e.msg);
	map = NEW_ARRAY(a, tensor_id, g.n_tensors);
	graph_sort(&sorted, a, &g, map);
	if (!identify_run(a, &sorted, IDENTIFY_NONE, &identify_limits_default, &set, &e))
		fail_msg("%s: %s", c->name, e.msg);
	words = heats_decide(a, &sorted, &set, &caches);
	for (uint32_t k = 0; k < set.n_cands; k++)
		if (set.cands[k].out[0].i == map[c->result].i)
			return words[set.cands[k].spec];
	fail_msg("%s: no candidate makes %%%u", c->name, c->result);
	return STR("");
}

static void
decisions(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct arena a = {0};
		struct str have = word_of(&a, &cases[i]);

		if (!str_is(have, cases[i].word))
			fail_msg("%s: '%.*s', not '%s'", cases[i].name, STR_ARG(have), cases[i].word);
		arena_fini(&a);
	}
}

/* One spec at many places: most of them decide. */
static void
most_places_decide(void **state)
{
	/* exp of a tensor that was just made, twice, and of one that was made long ago */
	static const char text[] = "%0 = input f32[64,64] \"x\"\n%1 = abs %0\n%2 = neg %1\n%3 = exp %2\n%4 = "
				   "transpose %3 perm=[1,0]\n"
				   "%5 = exp %4\n%6 = sqrt %5\n%7 = exp %1\n%8 = add %6 %7\noutput %8 "
				   "\"y\"\noutput %2 \"z\"\noutput %3 \"u\"\n";
	static const struct {
		size_t own;
		const char *word;
	} row[] = {{1 << 20, "hh"}, {40 << 10, "hh"}, {30 << 10, ""}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(row); i++) {
		struct arena a = {0};
		struct str have = word_of(
		    &a, &(struct heat_case){"places", text, row[i].own, (size_t)1 << 24, 7, row[i].word, 1});

		if (!str_is(have, row[i].word))
			fail_msg("%zu bytes: '%.*s', not '%s'", row[i].own, STR_ARG(have), row[i].word);
		arena_fini(&a);
	}
}

static void
words(void **state)
{
	static const enum heat want[] = {HEAT_HOT, HEAT_NEAR, HEAT_COLD, HEAT_COLD};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(want); i++)
		assert_int_equal(heat_at(STR("hnc"), i), want[i]);
	for (int h = HEAT_COLD; h <= HEAT_HOT; h++) {
		char c = heat_letter((enum heat)h);

		assert_int_equal(heat_at((struct str){&c, 1}, 0), h);
		assert_int_equal(heat_is_word((struct str){&c, 1}), h != HEAT_COLD);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(decisions),
	    cmocka_unit_test(most_places_decide),
	    cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
