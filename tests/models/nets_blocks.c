/* tests/models/nets_blocks.c: blocks of the field's networks at random extents, side by side in one graph:
 * what a predictor is to have seen once, and no network has enough of (reductions, transposes, depthwise and
 * batched products).  Each block has an input and an output of its own; which ones, and how large, depends on
 * the seed.  The blocks of net_ways() are those in which several ways part and meet. */
#include "nets.h"

struct blocks {
	struct gen *g;
	struct rng rng;
	bool is_small;
};
typedef val_t block_fn(struct blocks *b);

static int64_t
pick(struct blocks *b, const int64_t *v, uint32_t n)
{
	return v[rng_below(&b->rng, n)];
}
#define PICK(B, ...)                                                                                         \
	pick(B, (const int64_t[]){__VA_ARGS__},                                                              \
	    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static enum act
any_act(struct blocks *b)
{
	static const enum act all[] = {ACT_NONE, ACT_RELU, ACT_SILU, ACT_HARDSWISH, ACT_MISH, ACT_LEAKY};

	return all[rng_below(&b->rng, COUNT_OF(all))];
}

static int64_t
any_channels(struct blocks *b)
{
	return PICK(b, 3, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512);
}

/* An input of the block. */
static val_t
input(struct blocks *b, int rank, const int64_t *d)
{
	return gen_input(b->g, gen_fresh(b->g, "x"), rank, d);
}

/* Channels first; sizes of two orders of magnitude up to two million elements. */
static val_t
image(struct blocks *b)
{
	int64_t channels = any_channels(b),
		most = (int64_t)(b->is_small ? 1 << 16 : 1 << 21) >> rng_below(&b->rng, 6);
	int64_t side = PICK(b, 5, 7, 10, 13, 14, 19, 20, 26, 28, 38, 40, 52, 56, 76, 80, 104, 112, 160, 224);

	while (side > 5 && channels * side * side > most)
		side = side / 2 + 1;
	return input(b, DIMS(1, channels, side, side));
}

/* ---- convolutions -------------------------------------------------------------------------- */
static val_t
conv_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t k = PICK(b, 1, 1, 3, 3, 3, 3, 5, 7), co = any_channels(b), s = PICK(b, 1, 1, 1, 2);
	val_t y = gen_conv(b->g, x, (struct conv){.co = co, .k = k, .s = s, .p = -1, .act = any_act(b)});

	return rng_below(&b->rng, 3) ? y : gen_bi(b->g, "Add", y, gen_near(b->g, "skip", 0, 1, 4, y->d));
}

static val_t
grouped_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t groups = PICK(b, 2, 4, 8);
	val_t y = x;

	if (x->d[1] % groups == 0)
		y = gen_conv(b->g, x,
		    (struct conv){.co = x->d[1], .k = 3, .p = -1, .groups = groups, .act = any_act(b)});
	return gen_conv(b->g, y, (struct conv){.co = any_channels(b), .k = 1, .act = any_act(b)});
}

static val_t
depthwise_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t c = x->d[1], k = PICK(b, 3, 3, 5, 7), s = PICK(b, 1, 1, 2);
	enum act act = any_act(b);
	val_t y = x;

	if (rng_below(&b->rng, 2)) {
		c = PICK(b, 2, 4, 6) * MIN_OF(c, 64);
		y = gen_conv(b->g, y, (struct conv){.co = c, .k = 1, .act = act});
	}
	y = gen_conv(b->g, y, (struct conv){.co = c, .k = k, .s = s, .p = -1, .groups = c, .act = act});
	return rng_below(&b->rng, 2) ? gen_conv(b->g, y, (struct conv){.co = x->d[1], .k = 1}) : y;
}

static val_t
excite_block(struct blocks *b)
{
	val_t x = image(b);
	val_t y = gen_act(b->g, any_act(b), x), z = gen_global_average(b->g, y);

	z = gen_conv(b->g, z, (struct conv){.co = MAX_OF(x->d[1] / 4, 4), .k = 1, .act = ACT_RELU});
	z = gen_un(b->g, "Sigmoid", gen_conv(b->g, z, (struct conv){.co = x->d[1], .k = 1}));
	return gen_bi(b->g, "Mul", y, z);
}

