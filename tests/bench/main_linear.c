/* tests/bench/main_linear.c: how near linear anchors come to the FMA peak: matmul, convolution,
 * depthwise, as generate_kernel generates them, with bias and ReLU, on one thread (facts/cpu.md
 * sections 2 and 9).  Peak is measured in the same run, between the samples.
 * Usage: bench_linear [NAME-PART [SCHEDULE]] */
#include "../harness/bench_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct mm_case {
	int64_t m, n, k;
	int must; /* percent of peak */
};
static const struct mm_case mm_cases[] = {
    {768, 768, 768, 88},
    {16384, 32, 32, 78},
    {16384, 128, 32, 78},
    {16384, 32, 128, 88},
    {4096, 256, 64, 88},
    {1024, 640, 160, 88},
    {256, 1024, 256, 88},
    {256, 256, 1024, 88},
    {784, 128, 128, 88},
    {196, 512, 512, 88},
    {49, 320, 320, 75},
    {169, 256, 128, 75},
};
struct conv_case {
	int64_t size, c, co, kernel, stride, lo, group;
	int must;
};
static const struct conv_case conv_cases[] = {
    {56, 64, 64, 3, 1, 1, 1, 85},
    {28, 128, 128, 3, 1, 1, 1, 85},
    {14, 256, 256, 3, 1, 1, 1, 85},
    {224, 32, 32, 3, 1, 1, 1, 85},
    {56, 64, 128, 3, 2, 1, 1, 85},
    {28, 128, 128, 1, 1, 0, 1, 85},
    {80, 64, 64, 1, 1, 0, 1, 85},
    {224, 3, 32, 9, 1, 4, 1, 75},
    {224, 32, 3, 9, 1, 4, 1, 55},
    {26, 512, 1024, 3, 2, 1, 1, 60},
    {26, 512, 1024, 1, 1, 0, 1, 85},
    {13, 1024, 512, 1, 1, 0, 1, 80},
    {13, 512, 512, 3, 1, 1, 1, 80},
    {56, 96, 96, 3, 1, 1, 96, 55},
    {28, 192, 192, 5, 1, 2, 192, 55},
    {112, 64, 64, 3, 1, 1, 64, 50},
    {56, 64, 64, 3, 1, 1, 4, 50},
    {62, 32, 1, 3, 1, 1, 1, 45},
    {62, 12, 12, 3, 1, 1, 1, 50},
    {62, 16, 28, 3, 1, 1, 1, 65},
};

/* Anchors with what surrounds them in models. */
struct fused_case {
	const char *name;
	double flops;
	int must;
	const char *graph;
};
#define NORM(N, D) /* rows of D around their mean and deviation */                                           \
	"%2 = sum %0 axes=[1]\n%3 = const f32[1,1] 0x1p-6\n%30 = bcast %3 shape=[" N ",1]\n"                 \
	"%4 = mul %2 %30\n%5 = bcast %4 shape=[" N "," D "]\n%6 = sub %0 %5\n%7 = mul %6 %6\n"               \
	"%8 = sum %7 axes=[1]\n%9 = mul %8 %30\n%10 = sqrt %9\n%11 = bcast %10 shape=[" N "," D              \
	"]\n%12 = div %6 %11\n"
