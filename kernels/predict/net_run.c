/* kernels/predict/net_run.c: a batch through the network, and the loss's pull back through it. */
#include "net_int.h"

#include <string.h>

/* How many deviations from the mean of training an input counts for at most. */
static const float far = 4;

static float
scaled(float x, const struct net_scale *s)
{
	float v = (x - s->mean) * s->factor;

	return v > far ? far : v < -far ? -far : v;
}

static float *
floats(struct arena *a, size_t rows, size_t width)
{
	return NEW_ARRAY(a, float, ck_mul(rows, width));
}

static const struct net_sample *
sample_of(const struct net_sample *rows, const uint32_t *pick, uint32_t k)
{
	return &rows[pick ? pick[k] : k];
}

/* Scaled inputs of all kernels, leaves one below the other. */
static void
gather(struct arena *a, struct net_run *r, const struct net_sample *rows, const uint32_t *pick)
{
	const struct net_shape *s = &r->net->shape;

	r->first = NEW_ARRAY(a, uint32_t, r->kernels + 1);
	for (uint32_t k = 0; k < r->kernels; k++)
		r->first[k + 1] = r->first[k] + sample_of(rows, pick, k)->n_leaves;
	r->rows = r->first[r->kernels];
	r->leaf = floats(a, r->rows, s->leaf);
	r->whole = floats(a, r->kernels, s->whole);
	for (uint32_t k = 0; k < r->kernels; k++) {
		const struct net_sample *one = sample_of(rows, pick, k);
		float *leaf = r->leaf + (size_t)r->first[k] * s->leaf,
		      *whole = r->whole + (size_t)k * s->whole;

		for (uint32_t i = 0; i < one->n_leaves * s->leaf; i++)
			leaf[i] = scaled(one->leaf[i], &r->net->scale[i % s->leaf]);
		for (uint32_t i = 0; i < s->whole; i++)
			whole[i] = scaled(one->whole[i], &r->net->scale[s->leaf + i]);
	}
}

static struct net_linear
linear_of(const struct net *n, enum net_part part, uint32_t layer)
{
	struct net_linear l = net_linear(&n->shape, part, layer);

	l.multiply = n->multiply;
	return l;
}

static float *
linear(
    struct arena *a, const struct net *n, enum net_part part, uint32_t layer, const float *x, uint32_t rows)
{
	struct net_linear l = linear_of(n, part, layer);
	float *y = floats(a, rows, l.out);

	net_linear_run(&l, n->w, x, rows, y);
	return y;
}

static struct net_attend
attend_of(const struct net_run *r)
{
	return (struct net_attend){r->first, r->kernels, r->net->shape.width, r->net->shape.heads};
}

