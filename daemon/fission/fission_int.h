/* daemon/fission/fission_int.h: what the operators' functions are written with.
 *
 * The builder is sticky: after the first error every call does nothing and returns a tensor of
 * ones for a shape, so that the functions have no error paths; fission_run reports once.
 *   f_...  the node: operands, attributes, results
 *   b_...  primitives, with constants folded at once */
#ifndef KORCH_FISSION_INT_H
#define KORCH_FISSION_INT_H

#include "fission.h"
#include "../model/op.h"
#include "../../kernels/interp/interp.h"

enum { MAX_TENSOR_GIB = 64 };

/* What is known of a tensor's value while the graph is built. */
enum known {
	KNOWN_NOT,
	KNOWN_DATA, /* constant, data at hand */
	KNOWN_LAZY, /* a broadcast or iota of constants: stays a node, computed when needed */
};
struct note { /* beside each tensor of the graph */
	enum known known;
	const void *data;
	uint32_t maker; /* node, for KNOWN_LAZY */
};
struct fission {
	struct arena *a;
	const struct model *m;
	struct graph *g;
	struct note *notes;
	uint32_t n_notes, cap_notes;
	tensor_id *of_value;           /* by value of the model */
	const struct model_node *node; /* the one at work */
	const struct op_info *op;
	uint32_t origin;
	tensor_id *outs; /* of the node, NO_TENSOR where not made */
	tensor_id blank; /* what calls return after an error */
	size_t folded_bytes;
	const char **why_absent; /* by value: the node at the root of its not being made, and what it said */
	const char *absent;      /* the same of the operand that the node at work misses, or NULL */
	struct fission_faults
	    *faults;  /* fission_check(): where failures go; NULL: the first one ends the run */
	bool is_said; /* the error of the node at work tells its cause already */
	bool failed;
	struct err *e;
};
typedef void fission_fn(struct fission *f);
/* One function a row of op.def. */
#define OP(N, V, ...) fission_fn fiss_##N##_##V;
#define UNARY(N, V, P)
#define BINARY(N, V, P)
#include "../model/op.def"

