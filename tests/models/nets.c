/* tests/models/nets.c: architectures as published, sizes of the small stand-ins beside them.
 *
 * Candy: fast neural style transfer, reflect padding and instance norms.  EfficientViT: linear
 * attention; the early version (ReLU, 5x5 depthwise, tokens first, 2048x2048) and the public B1
 * (HardSwish, multi-scale, channels first).  Segformer-B0: hierarchical transformer, 150 classes. */
#include "nets.h"

#include <math.h>

/* ---- Candy --------------------------------------------------------------------------- */
static val_t
candy_block(
    struct gen *g, val_t x, int64_t co, int64_t k, int64_t s, bool has_norm, bool has_act, const char *name)
{
	int64_t p[4] = {0, 0, k / 2, k / 2};

	gen_enter(g, "%s", name);
	val_t y = gen_conv(g, gen_pad(g, x, p, p, "reflect", NULL),
	    (struct conv){.co = co, .k = k, .s = s, .gain = has_act ? 2 : 1});
	y = has_norm ? gen_instance_norm(g, y) : y;
	y = has_act ? gen_un(g, "Relu", y) : y;
	gen_leave(g);
	return y;
}

void
net_candy(struct gen *g, bool is_small, int64_t size)
{
	int64_t c = is_small ? 8 : 32, r = size ? size : is_small ? 56 : 224;
	int n_blocks = is_small ? 2 : 5;
	val_t y = gen_input(g, "inputImage", DIMS(1, 3, r, r));

	y = candy_block(g, y, c, 9, 1, true, true, "conv1");
	y = candy_block(g, y, 2 * c, 3, 2, true, true, "conv2");
	y = candy_block(g, y, 4 * c, 3, 2, true, true, "conv3");
	for (int i = 1; i <= n_blocks; i++) {
		gen_enter(g, "res%d", i);
		val_t z = candy_block(g, y, 4 * c, 3, 1, true, true, "a");
		y = gen_bi(g, "Add", candy_block(g, z, 4 * c, 3, 1, true, false, "b"), y);
		gen_leave(g);
	}
	for (int i = 1; i <= 2; i++) {
		gen_enter(g, "up%d", i);
		y = gen_resize(g, y, 2 * y->d[2], 2 * y->d[3], "nearest");
		gen_leave(g);
		y = candy_block(g, y, i == 1 ? 2 * c : c, 3, 1, true, true, i == 1 ? "deconv1" : "deconv2");
	}
	y = candy_block(g, y, 3, 9, 1, false, false, "deconv3");
	gen_output(g, y, "outputImage");
}

/* ---- EfficientViT --------------------------------------------------------------------- */
struct evit {
	struct gen *g;
	bool is_b1; /* the public version */
	enum act act;
	int64_t k, dim;
};

/* 1x1 expansion, depthwise, 1x1 projection */
static val_t
mbconv(const struct evit *m, val_t x, int64_t co, int64_t s, bool has_residual)
{
	struct gen *g = m->g;
	int64_t wide = 4 * x->d[1];
	val_t y = gen_conv(g, x, (struct conv){.co = wide, .k = 1, .act = m->act, .scope = "inverted"});

	y = gen_conv(g, y,
	    (struct conv){
		.co = wide, .k = m->k, .s = s, .p = -1, .groups = wide, .act = m->act, .scope = "depth"});
	y = gen_conv(g, y, (struct conv){.co = co, .k = 1, .gain = has_residual ? 0.1 : 1, .scope = "point"});
	return has_residual ? gen_bi(g, "Add", y, x) : y;
}

