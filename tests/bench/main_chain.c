/* tests/bench/main_chain.c: four elementwise operators in a row as one kernel against the same four as
 * kernels of their own, alternated in one run on one thread (for such chains Optimium's article has 1.3).
 * Usage: bench-chain [NAME-PART [SCHEDULE]] */
#include "../harness/bench_time.h"
#include "../harness/kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPERATORS = 4, TIMES = 15 };

/* A binary operator has an operand of its own, as large as the chain's. */
struct step {
	const char *prim;
	bool binary;
};
static const struct chain_case {
	const char *name;
	int rows; /* of 1024 */
	struct step step[OPERATORS];
	double must; /* four kernels over one, at least */
} cases[] = {
    {"four binary, beyond L3", 16384, {{"add", true}, {"mul", true}, {"sub", true}, {"max", true}}, 1.3},
    {"two binary and two unary, beyond L3", 16384,
	{{"add", true}, {"abs", false}, {"mul", true}, {"neg", false}}, 1.3},
    {"four unary, beyond L3", 16384, {{"abs", false}, {"sqrt", false}, {"neg", false}, {"exp", false}}, 1.3},
    {"four binary, in L3", 1024, {{"add", true}, {"mul", true}, {"sub", true}, {"max", true}}, 1.0},
    {"four binary, in L2", 32, {{"add", true}, {"mul", true}, {"sub", true}, {"max", true}}, 1.0},
};

/* Steps first .. last as a graph: the chain's operand is %0, whoever makes it. */
static const char *
graph_of(struct arena *a, const struct chain_case *c, int first, int last)
{
	struct strbuf t;
	int made = 1, x = 0;

	sb_init(&t, a);
	sb_addf(&t, "%%0 = input f32[%d,1024]\n", c->rows);
	for (int i = first; i <= last; i++) {
		int y = made;

		if (c->step[i].binary)
			sb_addf(&t, "%%%d = input f32[%d,1024]\n", made++, c->rows);
		sb_addf(&t, "%%%d = %s %%%d", made, c->step[i].prim, x);
		if (c->step[i].binary)
			sb_addf(&t, " %%%d", y);
		sb_addf(&t, "\n");
		x = made++;
	}
	sb_addf(&t, "output %%%d\n", x);
	return sb_str(&t).p;
}

/* Each of the four reads what the one before it makes; results share two buffers, as in a plan. */
static void
join(struct test_kernel *k)
{
	for (int i = 1; i < OPERATORS; i++) {
		k[i].buf[0] = k[i - 1].buf[k[i - 1].spec.g.n_inputs];
		if (i >= 2)
			k[i].buf[k[i].spec.g.n_inputs] = k[i - 2].buf[k[i - 2].spec.g.n_inputs];
	}
}

static bool
measure(const struct chain_case *c, struct str schedule)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {1};
	struct test_kernel k[OPERATORS + 1];
	const struct test_kernel *whole = &k[OPERATORS];
	double fused[TIMES], apart[TIMES], ratio[TIMES];
	bool ok = true;

	for (int i = 0; i <= OPERATORS && ok; i++) {
		struct spec *s = NEW(&a, struct spec);
		const bool one = i < OPERATORS;

		ok = kernel_spec(&a, graph_of(&a, c, one ? i : 0, one ? i : OPERATORS - 1), s, &e) &&
		    kernel_make(&a, s, one ? STR("") : schedule, &target_avx2, (uint32_t)i, &r, &k[i], &e);
	}
	if (!ok || !kernel_compile(&a, k, OPERATORS + 1, &target_avx2, &e) ||
	    !kernel_check_sampled(&a, whole, 40, 1e-6, &e)) {
		fprintf(stderr, "%s: %s\n", c->name, e.msg);
		arena_fini(&a);
		return false;
	}
	join(k);
	int turns = (int)(4000 / kernels_us(whole, 1, 1)) + 1;

	for (int i = 0; i < TIMES; i++) {
		fused[i] = kernels_us(whole, 1, turns);
		apart[i] = kernels_us(k, OPERATORS, turns);
		ratio[i] = apart[i] / fused[i];
	}
	qsort(fused, TIMES, sizeof *fused, bench_less);
	qsort(apart, TIMES, sizeof *apart, bench_less);
	qsort(ratio, TIMES, sizeof *ratio, bench_less);
	printf("%-36s one kernel %8.1f us, four %8.1f us, ratio %5.2f (%.2f to %.2f; must %.2f)%s\n", c->name,
	    fused[TIMES / 4], apart[TIMES / 4], ratio[TIMES / 2], ratio[TIMES / 4], ratio[TIMES * 3 / 4],
	    c->must, ratio[TIMES / 2] < c->must ? "  BELOW" : "");
	(void)fflush(stdout);
	arena_fini(&a);
	return ratio[TIMES / 2] >= c->must;
}

int
main(int argc, char **argv)
{
	struct str schedule = str_of(argc > 2 ? argv[2] : "");
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	bool ok = true;

	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (bench_takes(&choice, cases[i].name))
			ok &= measure(&cases[i], schedule);
	return bench_end("bench-chain", &choice, ok);
}