/* ---- the node (arg.c) ---------------------------------------------------------------- */
void f_fail(struct fission *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Memory for n elements of a table that the model's numbers decide the size of: counted against
 * the model's limit; NULL and an error beyond it. */
void *f_memory(struct fission *f, int64_t n, size_t size);
/* The nearest integer that is no larger in magnitude than 2^62; NaN is 0. */
int64_t f_whole(double v);
/* a b, or an error and 1. */
int64_t f_product(struct fission *f, int64_t a, int64_t b);
/* Within the limits, also where an extent is 0: so any product of extents fits. */
bool f_check_shape(struct fission *f, const struct shape *s, enum dtype t);
bool f_has(const struct fission *f, uint32_t i);
tensor_id f_in(struct fission *f, uint32_t i);
uint32_t f_n_in(const struct fission *f);
bool f_wants(const struct fission *f, uint32_t i); /* somebody reads result i */
void f_out(struct fission *f, uint32_t i, tensor_id t);
bool f_has_attr(const struct fission *f, const char *name);
int64_t f_int(struct fission *f, const char *name);
double f_float(struct fission *f, const char *name);
struct str f_text(struct fission *f, const char *name);
bool f_text_is(struct fission *f, const char *name, const char *want);
/* Which of the words (NULL-terminated) the attribute is; an error when it is none of them. */
int f_choice(struct fission *f, const char *name, const char *const *words);
/* A list of integers; NULL and *n = 0 when absent. */
const int64_t *f_ints(struct fission *f, const char *name, int *n);
const float *f_floats(struct fission *f, const char *name, int *n);
const struct model_tensor *f_tensor(struct fission *f, const char *name);
/* The attribute as an axis of `rank`, negative ones counted from the end. */
int f_axis(struct fission *f, const char *name, int rank);
int f_axis_of(struct fission *f, int64_t axis, int rank);
/* A list of integers that is an operand (it must be constant), else an attribute, else absent
 * (NULL).  `name` is the attribute's, and names the operand in errors. */
const int64_t *f_list(struct fission *f, uint32_t i, const char *name, int *n);
/* The operand's elements, which must be constant: as integers or numbers. */
const int64_t *f_const_ints(struct fission *f, uint32_t i, const char *what, int *n);
const double *f_const_nums(struct fission *f, uint32_t i, const char *what, int *n);

/* ---- what is said of a failure (fault.c) ---------------------------------------------- */
/* Inputs of the model that t's value depends on, by number; how many, of which at most `most` are in list. */
uint32_t f_inputs_of(const struct fission *f, tensor_id t, uint32_t *list, uint32_t most);
/* "the input 'sr' (bind it, as with --value sr=16000)", in the arena. */
const char *f_hangs_on(struct fission *f, tensor_id t);
/* Adds to the error of the node at work which operands met, and where their shapes come from. */
void f_say_operands(struct fission *f);
/* A node of a branch, or with fission_check() any: its results are absent, and why. */
void f_note_fault(struct fission *f);
/* Of the node at work, or of none: the model's. */
void f_add_fault(struct fission *f, const char *why);

/* ---- primitives (build.c) ------------------------------------------------------------ */
const struct shape *b_shape(const struct fission *f, tensor_id t);
int b_rank(const struct fission *f, tensor_id t);
int64_t b_dim(const struct fission *f, tensor_id t, int axis);
enum dtype b_type(const struct fission *f, tensor_id t);
/* Elements of a constant tensor, or NULL when it is not constant. */
const void *b_data(struct fission *f, tensor_id t);
bool b_is_const(const struct fission *f, tensor_id t);
tensor_id b_prim(struct fission *f, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at);
/* Data must live as long as the graph. */
tensor_id b_table(struct fission *f, enum dtype t, const struct shape *s, const void *data);
tensor_id b_weight(struct fission *f, const struct model_tensor *t, const char *name);
tensor_id b_num(struct fission *f, enum dtype t, double v); /* rank 0 */
/* Maps; operands are broadcast to each other by the rules of numpy. */
tensor_id b_map1(struct fission *f, enum prim p, tensor_id x);
tensor_id b_map2(struct fission *f, enum prim p, tensor_id x, tensor_id y);
tensor_id b_map2n(struct fission *f, enum prim p, tensor_id x, double y);
tensor_id b_select(struct fission *f, tensor_id c, tensor_id x, tensor_id y);
tensor_id b_cast(struct fission *f, tensor_id x, enum dtype to);
/* Whether a and b broadcast to *out. */
bool b_common(struct fission *f, const struct shape *a, const struct shape *b, struct shape *out);
tensor_id b_expand(struct fission *f, tensor_id x, const struct shape *s);
tensor_id b_reshape(struct fission *f, tensor_id x, const struct shape *s);
tensor_id b_view(struct fission *f, tensor_id x, int rank, const int64_t *dims);
tensor_id b_transpose(struct fission *f, tensor_id x, const int64_t *perm);
tensor_id b_slice(
    struct fission *f, tensor_id x, const int64_t *start, const int64_t *step, const struct shape *s);
tensor_id b_slice1(struct fission *f, tensor_id x, int axis, int64_t from, int64_t n);
tensor_id b_pad(
    struct fission *f, tensor_id x, const int64_t *lo, const int64_t *hi, enum pad_mode mode, double value);
tensor_id b_concat(struct fission *f, const tensor_id *in, uint32_t n, int axis);
tensor_id b_gather(struct fission *f, tensor_id x, tensor_id index, int axis);
tensor_id b_iota(struct fission *f, const struct shape *s, int axis);
/* Reductions keep their axes with extent 1; axes ascending. */
tensor_id b_reduce(struct fission *f, enum prim p, tensor_id x, int n, const int64_t *axes);
tensor_id b_reduce1(struct fission *f, enum prim p, tensor_id x, int axis);
tensor_id b_mean(struct fission *f, tensor_id x, int n, const int64_t *axes);
tensor_id b_window(struct fission *f, enum prim p, tensor_id x, const int64_t *kernel, const int64_t *stride,
    const int64_t *dilation, const int64_t *lo, const int64_t *hi);
tensor_id b_matmul(struct fission *f, tensor_id x, tensor_id y);

/* ---- shared by several families ------------------------------------------------------ */
/* softmax along one axis, the maximum subtracted (norm.c) */
tensor_id fs_softmax(struct fission *f, tensor_id x, int axis);
/* (x - mean) / sqrt(var + eps) over the axes, two passes (norm.c) */
tensor_id fs_standardise(struct fission *f, tensor_id x, int n, const int64_t *axes, double eps);
/* channels-first to channels-last and back (linear.c) */
tensor_id fs_to_last(struct fission *f, tensor_id x);
tensor_id fs_from_last(struct fission *f, tensor_id x);
/* broadcasting matrix product by the rules of numpy (linear.c) */
tensor_id fs_matmul(struct fission *f, tensor_id x, tensor_id y);
/* Conv by the node's attributes; bias may be NO_TENSOR (linear.c) */
tensor_id fs_conv(struct fission *f, tensor_id x, tensor_id w, tensor_id bias);
/* a vector over channels, ready to broadcast over [N, C, ...] of `rank` (norm.c) */
tensor_id fs_per_channel(struct fission *f, tensor_id v, int rank);
/* x * sigmoid(alpha x) (act.c) */
tensor_id fs_swish(struct fission *f, tensor_id x, double alpha);

/* Geometry of windows over the spatial dimensions, from attributes (window.c). */
struct window {
	int n; /* spatial dimensions */
	int64_t kernel[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK], lo[MAX_RANK], hi[MAX_RANK];
};
/* `x` is [N, C, spatial...]; kernel NULL: attribute kernel_shape. */
void window_read(struct fission *f, tensor_id x, const int64_t *kernel, struct window *w);
/* Extent of the result along spatial dimension i. */
int64_t window_extent(const struct window *w, const struct shape *x, int i);

#endif