static const struct fused_case fused_cases[] = {
    {"fused reflect+conv3x3 128@56", 2.0 * 56 * 56 * 128 * 128 * 9, 80,
	"%0 = input f32[1,56,56,128]\n%1 = weight f32[3,3,128,128]\n"
	"%2 = pad %0 lo=[0,1,1,0] hi=[0,1,1,0] mode=1 value=0x0p+0\n"
	"%3 = conv %2 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
	"%4 = relu %3\noutput %4\n"},
    {"fused affine+relu+reflect+conv", 2.0 * 56 * 56 * 128 * 128 * 9, 80,
	"%0 = input f32[1,56,56,128]\n%1 = weight f32[3,3,128,128]\n%5 = input f32[1,1,1,128]\n"
	"%6 = bcast %5 shape=[1,56,56,128]\n%7 = mul %0 %6\n%8 = relu %7\n"
	"%2 = pad %8 lo=[0,1,1,0] hi=[0,1,1,0] mode=1 value=0x0p+0\n"
	"%3 = conv %2 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %3\n"},
    {"fused conv3x3+instancenorm 128@56", 2.0 * 56 * 56 * 128 * 128 * 9, 70,
	"%0 = input f32[1,56,56,128]\n%1 = weight f32[3,3,128,128]\n%20 = const f32[1,1,1,1] 0x1.4e5e0ap-12\n"
	"%21 = bcast %20 shape=[1,1,1,128]\n%2 = pad %0 lo=[0,1,1,0] hi=[0,1,1,0] mode=1 value=0x0p+0\n"
	"%3 = conv %2 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
	"%4 = sum %3 axes=[1,2]\n%5 = mul %4 %21\n%6 = bcast %5 shape=[1,56,56,128]\n%7 = sub %3 %6\n"
	"%8 = mul %7 %7\n%9 = sum %8 axes=[1,2]\n%10 = mul %9 %21\n%11 = sqrt %10\n"
	"%12 = bcast %11 shape=[1,56,56,128]\n%13 = div %7 %12\n%14 = relu %13\noutput %14\n"},
    {"fused up2+reflect+conv3 64@112", 2.0 * 112 * 112 * 64 * 32 * 9, 70,
	"%0 = input f32[1,56,56,64]\n%1 = weight f32[3,3,64,32]\n%2 = reshape %0 shape=[1,56,1,56,1,64]\n"
	"%3 = bcast %2 shape=[1,56,2,56,2,64]\n%4 = reshape %3 shape=[1,112,112,64]\n"
	"%5 = pad %4 lo=[0,1,1,0] hi=[0,1,1,0] mode=1 value=0x0p+0\n"
	"%6 = conv %5 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %6\n"},
    {"fused norm+matmul 4096x256x64", 2.0 * 4096 * 256 * 64, 60,
	"%0 = input f32[4096,64]\n%1 = weight f32[64,256]\n" NORM(
	    "4096", "64") "%13 = matmul %12 %1\n%14 = erf %13\noutput %14\n"},
    {"fused q*k softmax 2x1024x256x32", 2.0 * 2 * 1024 * 256 * 32, 25,
	"%0 = input f32[2,1024,32]\n%1 = input f32[2,256,32]\n%2 = transpose %1 perm=[0,2,1]\n"
	"%3 = matmul %0 %2\n%4 = rmax %3 axes=[2]\n%5 = bcast %4 shape=[2,1024,256]\n%6 = sub %3 %5\n"
	"%7 = exp %6\n%8 = sum %7 axes=[2]\n%9 = bcast %8 shape=[2,1024,256]\n%10 = div %7 %9\noutput %10\n"},
    {"pair q*k softmax v 16384x256x32", 4.0 * 16384 * 256 * 32, 45,
	"%0 = input f32[1,16384,32]\n%1 = input f32[1,256,32]\n%12 = input f32[1,256,32]\n%2 = transpose %1 "
	"perm=[0,2,1]\n"
	"%3 = matmul %0 %2\n%4 = rmax %3 axes=[2]\n%5 = bcast %4 shape=[1,16384,256]\n%6 = sub %3 %5\n"
	"%7 = exp %6\n%8 = sum %7 axes=[2]\n%9 = bcast %8 shape=[1,16384,256]\n%10 = div %7 %9\n"
	"%11 = matmul %10 %12\noutput %11\n"},
    {"first of it", 2.0 * 16384 * 256 * 32, 25,
	"%0 = input f32[1,16384,32]\n%1 = input f32[1,256,32]\n%2 = transpose %1 perm=[0,2,1]\n"
	"%3 = matmul %0 %2\n%4 = rmax %3 axes=[2]\n%5 = bcast %4 shape=[1,16384,256]\n%6 = sub %3 %5\n"
	"%7 = exp %6\n%8 = sum %7 axes=[2]\n%9 = bcast %8 shape=[1,16384,256]\n%10 = div %7 %9\noutput "
	"%10\n"},
    {"second of it", 2.0 * 16384 * 256 * 32, 60,
	"%0 = input f32[1,16384,256]\n%1 = input f32[1,256,32]\n%2 = matmul %0 %1\noutput %2\n"},
    {"pair perceptron 16384x32x128", 4.0 * 16384 * 32 * 128, 75,
	"%0 = input f32[16384,32]\n%1 = weight f32[32,128]\n%2 = weight f32[128,32]\n%3 = matmul %0 %1\n%4 = "
	"relu %3\n"
	"%5 = matmul %4 %2\noutput %5\n"},
    {"fused conv1x1 128@28 silu+add", 2.0 * 784 * 128 * 128, 65,
	"%0 = input f32[1,28,28,128]\n%1 = weight f32[1,1,128,128]\n%5 = input f32[1,28,28,128]\n"
	"%2 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\n"
	"%3 = sigmoid %2\n%4 = mul %2 %3\n%6 = add %4 %5\noutput %6\n"},
    {"fused relu+conv1x1 64@80", 2.0 * 6400 * 64 * 64, 65,
	"%0 = input f32[1,80,80,64]\n%1 = weight f32[1,1,64,64]\n%2 = relu %0\n"
	"%3 = conv %2 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %3\n"},
    {"fused dw3x3 96@56 + conv1x1 32", 2.0 * 3136 * 96 * (9 + 32), 45,
	"%0 = input f32[1,56,56,96]\n%1 = weight f32[3,3,1,96]\n%2 = weight f32[1,1,96,32]\n"
	"%3 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=96\n%4 = relu %3\n"
	"%5 = conv %4 %2 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[0,0] hi=[0,0] group=1\noutput %5\n"},
    {"matmul a transposed 512x512x512", 2.0 * 512 * 512 * 512, 80,
	"%0 = input f32[512,512]\n%1 = weight f32[512,512]\n%2 = transpose %0 perm=[1,0]\n%3 = matmul %2 "
	"%1\noutput %3\n"},
    {"matmul run-time b 512x512x512", 2.0 * 512 * 512 * 512, 80,
	"%0 = input f32[512,512]\n%1 = input f32[512,512]\n%3 = matmul %0 %1\noutput %3\n"},
    {"matmul one row 1x1000x1280", 2.0 * 1000 * 1280, 5,
	"%0 = input f32[1,1280]\n%1 = weight f32[1280,1000]\n%3 = matmul %0 %1\noutput %3\n"},
};

