/* tests/bench/main_kernels.c: kernels without an anchor (rows, planes, maps, transposes) against what
 * a plain map takes for the same bytes, alternated in one run: how many times the memory's own time.
 * Usage: bench-kernels [NAME-PART [SCHEDULE]] */
#include "../harness/bench_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS(N, C) "%0 = input f32[" N "," C "]\n"
#define SOFTMAX(N, C)                                                                                        \
	ROWS(N, C)                                                                                           \
	"%1 = rmax %0 axes=[1]\n%2 = bcast %1 shape=[" N "," C "]\n%3 = sub %0 %2\n%4 = exp %3\n"            \
	"%5 = sum %4 axes=[1]\n%6 = bcast %5 shape=[" N "," C "]\n%7 = div %4 %6\noutput %7\n"
#define NORM_ROWS(N, C)                                                                                      \
	ROWS(N, C)                                                                                           \
	"%1 = const f32[1,1] 0x1p-5\n%2 = bcast %1 shape=[" N ",1]\n%3 = sum %0 axes=[1]\n%4 = mul %3 %2\n"  \
	"%5 = bcast %4 shape=[" N "," C                                                                      \
	"]\n%6 = sub %0 %5\n%7 = mul %6 %6\n%8 = sum %7 axes=[1]\n%9 = mul %8 %2\n"                          \
	"%10 = sqrt %9\n%11 = bcast %10 shape=[" N "," C "]\n%12 = div %6 %11\noutput %12\n"
#define MAP1(OP) "%0 = input f32[1048576]\n%1 = " OP " %0\n%2 = mul %0 %1\noutput %2\n"

/* elements moved (read and written once), the most times the memory's time that is accepted, graph */
static const struct bench_case {
	const char *name;
	double elements, most;
	const char *graph;
} cases[] = {
    {"softmax 16384x256", 2.0 * 16384 * 256, 4, SOFTMAX("16384", "256")},
    {"softmax 1024x256", 2.0 * 1024 * 256, 6, SOFTMAX("1024", "256")},
    {"layernorm 16384x32", 2.0 * 16384 * 32, 4, NORM_ROWS("16384", "32")},
    {"layernorm 1024x160", 2.0 * 1024 * 160, 4, NORM_ROWS("1024", "160")},
    {"instancenorm+relu 32@224", 2.0 * 50176 * 32, 4,
	"%0 = input f32[1,224,224,32]\n%1 = const f32[1,1,1,1] 0x1.4e5e0ap-16\n%2 = bcast %1 "
	"shape=[1,1,1,32]\n"
	"%3 = sum %0 axes=[1,2]\n%4 = mul %3 %2\n%5 = bcast %4 shape=[1,224,224,32]\n%6 = sub %0 %5\n%7 = "
	"mul %6 %6\n"
	"%8 = sum %7 axes=[1,2]\n%9 = mul %8 %2\n%10 = sqrt %9\n%11 = bcast %10 shape=[1,224,224,32]\n%12 = "
	"div %6 %11\n"
	"%13 = relu %12\noutput %13\n"},
    {"gelu 1M", 2.0 * 1048576, 4,
	"%0 = input f32[1048576]\n%1 = const f32[1] 0x1.6a09e6p-1\n%2 = bcast %1 shape=[1048576]\n%3 = mul "
	"%0 %2\n%4 = erf %3\n"
	"%5 = const f32[1] 0x1p+0\n%6 = bcast %5 shape=[1048576]\n%7 = add %4 %6\n%8 = mul %0 %7\noutput "
	"%8\n"},
    {"silu 1M", 2.0 * 1048576, 4, MAP1("sigmoid")},
    {"mish 1M", 2.0 * 1048576, 4,
	"%0 = input f32[1048576]\n%1 = softplus %0\n%2 = tanh %1\n%3 = mul %0 %2\noutput %3\n"},
    {"transpose 32x224x224 to channels last", 2.0 * 50176 * 32, 4,
	"%0 = input f32[1,32,224,224]\n%1 = transpose %0 perm=[0,2,3,1]\noutput %1\n"},
    {"max pool 3x3 stride 2, 64@112", 1.25 * 112 * 112 * 64, 4,
	"%0 = input f32[1,112,112,64]\n%1 = wmax %0 kernel=[1,3,3,1] stride=[1,2,2,1] dilation=[1,1,1,1] "
	"lo=[0,1,1,0] hi=[0,1,1,0]\n"
	"output %1\n"},
    {"max pool 3x3 stride 2, 16 times 28@22", 1.25 * 16 * 22 * 22 * 28, 4,
	"%0 = input f32[16,22,22,28]\n%1 = wmax %0 kernel=[1,3,3,1] stride=[1,2,2,1] dilation=[1,1,1,1] "
	"lo=[0,0,0,0] hi=[0,1,1,0]\noutput %1\n"},
    {"max pool of relu and concat 256@27", 1.25 * 27 * 27 * 256, 4,
	"%0 = input f32[1,27,27,128]\n%1 = input f32[1,27,27,128]\n%2 = relu %0\n%3 = relu %1\n%4 = concat "
	"%2 %3 axis=3\n%5 = wmax %4 kernel=[1,3,3,1] stride=[1,2,2,1] dilation=[1,1,1,1] lo=[0,0,0,0] "
	"hi=[0,0,0,0]\noutput %5\n"},
    {"row maxima 8x256x256", 1.0 * 8 * 256 * 256, 3,
	"%0 = input f32[8,256,256]\n%1 = rmax %0 axes=[2]\noutput %1\n"},
    {"truth values as floats 2048x257", 1.25 * 2048 * 257, 3,
	"%0 = input bool[2048,257]\n%1 = cast %0 to=f32\noutput %1\n"},
    {"upsample x2 and concat 128@80", (1600.0 + 6400 + 12800) * 128, 4,
	"%0 = input f32[1,40,40,128]\n%1 = input f32[1,80,80,128]\n%2 = reshape %0 shape=[1,40,1,40,1,128]\n"
	"%3 = bcast %2 shape=[1,40,2,40,2,128]\n%4 = reshape %3 shape=[1,80,80,128]\n%5 = concat %4 %1 "
	"axis=3\noutput %5\n"},
    {"chain of eight maps", 3.0 * 1048576, 3,
	"%0 = input f32[1048576]\n%1 = input f32[1048576]\n%2 = add %0 %1\n%3 = mul %2 %0\n%4 = relu %3\n%5 "
	"= sub %4 %1\n"
	"%6 = mul %5 %5\n%7 = max %6 %0\n%8 = abs %7\n%9 = sqrt %8\noutput %9\n"},
};

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double
time_once(const struct test_kernel *k)
{
	double t = now_us();

	kernel_run(k, 1);
	return now_us() - t;
}