/* q (k^T [v|1]) with tokens first: the column of ones carries the normaliser */
static val_t
attend_tokens(struct gen *g, val_t t, int64_t dim)
{
	static const int64_t turn[] = {0, 1, 3, 2}, lo[4] = {0}, hi[4] = {0, 0, 0, 1};
	static const double one = 1;

	t = gen_transpose(g, t, turn);
	val_t q = gen_slice(g, t, 3, 0, dim, 1), k = gen_slice(g, t, 3, dim, 2 * dim, 1),
	      v = gen_slice(g, t, 3, 2 * dim, 3 * dim, 1);
	q = gen_un(g, "Relu", q);
	k = gen_un(g, "Relu", k);
	v = gen_pad(g, v, lo, hi, "constant", &one);
	val_t kv = gen_matmul(g, gen_transpose(g, k, turn), v), o = gen_matmul(g, q, kv);
	val_t top = gen_slice(g, o, 3, 0, dim, 1),
	      bottom = gen_bin(g, "Add", gen_slice(g, o, 3, dim, dim + 1, 1), 1e-15);
	return gen_transpose(g, gen_bi(g, "Div", top, bottom), turn);
}

/* ([v;1] k^T) q with channels first: a row of ones */
static val_t
attend_channels(struct gen *g, val_t t, int64_t dim)
{
	static const int64_t turn[] = {0, 1, 3, 2}, lo[4] = {0}, hi[4] = {0, 0, 1, 0};
	static const double one = 1;
	val_t q = gen_slice(g, t, 2, 0, dim, 1), k = gen_slice(g, t, 2, dim, 2 * dim, 1),
	      v = gen_slice(g, t, 2, 2 * dim, 3 * dim, 1);

	q = gen_un(g, "Relu", q);
	k = gen_un(g, "Relu", k);
	v = gen_pad(g, v, lo, hi, "constant", &one);
	val_t vk = gen_matmul(g, v, gen_transpose(g, k, turn)), o = gen_matmul(g, vk, q);
	val_t top = gen_slice(g, o, 2, 0, dim, 1),
	      bottom = gen_bin(g, "Add", gen_slice(g, o, 2, dim, dim + 1, 1), 1e-15);
	return gen_bi(g, "Div", top, bottom);
}

static val_t
lite_mla(const struct evit *m, val_t x, int64_t heads)
{
	struct gen *g = m->g;
	int64_t n = x->d[0], c = x->d[1], h = x->d[2], w = x->d[3], wide = 3 * heads * m->dim;
	val_t qkv = gen_conv(g, x, (struct conv){.co = wide, .k = 1, .no_bias = true, .scope = "qkv"});

	if (m->is_b1) {
		val_t agg = gen_conv(g, qkv,
		    (struct conv){
			.co = wide, .k = 5, .p = -1, .groups = wide, .no_bias = true, .scope = "agg_dw"});
		agg = gen_conv(g, agg,
		    (struct conv){
			.co = wide, .k = 1, .groups = 3 * heads, .no_bias = true, .scope = "agg_pw"});
		qkv = gen_concat(g, (val_t[]){qkv, agg}, 2, 1);
		heads *= 2;
	}
	val_t t = gen_reshape(g, qkv, DIMS(n, heads, 3 * m->dim, h * w));
	t = m->is_b1 ? attend_channels(g, t, m->dim) : attend_tokens(g, t, m->dim);
	t = gen_reshape(g, t, DIMS(n, heads * m->dim, h, w));
	return gen_bi(
	    g, "Add", gen_conv(g, t, (struct conv){.co = c, .k = 1, .gain = 0.5, .scope = "proj"}), x);
}

static val_t
evit_stem(const struct evit *m, val_t x, int64_t width, int64_t depth)
{
	struct gen *g = m->g;
	val_t y = gen_conv(
	    g, x, (struct conv){.co = width, .k = 3, .s = 2, .p = -1, .act = m->act, .scope = "stem"});

	for (int i = 0; i < depth; i++) {
		gen_enter(g, "stem_ds%d", i);
		val_t z = gen_conv(g, y,
		    (struct conv){
			.co = width, .k = 3, .p = -1, .groups = width, .act = m->act, .scope = "depth"});
		y = gen_bi(g, "Add", gen_conv(g, z, (struct conv){.co = width, .k = 1, .scope = "point"}), y);
		gen_leave(g);
	}
	return y;
}

