/* kernels/cost/least.c: what a linear primitive takes at least, in multiply-adds at the rate of products,
 * counted as two.  A bound stands on it; what predictions are relative to stays with form.c, which counts
 * less of what happens around the products.
 *
 *   direct       products, in whole vectors of columns, and a store of each result
 *   Winograd's   products of whole tiles; maps before and behind; a store of each element that tiles are cut
 *                from, each mapped one, each sum, and each result that there is (not a tile's rest)
 *
 * Vectors may be half as wide as the device's (a loop program's are), and of fewer columns lie along the sum
 * or along rows, so that an earlier generator's form of few columns, the window's row as columns too, is
 * never less.
 *
 * A store of a vector would take as long as two multiply-adds of one on the cores that are known (one vector
 * of 64 bytes in two cycles beside one multiply-add a cycle, or one in a cycle beside two), but goes on
 * beside the next products: of the measured kernels with one linear primitive the least took .21 of an
 * operation for a result (a depthwise window of 8 channels), and on two of three kinds of cores 4.8.  What
 * Winograd's form makes goes through the stack: less than four operations, by the quickest of all rows. */
#include "cost_int.h"

#include <math.h>

enum { WINO_TAPS = 3, FEW_COLUMNS = 12 /* MOST_COLUMNS of kernels/schedule/rule_planes.c */ };
static const double store = 3.6, through = 6, beside = 0.15;
/* A map's arithmetic for each tile and channel: its multiply-adds, or its
 * additions where those are more, as they have units of their own. */
static const struct wino_form {
	int m;
	double in, out;
} wino_forms[] = {{2, 64, 48}, {4, 192, 140}};

/* A linear primitive, as its kernel makes it. */
struct linear {
	const struct graph *g;
	const struct node *n;
	struct boxes made; /* of its results */
	double results, flops, lanes;
	bool is_generated;
};

/* Columns in vectors of their own, as narrow as there are; few may each have vectors of points of a row. */
static double
columns_waste(const struct linear *l)
{
	double c = (double)form_extent(&l->made, l->made.rank - 1), waste = form_waste(c, l->lanes / 2);

	if (c * 2 < l->lanes)
		return 1;
	if (l->n->prim == PRIM_conv && c <= FEW_COLUMNS)
		return fmin(waste, form_waste((double)form_extent(&l->made, l->made.rank - 2), l->lanes));
	return waste;
}

/* With a store of each result; waste: vectors that are not full, as a factor. */
static double
stored_flops(const struct linear *l, double waste)
{
	return l->flops * waste + l->results * beside;
}

/* Either factor's columns may lie along the vectors, or the sum. */
static double
matmul_waste(const struct linear *l)
{
	const struct shape *a = &graph_tensor(l->g, l->n->in[0])->shape;
	const struct boxes *out = &l->made;

	return fmin(columns_waste(l),
	    fmin(form_waste((double)form_extent(out, out->rank - 2), l->lanes),
		form_waste((double)a->dim[a->rank - 1], l->lanes)));
}

/* A convolution of few products that is no anchor may be part of an expression, whose vectors lie along
 * anything. Of a library's call nothing is known but its products: 384 channels to 3 take a third of what
 * whole vectors of 3 columns would. */
static double
direct_flops(const struct linear *l)
{
	double c = (double)form_extent(&l->made, l->made.rank - 1);
	int64_t groups = l->n->prim == PRIM_conv ? at_get(&l->n->at, ATTR_group) : 1;

	if (l->made.n == 0 || graph_tensor(l->g, l->n->out[0])->type != DT_f32)
		return l->flops;
	if (l->n->prim != PRIM_conv)
		return stored_flops(l, l->is_generated ? matmul_waste(l) : 1);
	if (groups == 1 && l->is_generated)
		return stored_flops(l, node_is_anchor(l->g, l->n) ? columns_waste(l) : 1);
	return stored_flops(l, l->is_generated && (double)groups == c ? columns_waste(l) : 1);
}

static double
wino_flops(const struct linear *l, const struct wino_form *f)
{
	const struct shape *w = &graph_tensor(l->g, l->n->in[1])->shape;
	double p = f->m + WINO_TAPS - 1, c_in = (double)w->dim[2],
	       c_out = form_whole((double)form_extent(&l->made, 3), l->lanes);

	return form_tiles(&l->made, f->m) *
	    (2 * p * p * c_in * c_out + c_in * (f->in + store * (p * p + f->m * f->m)) +
		c_out * (f->out + store * p * p)) +
	    through * l->results * c_out / fmax((double)form_extent(&l->made, 3), 1);
}

/* The map that the first operand is, seen through what only moves elements; NULL: none. */
static const struct node *
map_before(const struct graph *g, tensor_id t)
{
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct node *n = &g->nodes[i];

		if (n->out[0].i != t.i)
			continue;
		if (prim_info[n->prim].class == CLASS_MAP)
			return n;
		if (n->prim != PRIM_pad && n->prim != PRIM_reshape && n->prim != PRIM_transpose)
			return NULL;
		t = n->in[0];
	}
	return NULL;
}

/* Elements that are made before all products and stored, as each meets several columns: half of a store, as
 * some of it goes on beside the products, and all of one where windows meet each several times.  Winograd's
 * form counts what its tiles are cut from itself. */
static double
before_flops(const struct graph *g, const struct node *n)
{
	const struct node *map = map_before(g, n->in[0]);
	double taps = 1;

	for (int d = 1; map && n->prim == PRIM_conv && d < graph_tensor(g, n->out[0])->shape.rank - 1; d++) {
		struct window w = window_of(g, n, d);

		if (w.stride > w.k || w.dilation != 1 || (w.out - 1) * w.stride + w.k < w.have)
			return 0; /* not all of them are met */
		taps *= (double)w.k;
	}
	return map ? (double)shape_count(&graph_tensor(g, map->out[0])->shape) * (taps > 1 ? store : beside)
		   : 0;
}

double
cost_least_flops(const struct graph *g, const struct node *n, const struct boxes *out, const struct hw *hw,
    bool is_generated)
{
	struct linear l = {.g = g, .n = n, .made = *out, .lanes = hw->lanes, .is_generated = is_generated};
	double best, before = 0;

	l.results = boxes_count(&l.made);
	l.flops = cost_linear_flops(g, n, &l.made, false);
	if (is_generated && node_is_anchor(g, n) &&
	    l.results >= (double)shape_count(&graph_tensor(g, n->out[0])->shape))
		before = before_flops(g, n);
	best = direct_flops(&l) + before;
	if (hw->winograd && l.made.n > 0 && node_fills_winograd(g, n, hw->lanes))
		for (size_t i = 0; i < COUNT_OF(wino_forms); i++)
			best = fmin(best, wino_flops(&l, &wino_forms[i]));
	return best;
}
