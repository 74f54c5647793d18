/* kernels/interp/fast_paths.c: a graph's values in full, for graphs too big for the interpreter alone: node
 * by node, convolutions and products of matrices by plain loops of their own, all the rest by
 * the interpreter.  The loops accumulate in double as the interpreter does, and a test holds
 * them against it. */
#include "interp_int.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BEST_ISA __attribute__((target_clones("avx2", "default"))) /* by what it can, not by its name */
#else
#define BEST_ISA
#endif

enum { MOST_COLUMNS = 32 };

/* add_rows() of a few columns, a constant where it is called: their sums stay in registers. */
static inline __attribute__((always_inline)) void
add_block(double *restrict sum, int columns, const float *restrict x, int64_t n, const double *restrict w,
    int64_t row)
{
	double s[MOST_COLUMNS];

	for (int l = 0; l < columns; l++) /* no memcpy: gcc would leave s in memory */
		s[l] = sum[l];
	for (int64_t i = 0; i < n; i++)
		for (int l = 0; l < columns; l++)
			s[l] += (double)x[i] * w[i * row + l];
	for (int l = 0; l < columns; l++)
		sum[l] = s[l];
}

/* sum[j] += x[0] * w[0][j] + x[1] * w[1][j] ..., n rows of w, each `row` behind the one before. */
BEST_ISA static void
add_rows(double *sum, int64_t columns, const float *x, int64_t n, const double *w, int64_t row)
{
	int64_t j = 0;

	for (; j + MOST_COLUMNS <= columns; j += MOST_COLUMNS)
		add_block(sum + j, MOST_COLUMNS, x, n, w + j, row);
	for (; j + MOST_COLUMNS / 2 <= columns; j += MOST_COLUMNS / 2)
		add_block(sum + j, MOST_COLUMNS / 2, x, n, w + j, row);
	for (int64_t i = 0; i < n; i++)
		for (int64_t l = j; l < columns; l++)
			sum[l] += (double)x[i] * w[i * row + l];
}

/* A weight meets many rows, so it is made double once.  The caller frees it. */
static double *
widened(const struct shape *s, const float *w)
{
	int64_t n = shape_count(s);
	double *to = heap_alloc(ck_mul((size_t)n, sizeof(*to)));

	for (int64_t i = 0; i < n; i++)
		to[i] = (double)w[i];
	return to;
}

static void
store_row(float *to, const double *sum, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		to[j] = (float)sum[j];
}

/* a[B, M, K] x b[B, K, N] */
static void
matmul(
    const struct shape *sa, const struct shape *sb, const float *a, const double *b, float *out, double *sum)
{
	int64_t k = sa->dim[sa->rank - 1], m = sa->dim[sa->rank - 2], n = sb->dim[sb->rank - 1];
	int64_t rows = k ? shape_count(sa) / k : 0;

	for (int64_t r = 0; r < rows; r++) {
		const double *w = b + r / m * k * n;

		memset(sum, 0, (size_t)n * sizeof(*sum));
		add_rows(sum, n, a + r * k, k, w, n);
		store_row(out + r * n, sum, n);
	}
}

struct conv {
	int n_space;
	const struct shape *x, *w, *y;
	const int64_t *stride, *dilation, *ldil, *lo;
	int64_t group;
};

/* Where in x the tap `k` of output position `o` reads; -1: outside, where x is zero. */
static int64_t
tap_at(const struct conv *c, const int64_t *o, const int64_t *k)
{
	int64_t flat = 0;

	for (int d = 0; d < c->n_space; d++) {
		int64_t p = o[d] * c->stride[d] + k[d] * c->dilation[d] - c->lo[d];

		if (p < 0 || p % c->ldil[d] || p / c->ldil[d] >= c->x->dim[1 + d])
			return -1;
		flat = flat * c->x->dim[1 + d] + p / c->ldil[d];
	}
	return flat;
}

/* Next position of an odometer over dim[0..n); false after the last. */
static bool
next(int64_t *at, const int64_t *dim, int n)
{
	for (int d = n - 1; d >= 0; d--) {
		if (++at[d] < dim[d])
			return true;
		at[d] = 0;
	}
	return false;
}

/* All taps of one output position, from x of one image. */
static void
conv_at(const struct conv *c, const int64_t *o, const float *x, const double *w, double *sum)
{
	int64_t channels = c->x->dim[c->x->rank - 1], out = c->y->dim[c->y->rank - 1];
	int64_t ci = channels / c->group, co = out / c->group, k[MAX_RANK] = {0}, tap = 0;

	memset(sum, 0, (size_t)out * sizeof(*sum));
	do {
		int64_t at = tap_at(c, o, k);
		const double *wt = w + tap++ * ci * out;

		for (int64_t g = 0; at >= 0 && g < c->group; g++)
			add_rows(sum + g * co, co, x + at * channels + g * ci, ci, wt + g * co, out);
	} while (next(k, c->w->dim, c->n_space));
}

