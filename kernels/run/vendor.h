/* kernels/run/vendor.h: computations that NVIDIA's libraries have ready: cuBLASLt's matrix products and
 * cuDNN's convolutions, with what is done to their results on the way.  A library lists its algorithms
 * for an operation; each is a kernel like any other, checked and timed by whoever asks.  What a plan
 * keeps is the operation and one choice (vendor_pack): bytes in a GPU's module in the place of a cubin. */
#ifndef KORCH_VENDOR_H
#define KORCH_VENDOR_H

#include "gpu.h"

enum vendor_lib { VENDOR_CUBLASLT, VENDOR_CUDNN, VENDOR_LIBS };
const char *vendor_lib_name(enum vendor_lib l); /* "cublaslt" */

enum vendor_kind { VENDOR_MATMUL, VENDOR_CONV, VENDOR_KINDS };
/* What may be rounded before it is multiplied; sums are float32 always. */
enum vendor_math { VENDOR_F32, VENDOR_TF32, VENDOR_F16, VENDOR_BF16, VENDOR_MATHS };
enum vendor_post { VENDOR_BIAS, VENDOR_ADD, VENDOR_RELU, VENDOR_GELU, VENDOR_GELU_TANH, VENDOR_SIGMOID, VENDOR_TANH,
	VENDOR_SWISH, VENDOR_POSTS };
enum { VENDOR_DIMS = 5, VENDOR_MAX_POSTS = 6, VENDOR_MAX_WORDS = 64, VENDOR_MAX_TEXT = 1400, VENDOR_ALIGN = 16 };

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
		uint32_t buf;    /* BIAS: one value a column or output channel; ADD: laid out as d */
	} post[VENDOR_MAX_POSTS];
};
/* Extents, strides and bounds make sense, and buffers are below n_bufs.  ERR_FORMAT. */
bool vendor_op_check(const struct vendor_op *op, uint32_t n_bufs, struct err *e) MUST_CHECK;

/* One algorithm.  Words: cuBLASLt's algorithm; cuDNN's engine, then pairs of knob and value. */
struct vendor_choice {
	enum vendor_lib lib;
	uint32_t version;        /* of the library: 130100, 91900; good for this one alone */
	uint64_t workspace;      /* bytes of scratch */
	uint32_t n_words;
	uint64_t word[VENDOR_MAX_WORDS];
};
/* "lib=cudnn version=91900 workspace=1024 algo=1f.0.2". */
struct str vendor_choice_print(struct arena *a, const struct vendor_choice *c);
bool vendor_choice_read(struct str text, struct vendor_choice *out, struct err *e) MUST_CHECK;

/* The library's algorithms for the operation on this device, its best guess first, none with more
 * scratch than max_workspace.  ERR_HOST: the library is not here; ERR_INFEASIBLE: it has none. */
bool vendor_list(const struct dev *d, enum vendor_lib lib, const struct vendor_op *op, uint64_t max_workspace, uint32_t max,
    struct vendor_choice *out, uint32_t *n, struct err *e) MUST_CHECK;

/* What stands in a module's entry instead of a cubin: one pass, with the workspace as the kernel's
 * shared scratch. */
void vendor_pack(struct arena *a, const struct vendor_op *op, const struct vendor_choice *c, struct bytes *out);
bool vendor_is_packed(struct bytes b);
/* All is checked: the bytes are hostile.  ERR_FORMAT. */
bool vendor_unpack(struct bytes b, struct vendor_op *op, struct vendor_choice *c, struct err *e) MUST_CHECK;

#endif
