/* tests/bench/main_columns.c: kernels of few rows whose weights are what costs, stepping by rows and by
 * blocks of columns, on several threads, alternated in one run.  Weights come from memory: each turn reads
 * others. Usage: bench-columns [THREADS [NAME-PART [SCHEDULE]...]] */
#include "../../kernels/device/dev.h"
#include "../harness/bench_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 21, MOST = 12, COPIES = 48 };
#define COLD_BYTES ((size_t)96 << 20) /* of weights, in all copies: more than a last cache */

#define CONV(TO, X, W, LO, STRIDE, GROUP)                                                                    \
	"%" TO " = conv %" X " %" W " stride=[" STRIDE "] dilation=[1,1] ldil=[1,1] lo=[" LO "] hi=[" LO     \
	"] group=" GROUP "\n"
static const struct columns_case {
	const char *name, *graph;
} cases[] = {
    {"vector 1x1600 times matrix, 1000 columns",
	"%0 = input f32[1,1600]\n%1 = weight f32[1600,1000]\n%2 = matmul %0 %1\noutput %2\n"},
    {"pointwise 7x7x384 -> 1536, depthwise 3x3",
	"%0 = input f32[1,7,7,384]\n%1 = weight f32[1,1,384,1536]\n%2 = weight f32[3,3,1,1536]\n%3 = const "
	"f32[1,1,1,1] 0x0p+0\n"
	"%4 = bcast %3 shape=[1,7,7,1536]\n" CONV("5", "0", "1", "0,0", "1,1", "1") "%6 = max %4 %5\n" CONV(
	    "7", "6", "2", "1,1", "1,1", "1536") "output %7\n"},
    {"pointwise 7x7x1536 -> 384",
	"%0 = input f32[1,7,7,1536]\n%1 = weight f32[1,1,1536,384]\n" CONV(
	    "2", "0", "1", "0,0", "1,1", "1") "output %2\n"},
    {"pointwise 7x7x256 -> 1536, mean over the plane",
	"%0 = input f32[1,7,7,256]\n%1 = weight f32[1,1,256,1536]\n" CONV(
	    "2", "0", "1", "0,0", "1,1", "1") "%3 = sum %2 axes=[1,2]\noutput %3\n"},
    {"3x3 convolution 13x13x256 -> 512",
	"%0 = input f32[1,13,13,256]\n%1 = weight f32[3,3,256,512]\n" CONV(
	    "2", "0", "1", "1,1", "1,1", "1") "output %2\n"},
    {"pointwise 28x28x128 -> 256",
	"%0 = input f32[1,28,28,128]\n%1 = weight f32[1,1,128,256]\n" CONV(
	    "2", "0", "1", "0,0", "1,1", "1") "output %2\n"},
};

static void *
aligned_in(struct arena *a, size_t n_bytes)
{
	char *p = arena_alloc(a, n_bytes + 128);

	return p + (64 - (uintptr_t)p % 64) % 64;
}

/* Copies of the kernel that differ by where their weights lie. */
static uint32_t
spread(struct arena *a, const struct test_kernel *k, struct test_kernel *copy)
{
	const struct graph *g = &k->spec.g;
	size_t bytes = 0;
	uint32_t n;

	for (uint32_t i = 0; i < g->n_inputs; i++)
		bytes += g->tensors[g->inputs[i].i].role == ROLE_WEIGHT ? kernel_buf_bytes(k, i) : 0;
	n = (uint32_t)MIN_OF(COLD_BYTES / MAX_OF(bytes, (size_t)1) + 1, (size_t)COPIES);
	for (uint32_t c = 0; c < n; c++) {
		uint32_t n_bufs = g->n_inputs + g->n_outputs;

		copy[c] = *k;
		copy[c].buf = arena_dup(a, k->buf, n_bufs * sizeof *k->buf);
		for (uint32_t i = 0; i < g->n_inputs; i++) {
			size_t size = kernel_buf_bytes(k, i);

			if (g->tensors[g->inputs[i].i].role != ROLE_WEIGHT)
				continue;
			copy[c].buf[i] = aligned_in(a, size);
			memcpy(copy[c].buf[i], k->buf[i], size);
		}
	}
	return n;
}

static void
show(const char *schedule, double *us, double *ratio)
{
	qsort(us, TIMES, sizeof *us, bench_less);
	qsort(ratio, TIMES, sizeof *ratio, bench_less);
	printf("  %-24s %9.1f us, by rows %5.2f times as long (%.2f to %.2f)\n", schedule, us[TIMES / 4],
	    ratio[TIMES / 2], ratio[TIMES / 4], ratio[TIMES * 3 / 4]);
}

static bool
measure(struct pool *p, const struct columns_case *c, const char *const *schedule, uint32_t n)
{
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {1};
	struct test_kernel k[MOST], *copy = NEW_ARRAY(&a, struct test_kernel, n * COPIES);
	struct bench_turn turn[MOST] = {0};
	double us[MOST][TIMES], ratio[MOST][TIMES];
	struct spec *s = NEW(&a, struct spec);
	size_t local = 64;
	bool ok = kernel_spec(&a, c->graph, s, &e);

	for (uint32_t i = 0; i < n && ok; i++) {
		ok = kernel_make(&a, s, str_of(schedule[i]), &target_avx2, i, &r, &k[i], &e);
		local = MAX_OF(local, k[i].code.desc.local_bytes);
	}
	ok = ok && kernel_compile(&a, k, n, &target_avx2, &e);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = kernel_check_sampled(&a, &k[i], 40, 1e-4, &e);
	if (!ok) {
		fprintf(stderr, "%s: %s\n", c->name, e.msg);
		arena_fini(&a);
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		turn[i] = (struct bench_turn){
		    .k = copy + i * COPIES, .n = spread(&a, &k[i], copy + i * COPIES), .times = 1};
		for (uint32_t t = 0; t < pool_threads(p); t++)
			turn[i].local[t] = aligned_in(&a, local);
	}
	for (int t = 0; t < TIMES; t++)
		for (uint32_t i = 0; i < n; i++) {
			us[i][t] = bench_turn_us(p, &turn[i]) / turn[i].n;
			ratio[i][t] = us[0][t] / us[i][t];
		}
	printf("%s, %u threads\n", c->name, pool_threads(p));
	for (uint32_t i = 0; i < n; i++)
		show(schedule[i], us[i], ratio[i]);
	(void)fflush(stdout);
	arena_fini(&a);
	return true;
}

int
main(int argc, char **argv)
{
	static const char *usual[MOST] = {
	    "columns=0", "columns=32", "columns=64", "columns=128", "columns=256"};
	uint32_t n = 5;
	struct bench_choice choice = {.part = argc > 2 ? argv[2] : NULL};
	int status;
	struct pool *p = bench_pool(
	    "bench-columns [THREADS [NAME-PART [SCHEDULE]...]]", argc > 1 ? argv[1] : NULL, &status);
	bool ok = true;

	if (!p)
		return status;
	if (argc > 3)
		n = (uint32_t)MIN_OF(argc - 2, (int)MOST);
	for (uint32_t i = 1; i < n && argc > 3; i++)
		usual[i] = argv[i + 2];
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (bench_takes(&choice, cases[i].name))
			ok &= measure(p, &cases[i], usual, n);
	pool_close(p);
	return bench_end("bench-columns", &choice, ok);
}
