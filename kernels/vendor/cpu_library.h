/* kernels/vendor/cpu_library.h: libraries whose kernels run on the CPU, behind one table of functions. */
#ifndef KORCH_CPU_LIBRARY_H
#define KORCH_CPU_LIBRARY_H

#include "../base/isa.h"
#include "library.h"

enum { CPU_LIBRARY_ALIGN = 64 }; /* of scratch and of what is kept */

struct cpu_library {
	int64_t (*version)(void);
	/* No wider instructions than `to` has, before its first call in this process. */
	void (*hold)(enum isa to);
	/* A device's constants in the library's own forms. */
	void *(*open)(void);
	void (*close)(void *store);
	size_t (*kept_bytes)(void *store);
	/* *scratch: bytes that run() may write to, CPU_LIBRARY_ALIGNed.  The call lives as long as *out. */
	bool (*bind)(const struct library_call *c, int64_t algo, void **out, size_t *scratch, struct err *e);
	void (*unbind)(void *kernel);
	/* *kept: the constants among buf in the library's own form; those that lie in the store already are
	 * shared. */
	bool (*prepare)(void *kernel, void *store, void *const *buf, void **kept, struct err *e);
	void (*release)(void *kernel, void *store, void *kept);
	/* Does run() read this operand where it lies?  false: only what was kept of it. */
	bool (*reads)(void *kernel, uint32_t operand);
	/* Where the form of this operand lies that was kept; false: there is none. */
	bool (*kept_at)(void *kernel, void *kept, uint32_t operand, const void **at, size_t *n_bytes);
	void (*run)(void *kernel, void *const *buf, void *kept, char *scratch);
};
/* NULL where this program was built without it. */
const struct cpu_library *cpu_library(enum library l);
extern const struct cpu_library cpu_onednn;

#endif
