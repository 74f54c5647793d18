/* kernels/base/sm.h: the multiprocessors of sm.def. */
#ifndef KORCH_SM_H
#define KORCH_SM_H

#include "base.h"

/* Of all of them. */
enum {
	SM_WARP = 32,
	SM_QUARTERS = 4, /* each issues an instruction of one warp a clock */
	SM_REGISTERS = 65536,
	SM_REGISTER_UNIT = 256,  /* registers are given to a warp in such pieces */
	SM_REGISTERS_MOST = 255, /* of a thread */
	SM_SHARED_UNIT = 128,
	SM_SHARED_UNASKED = 48 << 10, /* bytes a block has without being asked for more */
	SM_THREADS_OF_BLOCK = 1024,
};

struct sm_limits {
	int sm;
	uint32_t threads, blocks, shared_bytes, block_shared_bytes, reserved_bytes;
};
const struct sm_limits *sm_limits_of(int sm); /* the nearest known one below */

/* What a block takes of a multiprocessor. */
struct sm_block {
	uint32_t threads, registers; /* registers: of a thread */
	uint64_t shared_bytes;       /* static and dynamic, and what the driver keeps */
};
/* Blocks that are resident on one at once; 0: not even one. */
uint32_t sm_resident(int sm, const struct sm_block *b);

#endif
