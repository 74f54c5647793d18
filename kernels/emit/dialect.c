/* kernels/emit/dialect.c: the languages. */
#include "gen_int.h"

/* The K_ words are the prelude's: on a GPU, and in the host shim that runs the same text. */
const struct dialect dialect_cuda = {
    .body = "K_DEVICE void",
    .function = "K_KERNEL",
    .params = "void *const *buf, char *shared, char *local, k_i64 lo, k_i64 hi",
    .table = "K_TABLE const",
    .infinity = "K_INFINITY",
    .nan = "K_NAN",
};
