/* kernels/cost/gpu.c: peaks of GPUs.  Too high only loosens a bound, too low makes it wrong: the
 * larger of data sheet and the device's own clocks counts, with a margin. */
#include "gpu.h"

#include <math.h>
#include <string.h>

static const double margin = 1.1;
/* No launch inside a graph takes less, as far as anyone has seen; calibration says more. */
static const double least_call_ns = 1000;

struct sheet {
	const char *part;
	int sm, n_sm, mhz;
	double memory, flops, half, tf32;
	int64_t l2_bytes;
	double l2;
};
static const struct sheet sheets[] = {
#define GPU(NAME, SM, SMS, MHZ, MEMORY, FLOPS, HALF, TF32, L2_BYTES, L2)                                     \
	{NAME, SM, SMS, MHZ, MEMORY, FLOPS, HALF, TF32, L2_BYTES, L2},
#include "gpu.def"
};

static const struct sheet *
sheet_of(const char *name, int sm)
{
	for (size_t i = 0; i < COUNT_OF(sheets); i++)
		if (sheets[i].sm == sm && strstr(name, sheets[i].part))
			return &sheets[i];
	return NULL;
}

/* Per SM and clock, multiply-adds counted twice: the widest of the architecture's members. */
static double
width(int sm, bool is_half)
{
	double fp32 = sm < 80 || sm == 80 ? 128 : 256, half = sm < 80 ? 1024 : sm < 90 ? 2048 : 4096;

	return is_half ? half : fp32;
}

/* A slice of a GPU (MIG) has a part of everything, but may see all of the cache's speed. */
static double
share(const struct sheet *s, int n_sm)
{
	return s && n_sm > 0 && n_sm < s->n_sm ? (double)n_sm / s->n_sm : 1;
}

struct hw
cost_gpu_hw(const char *name, int sm, int n_sm, int mhz, double memory_rate, int64_t l2_bytes)
{
	const struct sheet *s = sheet_of(name, sm);
	double own = width(sm, false) * n_sm * mhz * 1e6, memory = fmax(s ? s->memory : 0, memory_rate);
	struct hw hw = {
	    .simd_bytes = 16, .n_threads = 1, .call_ns = least_call_ns, .barrier_ns = least_call_ns};

	hw.flops_peak = margin * fmax(own, s ? s->flops * share(s, n_sm) : 0);
	if (hw.flops_peak <= 0)
		hw.flops_peak = 1e15;
	hw.bytes_per_s[3] = margin * (memory > 0 ? memory : 1e13);
	hw.bytes_per_s[1] = margin * fmax(s ? s->l2 : 0, 4 * memory);
	hw.bytes_per_s[2] = hw.bytes_per_s[1];
	hw.bytes_per_s[0] = 10 * hw.bytes_per_s[1];
	/* one cache counts between kernels: the second level; it stands on both places that a CPU has */
	hw.level_bytes[1] = hw.level_bytes[2] = l2_bytes > 0 ? l2_bytes : s ? s->l2_bytes : 64 << 20;
	return hw;
}

double
cost_gpu_tensor_flops(const char *name, int sm, int n_sm, int mhz, bool is_half)
{
	const struct sheet *s = sheet_of(name, sm);
	double own = width(sm, true) * n_sm * mhz * 1e6 / (is_half ? 1 : 2);

	if (!is_half && sm < 80)
		return cost_gpu_hw(name, sm, n_sm, mhz, 0, 0).flops_peak;
	return margin * fmax(own, s ? (is_half ? s->half : s->tf32) * share(s, n_sm) : 0);
}