static void
conv(const struct node *n, const struct tensor *x, const struct tensor *w, const struct tensor *y,
    const float *xd, const double *wd, float *yd, double *sum)
{
	struct conv c = {.n_space = x->shape.rank - 2,
	    .x = &x->shape,
	    .w = &w->shape,
	    .y = &y->shape,
	    .stride = at_ints(&n->at, ATTR_stride),
	    .dilation = at_ints(&n->at, ATTR_dilation),
	    .ldil = at_ints(&n->at, ATTR_ldil),
	    .lo = at_ints(&n->at, ATTR_lo),
	    .group = at_get(&n->at, ATTR_group)};
	int64_t images = x->shape.dim[0], out = y->shape.dim[y->shape.rank - 1], to = 0;
	int64_t image = images ? shape_count(&x->shape) / images : 0;

	for (int64_t b = 0; b < images; b++) {
		int64_t o[MAX_RANK] = {0};

		do {
			conv_at(&c, o, xd + b * image, wd, sum);
			store_row(yd + to++ * out, sum, out);
		} while (next(o, y->shape.dim + 1, c.n_space));
	}
}

bool
reference_has_loop(const struct graph *g, const struct node *n)
{
	const struct tensor *y = graph_tensor(g, n->out[0]);

	if (n->prim != PRIM_matmul && n->prim != PRIM_conv)
		return false;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (graph_tensor(g, n->in[i])->type != DT_f32 ||
		    shape_count(&graph_tensor(g, n->in[i])->shape) == 0)
			return false;
	return y->type == DT_f32 && shape_count(&y->shape) > 0;
}

static bool
run_node(struct arena *a, const struct graph *g, const struct node *n, void **data, struct err *e)
{
	const struct tensor **in = NEW_ARRAY(a, const struct tensor *, n->n_in), *out[2];
	const void **in_data = NEW_ARRAY(a, const void *, n->n_in);
	void *out_data[2];

	for (uint32_t i = 0; i < n->n_in; i++) {
		in[i] = graph_tensor(g, n->in[i]);
		in_data[i] = data[n->in[i].i];
	}
	for (uint32_t i = 0; i < n->n_out; i++) {
		size_t n_bytes;

		out[i] = graph_tensor(g, n->out[i]);
		if (!shape_bytes(&out[i]->shape, out[i]->type, &n_bytes))
			bug("a spec with a tensor that does not fit");
		out_data[i] = data[n->out[i].i] = arena_alloc(a, n_bytes);
	}
	if (reference_has_loop(g, n)) {
		const struct shape *y = &out[0]->shape;
		double *sum = NEW_ARRAY(a, double, y->dim[y->rank - 1]),
		       *w = widened(&in[1]->shape, in_data[1]);

		if (n->prim == PRIM_matmul)
			matmul(&in[0]->shape, &in[1]->shape, in_data[0], w, out_data[0], sum);
		else
			conv(n, in[0], in[1], out[0], in_data[0], w, out_data[0], sum);
		free(w);
		return true;
	}
	return interp_prim(n->prim, &n->at, n->n_in, in, in_data, n->n_out, out, out_data, e);
}

/* The inputs, or shaken copies of them. */
static void
take_inputs(
    struct arena *a, const struct graph *g, const void *const *inputs, const struct shake *s, void **data)
{
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct tensor *t = graph_tensor(g, g->inputs[i]);
		size_t n;

		data[g->inputs[i].i] = (void *)(uintptr_t)inputs[i];
		if (!s || !dtype_is_float(t->type) || !shape_bytes(&t->shape, t->type, &n))
			continue;
		data[g->inputs[i].i] = arena_dup(a, inputs[i], n);
		shake_dense(s, t, g->inputs[i].i, data[g->inputs[i].i]);
	}
}

bool
reference_run(struct arena *a, const struct graph *g, const void *const *inputs, const struct shake *s,
    void **outputs, struct err *e)
{
	void **data = NEW_ARRAY(a, void *, g->n_tensors);

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		size_t n;

		if (g->tensors[t].data && shape_bytes(&g->tensors[t].shape, g->tensors[t].type, &n))
			data[t] = arena_dup(a, g->tensors[t].data, n);
	}
	take_inputs(a, g, inputs, s, data);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		if (data[n->out[0].i])
			continue;
		if (!run_node(a, g, n, data, e))
			return err_in(e, "node %u", i);
		for (uint32_t k = 0; s && prim_rounds(n->prim) && k < n->n_out; k++)
			shake_dense(s, graph_tensor(g, n->out[k]), n->out[k].i, data[n->out[k].i]);
	}
	for (uint32_t i = 0; i < g->n_outputs; i++)
		outputs[i] = data[g->outputs[i].i];
	return true;
}