/* ---- pools, reductions, normalisations ------------------------------------------------------ */
static val_t
pool_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t k = PICK(b, 2, 3, 3, 5, 9), s = PICK(b, 1, 2);
	val_t y = gen_act(b->g, any_act(b), x);

	if (x->d[2] < k)
		return gen_global_average(b->g, y);
	return rng_below(&b->rng, 2) ? gen_maxpool(b->g, y, k, s, k / 2) : gen_avgpool(b->g, y, k, s, k / 2);
}

static val_t
reduce_block(struct blocks *b)
{
	val_t x = image(b);
	static const char *const op[] = {"ReduceMean", "ReduceMax", "ReduceL2", "ReduceMin"};
	int64_t axis = PICK(b, 1, 2, 3);
	val_t y = rng_below(&b->rng, 2) ? gen_bi(b->g, "Mul", x, x) : gen_act(b->g, any_act(b), x);
	val_t m = gen_reduction(b->g, op[rng_below(&b->rng, COUNT_OF(op))], y, (int)axis);

	return rng_below(&b->rng, 2) ? m : gen_bi(b->g, "Sub", y, m);
}

static val_t
norm_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t d[3] = {1, x->d[2] * x->d[3], x->d[1]};
	val_t y;

	switch (rng_below(&b->rng, 5)) {
	case 0:
		return gen_act(b->g, any_act(b), gen_instance_norm(b->g, x));
	case 1:
		return gen_lrn(b->g, x, PICK(b, 3, 5));
	case 2:
		return gen_softmax(b->g, gen_bin(b->g, "Mul", x, 0.125));
	case 3:
		y = gen_transpose(b->g, gen_reshape(b->g, x, DIMS(1, d[2], d[1])), (int64_t[]){0, 2, 1});
		return gen_layer_norm(b->g, y, "norm");
	default:
		y = gen_layer_norm(b->g, gen_reshape(b->g, x, 3, d), "norm");
		return gen_linear(b->g, y, any_channels(b), true, "linear");
	}
}

/* ---- maps ----------------------------------------------------------------------------------- */
static val_t
map_block(struct blocks *b)
{
	val_t x = image(b);
	static const char *const one[] = {"Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "HardSwish",
	    "Abs", "Neg", "Floor", "Sqrt", "Reciprocal", "Sin"};
	static const char *const two[] = {"Add", "Mul", "Sub", "Div", "Max", "Min"};
	int64_t n = PICK(b, 1, 2, 3, 4), row[4] = {1, x->d[1], 1, 1};
	val_t y = x;

	for (int64_t i = 0; i < n; i++)
		switch (rng_below(&b->rng, 4)) {
		case 0:
			y = gen_bi(b->g, two[rng_below(&b->rng, COUNT_OF(two))], y,
			    gen_near(b->g, "row", 1, 0.1, 4, row));
			break;
		case 1:
			y = gen_bi(b->g, two[rng_below(&b->rng, COUNT_OF(two))], y, x);
			break;
		case 2:
			y = rng_below(&b->rng, 4) ? gen_gelu(b->g, y)
						  : gen_bin(b->g, "Pow", gen_un(b->g, "Abs", y), 0.75);
			break;
		default:
			y = gen_un(b->g, one[rng_below(&b->rng, COUNT_OF(one))], y);
		}
	return y;
}

/* ---- layouts --------------------------------------------------------------------------------- */
static val_t
turn_block(struct blocks *b)
{
	val_t x = image(b);
	static const int64_t perms[][4] = {
	    {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 1, 3}, {0, 1, 3, 2}, {2, 0, 1, 3}, {3, 1, 0, 2}, {3, 2, 1, 0}};
	val_t y = rng_below(&b->rng, 2) ? gen_act(b->g, any_act(b), x) : x;

	y = gen_transpose(b->g, y, perms[rng_below(&b->rng, COUNT_OF(perms))]);
	return rng_below(&b->rng, 2) ? y : gen_bin(b->g, "Add", y, 1);
}

/* Channels in groups change places: shuffles, pixel shuffles, windows of tokens. */
static val_t
shuffle_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t n = PICK(b, 2, 3, 4), c = x->d[1], h = x->d[2], w = x->d[3];
	val_t y = x;

	if (c % n == 0 && rng_below(&b->rng, 2)) {
		y = gen_reshape(b->g, y, DIMS(1, n, c / n, h, w));
		y = gen_transpose(b->g, y, (int64_t[]){0, 2, 1, 3, 4});
		return gen_act(b->g, any_act(b), gen_reshape(b->g, y, DIMS(1, c, h, w)));
	}
	if (h % n || w % n)
		return gen_resize(b->g, y, 2 * h, 2 * w, rng_below(&b->rng, 2) ? "nearest" : "linear");
	y = gen_reshape(b->g, y, DIMS(c, h / n, n, w / n, n));
	y = gen_transpose(b->g, y, (int64_t[]){1, 3, 2, 4, 0});
	return gen_reshape(b->g, y, DIMS(h / n * (w / n), n * n, c));
}