typedef float vec8 __attribute__((vector_size(32)));

static double
now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Floating-point operations a second of twelve independent chains of FMA, inputs and all in
 * registers. */
static __attribute__((target("avx2,fma"))) double
peak(void)
{
	enum { TURNS = 200000 };
	vec8 x = {1, 1, 1, 1, 1, 1, 1, 1}, y = {1e-9f};
#define X(I) vec8 a##I = x * (float)I;
	CHAINS(X)
#undef X
	double t = now();
	for (int k = 0; k < TURNS; k++) {
#define X(I) __asm__ volatile("vfmadd132ps %2, %1, %0" : "+x"(a##I) : "x"(x), "x"(y));
		CHAINS(X)
#undef X
	}
	return TURNS * 12.0 * 16 / (now() - t);
}

/* Generates, checks at samples, times; prints a row.  True where it is fast enough and right. */
static bool
bench(const char *name, const char *graph, double flops, int must, const char *schedule)
{
	enum { SAMPLES = 15 };
	struct arena a = {0};
	struct err e = {0};
	struct spec s;
	struct rng r = {7};
	struct test_kernel k;
	double ratio[SAMPLES], top = 0, best = 1e9;
	bool ok = kernel_spec(&a, graph, &s, &e) &&
	    kernel_make(&a, &s, str_of(schedule), &target_avx2, 0, &r, &k, &e) &&
	    kernel_compile(&a, &k, 1, &target_avx2, &e) && kernel_check_sampled(&a, &k, 40, 1e-4, &e);

	/* A norm over the whole tensor is too much for the interpreter: prop/linear_test has it small. */
	if (!ok && e.code != ERR_LIMIT) {
		printf("%-33s FAILED: %s\n", name, e.msg);
		arena_fini(&a);
		return false;
	}
	int turns = (int)(2e8 / flops) + 1;
	for (int i = 0; i < SAMPLES; i++) {
		double p = peak(), t = now();

		for (int j = 0; j < turns; j++)
			kernel_run(&k, 1);
		t = (now() - t) / turns;
		p = MAX_OF(p, peak());
		top = MAX_OF(top, p);
		best = MIN_OF(best, t);
		ratio[i] = flops / t / p;
	}
	qsort(ratio, SAMPLES, sizeof *ratio, bench_less);
	int best_percent = (int)(100 * flops / best / top), percent = (int)(100 * ratio[SAMPLES / 2]);
	printf("%-33s %9.1f us %6.1f GFLOP/s  median %3d %%  best %3d %%  (must %d)%s\n", name, best * 1e6,
	    flops / best * 1e-9, percent, best_percent, must, best_percent < must ? "  BELOW" : "");
	(void)fflush(stdout);
	arena_fini(&a);
	return best_percent >= must;
}

