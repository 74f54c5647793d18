/* kernels/vendor/vendor.h: computations that NVIDIA's libraries have ready: cuBLASLt's matrix products and
 * cuDNN's convolutions, with what is done to their results on the way.  A library lists its algorithms
 * for an operation; each is a kernel like any other, checked and timed by whoever asks.  What a plan
 * keeps is the operation and one choice (vendor_pack): bytes in a GPU's module in the place of a cubin. */
#ifndef KORCH_VENDOR_H
#define KORCH_VENDOR_H

#include "library.h"

enum vendor_kind { VENDOR_MATMUL, VENDOR_CONV, VENDOR_KINDS };
/* What may be rounded before it is multiplied; sums are float32 always. */
enum vendor_math { VENDOR_F32, VENDOR_TF32, VENDOR_F16, VENDOR_BF16, VENDOR_MATHS };
enum vendor_post {
	VENDOR_BIAS,
	VENDOR_ADD,
	VENDOR_RELU,
	VENDOR_GELU,
	VENDOR_GELU_TANH,
	VENDOR_SIGMOID,
	VENDOR_TANH,
	VENDOR_SWISH,
	VENDOR_CLIP,
	VENDOR_POSTS
};
enum { VENDOR_DIMS = 5, VENDOR_MAX_POSTS = 6, VENDOR_MAX_WORDS = 64, VENDOR_ALIGN = 16 };
/* A buffer from VENDOR_DATA on is none of the kernel's: it is data[buf - VENDOR_DATA] and what follows. */
enum { VENDOR_DATA = 1 << 20, VENDOR_MAX_DATA = 1 << 16 };
enum { VENDOR_MAX_WORKSPACE = 64 << 20 }; /* bytes; what wants more is no candidate */

/* A float32 tensor in buf[] of the kernel: extents and strides in elements, outermost first. */
struct vendor_tensor {
	uint32_t buf;
	int64_t dim[VENDOR_DIMS], stride[VENDOR_DIMS];
};
/* MATMUL: a[batch][m][k] times b[batch][k][n] is d[batch][m][n]; rank 3.
 * CONV: a[n][c][space..], b[out][c/group][space..], d[n][out][space..], whatever lies next to what in
 * memory; rank 3, 4 or 5. */
struct vendor_op {
	enum vendor_kind kind;
	enum vendor_math math;
	uint32_t rank;
	struct vendor_tensor a, b, d;
	int64_t lo[3], hi[3], stride[3], dilation[3];
	uint32_t n_posts;
	struct {
		enum vendor_post what;
		uint32_t buf; /* BIAS: one value a column or output channel; ADD: laid out as d */
		double a, b;  /* CLIP: not below a, not above b */
	} post[VENDOR_MAX_POSTS];
	double scale; /* MATMUL: of the products, before all steps; 0: 1 */
	bool repack;  /* b lies elsewhere first: strides `from` in its buffer, and moves once, when it is
	                 prepared */
	int64_t from[VENDOR_DIMS];
	uint32_t n_data;
	const void *data; /* constants by value, floats, perhaps unaligned */
};
/* What the call of a spec with so many operands is to a library of the GPU's.  ERR_INFEASIBLE where it is
 * nothing. */
bool vendor_op_of(struct arena *a, const struct library_call *c, uint32_t n_operands, enum vendor_math math,
    struct vendor_op *out, struct err *e) MUST_CHECK;
/* Extents, strides and bounds make sense, and buffers are below n_bufs.  ERR_FORMAT. */
bool vendor_op_check(const struct vendor_op *op, uint32_t n_bufs, struct err *e) MUST_CHECK;

/* One algorithm.  Words: cuBLASLt's algorithm; cuDNN's engine, then pairs of knob and value. */
struct vendor_choice {
	enum library lib;   /* one of CUDA's */
	uint32_t version;   /* of the library: 130100, 91900; good for this one alone */
	uint64_t workspace; /* bytes of scratch */
	uint32_t n_words;
	uint64_t word[VENDOR_MAX_WORDS];
};
/* cuBLASLt and cuDNN as tables of functions; whoever opens the libraries fills them (kernels/device/gpu.h).
 */
struct gpu_lt {
#define LT(F, ARGS, NEED, NAMES) int(*F) ARGS;
#include "cuda_library.def"
};
struct gpu_dnn {
#define DNN(F, ARGS, NEED, NAMES) int(*F) ARGS;
#include "cuda_library.def"
};
struct vendor_api {
	struct gpu_lt lt;
	struct gpu_dnn dnn;
};
/* A library behind one table.  `handle` is what open_handle made; a call is one algorithm, ready to run. */
struct vendor_table {
	bool (*open_handle)(const struct vendor_api *g, void **handle, struct err *e);
	void (*close_handle)(const struct vendor_api *g, void *handle);
	bool (*version)(const struct vendor_api *g, uint32_t *v);
	bool (*list)(const struct vendor_api *g, void *handle, const struct vendor_op *op,
	    uint64_t max_workspace, uint32_t max, struct vendor_choice *out, uint32_t *n, struct err *e);
	bool (*open)(const struct vendor_api *g, void *handle, const struct vendor_op *op,
	    const struct vendor_choice *c, void **call, struct err *e);
	bool (*run)(const struct vendor_api *g, void *handle, void *call, void *const *buf, void *workspace,
	    void *stream, struct err *e);
	void (*close)(const struct vendor_api *g, void *call);
};
extern const struct vendor_table vendor_cublaslt, vendor_cudnn;

/* What stands in a module's entry instead of a cubin: from then on the algorithm is the one that was timed,
 * whatever the library would list.  One pass, with the workspace as the kernel's shared scratch. */
void vendor_pack(
    struct arena *a, const struct vendor_op *op, const struct vendor_choice *c, struct bytes *out);
bool vendor_is_packed(struct bytes b);
/* All is checked: the bytes are hostile.  ERR_FORMAT. */
bool vendor_unpack(struct bytes b, struct vendor_op *op, struct vendor_choice *c, struct err *e) MUST_CHECK;

#endif
