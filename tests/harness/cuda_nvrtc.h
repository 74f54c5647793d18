/* tests/harness/cuda_nvrtc.h: generated CUDA kernels through the NVRTC of this host, and what their
 * cubins say: no GPU is needed for either. */
#ifndef KORCH_TEST_CUDA_NVRTC_H
#define KORCH_TEST_CUDA_NVRTC_H

#include "../../kernels/device/gpu.h"
#include "../../kernels/sass/cubin.h"
#include "cuda_kernel.h"

enum { NVRTC_BATCH = 16, NVRTC_REGISTER_STEP = 32, NVRTC_REGISTER_BINS = 9 };
struct nvrtc_totals {
	uint32_t kernels, failed; /* a kernel is all its passes */
	uint32_t passes, spilling, unfit;
	uint32_t by_registers[NVRTC_REGISTER_BINS];
	uint32_t most_registers, most_shared, most_stored;
	double occupancy; /* threads of an SM in use, summed over passes that fit */
	uint64_t bytes;
	int64_t ns;
	const char *keep; /* a folder for the cubins; NULL: none is kept */
	uint32_t kept;
};
/* Kernel i of the list was made with the symbol k<i + first>.  Each failure is printed. */
void cuda_nvrtc_compile(const struct gpu *g, const struct cuda_case *list, uint32_t n, uint32_t first, int sm,
    struct nvrtc_totals *t);
void cuda_nvrtc_print(const struct nvrtc_totals *t, int sm, const char *what);

#endif