/* ---- convolutions ---------------------------------------------------------------------------- */
static long long
conv_out(const struct conv_case *c)
{
	return (c->size + 2 * c->lo - c->kernel) / c->stride + 1;
}

static double
conv_flops(const struct conv_case *c)
{
	return 2.0 * (double)(conv_out(c) * conv_out(c) * c->co * c->kernel * c->kernel * (c->c / c->group));
}

static void
conv_name(const struct conv_case *c, char *name, size_t n)
{
	(void)snprintf(name, n, "conv%lldx%lld %lld@%lld/%lld to %lld%s", (long long)c->kernel,
	    (long long)c->kernel, (long long)c->c, (long long)c->size, (long long)c->stride, (long long)c->co,
	    c->group == c->c   ? " dw"
		: c->group > 1 ? " grouped"
			       : "");
}

static void
conv_text(const struct conv_case *c, char *text, size_t n)
{
	long long o = conv_out(c), k = c->kernel, s = c->stride, lo = c->lo, co = c->co;

	(void)snprintf(text, n,
	    "%%0 = input f32[1,%lld,%lld,%lld] \"x\"\n%%1 = weight f32[%lld,%lld,%lld,%lld] \"w\"\n"
	    "%%2 = weight f32[1,1,1,%lld] \"b\"\n"
	    "%%3 = conv %%0 %%1 stride=[%lld,%lld] dilation=[1,1] ldil=[1,1] lo=[%lld,%lld] hi=[%lld,%lld] "
	    "group=%lld\n%%4 = bcast %%2 shape=[1,%lld,%lld,%lld]\n%%5 = add %%3 %%4\n%%6 = relu %%5\n"
	    "output %%6 \"y\"\n",
	    (long long)c->size, (long long)c->size, (long long)c->c, k, k, (long long)(c->c / c->group), co,
	    co, s, s, lo, lo, lo, lo, (long long)c->group, o, o, co);
}

/* Winograd's form beside the direct one, in turns; `must`: hundredths of the ratio of their times. */
static const struct conv_case wino_cases[] = {
    {56, 64, 64, 3, 1, 1, 1, 220},
    {28, 128, 128, 3, 1, 1, 1, 220},
    {56, 128, 128, 3, 1, 1, 1, 220},
    {14, 256, 256, 3, 1, 1, 1, 200},
    {224, 32, 32, 3, 1, 1, 1, 160},
    {26, 256, 512, 3, 1, 1, 1, 220},
    {13, 512, 1024, 3, 1, 1, 1, 150},
};