static val_t
cut_block(struct blocks *b)
{
	val_t x = image(b);
	int axis = 1 + (int)rng_below(&b->rng, 3);
	int64_t n = x->d[axis], step = PICK(b, 1, 1, 2), from = n > 4 ? n / 4 : 0, p[4] = {0, 0, 1, 1};
	static const double zero = 0;
	val_t parts[2] = {
	    gen_slice(b->g, x, axis, from, n, step), gen_slice(b->g, x, axis, 0, MAX_OF(n / 3, 1), 1)};

	switch (rng_below(&b->rng, 3)) {
	case 0:
		return gen_act(b->g, any_act(b), parts[0]);
	case 1:
		return gen_concat(b->g, (val_t[]){parts[1], gen_act(b->g, any_act(b), parts[0])}, 2, axis);
	default:
		return rng_below(&b->rng, 2) ? gen_pad(b->g, x, p, p, "constant", &zero)
					     : gen_pad(b->g, x, p, p, "reflect", NULL);
	}
}

/* ---- products of tokens ------------------------------------------------------------------------ */
static val_t
heads(struct blocks *b, val_t x, int64_t n, const char *scope)
{
	int64_t c = x->d[2];
	val_t y = gen_linear(b->g, x, c, true, scope);

	return gen_transpose(b->g, gen_reshape(b->g, y, DIMS(1, x->d[1], n, c / n)), (int64_t[]){0, 2, 1, 3});
}

static val_t
attention_block(struct blocks *b)
{
	int64_t n = PICK(b, 1, 2, 3, 4, 8), d = PICK(b, 16, 24, 32, 64),
		rows = PICK(b, 16, 49, 64, 144, 196, 256, 400, 576, 784, 1024);
	val_t t = input(b, DIMS(1, rows, n * d)), q = heads(b, t, n, "q"), k = heads(b, t, n, "k"),
	      v = heads(b, t, n, "v");
	val_t turned = gen_transpose(b->g, k, (int64_t[]){0, 1, 3, 2}), y;

	if (rng_below(&b->rng, 3)) {
		y = gen_softmax(b->g, gen_bin(b->g, "Mul", gen_matmul(b->g, q, turned), 0.2));
		y = gen_matmul(b->g, y, v);
	} else { /* linear attention */
		turned = gen_un(b->g, "Relu", turned);
		y = gen_matmul(b->g, gen_un(b->g, "Relu", q), gen_matmul(b->g, turned, v));
	}
	y = gen_reshape(b->g, gen_transpose(b->g, y, (int64_t[]){0, 2, 1, 3}), DIMS(1, rows, n * d));
	return gen_bi(b->g, "Add", gen_linear(b->g, y, n * d, true, "out"), t);
}

static val_t
mlp_block(struct blocks *b)
{
	int64_t rows = PICK(b, 1, 1, 4, 16, 49, 64, 196, 256, 784, 1024, 2048), c = any_channels(b);
	val_t t = input(b, DIMS(1, rows, c)), y = t;

	y = gen_linear(b->g, y, PICK(b, 1, 2, 4) * c, rng_below(&b->rng, 4) > 0, "up");
	y = rng_below(&b->rng, 2) ? gen_gelu(b->g, y) : gen_act(b->g, any_act(b), y);
	return rng_below(&b->rng, 2) ? y : gen_bi(b->g, "Add", gen_linear(b->g, y, c, true, "down"), t);
}

/* ---- ways that meet ----------------------------------------------------------------------------- */
static val_t
conv(struct blocks *b, val_t x, int64_t co, int64_t k, enum act act)
{
	return gen_conv(b->g, x, (struct conv){.co = co, .k = k, .p = -1, .act = act});
}