static val_t
evit_stage(const struct evit *m, val_t y, int stage, int64_t width, int64_t depth)
{
	struct gen *g = m->g;
	bool attends = stage >= 3;
	int64_t heads = MAX_OF(1, (m->is_b1 ? 1 : 2) * width / m->dim);

	gen_enter(g, "stage%d", stage);
	gen_enter(g, "down");
	y = mbconv(m, y, width, 2, false);
	gen_leave(g);
	for (int i = 0; i < (attends ? depth : depth - 1); i++) {
		gen_enter(g, "block%d", i);
		if (attends) {
			gen_enter(g, "lite_mla");
			y = lite_mla(m, y, heads);
			gen_leave(g);
		}
		y = mbconv(m, y, width, 1, true);
		gen_leave(g);
	}
	gen_leave(g);
	return y;
}

static void
evit(struct gen *g, bool is_small, int64_t size, bool is_b1)
{
	static const int64_t widths[2][5] = {{16, 24, 48, 96, 192}, {16, 32, 64, 128, 256}};
	static const int64_t depths[2][5] = {{1, 2, 3, 5, 2}, {1, 2, 3, 3, 4}};
	int64_t r = size ? size : is_small ? 128 : is_b1 ? 224 : 2048;
	int64_t classes = is_small ? 64 : 1000, w[5], d[5];
	int64_t h1 = is_small ? 96 : is_b1 ? 1536 : 1152, h2 = is_small ? 64 : is_b1 ? 1600 : 1280;
	struct evit m = {g, is_b1, is_b1 ? ACT_HARDSWISH : ACT_RELU, is_b1 ? 3 : 5, is_small ? 8 : 16};

	for (int i = 0; i < 5; i++) {
		w[i] = is_small ? MAX_OF(8, widths[is_b1][i] / 4 / 8 * 8) : widths[is_b1][i];
		d[i] = is_small ? 1 : depths[is_b1][i];
	}
	val_t y = evit_stem(&m, gen_input(g, "input", DIMS(1, 3, r, r)), w[0], d[0]);
	for (int st = 1; st <= 4; st++)
		y = evit_stage(&m, y, st, w[st], d[st]);
	y = gen_conv(g, y, (struct conv){.co = h1, .k = 1, .act = m.act, .scope = "head"});
	y = gen_global_average(g, y);
	if (is_b1) {
		y = gen_linear(g, gen_flatten(g, y), h2, false, "fc1");
		y = gen_un(g, "HardSwish", gen_layer_norm(g, y, "norm"));
	} else {
		y = gen_flatten(
		    g, gen_conv(g, y, (struct conv){.co = h2, .k = 1, .act = m.act, .scope = "fc1"}));
	}
	gen_output(g, gen_linear(g, y, classes, true, "fc2"), "logits");
}

void
net_efficientvit(struct gen *g, bool is_small, int64_t size)
{
	evit(g, is_small, size, false);
}

void
net_efficientvit_b1(struct gen *g, bool is_small, int64_t size)
{
	evit(g, is_small, size, true);
}

/* ---- Segformer-B0 --------------------------------------------------------------------- */
/* [N, C, H, W] -> [N, HW, C] and back */
static val_t
tokens(struct gen *g, val_t x)
{
	return gen_transpose(g, gen_reshape(g, x, DIMS(x->d[0], x->d[1], -1)), (int64_t[]){0, 2, 1});
}

static val_t
image(struct gen *g, val_t t, int64_t h, int64_t w)
{
	int64_t c = t->d[2];

	return gen_reshape(g, gen_transpose(g, t, (int64_t[]){0, 2, 1}), DIMS(t->d[0], c, h, w));
}

static val_t
split_heads(struct gen *g, val_t x, int64_t heads)
{
	val_t t = gen_reshape(g, x, DIMS(x->d[0], -1, heads, x->d[2] / heads));

	return gen_transpose(g, t, (int64_t[]){0, 2, 1, 3});
}

