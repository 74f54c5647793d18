/* kernels/predict/net.h: a network that says how far above the time of its work a kernel will be measured: a
 * Transformer encoder over the leaves of its lowered program, its device beside it (CDMPP, arXiv 2311.09690).
 * Pure: equal rows, recipe and seed give an equal network. */
#ifndef KORCH_NET_H
#define KORCH_NET_H

#include "../base/base.h"

/* Widths; all at least 1, width a multiple of heads and of 2. */
struct net_shape {
	uint32_t leaf;   /* numbers of a leaf */
	uint32_t whole;  /* numbers of the kernel as a whole and of its device */
	uint32_t width;  /* of a leaf inside the encoder */
	uint32_t heads;  /* of attention */
	uint32_t layers; /* of the encoder */
	uint32_t inner;  /* of each layer's second half */
	uint32_t hidden; /* units that CMD compares, each within (-1, 1) */
};

/* A kernel. */
struct net_sample {
	const float *leaf;     /* n_leaves times shape.leaf */
	const uint32_t *place; /* of each leaf in the pre-order of the program's nodes */
	uint32_t n_leaves;     /* 0: only the whole is known */
	const float *whole;    /* shape.whole */
	float want;            /* ln(measured / work) */
	float weight;          /* in the loss */
};

/* What an input is shifted and scaled by, so that training rows have mean 0 and deviation 1. */
struct net_scale {
	float mean, factor;
};

enum net_turn { NET_AS_IS, NET_TURNED };
/* c[m][n] = a[m][k] b[k][n], or c += it; where turned, a lies as [k][m], b as [n][k]. */
typedef void net_multiply(enum net_turn turn_a, enum net_turn turn_b, uint32_t m, uint32_t n, uint32_t k,
    const float *a, const float *b, bool add, float *c);
/* By loops, everywhere. */
net_multiply net_product;

struct net {
	struct net_shape shape;
	net_multiply *multiply; /* net_product, or a library's in a program that trains */
	uint32_t n_weights;
	float *w;                /* n_weights, in the order of net_part.def */
	struct net_scale *scale; /* shape.leaf, then shape.whole */
	struct net_scale want;
};

/* A network of random weights; its scales do nothing yet.  All of it lives in `a`. */
struct net net_new(struct arena *a, const struct net_shape *shape, uint64_t seed);
/* Sets the scales so that these rows are centred. */
void net_centre(struct net *n, const struct net_sample *rows, uint32_t n_rows);
/* ln(measured / work), expected, of each; only samples' inputs are read. */
void net_predict(const struct net *n, const struct net_sample *rows, uint32_t n_rows, float *out);

struct net_recipe {
	uint32_t epochs, batch;
	double rate;  /* of Adam, at its highest */
	double decay; /* of weights, a step: rate * decay */
	double cmd;   /* weight of the distance between the hidden units of rows and target */
	uint64_t seed;
};
/* Goes on from the weights that n has.  target: samples of the domain that is to be met, whose times nobody
 * knows (or none).  Returns the mean loss of the last epoch, CMD's part left out. */
double net_train(struct net *n, const struct net_sample *rows, uint32_t n_rows,
    const struct net_sample *target, uint32_t n_target, const struct net_recipe *recipe);

/* Central moment discrepancy of order 5 of x (n_x rows) and y (n_y rows) of `width` numbers within (-1, 1): 0
 * where they are distributed alike. */
double net_cmd(const float *x, uint32_t n_x, const float *y, uint32_t n_y, uint32_t width);

/* Bytes of a network and back; what is read is hostile: ERR_FORMAT or ERR_NEWER, and what is wrong. */
void net_write(const struct net *n, struct strbuf *out);
bool net_read(struct arena *a, struct bytes file, struct net *out, struct err *e) MUST_CHECK;

#endif
