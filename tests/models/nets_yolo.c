/* tests/models/nets_yolo.c: YOLOv4 (with its box decoder) and YOLOX-Nano (without). */
#include "nets.h"

#include <stdlib.h>

/* ---- YOLOv4 --------------------------------------------------------------------------- */
struct yolo {
	struct gen *g;
	int64_t q; /* channels are divided by this */
};

static int64_t
ch(const struct yolo *y, int64_t v)
{
	return MAX_OF(4, v / y->q);
}

static val_t
cv(const struct yolo *y, val_t x, int64_t co, int64_t k, int64_t s, enum act act, double gain)
{
	return gen_conv(
	    y->g, x, (struct conv){.co = ch(y, co), .k = k, .s = s, .p = -1, .act = act, .gain = gain});
}

static val_t
mish(const struct yolo *y, val_t x, int64_t co, int64_t k, int64_t s)
{
	return cv(y, x, co, k, s, ACT_MISH, 2);
}

static val_t
leaky(const struct yolo *y, val_t x, int64_t co, int64_t k, int64_t s)
{
	return cv(y, x, co, k, s, ACT_LEAKY, 2);
}

static val_t
pair(const struct yolo *y, val_t a, val_t b)
{
	return gen_concat(y->g, (val_t[]){a, b}, 2, 1);
}

static val_t
down1(const struct yolo *y, val_t x)
{
	gen_enter(y->g, "down1");
	val_t x2 = mish(y, mish(y, x, 32, 3, 1), 64, 3, 2), x3 = mish(y, x2, 64, 1, 1),
	      x4 = mish(y, x2, 64, 1, 1);
	val_t z = gen_bi(y->g, "Add", mish(y, mish(y, x4, 32, 1, 1), 64, 3, 1), x4);
	z = mish(y, pair(y, mish(y, z, 64, 1, 1), x3), 64, 1, 1);
	gen_leave(y->g);
	return z;
}

static val_t
down(const struct yolo *y, val_t x, int number, int64_t co, int n)
{
	gen_enter(y->g, "down%d", number);
	x = mish(y, x, co, 3, 2);
	val_t s = mish(y, x, co / 2, 1, 1), b = mish(y, x, co / 2, 1, 1);
	for (int j = 0; j < n; j++) {
		gen_enter(y->g, "res%d", j);
		b = gen_bi(y->g, "Add", cv(y, mish(y, b, co / 2, 1, 1), co / 2, 3, 1, ACT_MISH, 0.5), b);
		gen_leave(y->g);
	}
	x = mish(y, pair(y, mish(y, b, co / 2, 1, 1), s), co, 1, 1);
	gen_leave(y->g);
	return x;
}

/* nearest x2 as Reshape, Expand, Reshape */
static val_t
up2(struct gen *g, val_t x)
{
	int64_t n = x->d[0], c = x->d[1], h = x->d[2], w = x->d[3];
	val_t t = gen_expand(g, gen_reshape(g, x, DIMS(n, c, h, 1, w, 1)), DIMS(n, c, h, 2, w, 2));

	return gen_reshape(g, t, DIMS(n, c, 2 * h, 2 * w));
}

static val_t
five(const struct yolo *y, val_t x, int64_t lo, int64_t hi)
{
	for (int i = 0; i < 5; i++)
		x = leaky(y, x, i % 2 ? hi : lo, i % 2 ? 3 : 1, 1);
	return x;
}

static val_t
three(const struct yolo *y, val_t x)
{
	return leaky(y, leaky(y, leaky(y, x, 512, 1, 1), 1024, 3, 1), 512, 1, 1);
}

static val_t
head_conv(const struct yolo *y, val_t x, int64_t co, int64_t out, const char *scope)
{
	return gen_conv(y->g, leaky(y, x, co, 3, 1), (struct conv){.co = out, .k = 1, .scope = scope});
}

