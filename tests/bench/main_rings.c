/* tests/bench/main_rings.c: inverted residual blocks (pointwise, depthwise, pointwise, with activations) as
 * one kernel with a ring of rows against the same three as kernels of their own, alternated in one run
 * (facts/cpu.md sections 1 and 9).  Usage: bench-rings [NAME-PART [SCHEDULE]] */
#include "../harness/bench_time.h"
#include "../harness/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ring_case {
	const char *name;
	int size, c, expand, kernel, stride;
	double must; /* unfused over fused, at least */
} cases[] = {
    {"mbconv 32@56 dw3, in L3", 56, 32, 4, 3, 1, 1.0},
    {"mbconv 64@28 dw5, in L3", 28, 64, 4, 5, 1, 0.95},
    {"mbconv 32@56 dw3 stride 2, in L3", 56, 32, 4, 3, 2, 0.95},
    {"mbconv 128@14 dw3, in L2", 14, 128, 6, 3, 1, 0.85},
    {"mbconv 24@112 dw3 stride 2", 112, 24, 6, 3, 2, 1.0},
    {"mbconv 32@224 dw3, beyond L3", 224, 32, 4, 3, 1, 1.3},
    {"mbconv 16@448 dw3, beyond L3", 448, 16, 4, 3, 1, 1.3},
};

/* ---- graphs ------------------------------------------------------------------------------------- */
struct text {
	struct strbuf sb;
	int n; /* tensors so far */
};

static int
convolution(struct text *t, int x, int w, int k, int stride, int group)
{
	sb_addf(&t->sb,
	    "%%%d = conv %%%d %%%d stride=[%d,%d] dilation=[1,1] ldil=[1,1] lo=[%d,%d] hi=[%d,%d] group=%d\n",
	    t->n, x, w, stride, stride, k / 2, k / 2, k / 2, k / 2, group);
	return t->n++;
}

static int
constant(struct text *t, const char *value, const char *shape)
{
	sb_addf(&t->sb, "%%%d = const f32[1,1,1,1] %s\n%%%d = bcast %%%d shape=%s\n", t->n, value, t->n + 1,
	    t->n, shape);
	t->n += 2;
	return t->n - 1;
}

static int
two(struct text *t, const char *prim, int x, int y)
{
	sb_addf(&t->sb, "%%%d = %s %%%d %%%d\n", t->n, prim, x, y);
	return t->n++;
}

/* x * min(max(x + 3, 0), 6) / 6, after a bias */
static int
activated(struct text *t, int x, int size, int c)
{
	char shape[64];

	(void)snprintf(shape, sizeof shape, "[1,%d,%d,%d]", size, size, c);
	sb_addf(&t->sb, "%%%d = weight f32[1,1,1,%d]\n%%%d = bcast %%%d shape=%s\n", t->n, c, t->n + 1, t->n,
	    shape);
	t->n += 2;
	x = two(t, "add", x, t->n - 1);
	int v = two(t, "add", x, constant(t, "0x1.8p+1", shape));

	v = two(t, "max", v, constant(t, "0x0p+0", shape));
	v = two(t, "min", v, constant(t, "0x1.8p+2", shape));
	v = two(t, "mul", v, x);
	return two(t, "mul", v, constant(t, "0x1.555556p-3", shape));
}

static int
outside(struct text *t, const char *role, int a, int b, int c, int d)
{
	sb_addf(&t->sb, "%%%d = %s f32[%d,%d,%d,%d]\n", t->n, role, a, b, c, d);
	return t->n++;
}

