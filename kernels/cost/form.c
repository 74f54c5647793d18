/* kernels/cost/form.c: what a linear primitive costs in the best of the forms that it can have, in
 * multiply-adds at peak, counted as two.
 *
 * Directly: as many as it has; and where the generator makes the kernel, whole vectors, of half the width at
 * least: of columns, of points along a row, or of what is summed up.  By Winograd's form: whole tiles, and
 * the maps before and behind the products. Nothing else is counted, not even what the next tile shares, so
 * that each form is at least what is said here. */
#include "cost_int.h"

#include <math.h>

enum { WINO_TAPS = 3 };
/* A map's arithmetic for each tile and channel: additions and multiply-adds, each counted as one, as
 * additions may have units of their own.  Two thirds of what the least known programs take. */
static const struct wino_form {
	int m;
	double in, out;
} wino_forms[] = {{2, 21, 16}, {4, 96, 64}};

double
form_whole(double n, double of)
{
	return of > 1 ? ceil(n / of) * of : n;
}

/* Vectors that are not full, as a factor. */
double
form_waste(double n, double lanes)
{
	return n >= 1 ? form_whole(n, lanes) / n : 1;
}

/* The box that holds all boxes is what a result's extents may be counted by where there is one alone. */
int64_t
form_extent(const struct boxes *out, int d)
{
	int64_t most = 0;

	for (int i = 0; i < out->n; i++)
		most = MAX_OF(most, out->v[i].n[d]);
	return most;
}

/* A convolution's channels, points of a row (rule_planes), or channels that are summed up (rule_dots) are
 * lanes. */
static double
conv_waste(const struct graph *g, const struct node *n, const struct boxes *out, double lanes)
{
	const struct shape *w = &graph_tensor(g, n->in[1])->shape;
	const double half = fmax(lanes / 2, 1);

	if (at_get(&n->at, ATTR_group) != 1)
		return 1;
	return fmin(form_waste((double)form_extent(out, out->rank - 1), half),
	    fmin(form_waste((double)form_extent(out, out->rank - 2), half),
		form_waste((double)w->dim[w->rank - 2], half)));
}

/* Either factor's columns may lie along the vectors, or the sum. */
static double
matmul_waste(const struct graph *g, const struct node *n, const struct boxes *out, double lanes)
{
	const struct shape *a = &graph_tensor(g, n->in[0])->shape;
	double columns = form_waste((double)form_extent(out, out->rank - 1), lanes),
	       rows = form_waste((double)form_extent(out, out->rank - 2), lanes),
	       depth = form_waste((double)a->dim[a->rank - 1], lanes);

	return fmin(columns, fmin(rows, depth));
}

static double
direct_flops(const struct graph *g, const struct node *n, const struct boxes *out, const struct hw *hw,
    bool is_generated)
{
	double flops = cost_linear_flops(g, n, out, false), lanes = is_generated ? hw->lanes : 1;

	if (out->n == 0 || graph_tensor(g, n->out[0])->type != DT_f32)
		return flops;
	return flops * (n->prim == PRIM_conv ? conv_waste(g, n, out, lanes) : matmul_waste(g, n, out, lanes));
}

/* Tiles of m x m results that hold what is needed. */
double
form_tiles(const struct boxes *out, int m)
{
	const struct box *b = &out->v[0];

	if (out->n != 1)
		return boxes_count(out) / (double)MAX_OF(form_extent(out, out->rank - 1), (int64_t)1) /
		    (m * m);
	return (double)b->n[0] * ceil((double)b->n[1] / m) * ceil((double)b->n[2] / m);
}

static double
wino_flops(const struct graph *g, const struct node *n, const struct boxes *out, const struct hw *hw,
    const struct wino_form *f)
{
	const struct shape *w = &graph_tensor(g, n->in[1])->shape;
	double p = f->m + WINO_TAPS - 1, c_in = (double)w->dim[2], c_out = (double)form_extent(out, 3);

	return form_tiles(out, f->m) *
	    (2 * p * p * c_in * form_whole(c_out, hw->lanes) + c_in * f->in + c_out * f->out);
}

double
cost_form_flops(const struct graph *g, const struct node *n, const struct boxes *out, const struct hw *hw,
    bool is_generated)
{
	double best = direct_flops(g, n, out, hw, is_generated);

	if (hw->winograd && out->n > 0 && node_fills_winograd(g, n, hw->lanes))
		for (size_t i = 0; i < COUNT_OF(wino_forms); i++)
			best = fmin(best, wino_flops(g, n, out, hw, &wino_forms[i]));
	return best;
}