/* Neck and head over the backbone's three outputs: raw predictions, finest first. */
static void
yolo_head(const struct yolo *y, const val_t *d, int64_t out, val_t *p)
{
	struct gen *g = y->g;

	gen_enter(g, "neck");
	val_t z = three(y, d[2]);
	z = gen_concat(g,
	    (val_t[]){gen_maxpool(g, z, 13, 1, 6), gen_maxpool(g, z, 9, 1, 4), gen_maxpool(g, z, 5, 1, 2), z},
	    4, 1);
	val_t x6 = three(y, z), up = up2(g, leaky(y, x6, 256, 1, 1));
	val_t x13 = five(y, pair(y, leaky(y, d[1], 256, 1, 1), up), 256, 512);
	up = up2(g, leaky(y, x13, 128, 1, 1));
	val_t x20 = five(y, pair(y, leaky(y, d[0], 128, 1, 1), up), 128, 256);
	gen_leave(g);
	gen_enter(g, "head");
	p[0] = head_conv(y, x20, 256, out, "p3");
	val_t x8 = five(y, pair(y, leaky(y, x20, 256, 3, 2), x13), 256, 512);
	p[1] = head_conv(y, x8, 512, out, "p4");
	z = five(y, pair(y, leaky(y, x8, 512, 3, 2), x6), 512, 1024);
	p[2] = head_conv(y, z, 1024, out, "p5");
	gen_leave(g);
}

/* ---- the decoder ---------------------------------------------------------------------- */
struct level {
	int64_t n, h, w, classes, stride;
	const double *anchors; /* three pairs */
};

static val_t
grid(struct gen *g, const struct level *l, bool is_x)
{
	float *v = heap_alloc((size_t)(l->h * l->w) * sizeof(*v));
	val_t out;

	for (int64_t i = 0; i < l->h * l->w; i++)
		v[i] = (float)(is_x ? i % l->w : i / l->w);
	out = gen_floats(g, is_x ? "grid_x" : "grid_y", v, DIMS(1, 1, l->h, l->w));
	free(v);
	return out;
}

/* Slices [from, to) of each anchor's channels, one behind the other. */
static val_t
field(struct gen *g, val_t p, const struct level *l, int64_t from, int64_t to)
{
	val_t part[3];

	for (int i = 0; i < 3; i++)
		part[i] = gen_slice(g, p, 1, i * (5 + l->classes) + from, i * (5 + l->classes) + to, 1);
	return gen_concat(g, part, 3, 1);
}

/* Centre or extent along one axis, in units of the image: [n, 3 h w, 1]. */
static val_t
along(struct gen *g, const struct level *l, val_t xy, val_t shift, int64_t at, int64_t extent)
{
	val_t part[3];

	for (int i = 0; i < 3; i++) {
		val_t s = gen_slice(g, xy, 1, 2 * i + at, 2 * i + at + 1, 1);
		part[i] = shift ? gen_bi(g, "Add", s, shift)
				: gen_bin(g, "Mul", s, l->anchors[2 * i + at] / (double)l->stride);
	}
	val_t y = gen_bin(g, "Div", gen_concat(g, part, 3, 1), (double)extent);
	return gen_reshape(g, y, DIMS(l->n, 3 * l->h * l->w, 1));
}

static void
decode(struct gen *g, val_t p, const struct level *l, val_t *boxes, val_t *confs)
{
	int64_t all = 3 * l->h * l->w;
	val_t xy = field(g, p, l, 0, 2), wh = field(g, p, l, 2, 4), ob = field(g, p, l, 4, 5),
	      cl = field(g, p, l, 5, 5 + l->classes);

	ob = gen_reshape(g, ob, DIMS(l->n, all));
	cl = gen_transpose(
	    g, gen_reshape(g, cl, DIMS(l->n, 3, l->classes, l->h * l->w)), (int64_t[]){0, 1, 3, 2});
	cl = gen_reshape(g, cl, DIMS(l->n, all, l->classes));
	xy = gen_un(g, "Sigmoid", xy);
	wh = gen_un(g, "Exp", wh);
	ob = gen_un(g, "Sigmoid", ob);
	cl = gen_un(g, "Sigmoid", cl);
	val_t bx = along(g, l, xy, grid(g, l, true), 0, l->w),
	      by = along(g, l, xy, grid(g, l, false), 1, l->h);
	val_t bw = along(g, l, wh, NULL, 0, l->w), bh = along(g, l, wh, NULL, 1, l->h);
	val_t x1 = gen_bi(g, "Sub", bx, gen_bin(g, "Mul", bw, 0.5)),
	      y1 = gen_bi(g, "Sub", by, gen_bin(g, "Mul", bh, 0.5));
	val_t x2 = gen_bi(g, "Add", x1, bw), y2 = gen_bi(g, "Add", y1, bh);
	*boxes = gen_reshape(g, gen_concat(g, (val_t[]){x1, y1, x2, y2}, 4, 2), DIMS(l->n, all, 1, 4));
	*confs = gen_bi(g, "Mul", cl, gen_reshape(g, ob, DIMS(l->n, all, 1)));
}

