/* kernels/predict/meaning.c: what a vector of numbers means, so that a predictor is never asked in another
 * language than it was taught.  Two known kernels go in, so that a bound or a lowering that changes shows. */
#include "predict.h"

#include "../base/epoch.h"

static const char *const known[] = {
    "%0 = input f32[1,28,28,64]\n%1 = weight f32[3,3,64,64]\n%2 = weight f32[64]\n"
    "%3 = conv %0 %1 stride=[1,1] dilation=[1,1] ldil=[1,1] lo=[1,1] hi=[1,1] group=1 : f32[1,28,28,64]\n"
    "%4 = reshape %2 shape=[1,1,1,64] : f32[1,1,1,64]\n%5 = bcast %4 shape=[1,28,28,64] : f32[1,28,28,64]\n"
    "%6 = add %3 %5 : f32[1,28,28,64]\n%7 = relu %6 : f32[1,28,28,64]\noutput %7\n",
    "%0 = input f32[64,256]\n%1 = rmax %0 axes=[1] : f32[64,1]\n%2 = bcast %1 shape=[64,256] : f32[64,256]\n"
    "%3 = sub %0 %2 : f32[64,256]\n%4 = exp %3 : f32[64,256]\n%5 = sum %4 axes=[1] : f32[64,1]\n"
    "%6 = bcast %5 shape=[64,256] : f32[64,256]\n%7 = div %4 %6 : f32[64,256]\n"
    "%8 = transpose %7 perm=[1,0] : f32[256,64]\noutput %8\n",
};
static const struct hw somewhere = {
    .flops_peak = 1e11,
    .bytes_per_s = {2e11, 1e11, 3e10, 1e10},
    .level_bytes = {32768, 1048576, 33554432},
    .call_ns = 16,
    .barrier_ns = 800,
    .simd_bytes = 64,
    .n_threads = 1,
};

/* In steps of a thousandth: a compiler's rounding is no other meaning. */
static uint64_t
add_values(uint64_t h, const float x[SAMPLE_FLAT])
{
	for (uint32_t i = 0; i < SAMPLE_FLAT; i++) {
		int64_t v = (int64_t)((double)x[i] * 1000 + (x[i] < 0 ? -0.5 : 0.5));

		h = hash64(&v, sizeof(v), h);
	}
	return h;
}

static uint64_t
add_kernel(struct arena *a, uint64_t h, const char *text)
{
	struct graph g;
	struct spec s;
	struct sample sample;
	float x[SAMPLE_FLAT];
	struct err e = {0};

	if (!graph_read(&g, a, str_of(text), &e))
		bug("a known kernel cannot be read: %s", e.msg);
	spec_of_graph(a, &g, &s);
	if (!sample_make(a, &s, STR(""), &target_avx512, &somewhere, STR(""), &sample, &e))
		bug("a known kernel cannot be lowered: %s", e.msg);
	sample_flat(&sample, x);
	h = add_values(h, x);
	sample_plain(a, &s, &target_avx512, &somewhere, STR(""), &sample);
	sample_flat(&sample, x);
	return add_values(h, x);
}

uint64_t
predict_meaning(void)
{
	struct arena a = {0};
	struct strbuf names;
	uint64_t h;

	sb_init(&names, &a);
	for (uint32_t i = 0; i < SAMPLE_FLAT; i++) {
		sample_flat_name(i, &names);
		sb_addc(&names, ' ');
	}
	h = hash64(names.p, names.n, SAMPLES_EPOCH);
	for (size_t i = 0; i < COUNT_OF(known); i++)
		h = add_kernel(&a, h, known[i]);
	arena_fini(&a);
	return h;
}
