/* tests/models/gen.h: builds ONNX graphs with static shapes, named as a PyTorch export names them.
 * Each weight depends on the seed and on its own name only, so a graph keeps its weights when
 * another part of it changes. */
#ifndef KORCH_GEN_H
#define KORCH_GEN_H

#include "../../kernels/base/base.h"

enum { GEN_MAX_RANK = 6, GEN_OPSET = 17 };

struct val { /* a tensor of the graph */
	const char *name;
	int rank;
	int64_t d[GEN_MAX_RANK];
};
typedef const struct val *val_t;

struct gen;
struct gen *gen_new(const char *name, uint64_t seed);
void gen_free(struct gen *g);
/* Written beside and renamed. */
bool gen_write(struct gen *g, const char *path, struct err *e) MUST_CHECK;
uint64_t gen_seed(const struct gen *g);
uint32_t gen_n_nodes(const struct gen *g);
int64_t gen_n_weights(const struct gen *g);

void gen_enter(struct gen *g, const char *fmt, ...) PRINTF_LIKE(2, 3); /* scope of names */
void gen_leave(struct gen *g);
/* A name within them that nothing else has. */
const char *gen_fresh(struct gen *g, const char *what);
val_t gen_input(struct gen *g, const char *name, int rank, const int64_t *d);
void gen_output(struct gen *g, val_t x, const char *name);

/* Initializers: float32 around `mean`, given ones, integers. */
val_t gen_near(struct gen *g, const char *name, double mean, double std, int rank, const int64_t *d);
val_t gen_floats(struct gen *g, const char *name, const float *v, int rank, const int64_t *d);
val_t gen_num(struct gen *g, double v);
val_t gen_ints(struct gen *g, const char *name, const int64_t *v, int n);

/* ---- operators ----------------------------------------------------------------------- */
val_t gen_un(struct gen *g, const char *op, val_t x);
val_t gen_bi(struct gen *g, const char *op, val_t x, val_t y);
val_t gen_bin(struct gen *g, const char *op, val_t x, double y);
enum act { ACT_NONE, ACT_RELU, ACT_MISH, ACT_LEAKY, ACT_SILU, ACT_HARDSWISH };
val_t gen_act(struct gen *g, enum act act, val_t x);
val_t gen_gelu(struct gen *g, val_t x);

struct conv {
	int64_t co, k, s, p; /* channels out, kernel, stride, padding (-1: half the kernel) */
	int64_t groups;      /* 0: 1 */
	bool no_bias;
	enum act act;
	double gain;       /* variance of the weight times its fan in; 0: 2 before an activation, else 1 */
	const char *scope; /* NULL: "conv" */
};
val_t gen_conv(struct gen *g, val_t x, struct conv c);
val_t gen_matmul(struct gen *g, val_t x, val_t y);
/* MatMul and Add on sequences, Gemm on matrices; bias at will. */
val_t gen_linear(struct gen *g, val_t x, int64_t co, bool has_bias, const char *scope);
val_t gen_maxpool(struct gen *g, val_t x, int64_t k, int64_t s, int64_t p);
val_t gen_avgpool(struct gen *g, val_t x, int64_t k, int64_t s, int64_t p);
/* ReduceMean and its like along one axis, which stays with one element. */
val_t gen_reduction(struct gen *g, const char *op, val_t x, int axis);
/* Over `size` channels. */
val_t gen_lrn(struct gen *g, val_t x, int64_t size);
val_t gen_global_average(struct gen *g, val_t x);
val_t gen_instance_norm(struct gen *g, val_t x);
val_t gen_layer_norm(struct gen *g, val_t x, const char *scope);
val_t gen_softmax(struct gen *g, val_t x);

val_t gen_reshape(struct gen *g, val_t x, int rank, const int64_t *d);
val_t gen_transpose(struct gen *g, val_t x, const int64_t *perm);
val_t gen_concat(struct gen *g, const val_t *x, int n, int axis);
val_t gen_slice(struct gen *g, val_t x, int axis, int64_t from, int64_t to, int64_t step);
val_t gen_expand(struct gen *g, val_t x, int rank, const int64_t *d);
val_t gen_pad(
    struct gen *g, val_t x, const int64_t *lo, const int64_t *hi, const char *mode, const double *value);
val_t gen_flatten(struct gen *g, val_t x);
/* "nearest": asymmetric, floor, by scales; "linear": half_pixel, by sizes */
val_t gen_resize(struct gen *g, val_t x, int64_t h, int64_t w, const char *mode);

#define DIMS(...)                                                                                            \
	((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))), (int64_t[])                             \
	{                                                                                                    \
		__VA_ARGS__                                                                                  \
	}

#endif