/* Parts first .. last of the three: expansion, depthwise, projection with the residual. */
static const char *
graph_of(struct arena *a, const struct ring_case *c, int first, int last)
{
	struct text t = {0};
	int wide = c->c * c->expand, small = c->size / c->stride;

	sb_init(&t.sb, a);
	int x = outside(&t, "input", 1, first < 2 ? c->size : small, first < 2 ? c->size : small,
	    first == 0 ? c->c : wide);
	int y = x;

	if (first == 0) {
		y = convolution(&t, y, outside(&t, "weight", 1, 1, c->c, wide), 1, 1, 1);
		y = activated(&t, y, c->size, wide);
	}
	if (first <= 1 && last >= 1) {
		y = convolution(
		    &t, y, outside(&t, "weight", c->kernel, c->kernel, 1, wide), c->kernel, c->stride, wide);
		y = activated(&t, y, small, wide);
	}
	if (last == 2) {
		y = convolution(&t, y, outside(&t, "weight", 1, 1, wide, c->c), 1, 1, 1);
		if (c->stride == 1)
			y = two(&t, "add", y, first == 0 ? x : outside(&t, "input", 1, small, small, c->c));
	}
	sb_addf(&t.sb, "output %%%d\n", y);
	return sb_str(&t.sb).p;
}

/* ---- timing ---------------------------------------------------------------------------------------- */
/* What kernel `from` makes is what `to` reads where the number of elements says so. */
static void
chain(struct test_kernel *to, const struct test_kernel *from)
{
	const struct graph *g = &to->spec.g, *h = &from->spec.g;
	int64_t n = shape_count(&graph_tensor(h, h->outputs[0])->shape);

	for (uint32_t i = 0; i < g->n_inputs; i++)
		if (graph_tensor(g, g->inputs[i])->role == ROLE_INPUT &&
		    shape_count(&graph_tensor(g, g->inputs[i])->shape) == n)
			to->buf[i] = from->buf[h->n_inputs];
}

static bool
measure(const struct ring_case *c, struct str schedule)
{
	enum { TIMES = 31 };
	struct arena a = {0};
	struct err e = {0};
	struct rng r = {1};
	struct test_kernel k[4];
	double fused[TIMES], apart[TIMES], ratio[TIMES];
	bool ok = true;

	for (int i = 0; i < 4 && ok; i++) {
		struct spec *s = NEW(&a, struct spec);

		ok = kernel_spec(&a, graph_of(&a, c, i == 3 ? 0 : i, i == 3 ? 2 : i), s, &e) &&
		    kernel_make(&a, s, i == 3 ? schedule : STR(""), &target_avx2, (uint32_t)i, &r, &k[i], &e);
	}
	if (!ok || !kernel_compile(&a, k, 4, &target_avx2, &e) ||
	    !kernel_check_sampled(&a, &k[3], 40, 1e-4, &e)) {
		fprintf(stderr, "%s: %s\n", c->name, e.msg);
		arena_fini(&a);
		return false;
	}
	chain(&k[1], &k[0]);
	chain(&k[2], &k[1]);
	int turns = (int)(4000 / kernels_us(&k[3], 1, 1)) + 1;

	for (int i = 0; i < TIMES; i++) {
		fused[i] = kernels_us(&k[3], 1, turns);
		apart[i] = kernels_us(k, 3, turns);
		ratio[i] = apart[i] / fused[i];
	}
	qsort(fused, TIMES, sizeof *fused, bench_less);
	qsort(apart, TIMES, sizeof *apart, bench_less);
	qsort(ratio, TIMES, sizeof *ratio, bench_less);
	printf(
	    "%-36s one kernel %9.0f us, three %9.0f us, ratio %5.2f (%.2f to %.2f; must %.2f)%s  %u passes\n",
	    c->name, fused[TIMES / 4], apart[TIMES / 4], ratio[TIMES / 2], ratio[TIMES / 4],
	    ratio[TIMES * 3 / 4], c->must, ratio[TIMES / 2] < c->must ? "  BELOW" : "",
	    k[3].code.desc.n_passes);
	(void)fflush(stdout);
	arena_fini(&a);
	return ratio[TIMES / 2] >= c->must;
}

int
main(int argc, char **argv)
{
	struct str schedule = str_of(argc > 2 ? argv[2] : "");
	struct bench_choice choice = {.part = argc > 1 ? argv[1] : NULL};
	bool ok = true;

	for (size_t i = 0; i < COUNT_OF(cases); i++)
		if (bench_takes(&choice, cases[i].name))
			ok &= measure(&cases[i], schedule);
	return bench_end("bench-rings", &choice, ok);
}
