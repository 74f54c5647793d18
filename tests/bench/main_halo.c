/* tests/bench/main_halo.c: what a zero border costs where it is not stored: windows that reach beyond their
 * operand, beside the same windows over an operand whose border lies in memory (a halo that somebody else has
 * written), alternated in one run on one thread (facts/cpu.md, "Halos as buffers").  Usage: bench-halo
 * [NAME-PART [SCHEDULE]] */
#include "../harness/bench_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 21, MOST_SCHEDULES = 2 };

static const struct halo_case {
	const char *name;
	int size, c, co, kernel, stride, group;
	const char *schedule[MOST_SCHEDULES];
} cases[] = {
    {"3x3, 13x13x512 -> 512", 13, 512, 512, 3, 1, 1, {"", "wino=4"}},
    {"3x3, 26x26x256 -> 256", 26, 256, 256, 3, 1, 1, {"", "wino=4"}},
    {"3x3, 56x56x64 -> 64", 56, 64, 64, 3, 1, 1, {"", "wino=4"}},
    {"3x3, 104x104x64 -> 64", 104, 64, 64, 3, 1, 1, {"", "wino=4"}},
    {"3x3, 224x224x32 -> 32", 224, 32, 32, 3, 1, 1, {"", "wino=4"}},
    {"3x3 stride 2, 56x56x64 -> 128", 56, 64, 128, 3, 2, 1, {""}},
    {"9x9, 224x224x3 -> 32", 224, 3, 32, 9, 1, 1, {""}},
    {"depthwise 3x3, 13x13x384", 13, 384, 384, 3, 1, 384, {""}},
    {"depthwise 3x3, 28x28x192", 28, 192, 192, 3, 1, 192, {""}},
    {"depthwise 5x5, 28x28x192", 28, 192, 192, 5, 1, 192, {""}},
    {"depthwise 3x3, 112x112x64", 112, 64, 64, 3, 1, 64, {""}},
};

/* The same results, with the border left to the kernel or in the operand. */
static const char *
graph_of(struct arena *a, const struct halo_case *c, bool stored)
{
	const int lo = c->kernel / 2, border = stored ? 2 * lo : 0, pad = stored ? 0 : lo;

	return arena_printf(a,
	    "%%0 = input f32[1,%d,%d,%d]\n%%1 = weight f32[%d,%d,%d,%d]\n"
	    "%%2 = conv %%0 %%1 stride=[%d,%d] dilation=[1,1] ldil=[1,1] lo=[%d,%d] hi=[%d,%d] "
	    "group=%d\noutput %%2\n",
	    c->size + border, c->size + border, c->c, c->kernel, c->kernel, c->c / c->group, c->co, c->stride,
	    c->stride, pad, pad, pad, pad, c->group);
}

static bool
measure(const struct halo_case *c, const char *schedule)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {1};
	struct test_kernel k[2];
	double us[2][TIMES], ratio[TIMES];
	bool ok = true;

	for (uint32_t i = 0; i < 2 && ok; i++) {
		struct spec *s = NEW(&a, struct spec);

		ok = kernel_spec(&a, graph_of(&a, c, i == 1), s, &e) &&
		    kernel_make(&a, s, str_of(schedule), &target_avx2, i, &r, &k[i], &e);
	}
	ok = ok && kernel_compile(&a, k, 2, &target_avx2, &e);
	for (uint32_t i = 0; i < 2 && ok; i++)
		ok = kernel_check_sampled(&a, &k[i], 40, 1e-3, &e);
	if (!ok) {
		fprintf(stderr, "%s: %s\n", c->name, e.msg);
		arena_fini(&a);
		return false;
	}
	int turns = (int)(4000 / kernels_us(&k[0], 1, 1)) + 1;

	for (int t = 0; t < TIMES; t++) {
		for (uint32_t i = 0; i < 2; i++)
			us[i][t] = kernels_us(&k[i], 1, turns);
		ratio[t] = us[0][t] / us[1][t];
	}
	qsort(us[0], TIMES, sizeof us[0][0], bench_less);
	qsort(ratio, TIMES, sizeof *ratio, bench_less);
	printf("%-32s %-8s %9.0f us, %5.3f times as long as with its border in memory (%.3f to %.3f)\n",
	    c->name, *schedule ? schedule : "directly", us[0][TIMES / 4], ratio[TIMES / 2], ratio[TIMES / 4],
	    ratio[TIMES * 3 / 4]);
	(void)fflush(stdout);
	arena_fini(&a);
	return true;
}

int
main(int argc, char **argv)
{
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	bool ok = true;

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		if (!bench_takes(&choice, cases[i].name))
			continue;
		for (size_t j = 0; j < MOST_SCHEDULES && (argc > 2 ? j == 0 : cases[i].schedule[j] != NULL);
		     j++)
			ok &= measure(&cases[i], argc > 2 ? argv[2] : cases[i].schedule[j]);
	}
	return bench_end("bench-halo", &choice, ok);
}
