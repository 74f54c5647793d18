/* kernels/sass/occupancy.c: how many blocks of a kernel a multiprocessor holds, and whether that
 * is worth a measurement. */
#include "cubin.h"

/* Figures of the CUDA programming guide's table of compute capabilities. */
static const struct sm_limits limits[] = {
	/* sm, threads, blocks, shared of an SM, of a block, kept by the driver */
	{70, 2048, 32, 96 << 10, 96 << 10, 0},
	{75, 1024, 16, 64 << 10, 64 << 10, 0},
	{80, 2048, 32, 164 << 10, 163 << 10, 1024},
	{86, 1536, 16, 100 << 10, 99 << 10, 1024},
	{87, 1536, 16, 164 << 10, 163 << 10, 1024},
	{89, 1536, 24, 100 << 10, 99 << 10, 1024},
	{90, 2048, 32, 228 << 10, 227 << 10, 1024},
	{100, 2048, 32, 228 << 10, 227 << 10, 1024},
	{120, 1536, 24, 100 << 10, 99 << 10, 1024},
};
enum {
	REGISTERS = 65536,
	QUARTERS = 4,
	WARP = 32,
	REGISTER_UNIT = 256,
	SHARED_UNIT = 128,
	REGISTERS_MOST = 255,
	LOCAL_ALLOWED = 64, /* bytes to local memory: a sine's slow path keeps a table there */
};

const struct sm_limits *
sm_limits_of(int sm)
{
	const struct sm_limits *best = &limits[0];

	for (uint32_t i = 0; i < COUNT_OF(limits); i++)
		if (limits[i].sm <= sm)
			best = &limits[i];
	return best;
}

static uint32_t
round_up(uint32_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* From sm_90 on the cubin's figure holds the driver's part already. */
static uint64_t
shared_of(const struct cubin_kernel *k, int sm, size_t dynamic_bytes)
{
	const uint64_t kept = sm >= 90 && k->shared_bytes ? 0 : sm_limits_of(sm)->reserved_bytes;

	return ((uint64_t)k->shared_bytes + dynamic_bytes + kept + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
}

uint32_t
cubin_occupancy(const struct cubin_kernel *k, int sm, uint32_t threads, size_t dynamic_bytes)
{
	const struct sm_limits *l = sm_limits_of(sm);
	const uint32_t warps = (threads + WARP - 1) / WARP;

	if (threads == 0 || threads > 1024 || (k->max_threads && threads > k->max_threads) || k->registers > REGISTERS_MOST
	    || dynamic_bytes > l->block_shared_bytes)
		return 0;
	const uint64_t shared = shared_of(k, sm, dynamic_bytes);

	if (shared > (uint64_t)l->block_shared_bytes + l->reserved_bytes)
		return 0;
	const uint32_t of_warp = round_up(MAX_OF(k->registers, 1u) * WARP, REGISTER_UNIT);
	const uint32_t by_registers = REGISTERS / QUARTERS / of_warp * QUARTERS / warps;
	uint32_t n = MIN_OF(MIN_OF(l->blocks, l->threads / (warps * WARP)), by_registers);

	return shared ? (uint32_t)MIN_OF((uint64_t)n, l->shared_bytes / shared) : n;
}

bool
cubin_worth(const struct cubin_kernel *k, int sm, uint32_t threads, size_t dynamic_bytes, struct err *e)
{
	if (cubin_occupancy(k, sm, threads, dynamic_bytes) == 0)
		return err_set(e, ERR_INFEASIBLE,
		    "does not fit: %s on sm_%d: %u threads, %u registers, %zu bytes of shared memory", k->name, sm, threads,
		    k->registers, k->shared_bytes + dynamic_bytes);
	if (k->local_stored > LOCAL_ALLOWED)
		return err_set(e, ERR_INFEASIBLE, "spills: %s stores %u bytes of each thread to local memory", k->name,
		    k->local_stored);
	return true;
}