static void
add(float *to, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

/* x += attention(norm x); x += narrow(bend(widen(norm x))) */
static void
layer_run(struct arena *a, struct net_run *r, uint32_t layer, float *x)
{
	const struct net_shape *s = &r->net->shape;
	struct net_layer_run *l = &r->layers[layer];
	struct net_attend at = attend_of(r);
	size_t all = (size_t)r->rows * s->width;

	l->norm = floats(a, r->rows, s->width);
	l->inverse = floats(a, r->rows, 1);
	net_norm_run(x, r->rows, s->width, l->norm, l->inverse);
	l->qkv = linear(a, r->net, NET_QKV, layer, l->norm, r->rows);
	l->kept = floats(a, net_attend_kept(&at), 1);
	l->mixed = floats(a, r->rows, s->width);
	net_attend_run(&at, l->qkv, l->kept, l->mixed);
	add(x, linear(a, r->net, NET_MIX, layer, l->mixed, r->rows), all);

	l->norm2 = floats(a, r->rows, s->width);
	l->inverse2 = floats(a, r->rows, 1);
	net_norm_run(x, r->rows, s->width, l->norm2, l->inverse2);
	l->wide = linear(a, r->net, NET_WIDEN, layer, l->norm2, r->rows);
	l->bent = floats(a, r->rows, s->inner);
	net_bend_run(l->wide, (size_t)r->rows * s->inner, l->bent);
	add(x, linear(a, r->net, NET_NARROW, layer, l->bent, r->rows), all);
}

/* Leaves through the encoder to one row a kernel. */
static void
encode(struct arena *a, struct net_run *r, const struct net_sample *rows, const uint32_t *pick)
{
	const struct net_shape *s = &r->net->shape;
	float *x = linear(a, r->net, NET_EMBED, 0, r->leaf, r->rows);

	for (uint32_t k = 0; k < r->kernels; k++)
		for (uint32_t i = r->first[k]; i < r->first[k + 1]; i++)
			net_place_add(x + (size_t)i * s->width, s->width,
			    sample_of(rows, pick, k)->place[i - r->first[k]]);
	r->layers = NEW_ARRAY(a, struct net_layer_run, s->layers);
	for (uint32_t i = 0; i < s->layers; i++)
		layer_run(a, r, i, x);
	r->x = floats(a, r->rows, s->width);
	r->inverse = floats(a, r->rows, 1);
	net_norm_run(x, r->rows, s->width, r->x, r->inverse);
	r->pooled = floats(a, r->kernels, 2 * (size_t)s->width);
	r->pooled_from = NEW_ARRAY(a, uint32_t, (size_t)r->kernels * s->width);
	net_pool_run(r->x, r->first, r->kernels, s->width, r->pooled, r->pooled_from);
}

/* The kernel and its device change what was pooled; that is squashed and decoded. */
static void
decode(struct arena *a, struct net_run *r)
{
	const struct net *n = r->net;
	const struct net_shape *s = &n->shape;

	r->about = linear(a, n, NET_WHOLE, 0, r->whole, r->kernels);
	r->about_bent = floats(a, r->kernels, s->width);
	net_bend_run(r->about, (size_t)r->kernels * s->width, r->about_bent);
	r->film = linear(a, n, NET_FILM, 0, r->about_bent, r->kernels);
	r->filmed = floats(a, r->kernels, 2 * (size_t)s->width);
	net_film_run(r->pooled, r->film, r->kernels, 2 * s->width, r->filmed);
	r->hidden = linear(a, n, NET_SQUASH, 0, r->filmed, r->kernels);
	net_squash_run(r->hidden, (size_t)r->kernels * s->hidden, r->hidden);
	r->decoded = linear(a, n, NET_DECODE, 0, r->hidden, r->kernels);
	r->decoded_bent = floats(a, r->kernels, s->hidden);
	net_bend_run(r->decoded, (size_t)r->kernels * s->hidden, r->decoded_bent);
	r->y = linear(a, n, NET_OUT, 0, r->decoded_bent, r->kernels);
}

struct net_run *
net_run(struct arena *a, const struct net *n, const struct net_sample *rows, const uint32_t *pick,
    uint32_t kernels)
{
	struct net_run *r = NEW(a, struct net_run);

	r->net = n;
	r->kernels = kernels;
	gather(a, r, rows, pick);
	encode(a, r, rows, pick);
	decode(a, r);
	return r;
}

/* The gradient of a linear layer's input, which had `rows` rows. */
static float *
linear_back(struct arena *a, const struct net *n, enum net_part part, uint32_t layer, const float *x,
    const float *dy, uint32_t rows, float *dw)
{
	struct net_linear l = linear_of(n, part, layer);
	float *dx = floats(a, rows, l.in);

	net_linear_back(&l, n->w, x, dy, rows, dx, dw);
	return dx;
}

/* The gradient of r->pooled. */
static float *
decode_back(struct arena *a, const struct net_run *r, const float *dy, const float *dhidden, float *dw)
{
	const struct net *n = r->net;
	const struct net_shape *s = &n->shape;
	size_t hidden = (size_t)r->kernels * s->hidden, width = 2 * (size_t)s->width;
	float *d = linear_back(a, n, NET_OUT, 0, r->decoded_bent, dy, r->kernels, dw);
	float *dpooled = floats(a, r->kernels, width), *dfilm = floats(a, r->kernels, 2 * width);

	net_bend_back(r->decoded, d, hidden, d);
	d = linear_back(a, n, NET_DECODE, 0, r->hidden, d, r->kernels, dw);
	if (dhidden)
		add(d, dhidden, hidden);
	net_squash_back(r->hidden, d, hidden, d);
	d = linear_back(a, n, NET_SQUASH, 0, r->filmed, d, r->kernels, dw);
	net_film_back(r->pooled, r->film, d, r->kernels, (uint32_t)width, dpooled, dfilm);
	d = linear_back(a, n, NET_FILM, 0, r->about_bent, dfilm, r->kernels, dw);
	net_bend_back(r->about, d, (size_t)r->kernels * s->width, d);
	linear_back(a, n, NET_WHOLE, 0, r->whole, d, r->kernels, dw);
	return dpooled;
}

/* d: the gradient of the layer's end; becomes that of its beginning. */
static void
layer_back(struct arena *a, const struct net_run *r, uint32_t layer, float *d, float *dw)
{
	const struct net *n = r->net;
	const struct net_shape *s = &n->shape;
	const struct net_layer_run *l = &r->layers[layer];
	struct net_attend at = attend_of(r);
	float *dqkv = floats(a, r->rows, 3 * (size_t)s->width);
	float *part = linear_back(a, n, NET_NARROW, layer, l->bent, d, r->rows, dw);

	net_bend_back(l->wide, part, (size_t)r->rows * s->inner, part);
	part = linear_back(a, n, NET_WIDEN, layer, l->norm2, part, r->rows, dw);
	net_norm_back(l->norm2, l->inverse2, part, r->rows, s->width, d);

	part = linear_back(a, n, NET_MIX, layer, l->mixed, d, r->rows, dw);
	net_attend_back(&at, l->qkv, l->kept, part, dqkv);
	part = linear_back(a, n, NET_QKV, layer, l->norm, dqkv, r->rows, dw);
	net_norm_back(l->norm, l->inverse, part, r->rows, s->width, d);
}

void
net_run_back(struct arena *a, const struct net_run *r, const float *dy, const float *dhidden, float *dw)
{
	const struct net_shape *s = &r->net->shape;
	float *dpooled = decode_back(a, r, dy, dhidden, dw);
	float *dx = floats(a, r->rows, s->width), *d = floats(a, r->rows, s->width);

	net_pool_back(dpooled, r->pooled_from, r->first, r->kernels, s->width, dx);
	net_norm_back(r->x, r->inverse, dx, r->rows, s->width, d);
	for (uint32_t i = s->layers; i-- > 0;)
		layer_back(a, r, i, d, dw);
	linear_back(a, r->net, NET_EMBED, 0, r->leaf, d, r->rows, dw);
}
