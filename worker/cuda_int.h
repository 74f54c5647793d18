/* worker/cuda_int.h: the GPU's device from inside: cuda.c (measuring, opening) and cuda_make.c (from
 * tasks to cubins).  For these alone. */
#ifndef KORCH_CUDA_INT_H
#define KORCH_CUDA_INT_H

#include "device.h"
#include "gpu_child.h"
#include "gpu_fake.h"

enum { CUDA_COMPILERS = 8 };

struct cuda {
	struct device *device;
	const struct device_conf *conf;
	const char *fake;        /* settings of the fake driver; "": the real one */
	int number;
	const char *device_words;
	struct gpu gpu;          /* without a context: contexts are the children's */
	struct gpu_facts facts;
	struct dev_info info;
	struct calibration cal;
	struct bytes refs;       /* the module of the reference kernels */
	struct gpu_kernel ref[GPU_REFS];
	struct measure_child *child, *compiler[CUDA_COMPILERS];
	int64_t kernel_ns;
	int lock_fd;
	bool is_suspect;         /* something broke: to be proved before the next task */
};
struct cuda_kernel {
	struct measure_kernel kernel;
	struct kernel_code code;
	struct bytes cubin;
	int64_t compile_ns;
	struct err err;          /* of its compile */
};
struct cuda_unit { /* one task on its way */
	const struct m_task *task;
	struct m_outcome *out;
	struct spec spec;
	struct cuda_kernel *kernels;
	uint32_t n;
	struct cuda_kernel **items; /* those that compiled */
	uint32_t n_items;
	int64_t known_ns;
	bool is_strict;
};
void cuda_unit_make(struct cuda *c, struct arena *a, struct cuda_unit *u);
void cuda_unit_fail(struct arena *a, struct cuda_unit *u, enum err_code code, const char *why);
/* Fills cubins and items; what does not compile has its row. */
void cuda_compile_all(struct cuda *c, struct arena *a, struct cuda_unit *units, uint32_t n);
/* All items and the reference kernels. */
struct bytes cuda_module(const struct cuda *c, struct arena *a, const struct cuda_unit *units, uint32_t n);
bool cuda_build(void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e);
bool cuda_refs_build(struct cuda *c, struct arena *a, struct err *e) MUST_CHECK;
void cuda_compilers_close(struct cuda *c);

#endif
