/* tests/python/fake_cuda.c: libcuda.so.1 over the fake GPU (worker/gpu_fake), for a process that opens the
 * driver by its name: KORCH_CUDA_LIB names the folder.  The fake's functions stand in a table; each name of
 * the driver's jumps to its place. */
#include "../../worker/gpu_fake/gpu_fake_int.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef __x86_64__
#error "the jumps are written for x86_64"
#endif

/* Seen by the jumps below, and by nobody outside. */
extern struct gpu_cu fake_cuda_table;
__attribute__((visibility("hidden"))) struct gpu_cu fake_cuda_table;

/* The fields have no names in assembly: they are counted, as they stand in the struct. */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
__asm__(".set fake_cuda_first, " TEXT(__COUNTER__) " + 1");
#define JUMP(N, NAMES)                                                                                       \
	__asm__(".text\n"                                                                                    \
		".irp name, " NAMES "\n"                                                                     \
		".globl \\name\n"                                                                            \
		".type \\name, @function\n"                                                                  \
		"\\name:\n"                                                                                  \
		".endr\n"                                                                                    \
		"jmp *fake_cuda_table + 8 * (" TEXT(N) " - fake_cuda_first)(%rip)\n");
#define CU(F, ARGS, NEED, NAMES) JUMP(__COUNTER__, NAMES)
#include "../../kernels/device/dev_cuda_api.def"

_Static_assert(sizeof(int (*)(void)) == 8, "what the jumps count with");

__attribute__((constructor)) static void
open_fake(void)
{
	struct gpu g;
	struct err e = {0};

	if (!gpu_fake_make(STR("gpu=a100,seed=1,replay=1"), &g, &e)) {
		(void)fprintf(stderr, "fake_cuda: %s\n", e.msg);
		abort();
	}
	fake_cuda_table = g.cu;
}
