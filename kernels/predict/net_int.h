/* kernels/predict/net_int.h: the layers of a network, forward and backward, and a pass over a batch.
 *
 * A batch's leaves lie one below the other, kernel by kernel: `first` (n_kernels + 1 numbers) says where each
 * kernel's begin.  So kernels of different numbers of leaves share one product, nothing is padded, and no
 * mask can be forgotten.  A matrix is its rows, one behind the other.
 *
 * Backward functions add to gradients of weights and write those of inputs. */
#ifndef KORCH_NET_INT_H
#define KORCH_NET_INT_H

#include "net.h"

enum net_part {
#define NET_PART(NAME, IN, OUT, EACH) NET_##NAME,
#include "net_part.def"
#undef NET_PART
	NET_PARTS
};

/* One linear layer: factors [in][out], then offsets [out]; begin: where in all weights. */
struct net_linear {
	uint32_t in, out;
	size_t begin;
	net_multiply *multiply;
};
/* layer: of the encoder, where the part is there once for each.  It multiplies by net_product. */
struct net_linear net_linear(const struct net_shape *s, enum net_part part, uint32_t layer);
size_t net_n_weights(const struct net_shape *s);

/* ---- layers (net_layer.c) ----------------------------------------------------------- */
/* y = x factors + offsets; w: all weights. */
void net_linear_run(const struct net_linear *l, const float *w, const float *x, uint32_t rows, float *y);
/* dx may be NULL. */
void net_linear_back(const struct net_linear *l, const float *w, const float *x, const float *dy,
    uint32_t rows, float *dx, float *dw);
/* Each row with mean 0 and deviation 1; inverse[rows]: one over the deviation. */
void net_norm_run(const float *x, uint32_t rows, uint32_t width, float *y, float *inverse);
/* Adds to dx. */
void net_norm_back(
    const float *y, const float *inverse, const float *dy, uint32_t rows, uint32_t width, float *dx);
/* (x + sqrt(x^2 + 1) - 1) / 2: a rectifier without a kink. */
void net_bend_run(const float *x, size_t n, float *y);
void net_bend_back(const float *x, const float *dy, size_t n, float *dx);
void net_squash_run(const float *x, size_t n, float *y); /* tanh */
void net_squash_back(const float *y, const float *dy, size_t n, float *dx);
/* Adds sines and cosines of a place to a row: 10000^(-2i/width). */
void net_place_add(float *row, uint32_t width, uint32_t place);
/* y[kernels][2 width]: mean and maximum of a kernel's rows; from: which row was the maximum. */
void net_pool_run(
    const float *x, const uint32_t *first, uint32_t kernels, uint32_t width, float *y, uint32_t *from);
void net_pool_back(const float *dy, const uint32_t *from, const uint32_t *first, uint32_t kernels,
    uint32_t width, float *dx);
/* y = x (1 + film's first half) + film's second half, width numbers a row. */
void net_film_run(const float *x, const float *film, uint32_t rows, uint32_t width, float *y);
void net_film_back(const float *x, const float *film, const float *dy, uint32_t rows, uint32_t width,
    float *dx, float *dfilm);

/* ---- attention (net_attend.c) ------------------------------------------------------- */
struct net_attend {
	const uint32_t *first;
	uint32_t kernels, width, heads;
};
/* Floats that net_attend_run keeps. */
size_t net_attend_kept(const struct net_attend *at);
/* qkv: [rows][3 width]; each leaf's mean of its kernel's values, weighted by softmax(q k / sqrt(width /
 * heads)). */
void net_attend_run(const struct net_attend *at, const float *qkv, float *kept, float *y);
void net_attend_back(
    const struct net_attend *at, const float *qkv, const float *kept, const float *dy, float *dqkv);

/* ---- distance between domains (net_cmd.c) ------------------------------------------- */
/* net_cmd, and its gradient times `weight` added to dx and dy (either may be NULL). */
double net_cmd_back(const float *x, uint32_t n_x, const float *y, uint32_t n_y, uint32_t width, double weight,
    float *dx, float *dy);

/* ---- a pass (net_run.c) ------------------------------------------------------------- */
struct net_layer_run {
	float *norm, *inverse, *qkv, *kept, *mixed, *norm2, *inverse2, *wide, *bent;
};
/* What a batch's forward pass leaves behind for its backward pass. */
struct net_run {
	const struct net *net;
	uint32_t kernels, rows;
	uint32_t *first, *pooled_from;
	float *leaf, *whole; /* inputs, scaled */
	struct net_layer_run *layers;
	float *x, *inverse; /* the encoder's end, normed */
	float *about, *about_bent, *film, *pooled, *filmed;
	float *hidden; /* squashed: what CMD compares */
	float *decoded, *decoded_bent;
	float *y; /* a number a kernel, of mean 0 and deviation 1 */
};
/* pick: which of rows (NULL: the first `kernels`). */
struct net_run *net_run(struct arena *a, const struct net *n, const struct net_sample *rows,
    const uint32_t *pick, uint32_t kernels);
/* dy: a number a kernel; dhidden: what else pulls on the hidden units, or NULL.  Adds to dw. */
void net_run_back(struct arena *a, const struct net_run *r, const float *dy, const float *dhidden, float *dw);

#endif
