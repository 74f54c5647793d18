/* client/host_tensor.h: tensors as files and in memory: .npy, ONNX's TensorProto (.pb), test
 * cases of ONNX's backend suite, and how two tensors are compared. */
#ifndef KORCH_HOST_TENSOR_H
#define KORCH_HOST_TENSOR_H

#include "../kernels/ir/ir.h"

/* A dense row-major tensor in host memory.  Types that no plan knows (strings) do not occur. */
struct host_tensor {
	struct str name; /* of the file's own, may be empty */
	enum dtype type;
	struct shape shape;
	void *data; /* 64-byte aligned */
	size_t n_bytes;
};
enum { HOST_ALIGN = 64 };
extern const size_t host_max_bytes; /* of a tensor from a file: 16 GiB */

/* Zeroed; ERR_LIMIT where type and shape ask for more than host_max_bytes. */
bool host_tensor_make(
    struct arena *a, enum dtype t, const struct shape *s, struct host_tensor *out, struct err *e) MUST_CHECK;
/* Normal numbers without denormals; integers from 0 to 9; booleans even and odd. */
void host_tensor_random(struct host_tensor *t, struct rng *r);

/* ---- files ---- */
/* numpy's format 1 to 3, C or Fortran order, either byte order.  Errors name the file. */
bool npy_read(struct arena *a, const char *path, struct host_tensor *out, struct err *e) MUST_CHECK;
bool npy_parse(struct arena *a, struct bytes file, struct host_tensor *out, struct err *e) MUST_CHECK;
/* bf16, which numpy does not know, is written as its bits (u16). */
bool npy_write(const char *path, const struct host_tensor *t, struct err *e) MUST_CHECK;
/* TensorProto: raw or typed data, none of it external. */
bool pb_read(struct arena *a, const char *path, struct host_tensor *out, struct err *e) MUST_CHECK;
bool pb_parse(struct arena *a, struct bytes file, struct host_tensor *out, struct err *e) MUST_CHECK;
/* By the ending of the name: .npy or .pb. */
bool host_tensor_read(struct arena *a, const char *path, struct host_tensor *out, struct err *e) MUST_CHECK;

/* ---- comparing ---- */
struct tolerance {
	double rtol, atol; /* element-wise: |have - want| <= atol + rtol * |want| */
	double rel;        /* > 0: largest error over largest magnitude instead (D12) */
};
struct difference {
	int64_t n_wrong;   /* elements outside the tolerance */
	int64_t at;        /* the worst of them, flat */
	double have, want; /* there */
	double max_error;  /* over all elements */
	double max_want;   /* largest finite magnitude wanted */
};
/* Same type, same shape and every element within the tolerance; NaN equals NaN, infinities
 * must agree.  ERR_WRONG says what differs. */
bool host_compare(const struct host_tensor *have, const struct host_tensor *want, const struct tolerance *tol,
    struct difference *d, struct err *e) MUST_CHECK;

/* ---- test cases ---- */
enum { CASE_MAX_TENSORS = 256, CASE_MAX_SETS = 64 };
struct case_set { /* one test_data_set_K */
	char *dir;
	struct host_tensor *inputs, *outputs;
	uint32_t n_inputs, n_outputs;
};
struct test_case {
	struct case_set *sets;
	uint32_t n_sets;
	struct tolerance *per_output; /* of data.json; n_per_output entries, may be none */
	uint32_t n_per_output;
	bool has_tolerance; /* of data.json as a whole */
	struct tolerance tolerance;
};
/* DIR holds test_data_set_*, or is one such set. */
bool test_case_read(struct arena *a, const char *dir, struct test_case *out, struct err *e) MUST_CHECK;

#endif