static bool
versus(const char *name, const char *graph, double flops, int must, const char *schedule)
{
	enum { SAMPLES = 15 };
	const char *schedules[2] = {"", *schedule ? schedule : "wino=4"};
	struct arena a = {0};
	struct err e = {0};
	struct spec s;
	struct test_kernel k[2];
	double ratio[SAMPLES], best[2] = {1e9, 1e9};
	bool ok = kernel_spec(&a, graph, &s, &e);

	for (uint32_t i = 0; i < 2 && ok; i++) {
		struct rng r = {7};

		ok = kernel_make(&a, &s, str_of(schedules[i]), &target_avx2, i, &r, &k[i], &e);
	}
	ok = ok && kernel_compile(&a, k, 2, &target_avx2, &e) &&
	    kernel_check_sampled(&a, &k[0], 40, 1e-4, &e) && kernel_check_sampled(&a, &k[1], 40, 1e-4, &e);
	if (!ok) {
		printf("%-33s FAILED: %s\n", name, e.msg);
		arena_fini(&a);
		return false;
	}
	for (int i = 0; i < SAMPLES; i++) {
		double t[2];

		for (int v = 0; v < 2; v++) {
			int turns = (int)(2e8 / flops) + 1;
			double from = now();

			for (int j = 0; j < turns; j++)
				kernel_run(&k[v], 1);
			t[v] = (now() - from) / turns;
			best[v] = MIN_OF(best[v], t[v]);
		}
		ratio[i] = t[0] / t[1];
	}
	qsort(ratio, SAMPLES, sizeof *ratio, bench_less);
	double median = ratio[SAMPLES / 2], of_best = best[0] / best[1];

	printf("%-33s direct %9.1f us  %s %9.1f us (%6.1f GFLOP/s)  ratio median %.2f  best %.2f  (must "
	       "%.2f)%s\n",
	    name, best[0] * 1e6, schedules[1], best[1] * 1e6, flops / best[1] * 1e-9, median, of_best,
	    must / 100.0, of_best * 100 < must ? "  BELOW" : "");
	(void)fflush(stdout);
	arena_fini(&a);
	return of_best * 100 >= must;
}

int
main(int argc, char **argv)
{
	const char *schedule = argc > 2 ? argv[2] : "";
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	char name[64], of[56], text[1024];
	bool ok = true;

	for (uint32_t i = 0; i < COUNT_OF(mm_cases); i++) {
		const struct mm_case *c = &mm_cases[i];
		long long m = c->m, n = c->n, k = c->k;

		(void)snprintf(name, sizeof name, "matmul %lldx%lldx%lld", m, n, k);
		(void)snprintf(text, sizeof text,
		    "%%0 = input f32[%lld,%lld] \"x\"\n%%1 = weight f32[%lld,%lld] \"w\"\n"
		    "%%2 = weight f32[1,%lld] \"b\"\n%%3 = matmul %%0 %%1\n%%4 = bcast %%2 "
		    "shape=[%lld,%lld]\n"
		    "%%5 = add %%3 %%4\n%%6 = relu %%5\noutput %%6 \"y\"\n",
		    m, k, k, n, n, m, n);
		if (bench_takes(&choice, name))
			ok &= bench(name, text, 2.0 * (double)(m * n * k), c->must, schedule);
	}
	for (uint32_t i = 0; i < COUNT_OF(conv_cases); i++) {
		const struct conv_case *c = &conv_cases[i];

		conv_name(c, name, sizeof name);
		conv_text(c, text, sizeof text);
		if (bench_takes(&choice, name))
			ok &= bench(name, text, conv_flops(c), c->must, schedule);
	}
	for (uint32_t i = 0; i < COUNT_OF(wino_cases); i++) {
		conv_name(&wino_cases[i], of, sizeof of);
		(void)snprintf(name, sizeof name, "wino %s", of);
		conv_text(&wino_cases[i], text, sizeof text);
		if (bench_takes(&choice, name))
			ok &= versus(name, text, conv_flops(&wino_cases[i]), wino_cases[i].must, schedule);
	}
	for (uint32_t i = 0; i < COUNT_OF(fused_cases); i++)
		if (bench_takes(&choice, fused_cases[i].name))
			ok &= bench(fused_cases[i].name, fused_cases[i].graph, fused_cases[i].flops,
			    fused_cases[i].must, schedule);
	return bench_end("bench-linear", &choice, ok);
}
