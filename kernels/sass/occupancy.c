/* kernels/sass/occupancy.c: how many blocks of a kernel a multiprocessor holds, and whether that
 * is worth a measurement. */
#include "cubin.h"

enum {
	LOCAL_ALLOWED = 64, /* bytes to local memory: a sine's slow path keeps a table there */
};

uint32_t
cubin_occupancy(const struct cubin_kernel *k, int sm, uint32_t threads, size_t dynamic_bytes)
{
	const struct sm_limits *l = sm_limits_of(sm);
	/* From sm_90 on the cubin's figure holds the driver's part already. */
	const uint64_t kept = sm >= 90 && k->shared_bytes ? 0 : l->reserved_bytes;
	const struct sm_block b = {.threads = threads,
	    .registers = k->registers,
	    .shared_bytes = (uint64_t)k->shared_bytes + dynamic_bytes + kept};

	if ((k->max_threads && threads > k->max_threads) || dynamic_bytes > l->block_shared_bytes)
		return 0;
	return sm_resident(sm, &b);
}

bool
cubin_worth(const struct cubin_kernel *k, int sm, uint32_t threads, size_t dynamic_bytes, struct err *e)
{
	if (cubin_occupancy(k, sm, threads, dynamic_bytes) == 0)
		return err_set(e, ERR_INFEASIBLE,
		    "does not fit: %s on sm_%d: %u threads, %u registers, %zu bytes of shared memory",
		    k->name, sm, threads, k->registers, k->shared_bytes + dynamic_bytes);
	if (k->local_stored > LOCAL_ALLOWED)
		return err_set(e, ERR_INFEASIBLE, "spills: %s stores %u bytes of each thread to local memory",
		    k->name, k->local_stored);
	return true;
}
