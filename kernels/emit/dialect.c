/* kernels/emit/dialect.c: the languages. */
#include "gen_int.h"

const struct dialect dialect_c = {
	.name = "C",
	.body = "static __attribute__((noinline)) void",
	.function = "void",
	.params = "void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi",
	.table = "static const",
	.restrict_ = "restrict",
	.vector_loop = "",
	.infinity = "__builtin_inff()",
	.nan = "__builtin_nanf(\"\")",
};

const struct dialect dialect_cuda = {
	.name = "CUDA C",
	.body = "static __device__ void",
	.function = "extern \"C\" __global__ void",
	.params = "void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi",
	.table = "__device__ const",
	.restrict_ = "__restrict__",
	.vector_loop = "",
	.infinity = "__int_as_float(0x7f800000)",
	.nan = "__int_as_float(0x7fffffff)",
};
