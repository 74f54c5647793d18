/* tests/bench/main_beside.c: two independent small kernels on several threads, as one kernel and as two,
 * alternated in one run.  Usage: bench-beside [THREADS [NAME-PART]] */
#include "../../kernels/device/dev.h"
#include "../harness/bench_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 31, N_KERNELS = 3, KINDS = 2 }; /* the two, then both as one */

#define CONV(TO, X, W)                                                                                       \
	"%" TO " = conv %" X " %" W " stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
static const struct beside_case {
	const char *name, *inputs[2], *nodes[2], *results[2];
} cases[] = {
    {"two 1x1 convolutions 20x20x64 -> 64",
	{"%0 = input f32[1,20,20,64]\n%1 = weight f32[1,1,64,64]\n",
	    "%2 = input f32[1,20,20,64]\n%3 = weight f32[1,1,64,64]\n"},
	{CONV("4", "0", "1"), CONV("5", "2", "3")}, {"output %4\n", "output %5\n"}},
    {"1x1 convolutions 20x20x64 -> 64 and 10x10x64 -> 64",
	{"%0 = input f32[1,20,20,64]\n%1 = weight f32[1,1,64,64]\n",
	    "%2 = input f32[1,10,10,64]\n%3 = weight f32[1,1,64,64]\n"},
	{CONV("4", "0", "1"), CONV("5", "2", "3")}, {"output %4\n", "output %5\n"}},
    {"1x1 convolutions 4x4x96 -> 96 twice",
	{"%0 = input f32[1,4,4,96]\n%1 = weight f32[1,1,96,96]\n",
	    "%2 = input f32[1,4,4,96]\n%3 = weight f32[1,1,96,96]\n"},
	{CONV("4", "0", "1"), CONV("5", "2", "3")}, {"output %4\n", "output %5\n"}},
};

/* Part 0, 1: one of the two; 2: both. */
static const char *
graph_of(struct arena *a, const struct beside_case *c, int part)
{
	struct strbuf t;

	sb_init(&t, a);
	for (int field = 0; field < 3; field++)
		for (int i = 0; i < 2; i++)
			if (part == 2 || part == i)
				sb_addz(&t,
				    field == 0       ? c->inputs[i]
					: field == 1 ? c->nodes[i]
						     : c->results[i]);
	return sb_str(&t).p;
}

/* ---- a case ------------------------------------------------------------------------------------------ */
static bool
prepare(struct arena *a, const struct beside_case *c, struct test_kernel *k, size_t *local, struct err *e)
{
	struct rng r = {1};
	bool ok = true;

	*local = 64;
	for (int i = 0; i < N_KERNELS && ok; i++) {
		struct spec *s = NEW(a, struct spec);

		ok = kernel_spec(a, graph_of(a, c, i), s, e) &&
		    kernel_make(a, s, STR(""), &target_avx2, (uint32_t)i, &r, &k[i], e);
		*local = MAX_OF(*local, k[i].code.desc.local_bytes);
	}
	ok = ok && kernel_compile(a, k, N_KERNELS, &target_avx2, e);
	for (int i = 0; i < N_KERNELS && ok; i++)
		ok = kernel_check_sampled(a, &k[i], 40, 1e-4, e);
	return ok;
}

/* Medians over rounds, and quartiles of the ratio of the same rounds. */
static void
compare(struct pool *p, struct bench_turn *turn)
{
	double us[KINDS][TIMES], ratio[TIMES];

	for (int i = 0; i < TIMES; i++) {
		for (int kind = 0; kind < KINDS; kind++)
			us[kind][i] = bench_turn_us(p, &turn[kind]);
		ratio[i] = us[0][i] / us[1][i];
	}
	for (int kind = 0; kind < KINDS; kind++)
		qsort(us[kind], TIMES, sizeof(double), bench_less);
	qsort(ratio, TIMES, sizeof(double), bench_less);
	printf("  two kernels %.2f us, one %.2f us: two take %.2f times as long (%.2f to %.2f)\n",
	    us[0][TIMES / 2], us[1][TIMES / 2], ratio[TIMES / 2], ratio[TIMES / 4], ratio[TIMES * 3 / 4]);
}

static bool
measure(struct pool *p, const struct beside_case *c)
{
	struct arena a = {0};
	struct err e = {0};
	struct test_kernel k[N_KERNELS];
	struct bench_turn turn[KINDS];
	char *local[BENCH_THREADS];
	size_t n_local;
	bool ok = prepare(&a, c, k, &n_local, &e);

	if (!ok) {
		fprintf(stderr, "%s: %s\n", c->name, e.msg);
		arena_fini(&a);
		return false;
	}
	for (uint32_t i = 0; i < pool_threads(p); i++)
		local[i] = aligned_alloc(64, (n_local + 63) / 64 * 64);
	turn[0] = (struct bench_turn){.k = k, .n = 2, .times = 200};
	turn[1] = (struct bench_turn){.k = &k[2], .n = 1, .times = 200};
	for (int i = 0; i < KINDS; i++)
		memcpy(turn[i].local, local, sizeof local);
	printf("%s, %u threads\n", c->name, pool_threads(p));
	compare(p, turn);
	(void)fflush(stdout);
	for (uint32_t i = 0; i < pool_threads(p); i++)
		free(local[i]);
	arena_fini(&a);
	return true;
}

int
main(int argc, char **argv)
{
	struct bench_choice choice = {.part = argc > 2 ? argv[2] : NULL};
	int status;
	struct pool *p = bench_pool("bench-beside [THREADS [NAME-PART]]", argc > 1 ? argv[1] : NULL, &status);
	bool ok = true;

	if (!p)
		return status;
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (bench_takes(&choice, cases[i].name))
			ok &= measure(p, &cases[i]);
	pool_close(p);
	return bench_end("bench-beside", &choice, ok);
}
