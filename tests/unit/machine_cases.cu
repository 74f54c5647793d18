/* tests/unit/machine_cases.cu: machine_cases.inc on a GPU, a word a case and thread; then sums of neighbours by shuffles
 * and through shared memory.  tests/fuzz/corpus/machine/cases_smN.cubin are made of it:
 *   nvcc -cubin -arch=sm_80 machine_cases.cu -o cases_sm80.cubin   (CUDA 13.0) */
#include "machine_cases.h"

extern "C" __global__ void
k(u32 *out, u32 first, u32 second)
{
	__shared__ u32 row[64];
	const u32 t = threadIdx.x, a = t * 0x9e3779b9u + first, b = (t + 3) * 0x85ebca6bu ^ second;
	const int sa = (int)a, sb = (int)b;

#define CASE(E) *out = (E), out += 64;
	out += t;
#include "machine_cases.inc"
#undef CASE
	u32 sum = a;

	for (int n = 16; n > 0; n /= 2)
		sum += __shfl_xor_sync(0xffffffff, sum, n);
	*out = sum;
	out += 64;
	*out = __shfl_up_sync(0xffffffff, b, 3, 16) + __shfl_sync(0xffffffff, a, 5);
	out += 64;
	row[t] = a;
	__syncthreads();
	*out = row[(t + 40) % 64] + row[63 - t];
	out += 64;
	*out = __ballot_sync(0xffffffff, a & 1) + (t > 30 && __any_sync(__activemask(), b == 1));
}