void
net_yolov4(struct gen *g, bool is_small, int64_t size)
{
	static const double anchors[3][6] = {
	    {12, 16, 19, 36, 40, 28}, {36, 75, 76, 55, 72, 146}, {142, 110, 192, 243, 459, 401}};
	static const int repeats[2][4] = {{2, 8, 8, 4}, {1, 2, 2, 1}};
	static const int64_t widths[] = {128, 256, 512, 1024};
	struct yolo y = {g, is_small ? 8 : 1};
	int64_t r = size ? size : is_small ? 96 : 416, classes = is_small ? 8 : 1000;
	val_t x = down1(&y, gen_input(g, "input", DIMS(1, 3, r, r))), d[4], p[3], boxes[3], confs[3];

	for (int i = 0; i < 4; i++)
		x = d[i] = down(&y, x, i + 2, widths[i], repeats[is_small][i]);
	yolo_head(&y, d + 1, 3 * (5 + classes), p);
	for (int i = 0; i < 3; i++) {
		struct level l = {1, p[i]->d[2], p[i]->d[3], classes, 8 << i, anchors[i]};
		gen_enter(g, "yolo%d", i);
		decode(g, p[i], &l, &boxes[i], &confs[i]);
		gen_leave(g);
	}
	gen_output(g, gen_concat(g, boxes, 3, 1), "boxes");
	gen_output(g, gen_concat(g, confs, 3, 1), "confs");
}

/* ---- YOLOX-Nano ----------------------------------------------------------------------- */
static val_t
base(const struct yolo *y, val_t x, int64_t co, int64_t k, int64_t s, double gain)
{
	return gen_conv(
	    y->g, x, (struct conv){.co = co / y->q, .k = k, .s = s, .p = -1, .act = ACT_SILU, .gain = gain});
}

static val_t
one(const struct yolo *y, val_t x, int64_t co)
{
	return base(y, x, co, 1, 1, 2);
}

/* depthwise, then 1x1 */
static val_t
dw(const struct yolo *y, val_t x, int64_t co, int64_t s)
{
	int64_t c = x->d[1];

	x = gen_conv(y->g, x,
	    (struct conv){
		.co = c, .k = 3, .s = s, .p = -1, .groups = c, .act = ACT_SILU, .gain = 2, .scope = "dconv"});
	return one(y, x, co);
}

static val_t
csp(const struct yolo *y, val_t x, int64_t co, int n, bool has_shortcut, const char *name)
{
	gen_enter(y->g, "%s", name);
	val_t p = one(y, x, co / 2), t = one(y, x, co / 2);
	for (int j = 0; j < n; j++) {
		gen_enter(y->g, "m%d", j);
		val_t z = dw(y, one(y, p, co / 2), co / 2, 1);
		p = has_shortcut ? gen_bi(y->g, "Add", z, p) : z;
		gen_leave(y->g);
	}
	x = one(y, pair(y, p, t), co);
	gen_leave(y->g);
	return x;
}

static val_t
upsample(struct gen *g, val_t x)
{
	return gen_resize(g, x, 2 * x->d[2], 2 * x->d[3], "nearest");
}

