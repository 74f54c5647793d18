/* kernels/base/sm.c: what a multiprocessor has room for. */
#include "sm.h"

static const struct sm_limits limits[] = {
#define SM(N, THREADS, BLOCKS, SHARED, OF_BLOCK, KEPT)                                                       \
	{N, THREADS, BLOCKS, SHARED << 10, OF_BLOCK << 10, KEPT << 10},
#include "sm.def"
#undef SM
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

static uint64_t
round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

uint32_t
sm_resident(int sm, const struct sm_block *b)
{
	const struct sm_limits *l = sm_limits_of(sm);
	const uint32_t warps = (b->threads + SM_WARP - 1) / SM_WARP;
	const uint64_t shared = round_up(b->shared_bytes, SM_SHARED_UNIT);

	if (b->threads == 0 || b->threads > SM_THREADS_OF_BLOCK || b->registers > SM_REGISTERS_MOST ||
	    b->shared_bytes > (uint64_t)l->block_shared_bytes + l->reserved_bytes)
		return 0;
	/* a quarter's registers go to whole warps */
	const uint64_t of_warp = round_up((uint64_t)MAX_OF(b->registers, 1u) * SM_WARP, SM_REGISTER_UNIT);
	const uint64_t by_registers = SM_REGISTERS / SM_QUARTERS / of_warp * SM_QUARTERS / warps;
	const uint32_t n = MIN_OF(MIN_OF(l->blocks, l->threads / (warps * SM_WARP)), (uint32_t)by_registers);

	return shared ? (uint32_t)MIN_OF((uint64_t)n, l->shared_bytes / shared) : n;
}
