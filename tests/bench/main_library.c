/* tests/bench/main_library.c: kernels of oneDNN beside generated ones, layers of the models at full size on
 * one thread: the least of a few schedules of each side, run in turns on the same buffers, reorders charged.
 * Usage: bench-library [NAME-PART] */
#include "../harness/bench_time.h"
#include "../harness/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct layer {
	const char *name;
	long long size, c, co, kernel, stride, group;
	const char *act;
};
static const struct layer layers[] = {
    {"conv3x3 64@56 relu", 56, 64, 64, 3, 1, 1, "relu"},
    {"conv3x3 128@28 relu", 28, 128, 128, 3, 1, 1, "relu"},
    {"conv3x3 256@14 relu", 14, 256, 256, 3, 1, 1, "relu"},
    {"conv3x3 64@56/2 to 128 relu", 56, 64, 128, 3, 2, 1, "relu"},
    {"conv3x3 3@224/2 to 32 silu", 224, 3, 32, 3, 2, 1, "silu"},
    {"conv1x1 128@28 silu", 28, 128, 128, 1, 1, 1, "silu"},
    {"conv1x1 64@80 silu", 80, 64, 64, 1, 1, 1, "silu"},
    {"conv1x1 512@13 to 255", 13, 512, 255, 1, 1, 1, ""},
    {"dw3x3 96@56 relu", 56, 96, 96, 3, 1, 96, "relu"},
    {"dw5x5 192@28 relu", 28, 192, 192, 5, 1, 192, "relu"},
    {"dw3x3 64@112 silu", 112, 64, 64, 3, 1, 64, "silu"},
    {"conv3x3 512@13 relu", 13, 512, 512, 3, 1, 1, "relu"},
    {"conv9x9 32@224 to 3", 224, 32, 3, 9, 1, 1, ""},
    {"conv3x3 64@56 of 4 groups relu", 56, 64, 64, 3, 1, 4, "relu"},
    {"conv3x3 48@28 of 8 groups", 28, 48, 48, 3, 1, 8, ""},
    {"conv1x1 24@112 to 144 silu", 112, 24, 144, 1, 1, 1, "silu"},
};
static const struct {
	long long m, n, k;
} products[] = {
    {768, 768, 768}, {16384, 32, 32}, {1024, 640, 160}, {256, 1024, 256}, {784, 128, 128}, {49, 320, 320}};
static const char *const generated[] = {"", "mr=4 nv=3", "mr=4 field=2", "nv=1", "wino=4", "wino=2"};
enum { GENERATED = COUNT_OF(generated), RUNNERS = GENERATED + 2, SAMPLES = 21 };

struct runner {
	struct test_kernel k;
	struct test_library lib;
	bool is_ready, is_library;
	double sample[SAMPLES];
};

static double
now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
run(const struct runner *u)
{
	if (u->is_library)
		library_run(&u->lib);
	else
		kernel_run(&u->k, 1);
}

static void
open_runners(struct arena *a, const struct dev *d, const struct spec *s, struct runner *u)
{
	struct err e;

	for (uint32_t i = 0; i < RUNNERS; i++) {
		struct rng r = {7};
		const char *schedule = i < GENERATED ? generated[i] : library_schedule(a, i - GENERATED);

		u[i].is_library = i >= GENERATED;
		if (strncmp(schedule, "wino", 4) == 0 && !spec_winograd(s))
			continue;
		u[i].is_ready = kernel_make(a, s, str_of(schedule), &target_avx2, i, &r, &u[i].k, &e) &&
		    (u[i].is_library ? library_open(d, &u[i].k, &u[i].lib, &e)
				     : kernel_compile(a, &u[i].k, 1, &target_avx2, &e));
	}
}

/* The middle sample of the best of one side. */
static const struct runner *
best_of(const struct runner *u, bool library)
{
	const struct runner *best = NULL;

	for (uint32_t i = 0; i < RUNNERS; i++)
		if (u[i].is_ready && u[i].is_library == library &&
		    (!best || u[i].sample[SAMPLES / 2] < best->sample[SAMPLES / 2]))
			best = &u[i];
	return best;
}

