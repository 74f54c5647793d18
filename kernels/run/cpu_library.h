/* kernels/run/cpu_library.h: libraries whose kernels run on the CPU, behind one table of functions. */
#ifndef KORCH_CPU_LIBRARY_H
#define KORCH_CPU_LIBRARY_H

#include "dev.h"

struct cpu_library {
	int64_t (*version)(void);
	/* A device's constants in the library's own forms. */
	void *(*open)(void);
	void (*close)(void *store);
	size_t (*kept_bytes)(void *store);
	/* *scratch: bytes that run() may write to, 64-byte aligned.  The call lives as long as *out. */
	bool (*bind)(const struct library_call *c, int64_t algo, void **out, size_t *scratch, struct err *e);
	void (*unbind)(void *kernel);
	/* *kept: the constants among buf in the library's own form; those that lie in the store already are
	 * shared. */
	bool (*prepare)(void *kernel, void *store, void *const *buf, void **kept, struct err *e);
	void (*release)(void *kernel, void *store, void *kept);
	/* Does run() read this operand where it lies?  false: only what was kept of it. */
	bool (*reads)(void *kernel, uint32_t operand);
	void (*run)(void *kernel, void *const *buf, void *kept, char *scratch);
};
/* NULL where this program was built without it. */
const struct cpu_library *cpu_library(enum library l);
extern const struct cpu_library cpu_onednn;

/* The libraries of a device. */
struct cpu_libraries {
	void *store[LIBRARY_COUNT]; /* NULL: this program is built without it */
};
void cpu_libraries_open(struct cpu_libraries *l);
void cpu_libraries_close(struct cpu_libraries *l);
size_t cpu_libraries_bytes(const struct cpu_libraries *l);
/* The device's functions (dev.h). */
/* In up to n_threads parts, which may run side by side: the kernel's range. */
bool cpu_library_bind(
    struct str spec, struct str schedule, uint32_t n_threads, struct dev_kernel *k, struct err *e) MUST_CHECK;
void cpu_library_unbind(struct dev_kernel *k);
bool cpu_library_prepare(const struct cpu_libraries *l, struct dev_launch *to, struct err *e) MUST_CHECK;
void cpu_library_release(const struct cpu_libraries *l, struct dev_launch *of);
bool cpu_library_reads(const struct dev_kernel *k, uint32_t operand);
void cpu_library_run(const struct dev_launch *l, char *scratch, int64_t lo, int64_t hi);

#endif
