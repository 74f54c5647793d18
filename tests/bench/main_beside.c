/* tests/bench/main_beside.c: two independent small kernels on several threads: side by side as one, one after
 * the other as one (beside=0), and as two kernels, alternated in one run.  Each with the schedules below, the
 * best of each kind compared.  Usage: bench-beside [THREADS [NAME-PART]] */
#include "../../kernels/device/dev.h"
#include "../harness/bench_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 31, KINDS = 3 };
static const char *const kind_names[KINDS] = {"two kernels", "beside=0", "beside=1"};
static const char *const blocks[] = {"", "block=1 ", "block=2 ", "block=5 ", "block=10 "};
enum { N_BLOCKS = COUNT_OF(blocks) };

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
enum { PER_BLOCK = 4, N_KERNELS = PER_BLOCK * N_BLOCKS }; /* the two, then both with beside=0 and beside=1 */

static bool
prepare(struct arena *a, const struct beside_case *c, struct test_kernel *k, size_t *local, struct err *e)
{
	static const int part[PER_BLOCK] = {0, 1, 2, 2};
	static const char *const more[PER_BLOCK] = {"", "", "beside=0", "beside=1"};
	struct rng r = {1};
	bool ok = true;

	*local = 64;
	for (uint32_t i = 0; i < N_KERNELS && ok; i++) {
		struct spec *s = NEW(a, struct spec);
		const char *schedule = arena_printf(a, "%s%s", blocks[i / PER_BLOCK], more[i % PER_BLOCK]);

		ok = kernel_spec(a, graph_of(a, c, part[i % PER_BLOCK]), s, e) &&
		    kernel_make(a, s, str_of(schedule), &target_avx2, i, &r, &k[i], e);
		*local = MAX_OF(*local, k[i].code.desc.local_bytes);
	}
	ok = ok && kernel_compile(a, k, N_KERNELS, &target_avx2, e);
	for (uint32_t i = 0; i < N_KERNELS && ok; i++)
		ok = kernel_check_sampled(a, &k[i], 40, 1e-4, e);
	return ok;
}

/* Medians over rounds of all; the best block of each kind, and the ratios of the same rounds. */
static void
compare(struct pool *p, struct bench_turn *turn)
{
	static double us[KINDS][N_BLOCKS][TIMES];
	double ratio[TIMES], sorted[TIMES], median[KINDS];
	uint32_t best[KINDS] = {0};

	for (int i = 0; i < TIMES; i++)
		for (uint32_t b = 0; b < N_BLOCKS; b++)
			for (uint32_t kind = 0; kind < KINDS; kind++) {
				struct bench_turn t = turn[b * KINDS + kind];

				us[kind][b][i] = bench_turn_us(p, &t);
			}
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		median[kind] = 1e30;
		for (uint32_t b = 0; b < N_BLOCKS; b++) {
			memcpy(sorted, us[kind][b], sizeof sorted);
			qsort(sorted, TIMES, sizeof *sorted, bench_less);
			if (sorted[TIMES / 2] < median[kind]) {
				median[kind] = sorted[TIMES / 2];
				best[kind] = b;
			}
		}
	}
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		for (int i = 0; i < TIMES; i++)
			ratio[i] = us[0][best[0]][i] / us[kind][best[kind]][i];
		qsort(ratio, TIMES, sizeof *ratio, bench_less);
		printf("  %-12s %-9s %8.2f us, two kernels take %5.2f times as long (%.2f to %.2f)\n",
		    kind_names[kind], blocks[best[kind]], median[kind], ratio[TIMES / 2], ratio[TIMES / 4],
		    ratio[TIMES * 3 / 4]);
	}
}

static bool
measure(struct pool *p, const struct beside_case *c)
{
	struct arena a = {0};
	struct err e = {0};
	struct test_kernel k[N_KERNELS];
	struct bench_turn turn[KINDS * N_BLOCKS];
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
	for (uint32_t i = 0; i < KINDS * N_BLOCKS; i++) {
		uint32_t kind = i % KINDS, first = i / KINDS * PER_BLOCK + (kind ? kind + 1 : 0);

		turn[i] = (struct bench_turn){.k = &k[first], .n = kind ? 1 : 2, .times = 200};
		memcpy(turn[i].local, local, sizeof local);
	}
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