static void
bench(const struct dev *d, const char *name, const char *graph)
{
	struct arena a = {0};
	struct runner *u = NEW_ARRAY(&a, struct runner, RUNNERS);
	const struct runner *own, *lib;
	struct spec s;
	struct err e;

	if (!kernel_spec(&a, graph, &s, &e)) {
		printf("%-30s FAILED: %s\n", name, e.msg);
		arena_fini(&a);
		return;
	}
	open_runners(&a, d, &s, u);
	for (uint32_t n = 0; n < SAMPLES; n++)
		for (uint32_t i = 0; i < RUNNERS; i++) {
			double from;

			if (!u[i].is_ready)
				continue;
			run(&u[i]);
			from = now();
			for (int k = 0; k < 3; k++)
				run(&u[i]);
			u[i].sample[n] = (now() - from) / 3;
		}
	for (uint32_t i = 0; i < RUNNERS; i++) {
		qsort(u[i].sample, SAMPLES, sizeof(double), bench_less);
		if (u[i].is_ready && u[i].is_library)
			library_close(&u[i].lib);
	}
	own = best_of(u, false);
	lib = best_of(u, true);
	if (own && lib)
		printf("%-30s generated %9.1f us \"%.*s\"   %.*s %9.1f us   library / generated %.2f\n", name,
		    own->sample[SAMPLES / 2] * 1e6, STR_ARG(own->k.schedule), STR_ARG(lib->k.schedule),
		    lib->sample[SAMPLES / 2] * 1e6, lib->sample[SAMPLES / 2] / own->sample[SAMPLES / 2]);
	else
		printf("%-30s has no %s kernel\n", name, own ? "library's" : "generated");
	(void)fflush(stdout);
	arena_fini(&a);
}

static char *
layer_text(struct arena *a, const struct layer *l)
{
	long long k = l->kernel, lo = k / 2, o = (l->size + 2 * lo - k) / l->stride + 1;
	const char *act = strcmp(l->act, "relu") == 0 ? "%6 = relu %5\noutput %6\n"
	    : strcmp(l->act, "silu") == 0             ? "%6 = sigmoid %5\n%7 = mul %5 %6\noutput %7\n"
						      : "output %5\n";

	return arena_printf(a,
	    "%%0 = input f32[1,%lld,%lld,%lld]\n%%1 = weight f32[%lld,%lld,%lld,%lld]\n%%2 = weight "
	    "f32[1,1,1,%lld]\n"
	    "%%3 = conv %%0 %%1 stride=[%lld,%lld] dilation=[1,1] ldil=[1,1] lo=[%lld,%lld] hi=[%lld,%lld] "
	    "group=%lld\n"
	    "%%4 = bcast %%2 shape=[1,%lld,%lld,%lld]\n%%5 = add %%3 %%4\n%s",
	    l->size, l->size, l->c, k, k, l->c / l->group, l->co, l->co, l->stride, l->stride, lo, lo, lo, lo,
	    l->group, o, o, l->co, act);
}

int
main(int argc, char **argv)
{
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	struct arena a = {0};
	struct dev d;
	struct err e;

	if (!dev_cpu_library(LIBRARY_onednn) || !dev_cpu_open(1, false, &d, &e)) {
		(void)puts("SKIP bench-library: built without oneDNN (cmake -DKORCH_ONEDNN=ON)");
		return 77;
	}
	for (size_t i = 0; i < COUNT_OF(layers); i++)
		if (bench_takes(&choice, layers[i].name))
			bench(&d, layers[i].name, layer_text(&a, &layers[i]));
	for (size_t i = 0; i < COUNT_OF(products); i++) {
		long long m = products[i].m, n = products[i].n, k = products[i].k;
		char *name = arena_printf(&a, "matmul %lldx%lldx%lld", m, n, k);

		if (bench_takes(&choice, name))
			bench(&d, name,
			    arena_printf(&a,
				"%%0 = input f32[%lld,%lld]\n%%1 = weight f32[%lld,%lld]\n%%2 = weight "
				"f32[1,%lld]\n%%3 = matmul %%0 %%1\n"
				"%%4 = bcast %%2 shape=[%lld,%lld]\n%%5 = add %%3 %%4\noutput %%5\n",
				m, k, k, n, n, m, n));
	}
	d.close(d.self);
	arena_fini(&a);
	return bench_end("bench-library", &choice, true);
}
