/* tests/harness/sample.c: see sample.h. */
#include "sample.h"

#include "../../kernels/base/epoch.h"

struct m_env
sample_env(const char *class, const char *key)
{
	return (struct m_env){.class = str_of(class),
	    .key = str_of(key),
	    .run_compat = STR("fake"),
	    .compiler = STR("none"),
	    .epoch = GENERATOR_EPOCH,
	    .hw = {.flops_peak = 1e11,
		.l1_bytes_per_s = 2e11,
		.l2_bytes_per_s = 1e11,
		.l3_bytes_per_s = 5e10,
		.dram_bytes_per_s = 1.5e10,
		.l1_bytes = 32 << 10,
		.l2_bytes = 512 << 10,
		.l3_bytes = 32 << 20,
		.call_ns = 50,
		.barrier_ns = 20,
		.simd_bytes = 32,
		.n_vregs = 16,
		.n_cores = 1}};
}

struct str
sample_spec(struct arena *a, int extent)
{
	return str_of(arena_printf(
	    a, "spec 1\n%%0 = input f32[%d]\n%%1 = exp %%0 : f32[%d]\noutput %%1\n", extent, extent));
}
