/* kernels/predict/net.c: what a network is made of; new ones; what they predict. */
#include "net_int.h"

#include <math.h>

struct net_linear
net_linear(const struct net_shape *s, enum net_part part, uint32_t layer)
{
	const struct {
		uint32_t in, out, each;
	} parts[] = {
#define NET_PART(NAME, IN, OUT, EACH) {IN, OUT, EACH},
#include "net_part.def"
#undef NET_PART
	};
	struct net_linear l = {.in = parts[part].in, .out = parts[part].out, .multiply = net_product};
	size_t one_layer = 0;

	for (int i = 0; i < NET_PARTS; i++) {
		size_t size = ((size_t)parts[i].in + 1) * parts[i].out;

		if (i < (int)part)
			l.begin += size;
		if (parts[i].each)
			one_layer += size;
	}
	l.begin += layer * one_layer;
	return l;
}

size_t
net_n_weights(const struct net_shape *s)
{
	/* the last part of the last layer, or where that of the first would begin */
	struct net_linear l = net_linear(s, s->layers ? NET_NARROW : NET_QKV, s->layers ? s->layers - 1 : 0);

	return s->layers ? l.begin + ((size_t)l.in + 1) * l.out : l.begin;
}

/* Factors of deviation gain / sqrt(in); offsets 0. */
static void
fill(struct net *n, const struct net_linear *l, double gain, struct rng *r)
{
	for (size_t i = 0; i < (size_t)l->in * l->out; i++)
		n->w[l->begin + i] = (float)(gain * rng_normal(r) / sqrt(l->in));
}

struct net
net_new(struct arena *a, const struct net_shape *shape, uint64_t seed)
{
	struct net n = {.shape = *shape,
	    .multiply = net_product,
	    .n_weights = ck_u32(net_n_weights(shape)),
	    .want = {0, 1}};
	struct rng r = {mix64(seed)};

	n.w = NEW_ARRAY(a, float, n.n_weights);
	n.scale = NEW_ARRAY(a, struct net_scale, shape->leaf + shape->whole);
	for (uint32_t i = 0; i < shape->leaf + shape->whole; i++)
		n.scale[i].factor = 1;
	for (int part = 0; part < NET_PARTS; part++) {
		bool each = part >= NET_QKV;
		/* what is added to a sum of layers, or decides alone, begins small */
		double gain =
		    part == NET_MIX || part == NET_NARROW || part == NET_FILM || part == NET_OUT ? 0.3 : 1;

		for (uint32_t layer = 0; layer < (each ? shape->layers : 1); layer++) {
			struct net_linear l = net_linear(shape, (enum net_part)part, layer);

			fill(&n, &l, gain, &r);
		}
	}
	return n;
}

struct sum {
	double n, x, square;
};

static void
sum_add(struct sum *s, double weight, double x)
{
	s->n += weight;
	s->x += weight * x;
	s->square += weight * x * x;
}

/* What never changes says nothing: its factor is 0, so that another value elsewhere says nothing either. */
static struct net_scale
scale_of(const struct sum *s)
{
	double mean = s->n > 0 ? s->x / s->n : 0, square = s->n > 0 ? s->square / s->n - mean * mean : 0;
	bool flat = square <= 1e-10 * (1 + mean * mean);

	return (struct net_scale){(float)mean, flat ? 0 : (float)(1 / sqrt(square))};
}

void
net_centre(struct net *n, const struct net_sample *rows, uint32_t n_rows)
{
	struct arena a = {0};
	uint32_t leaf = n->shape.leaf, whole = n->shape.whole;
	struct sum *sums = NEW_ARRAY(&a, struct sum, leaf + whole), want = {0};

	for (uint32_t r = 0; r < n_rows; r++) {
		for (uint32_t i = 0; i < rows[r].n_leaves * leaf; i++)
			sum_add(&sums[i % leaf], rows[r].weight, rows[r].leaf[i]);
		for (uint32_t i = 0; i < whole; i++)
			sum_add(&sums[leaf + i], rows[r].weight, rows[r].whole[i]);
		sum_add(&want, rows[r].weight, rows[r].want);
	}
	for (uint32_t i = 0; i < leaf + whole; i++)
		n->scale[i] = scale_of(&sums[i]);
	n->want = scale_of(&want);
	if (n->want.factor == 0)
		n->want.factor = 1;
	arena_fini(&a);
}

void
net_predict(const struct net *n, const struct net_sample *rows, uint32_t n_rows, float *out)
{
	enum { BATCH = 256 };
	struct arena a = {0};
	struct arena_mark empty = arena_mark(&a);

	for (uint32_t done = 0; done < n_rows;) {
		uint32_t take = MIN_OF(n_rows - done, (uint32_t)BATCH);
		const struct net_run *r = net_run(&a, n, rows + done, NULL, take);

		for (uint32_t i = 0; i < take; i++)
			out[done + i] = r->y[i] / n->want.factor + n->want.mean;
		done += take;
		arena_reset(&a, empty);
	}
	arena_fini(&a);
}
