/* kernels/cost/gpu.h: what a GPU can do at best, from data sheets (gpu.def); calibration on the host
 * (worker/gpu_refs.c) raises it, and never lowers it (D16). */
#ifndef KORCH_COST_GPU_H
#define KORCH_COST_GPU_H

#include "cost.h"

/* The device's own words: name, architecture, SMs (of the slice, under MIG), boost MHz, peak of its
 * memory by clock and bus, L2 bytes; 0 where it does not say. */
struct hw cost_gpu_hw(const char *name, int sm, int n_sm, int mhz, double memory_rate, int64_t l2_bytes);
/* Peak of the tensor cores: float16 or bfloat16, else TF32; the float32 peak where there are none. */
double cost_gpu_tensor_flops(const char *name, int sm, int n_sm, int mhz, bool is_half);

#endif
