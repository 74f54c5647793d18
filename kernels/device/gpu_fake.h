/* kernels/device/gpu_fake.h: NVIDIA's driver, NVRTC, NVML, cuBLASLt and cuDNN without a GPU: a shared object
 * (worker/gpu_fake) that is opened at run time in their place and fills the same tables of functions.  It is
 * no part of a program: hosts that have not installed it (component fake-gpu) have none. */
#ifndef KORCH_GPU_FAKE_H
#define KORCH_GPU_FAKE_H

#include "gpu.h"

/* "gpu=v100,n=2,seed=7,illegal=1000": settings of worker/gpu_fake/driver.c's table.  One fake driver a
 * process, as there is one real one: its functions have no handle to hang it on.  It lies in the folder
 * KORCH_FAKE_GPU, else where the build or `cmake --install --component fake-gpu` puts it, beside the folder
 * of this program. ERR_USAGE: no such setting; ERR_HOST: it is not here, or of another version. */
bool gpu_fake_open(struct str args, struct gpu *out, struct err *e) MUST_CHECK;
/* Opens the shared object alone: a jailed child may read the folders of what its parent has open
 * (jail_command). */
bool gpu_fake_load(struct err *e) MUST_CHECK;
/* dev=: the GPU that a worker with these settings takes. */
int gpu_fake_taken(void);
/* kernel_ms=: how long a kernel may be silent before it counts as hung; 0: as ever. */
int64_t gpu_fake_kernel_ns(void);

/* ---- what the shared object and its users agree on --------------------------------------------- */
/* On a kernel whose text begins so no fault falls: references stay true. */
#define GPU_FAKE_SPARED "/* reference */\n"
/* Behind it: what an element costs, by which the model says how long the kernel takes. */
#define GPU_FAKE_COMPUTE "/* 512 flops */\n"
#define GPU_FAKE_STREAM "/* 8 bytes */\n"
#define GPU_FAKE_TENSOR "/* 65536 tensor flops */\n"
#define GPU_FAKE_TENSOR_SMALL "/* 32768 tensor flops */\n"
/* Its one symbol that is no function of NVIDIA's. */
#define GPU_FAKE_SYMBOL "korch_fake_gpu"
struct gpu_fake_object {
	const char *version; /* KORCH_VERSION: of the one build both are of */
	/* Sets it anew; false, with why not. */
	bool (*set)(const char *settings, char *why, size_t n_why);
	int64_t (*setting)(const char *name);
	/* Why it is as if there were no such library; NULL: there is. */
	const char *(*lacks)(enum gpu_lib lib);
	/* The function of that name; NULL: that library, or this version of it, has none. */
	void *(*find)(enum gpu_lib lib, const char *name);
};

#endif
