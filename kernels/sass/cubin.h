/* kernels/sass/cubin.h: what a cubin says about its kernels, read from its ELF without a driver:
 * registers, shared memory, spills; and how many blocks fit on a multiprocessor. */
#ifndef KORCH_CUBIN_H
#define KORCH_CUBIN_H

#include "../base/sm.h"

enum { CUBIN_KERNELS = 64 };
struct cubin_kernel {
	const char *name;      /* in the cubin's bytes */
	uint32_t registers;    /* of a thread */
	uint32_t shared_bytes; /* static, of a block; from sm_90 on with the 1 KiB that the driver keeps */
	uint32_t frame_bytes;  /* of a thread's local memory */
	uint32_t param_bytes;
	uint32_t max_threads; /* __launch_bounds__; 0: not said */
	uint32_t n_instructions;
	uint32_t local_stored,
	    local_loaded; /* bytes the code moves to and from local memory: spills, and arrays */
};
struct cubin {
	int sm;
	struct cubin_kernel kernel[CUBIN_KERNELS];
	uint32_t n_kernels;
};
/* Any bytes; ERR_FORMAT naming what is wrong. */
bool cubin_read(struct bytes b, struct cubin *out, struct err *e) MUST_CHECK;

/* Blocks of so many threads that are resident at once; 0: it cannot be launched. */
uint32_t cubin_occupancy(const struct cubin_kernel *k, int sm, uint32_t threads, size_t dynamic_bytes);
/* Is it worth a measurement?  ERR_INFEASIBLE: "does not fit: ..." or "spills: ...". */
bool cubin_worth(
    const struct cubin_kernel *k, int sm, uint32_t threads, size_t dynamic_bytes, struct err *e) MUST_CHECK;

#endif