/* Inception: ways of several windows, a pool among them; what they make is pooled again. */
static val_t
inception_block(struct blocks *b)
{
	val_t x = image(b), way[4];
	int64_t c = PICK(b, 16, 24, 32, 48, 64, 96, 128);

	way[0] = conv(b, x, c, 1, ACT_RELU);
	way[1] = conv(b, conv(b, x, c, 1, ACT_RELU), 2 * c, 3, ACT_RELU);
	way[2] = conv(b, conv(b, x, MAX_OF(c / 4, 4), 1, ACT_RELU), c / 2, 5, ACT_RELU);
	way[3] = conv(b, gen_maxpool(b->g, x, 3, 1, 1), c / 2, 1, ACT_RELU);
	val_t y = gen_concat(b->g, way, 4, 1);
	if (rng_below(&b->rng, 2))
		y = gen_maxpool(b->g, y, 3, PICK(b, 1, 2), 1);
	return conv(b, y, any_channels(b), 1, any_act(b));
}

/* A scale and an offset of each channel, as a normalisation is once it is trained. */
static val_t
scaled(struct blocks *b, val_t x)
{
	int64_t row[4] = {1, x->d[1], 1, 1};
	val_t y = gen_bi(b->g, "Mul", x, gen_near(b->g, "scale", 1, 0.1, 4, row));

	return gen_bi(b->g, "Add", y, gen_near(b->g, "offset", 0, 0.1, 4, row));
}

/* DenseNet: all that was made before goes on. */
static val_t
dense_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t grows = PICK(b, 8, 12, 16, 32), n = PICK(b, 1, 2, 3);

	for (int64_t i = 0; i < n; i++) {
		val_t y = conv(b, gen_un(b->g, "Relu", scaled(b, x)), 4 * grows, 1, ACT_NONE);

		y = conv(b, gen_un(b->g, "Relu", scaled(b, y)), grows, 3, ACT_NONE);
		x = gen_concat(b->g, (val_t[]){x, y}, 2, 1);
	}
	x = conv(b, gen_un(b->g, "Relu", scaled(b, x)), x->d[1] / 2, 1, ACT_NONE);
	return x->d[2] > 1 ? gen_avgpool(b->g, x, 2, 2, 0) : x;
}

/* SqueezeNet's fire: few channels, then two windows side by side. */
static val_t
fire_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t c = PICK(b, 32, 64, 128, 192, 256);
	val_t y = conv(b, x, c / 4, 1, ACT_RELU);

	y = gen_concat(b->g, (val_t[]){conv(b, y, c, 1, ACT_RELU), conv(b, y, c, 3, ACT_RELU)}, 2, 1);
	return rng_below(&b->rng, 2) && y->d[2] > 3 ? gen_maxpool(b->g, y, 3, 2, 0) : y;
}

/* Maps of several sizes, enlarged and joined; some come as tokens. */
static val_t
pyramid_block(struct blocks *b)
{
	int64_t side = PICK(b, 16, 24, 32, 48, 64), c = PICK(b, 16, 32, 64, 128), n = PICK(b, 2, 3);
	bool tokens = rng_below(&b->rng, 2);
	val_t way[3];

	for (int64_t i = 0; i < n; i++) {
		int64_t s = side >> i, from = PICK(b, 32, 64, 160, 256);

		if (tokens) {
			val_t y = gen_linear(
			    b->g, input(b, DIMS(1, s * s, from)), c, true, gen_fresh(b->g, "linear"));

			y = gen_transpose(b->g, y, (int64_t[]){0, 2, 1});
			way[i] = gen_reshape(b->g, y, DIMS(1, c, s, s));
		} else {
			way[i] = conv(b, input(b, DIMS(1, from, s, s)), c, 1, any_act(b));
		}
		if (i > 0)
			way[i] = gen_resize(b->g, way[i], side, side, "linear");
	}
	val_t y = gen_concat(b->g, way, (int)n, 1);
	if (rng_below(&b->rng, 2)) {
		y = way[0];
		for (int64_t i = 1; i < n; i++)
			y = gen_bi(b->g, "Add", y, way[i]);
	}
	return conv(b, gen_act(b->g, any_act(b), y), any_channels(b), 1, ACT_NONE);
}

