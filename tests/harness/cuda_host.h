/* tests/harness/cuda_host.h: CUDA text run on the host through the generator's shim: compiled with
 * traps at array bounds, in a child process, on memory that ends at a page nobody may touch. */
#ifndef KORCH_TEST_CUDA_HOST_H
#define KORCH_TEST_CUDA_HOST_H

#include "../../kernels/generate/generate.h"

/* Memory shared with the child, filled with 0xff; its last byte is the last of a page. */
void *guard_new(size_t n);
void guard_free(void *p, size_t n);

/* The shim's prelude and `text` as a loaded object; NULL: it did not compile. */
void *cuda_host_load(struct arena *a, struct str text);
void cuda_host_unload(void *lib);

enum { CUDA_HOST_ORDERS = 4 };
/* Runs all passes in the order `order` of threads.  NULL: it ran; else what happened. */
const char *cuda_host_run(
    void *lib, const struct kernel_code *k, const char *symbol, void *const *buf, int order);

#endif
