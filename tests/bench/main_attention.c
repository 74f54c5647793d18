/* tests/bench/main_attention.c: scores, softmax and values, rows of 64 to 4096 keys, as one kernel and as
 * three, alternated in one run on one thread (facts/cpu.md sections 1 and 5).  Usage: bench-attention
 * [NAME-PART [SCHEDULE ...]] */
#include "../harness/bench_time.h"
#include "../harness/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 15, MOST_SCHEDULES = 8, APART = 3 };

static const struct online_case {
	const char *name;
	int heads, rows, keys, width;
} cases[] = {
    {"2 x 512 rows x 64 keys x 64", 2, 512, 64, 64},
    {"2 x 512 rows x 197 keys x 64", 2, 512, 197, 64},
    {"2 x 512 rows x 256 keys x 64", 2, 512, 256, 64},
    {"2 x 512 rows x 512 keys x 64", 2, 512, 512, 64},
    {"2 x 512 rows x 1024 keys x 64", 2, 512, 1024, 64},
    {"2 x 512 rows x 2048 keys x 64", 2, 512, 2048, 64},
    {"2 x 512 rows x 4096 keys x 64", 2, 512, 4096, 64},
    {"2 x 512 rows x 4096 keys x 32", 2, 512, 4096, 32},
};

/* Part 0: scores; 1: softmax; 2: values; 3: all of it. */
static const char *
graph_of(struct arena *a, const struct online_case *c, int part)
{
	struct strbuf t;
	const int h = c->heads, r = c->rows, n = c->keys, w = c->width;

	sb_init(&t, a);
	if (part == 0 || part == 3)
		sb_addf(&t,
		    "%%0 = input f32[%d,%d,%d]\n%%1 = input f32[%d,%d,%d]\n%%2 = transpose %%1 "
		    "perm=[0,2,1]\n%%3 = matmul %%0 %%2\n",
		    h, r, w, h, n, w);
	else
		sb_addf(&t, "%%3 = input f32[%d,%d,%d]\n", h, r, n);
	if (part == 1 || part == 3)
		sb_addf(&t,
		    "%%4 = rmax %%3 axes=[2]\n%%5 = bcast %%4 shape=[%d,%d,%d]\n%%6 = sub %%3 %%5\n%%7 = exp "
		    "%%6\n"
		    "%%8 = sum %%7 axes=[2]\n%%9 = bcast %%8 shape=[%d,%d,%d]\n%%10 = div %%7 %%9\n",
		    h, r, n, h, r, n);
	if (part >= 2)
		sb_addf(&t, "%%11 = input f32[%d,%d,%d]\n%%12 = matmul %s %%11\n", h, n, w,
		    part == 2 ? "%3" : "%10");
	sb_addf(&t, "output %s\n", part == 0 ? "%3" : part == 1 ? "%10" : "%12");
	return sb_str(&t).p;
}

/* ---- timing ---------------------------------------------------------------------------------------- */
/* The three kernels hand on what they make. */
static void
chain(struct test_kernel *to, const struct test_kernel *from, const struct online_case *c)
{
	const struct graph *g = &to->spec.g;

	for (uint32_t i = 0; i < g->n_inputs; i++)
		if (graph_tensor(g, g->inputs[i])->shape.dim[1] == c->rows &&
		    graph_tensor(g, g->inputs[i])->shape.dim[2] == c->keys)
			to->buf[i] = from->buf[from->spec.g.n_inputs];
}

static void
show(const char *name, const double *us, double *ratio)
{
	double t[TIMES];

	memcpy(t, us, sizeof t);
	qsort(t, TIMES, sizeof *t, bench_less);
	qsort(ratio, TIMES, sizeof *ratio, bench_less);
	printf("  %-24s %9.0f us, three kernels take %5.2f times as long (%.2f to %.2f)\n", name,
	    t[TIMES / 4], ratio[TIMES / 2], ratio[TIMES / 4], ratio[TIMES * 3 / 4]);
}

static bool
measure(const struct online_case *c, const char *const *schedule, uint32_t n)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {1};
	struct test_kernel k[APART + MOST_SCHEDULES];
	double us[MOST_SCHEDULES][TIMES], ratio[MOST_SCHEDULES][TIMES];
	bool ok = true;

	for (uint32_t i = 0; i < APART + n && ok; i++) {
		struct spec *s = NEW(&a, struct spec);

		ok = kernel_spec(&a, graph_of(&a, c, i < APART ? (int)i : APART), s, &e) &&
		    kernel_make(
			&a, s, str_of(i < APART ? "" : schedule[i - APART]), &target_avx2, i, &r, &k[i], &e);
	}
	ok = ok && kernel_compile(&a, k, APART + n, &target_avx2, &e);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = kernel_check_sampled(&a, &k[APART + i], 40, 1e-4, &e);
	if (!ok) {
		fprintf(stderr, "%s: %s\n", c->name, e.msg);
		arena_fini(&a);
		return false;
	}
	chain(&k[1], &k[0], c);
	chain(&k[2], &k[1], c);
	int turns = (int)(4000 / kernels_us(&k[APART], 1, 1)) + 1;

	for (int i = 0; i < TIMES; i++) {
		double apart = kernels_us(k, APART, turns);

		for (uint32_t j = 0; j < n; j++) {
			us[j][i] = kernels_us(&k[APART + j], 1, turns);
			ratio[j][i] = apart / us[j][i];
		}
	}
	printf("%s\n", c->name);
	for (uint32_t j = 0; j < n; j++)
		show(*schedule[j] ? schedule[j] : "whole rows", us[j], ratio[j]);
	(void)fflush(stdout);
	arena_fini(&a);
	return true;
}

int
main(int argc, char **argv)
{
	static const char *const usual[] = {"", "mr=4 nv=3", "nv=1"};
	const bool own = argc > 2;
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	bool ok = true;

	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (bench_takes(&choice, cases[i].name))
			ok &= measure(&cases[i], own ? (const char *const *)&argv[2] : usual,
			    own ? (uint32_t)MIN_OF(argc - 2, (int)MOST_SCHEDULES) : COUNT_OF(usual));
	return bench_end("bench-attention", &choice, ok);
}
