/* kernels/device/dev_cpu_library.h: kernels of libraries on the CPU, for dev_cpu.c.  What a library is stands
 * in kernels/vendor/cpu_library.h. */
#ifndef KORCH_DEV_CPU_LIBRARY_H
#define KORCH_DEV_CPU_LIBRARY_H

#include "dev.h"

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
/* What was kept of an operand, of all parts; false: it is read where it lies. */
bool cpu_library_evict(const struct dev_launch *l, uint32_t operand);
bool cpu_library_reads(const struct dev_kernel *k, uint32_t operand);
void cpu_library_run(const struct dev_launch *l, char *scratch, int64_t lo, int64_t hi);

#endif
