/* kernels/run/cpu_library.h: libraries whose kernels run on the CPU, behind one table of functions. */
#ifndef KORCH_CPU_LIBRARY_H
#define KORCH_CPU_LIBRARY_H

#include "dev.h"

struct cpu_library {
	int64_t (*version)(void);
	/* *scratch: bytes that run() may write to, 64-byte aligned.  The call lives as long as *out. */
	bool (*bind)(const struct library_call *c, int64_t algo, void **out, size_t *scratch, struct err *e);
	void (*unbind)(void *kernel);
	/* *kept: the constants among buf in the library's own form. */
	bool (*prepare)(void *kernel, void *const *buf, void **kept, struct err *e);
	void (*release)(void *kept);
	void (*run)(void *kernel, void *const *buf, void *kept, char *scratch);
};
/* NULL where this program was built without it. */
const struct cpu_library *cpu_library(enum library l);
extern const struct cpu_library cpu_onednn;

/* The device's functions. */
bool cpu_bind(
    void *self, struct str spec, struct str schedule, struct dev_kernel *k, struct err *e) MUST_CHECK;
void cpu_unbind(void *self, struct dev_kernel *k);
bool cpu_prepare(void *self, struct dev_launch *l, struct err *e) MUST_CHECK;
void cpu_release(void *self, struct dev_launch *l);
void cpu_library_run(const struct dev_launch *l, char *scratch);

#endif
