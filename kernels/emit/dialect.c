/* kernels/emit/dialect.c: the languages. */
#include "gen_int.h"

/* The K_ words are the prelude's: on a GPU, and in the host shim that runs the same text. */
const struct dialect dialect_cuda = {
    .name = "CUDA C",
    .body = "K_DEVICE void",
    .function = "K_KERNEL",
    .params = "void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi",
    .table = "K_TABLE const",
    .restrict_ = "K_RESTRICT",
    .vector_loop = "",
    .infinity = "K_INFINITY",
    .nan = "K_NAN",
};
