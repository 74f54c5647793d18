/* worker/gpu_fake/gpu_fake.h: NVIDIA's driver, NVRTC, NVML, cuBLASLt and cuDNN without a GPU, behind the same
 * tables of functions: kernels are compiled by the C compiler with the host's prelude and run on the CPU, so
 * that results are real; time is virtual and comes from the kernel's text alone, so that rows are
 * the same on every host; faults come on demand. */
#ifndef KORCH_GPU_FAKE_H
#define KORCH_GPU_FAKE_H

#include "../../kernels/device/gpu.h"

/* "gpu=v100,n=2,seed=7,illegal=1000": settings of driver.c's table.  One fake driver a process, as
 * there is one real one: its functions have no handle to hang it on.  ERR_USAGE. */
bool gpu_fake_open(struct str args, struct gpu *out, struct err *e) MUST_CHECK;
/* dev=: the GPU that a worker with these settings takes. */
int gpu_fake_taken(void);
/* kernel_ms=: how long a kernel may be silent before it counts as hung; 0: as ever. */
int64_t gpu_fake_kernel_ns(void);
/* On a kernel whose text begins so no fault falls: references stay true. */
#define GPU_FAKE_SPARED "/* reference */\n"
/* Behind it: what an element costs, by which the model says how long the kernel takes. */
#define GPU_FAKE_COMPUTE "/* 512 flops */\n"
#define GPU_FAKE_STREAM "/* 8 bytes */\n"
#define GPU_FAKE_TENSOR "/* 65536 tensor flops */\n"
#define GPU_FAKE_TENSOR_SMALL "/* 32768 tensor flops */\n"

#endif