/* ShuffleNet: half of the channels goes on as it is. */
static val_t
half_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t c = x->d[1] / 2, h = x->d[2], w = x->d[3];

	if (x->d[1] % 2)
		return conv(b, x, any_channels(b), 1, any_act(b));
	val_t y = conv(b, gen_slice(b->g, x, 1, c, 2 * c, 1), c, 1, ACT_RELU);
	y = gen_conv(b->g, y, (struct conv){.co = c, .k = 3, .p = -1, .groups = c});
	y = conv(b, y, c, 1, ACT_RELU);
	y = gen_concat(b->g, (val_t[]){gen_slice(b->g, x, 1, 0, c, 1), y}, 2, 1);
	y = gen_transpose(b->g, gen_reshape(b->g, y, DIMS(1, 2, c, h, w)), (int64_t[]){0, 2, 1, 3, 4});
	return gen_reshape(b->g, y, DIMS(1, 2 * c, h, w));
}

/* YOLO's neck: enlarged, joined with what lies beside; pools of several windows. */
static val_t
neck_block(struct blocks *b)
{
	val_t x = image(b);
	int64_t c = PICK(b, 16, 32, 64, 128);
	enum act act = any_act(b);
	val_t y = conv(b, x, c, 1, act);

	if (rng_below(&b->rng, 2) && x->d[2] >= 13) {
		val_t way[4] = {y, gen_maxpool(b->g, y, 5, 1, 2), gen_maxpool(b->g, y, 9, 1, 4),
		    gen_maxpool(b->g, y, 13, 1, 6)};

		return conv(b, gen_concat(b->g, way, 4, 1), any_channels(b), 1, act);
	}
	y = gen_resize(b->g, y, 2 * x->d[2], 2 * x->d[3], "nearest");
	y = gen_concat(b->g, (val_t[]){y, input(b, DIMS(1, c, 2 * x->d[2], 2 * x->d[3]))}, 2, 1);
	return conv(b, conv(b, y, c, 1, act), c, 3, act);
}

/* Every second element of both directions, as channels; then a convolution. */
static val_t
focus_block(struct blocks *b)
{
	val_t x = image(b), way[4];
	int64_t h = x->d[2] / 2 * 2, w = x->d[3] / 2 * 2;

	for (int i = 0; i < 4; i++)
		way[i] = gen_slice(b->g, gen_slice(b->g, x, 2, i & 1, h, 2), 3, i >> 1, w, 2);
	return conv(b, gen_concat(b->g, way, 4, 1), any_channels(b), PICK(b, 1, 3), any_act(b));
}

/* Half of a product gates the other. */
static val_t
gate_block(struct blocks *b)
{
	int64_t rows = PICK(b, 1, 16, 49, 128, 196, 512, 1024), c = any_channels(b);
	val_t t = input(b, DIMS(1, rows, c)), y = gen_linear(b->g, t, 2 * c, true, "up");
	val_t z = gen_slice(b->g, y, 2, c, 2 * c, 1);

	y = gen_bi(b->g, "Mul", gen_slice(b->g, y, 2, 0, c, 1), gen_un(b->g, "Sigmoid", z));
	return rng_below(&b->rng, 2) ? gen_layer_norm(b->g, gen_bi(b->g, "Add", y, t), "norm")
				     : gen_bi(b->g, "Add", gen_linear(b->g, y, c, true, "down"), t);
}

static block_fn *const kinds[] = {conv_block, conv_block, grouped_block, depthwise_block, depthwise_block,
    excite_block, pool_block, reduce_block, reduce_block, norm_block, norm_block, map_block, map_block,
    turn_block, turn_block, shuffle_block, cut_block, attention_block, attention_block, mlp_block};

static block_fn *const ways[] = {inception_block, inception_block, dense_block, fire_block, pyramid_block,
    pyramid_block, half_block, neck_block, focus_block, gate_block};

static void
some_of(struct gen *g, bool is_small, block_fn *const *kind, uint32_t n_kinds, int n)
{
	struct blocks b = {.g = g, .rng = {gen_seed(g)}, .is_small = is_small};

	for (int i = 0; i < n; i++) {
		gen_enter(g, "block%d", i);
		val_t y = kind[rng_below(&b.rng, n_kinds)](&b);
		gen_output(g, y, gen_fresh(g, "y"));
		gen_leave(g);
	}
}

/* size: extents are drawn */
void
net_blocks(struct gen *g, bool is_small, int64_t size)
{
	(void)size;
	some_of(g, is_small, kinds, COUNT_OF(kinds), 24);
}

void
net_ways(struct gen *g, bool is_small, int64_t size)
{
	(void)size;
	some_of(g, is_small, ways, COUNT_OF(ways), 8);
}