/* top-left, bottom-left, top-right, bottom-right pixels as channels */
static val_t
focus(const struct yolo *y, val_t x)
{
	static const int64_t row[] = {0, 1, 0, 1}, column[] = {0, 0, 1, 1};
	val_t part[4];

	gen_enter(y->g, "focus");
	for (int i = 0; i < 4; i++)
		part[i] =
		    gen_slice(y->g, gen_slice(y->g, x, 2, row[i], INT64_MAX, 2), 3, column[i], INT64_MAX, 2);
	x = base(y, gen_concat(y->g, part, 4, 1), 16, 3, 1, 2.0 / (150.0 * 150.0));
	gen_leave(y->g);
	return x;
}

static void
backbone(const struct yolo *y, val_t x, int n3, val_t *d)
{
	struct gen *g = y->g;

	gen_enter(g, "backbone");
	gen_enter(g, "dark2");
	x = csp(y, dw(y, x, 32, 2), 32, 1, true, "csp");
	gen_leave(g);
	gen_enter(g, "dark3");
	x = d[0] = csp(y, dw(y, x, 64, 2), 64, n3, true, "csp");
	gen_leave(g);
	gen_enter(g, "dark4");
	x = d[1] = csp(y, dw(y, x, 128, 2), 128, n3, true, "csp");
	gen_leave(g);
	gen_enter(g, "dark5");
	x = one(y, dw(y, x, 256, 2), 128);
	x = gen_concat(g,
	    (val_t[]){x, gen_maxpool(g, x, 5, 1, 2), gen_maxpool(g, x, 9, 1, 4), gen_maxpool(g, x, 13, 1, 6)},
	    4, 1);
	d[2] = csp(y, one(y, x, 256), 256, 1, false, "csp");
	gen_leave(g);
	gen_leave(g);
}

static void
pafpn(const struct yolo *y, const val_t *d, val_t *p)
{
	struct gen *g = y->g;

	gen_enter(g, "pafpn");
	val_t f0 = one(y, d[2], 128), z = csp(y, pair(y, upsample(g, f0), d[1]), 128, 1, false, "p4"),
	      f1 = one(y, z, 64);
	p[0] = csp(y, pair(y, upsample(g, f1), d[0]), 64, 1, false, "p3");
	p[1] = csp(y, pair(y, dw(y, p[0], 64, 2), f1), 128, 1, false, "n3");
	p[2] = csp(y, pair(y, dw(y, p[1], 128, 2), f0), 256, 1, false, "n4");
	gen_leave(g);
}

static val_t
yolox_head(const struct yolo *y, val_t p, int64_t classes)
{
	struct gen *g = y->g;
	val_t t = one(y, p, 64);

	gen_enter(g, "cls");
	val_t c =
	    gen_conv(g, dw(y, dw(y, t, 64, 1), 64, 1), (struct conv){.co = classes, .k = 1, .scope = "pred"});
	c = gen_un(g, "Sigmoid", c);
	gen_leave(g);
	gen_enter(g, "reg");
	val_t r = dw(y, dw(y, t, 64, 1), 64, 1);
	gen_leave(g);
	val_t box = gen_conv(g, r, (struct conv){.co = 4, .k = 1, .scope = "box"});
	val_t ob = gen_un(g, "Sigmoid", gen_conv(g, r, (struct conv){.co = 1, .k = 1, .scope = "obj"}));
	val_t z = gen_concat(g, (val_t[]){box, ob, c}, 3, 1);
	return gen_reshape(g, z, DIMS(z->d[0], z->d[1], z->d[2] * z->d[3]));
}

void
net_yolox_nano(struct gen *g, bool is_small, int64_t size)
{
	struct yolo y = {g, is_small ? 2 : 1};
	int64_t r = size ? size : is_small ? 128 : 416, classes = is_small ? 8 : 80;
	val_t d[3], p[3], out[3];

	backbone(&y, focus(&y, gen_input(g, "images", DIMS(1, 3, r, r))), is_small ? 1 : 3, d);
	pafpn(&y, d, p);
	for (int i = 0; i < 3; i++) {
		gen_enter(g, "head%d", i);
		out[i] = yolox_head(&y, p[i], classes);
		gen_leave(g);
	}
	gen_output(g, gen_transpose(g, gen_concat(g, out, 3, 2), (int64_t[]){0, 2, 1}), "output");
}
