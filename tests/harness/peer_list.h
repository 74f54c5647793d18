/* tests/harness/peer_list.h: a list of cubins that tests/bench/gpu_peers.sh has written. */
#ifndef KORCH_TEST_PEER_LIST_H
#define KORCH_TEST_PEER_LIST_H

#include "../../kernels/base/base.h"

struct peer_cubin {
	const char *file;
	int sm;
	uint32_t warps, stages, registers, shared_bytes; /* of a block */
	uint32_t blocks;                                 /* on a multiprocessor */
	struct bytes cubin;
};
/* Its cubins lie beside it.  In the arena. */
bool peer_list_read(
    struct arena *a, const char *path, struct peer_cubin **out, uint32_t *n, struct err *e) MUST_CHECK;

#endif
