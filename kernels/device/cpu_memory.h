/* kernels/device/cpu_memory.h: memory of the CPU as a device; for this folder alone.  Small blocks are
 * malloc's. Large ones come from the system as whole pages, and may be kept when they are freed. */
#ifndef KORCH_CPU_MEMORY_H
#define KORCH_CPU_MEMORY_H

#include "../base/base.h"

enum { CPU_MEMORY_KEPT = 32 };
struct cpu_memory {
	size_t most; /* bytes that are kept at most; set before the first block is asked for */
	size_t kept_bytes;
	struct {
		void *p;
		size_t n_bytes;  /* as mapped */
	} kept[CPU_MEMORY_KEPT]; /* the first freed first */
	uint32_t n_kept;
};

/* Zeros, aligned to DEV_ALIGN; NULL: there is no memory. */
void *cpu_memory_new(struct cpu_memory *m, size_t n_bytes);
/* n_bytes as they were asked for. */
void cpu_memory_free(struct cpu_memory *m, void *p, size_t n_bytes);
void cpu_memory_close(struct cpu_memory *m);

#endif