static val_t
attention(struct gen *g, val_t z, int64_t h, int64_t w, int64_t heads, int64_t reduce)
{
	int64_t c = z->d[2];
	val_t q = split_heads(g, gen_linear(g, z, c, true, "query"), heads), kv = z;

	if (reduce > 1) {
		kv = gen_conv(
		    g, image(g, z, h, w), (struct conv){.co = c, .k = reduce, .s = reduce, .scope = "sr"});
		kv = gen_layer_norm(g, tokens(g, kv), "sr_norm");
	}
	val_t k = split_heads(g, gen_linear(g, kv, c, true, "key"), heads);
	val_t v = split_heads(g, gen_linear(g, kv, c, true, "value"), heads);
	val_t s = gen_matmul(g, q, gen_transpose(g, k, (int64_t[]){0, 1, 3, 2}));
	s = gen_bin(g, "Div", s, sqrt((double)(c / heads)));
	val_t o = gen_transpose(g, gen_matmul(g, gen_softmax(g, s), v), (int64_t[]){0, 2, 1, 3});
	return gen_linear(g, gen_reshape(g, o, DIMS(o->d[0], -1, c)), c, true, "attn_out");
}

static val_t
segformer_block(struct gen *g, val_t t, int64_t h, int64_t w, int64_t heads, int64_t reduce)
{
	int64_t c = t->d[2];

	t = gen_bi(g, "Add", attention(g, gen_layer_norm(g, t, "ln1"), h, w, heads, reduce), t);
	val_t z = gen_linear(g, gen_layer_norm(g, t, "ln2"), 4 * c, true, "fc1");
	z = gen_conv(g, image(g, z, h, w),
	    (struct conv){.co = 4 * c, .k = 3, .p = -1, .groups = 4 * c, .scope = "dwconv"});
	return gen_bi(g, "Add", gen_linear(g, gen_gelu(g, tokens(g, z)), c, true, "fc2"), t);
}

static val_t
segformer_head(struct gen *g, const val_t *feats, int64_t width, int64_t classes)
{
	int64_t h = feats[0]->d[2], w = feats[0]->d[3];
	val_t ups[4];

	gen_enter(g, "decode_head");
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = {"linear_c0", "linear_c1", "linear_c2", "linear_c3"};
		val_t t = gen_linear(g, tokens(g, feats[i]), width, true, names[i]);
		t = image(g, t, feats[i]->d[2], feats[i]->d[3]);
		ups[3 - i] = i == 0 ? t : gen_resize(g, t, h, w, "linear");
	}
	val_t y = gen_conv(g, gen_concat(g, ups, 4, 1),
	    (struct conv){.co = width, .k = 1, .act = ACT_RELU, .scope = "fuse"});
	y = gen_conv(g, y, (struct conv){.co = classes, .k = 1, .scope = "classifier"});
	gen_leave(g);
	return y;
}

void
net_segformer_b0(struct gen *g, bool is_small, int64_t size)
{
	static const int64_t hidden[2][4] = {{32, 64, 160, 256}, {8, 16, 40, 64}};
	static const int64_t heads[] = {1, 2, 5, 8}, reduce[] = {8, 4, 2, 1}, patch[] = {7, 3, 3, 3},
			     stride[] = {4, 2, 2, 2};
	int64_t r = size ? size : is_small ? 128 : 512;
	val_t y = gen_input(g, "pixel_values", DIMS(1, 3, r, r)), feats[4];

	for (int i = 0; i < 4; i++) {
		gen_enter(g, "stage%d", i + 1);
		y = gen_conv(g, y,
		    (struct conv){.co = hidden[is_small][i],
			.k = patch[i],
			.s = stride[i],
			.p = -1,
			.scope = "patch_embed"});
		int64_t h = y->d[2], w = y->d[3];
		val_t t = gen_layer_norm(g, tokens(g, y), "patch_norm");
		for (int b = 0; b < (is_small ? 1 : 2); b++) {
			gen_enter(g, "block%d", b);
			t = segformer_block(g, t, h, w, heads[i], reduce[i]);
			gen_leave(g);
		}
		y = feats[i] = image(g, gen_layer_norm(g, t, "stage_norm"), h, w);
		gen_leave(g);
	}
	gen_output(g, segformer_head(g, feats, is_small ? 32 : 256, is_small ? 10 : 150), "logits");
}