static bool
measure(const struct bench_case *b, struct str schedule)
{
	enum { TIMES = 41 };
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {1};
	struct test_kernel k[2];
	struct spec s[2];
	double own[TIMES], copy[TIMES];
	/* A copy reads and writes: half the elements each way. */
	char *plain = arena_printf(&a, "%%0 = input f32[%.0f]\n%%1 = neg %%0\noutput %%1\n", b->elements / 2);

	if (!kernel_spec(&a, b->graph, &s[0], &e) || !kernel_spec(&a, plain, &s[1], &e) ||
	    !kernel_make(&a, &s[0], schedule, &target_avx2, 0, &r, &k[0], &e) ||
	    !kernel_make(&a, &s[1], STR(""), &target_avx2, 1, &r, &k[1], &e) ||
	    !kernel_compile(&a, k, 2, &target_avx2, &e)) {
		fprintf(stderr, "%s: %s\n", b->name, e.msg);
		arena_fini(&a);
		return false;
	}
	for (int i = 0; i < 3; i++) {
		time_once(&k[0]);
		time_once(&k[1]);
	}
	for (int i = 0; i < TIMES; i++) {
		own[i] = time_once(&k[0]);
		copy[i] = time_once(&k[1]);
	}
	qsort(own, TIMES, sizeof(own[0]), bench_less);
	qsort(copy, TIMES, sizeof(copy[0]), bench_less);
	double ratio = own[TIMES / 4] / copy[TIMES / 4];

	printf("%-40s %9.0f us  %6.2f ns/element  %5.2f times a copy%s\n", b->name, own[TIMES / 4],
	    own[TIMES / 4] * 1e3 / (b->elements / 2), ratio, ratio > b->most ? "  SLOW" : "");
	arena_fini(&a);
	return ratio <= b->most;
}

int
main(int argc, char **argv)
{
	struct str schedule = str_of(argc > 2 ? argv[2] : "");
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	int slow = 0;

	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (bench_takes(&choice, cases[i].name))
			slow += !measure(&cases[i], schedule);
	return bench_end("bench-kernels", &choice, slow == 0);
}
