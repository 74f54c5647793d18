/* kernels/run/dev_cuda_vendor_int.h: one library's kernels from inside, for dev_cuda_vendor.c and the
 * libraries' own files alone. */
#ifndef KORCH_DEV_CUDA_VENDOR_INT_H
#define KORCH_DEV_CUDA_VENDOR_INT_H

#include "dev_cuda_int.h"
#include "vendor.h"

enum {
#define LT_VALUE(OURS, V, THEIRS) OURS = (V),
#define DNN_VALUE(OURS, V, THEIRS) OURS = (V),
#include "dev_cuda_value.def"
};

/* A library behind one table.  `handle` is what open_handle made; a call is one algorithm, ready to run. */
struct vendor_table {
	enum gpu_lib lib;
	bool (*open_handle)(const struct gpu *g, void **handle, struct err *e);
	void (*close_handle)(const struct gpu *g, void *handle);
	bool (*version)(const struct gpu *g, uint32_t *v);
	bool (*list)(const struct gpu *g, void *handle, const struct vendor_op *op, uint64_t max_workspace,
	    uint32_t max, struct vendor_choice *out, uint32_t *n, struct err *e);
	bool (*open)(const struct gpu *g, void *handle, const struct vendor_op *op,
	    const struct vendor_choice *c, void **call, struct err *e);
	bool (*run)(const struct gpu *g, void *handle, void *call, void *const *buf, void *workspace,
	    void *stream, struct err *e);
	void (*close)(const struct gpu *g, void *call);
};
extern const struct vendor_table vendor_cublaslt, vendor_cudnn;

#endif
