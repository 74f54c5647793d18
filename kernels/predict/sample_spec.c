/* kernels/predict/sample_spec.c: what is known of a spec on a device before anything is lowered. */
#include "sample.h"

#include <math.h>

struct counts {
	double n[CLASS_OPAQUE + 1], made[CLASS_OPAQUE + 1];
	double linear_flops, map_work, dear, reduced, reduced_last, window, turned, gathered;
	double n_exp, n_joined;
	const struct node *heaviest; /* linear */
	double heaviest_flops;
};

static double
count_of(const struct graph *g, tensor_id t)
{
	return (double)shape_count(&graph_tensor(g, t)->shape);
}

static double
bytes_of(const struct graph *g, tensor_id t)
{
	return count_of(g, t) * (double)dtype_size(graph_tensor(g, t)->type);
}

static void
count_reduce(const struct graph *g, const struct node *n, struct counts *c)
{
	double read = count_of(g, n->in[0]);
	const struct attr *axes = at_find(&n->at, ATTR_axes);
	int rank = graph_tensor(g, n->in[0])->shape.rank;
	bool is_last = false;

	for (int i = 0; axes && i < axes->n; i++)
		is_last |= axes->i[i] == rank - 1;
	c->reduced += read;
	c->reduced_last += is_last ? read : 0;
	c->window += axes ? 0 : read;
	c->n_joined += axes != NULL;
}

static void
count_layout(const struct graph *g, const struct node *n, struct counts *c)
{
	double made = count_of(g, n->out[0]);

	if (n->prim == PRIM_transpose) {
		const struct attr *perm = at_find(&n->at, ATTR_perm);

		c->turned += perm->n && perm->i[perm->n - 1] != perm->n - 1 ? made : 0;
	} else if (n->prim == PRIM_gather || n->prim == PRIM_gather_elements) {
		c->gathered += made;
	}
}

static void
count_linear(const struct graph *g, const struct node *n, struct counts *c)
{
	double flops = node_flops(g, n);

	c->linear_flops += flops;
	if (!c->heaviest || flops > c->heaviest_flops) {
		c->heaviest = n;
		c->heaviest_flops = flops;
	}
}

static void
count_node(const struct graph *g, const struct node *n, struct counts *c)
{
	enum { DEAR_FLOPS = 9 };
	enum prim_class class = prim_info[n->prim].class;

	if (node_is_view(g, n))
		return;
	c->n[class]++;
	c->made[class] += count_of(g, n->out[0]);
	if (class == CLASS_MAP) {
		c->map_work += node_flops(g, n);
		c->dear += prim_info[n->prim].flops >= DEAR_FLOPS ? count_of(g, n->out[0]) : 0;
		c->n_exp += n->prim == PRIM_exp;
	} else if (class == CLASS_REDUCE) {
		count_reduce(g, n, c);
	} else if (class == CLASS_LAYOUT) {
		count_layout(g, n, c);
	} else if (class == CLASS_LINEAR) {
		count_linear(g, n, c);
	}
}

/* Rows, columns and depth of the product that a linear primitive is. */
static void
add_linear(const struct graph *g, const struct node *n, double lanes, float x[SPEC_FEATURES])
{
	const struct shape *out = &graph_tensor(g, n->out[0])->shape, *b = &graph_tensor(g, n->in[1])->shape;
	double all = count_of(g, n->out[0]), columns = out->rank ? (double)out->dim[out->rank - 1] : 1,
	       batch = 1, taps = 1, stride = 1, group;

	if (n->prim == PRIM_conv) {
		const struct attr *s = at_find(&n->at, ATTR_stride);

		batch = (double)at_get(&n->at, ATTR_group);
		for (int d = 0; d + 2 < b->rank; d++)
			taps *= (double)b->dim[d];
		for (int d = 0; s && d < s->n; d++)
			stride = fmax(stride, (double)s->i[d]);
	} else {
		for (int d = 0; d + 2 < out->rank; d++)
			batch *= (double)out->dim[d];
	}
	x[SPEC_lin_rows] =
	    (float)log1p(n->prim == PRIM_conv ? all / fmax(columns, 1) : all / fmax(columns * batch, 1));
	x[SPEC_lin_columns] = (float)log1p(columns);
	x[SPEC_lin_depth] = (float)log1p(node_flops(g, n) / fmax(2 * all, 1));
	x[SPEC_lin_batch] = (float)log1p(batch);
	/* of a depthwise convolution channels are columns, groups or not */
	group = n->prim == PRIM_conv && columns > batch ? columns / batch : columns;
	x[SPEC_lin_group] = (float)log1p(group);
	x[SPEC_lin_waste] = (float)(lanes > 1 ? ceil(group / lanes) * lanes / fmax(group, 1) : 1);
	x[SPEC_lin_taps] = (float)taps;
	x[SPEC_lin_stride] = (float)stride;
	x[SPEC_lin_const] = graph_tensor(g, n->in[1])->role == ROLE_WEIGHT;
}

static bool
can_library(const struct spec *s, const struct target *t)
{
	struct library_call *call;
	struct arena tmp = {0};
	struct err e = {0};
	bool ok = false;

	if (t->strict)
		return false;
	call = NEW(&tmp, struct library_call);
	if (library_call_of(s, call, &e))
		for (int l = 0; l < LIBRARY_COUNT && !ok; l++)
			ok = t->library[l] > 0 && library_takes((enum library)l, call, &e);
	arena_fini(&tmp);
	return ok;
}

static void
add_sizes(const struct graph *g, const struct cost_parts *parts, float x[SPEC_FEATURES])
{
	double weights = 0, operands = 0, results = 0;
	const struct shape *out = &graph_tensor(g, g->outputs[0])->shape;
	double columns = out->rank ? (double)out->dim[out->rank - 1] : 1;

	for (uint32_t i = 0; i < g->n_inputs; i++) {
		double n = bytes_of(g, g->inputs[i]);

		operands += n;
		weights += graph_tensor(g, g->inputs[i])->role == ROLE_WEIGHT ? n : 0;
	}
	for (uint32_t i = 0; i < g->n_outputs; i++)
		results += bytes_of(g, g->outputs[i]);
	x[SPEC_bytes] = (float)log1p(parts->bytes);
	x[SPEC_bytes_out] = (float)log1p(results);
	x[SPEC_weight_share] = (float)(weights / fmax(operands, 1));
	x[SPEC_rows_out] = (float)log1p(count_of(g, g->outputs[0]) / fmax(columns, 1));
	x[SPEC_columns_out] = (float)log1p(columns);
}

static void
add_amounts(const struct counts *c, double ns, float x[SPEC_FEATURES])
{
	const struct {
		enum spec_feature to;
		double amount;
	} all[] = {
	    {SPEC_linear_flops, c->linear_flops},
	    {SPEC_map_work, c->map_work},
	    {SPEC_map_elements, c->made[CLASS_MAP]},
	    {SPEC_dear_elements, c->dear},
	    {SPEC_reduced, c->reduced},
	    {SPEC_reduced_last, c->reduced_last},
	    {SPEC_reduced_inner, c->reduced - c->reduced_last - c->window},
	    {SPEC_window_reduced, c->window},
	    {SPEC_layout_elements, c->made[CLASS_LAYOUT]},
	    {SPEC_turned, c->turned},
	    {SPEC_gathered, c->gathered},
	    {SPEC_bcast_elements, c->made[CLASS_BCAST]},
	    {SPEC_opaque_elements, c->made[CLASS_OPAQUE]},
	};

	for (size_t i = 0; i < COUNT_OF(all); i++)
		x[all[i].to] = (float)log1p(fmax(all[i].amount, 0) / ns);
	x[SPEC_n_linear] = (float)c->n[CLASS_LINEAR];
	x[SPEC_n_reduce] = (float)c->n[CLASS_REDUCE];
	x[SPEC_n_layout] = (float)c->n[CLASS_LAYOUT];
	x[SPEC_n_bcast] = (float)c->n[CLASS_BCAST];
	x[SPEC_n_map] = (float)c->n[CLASS_MAP];
	x[SPEC_n_opaque] = (float)c->n[CLASS_OPAQUE];
	x[SPEC_is_softmax] = c->n_exp > 0 && c->n_joined >= 2;
}

static void
add_heat(const struct graph *g, struct str heat, float x[SPEC_FEATURES])
{
	double all = 0, at[HEAT_HOT + 1] = {0};

	for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++) {
		tensor_id t = i < g->n_inputs ? g->inputs[i] : g->outputs[i - g->n_inputs];

		all += bytes_of(g, t);
		at[heat_at(heat, i)] += bytes_of(g, t);
	}
	x[SPEC_hot] = (float)(at[HEAT_HOT] / fmax(all, 1));
	x[SPEC_near] = (float)(at[HEAT_NEAR] / fmax(all, 1));
}

/* The logarithm of what a device may have left out. */
static float
log_of(double v)
{
	return (float)log(fmax(v, 1e-9));
}

static void
add_device(const struct target *t, const struct hw *hw, float x[SPEC_FEATURES])
{
	x[SPEC_device_flops_peak] = log_of(hw->flops_peak);
	for (int i = 0; i < 4; i++)
		x[SPEC_device_l1 + i] = log_of(hw->bytes_per_s[i]);
	for (int i = 0; i < 3; i++)
		x[SPEC_device_l1_bytes + i] = log_of((double)hw->level_bytes[i]);
	x[SPEC_device_call] = log_of(hw->call_ns);
	x[SPEC_device_barrier] = (float)log1p(fmax(hw->barrier_ns, 0));
	x[SPEC_device_simd] = (float)t->simd_bytes;
	x[SPEC_device_threads] = log_of(MAX_OF(hw->n_threads, 1));
	x[SPEC_device_is_gpu] = t->is_cuda;
}

void
sample_of_spec(const struct spec *s, const struct target *t, const struct hw *hw, struct str heat,
    const struct cost_parts *parts, int64_t bound_ns, float x[SPEC_FEATURES])
{
	struct counts c = {0};
	double ns = fmax((double)bound_ns, 1);

	for (int i = 0; i < SPEC_FEATURES; i++)
		x[i] = 0;
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		count_node(&s->g, &s->g.nodes[i], &c);
	x[SPEC_bound] = (float)log(ns);
	x[SPEC_byte_over_flop] = (float)log((parts->byte_ns + 1) / (parts->flop_ns + 1));
	x[SPEC_above] = (float)log(ns / fmax((double)cost_analytic_ns(s, hw, heat, NULL), 1));
	x[SPEC_flop_share] = (float)(parts->flop_ns / ns);
	x[SPEC_byte_share] = (float)(parts->byte_ns / ns);
	x[SPEC_call_share] = (float)(parts->call_ns / ns);
	x[SPEC_nodes] = (float)log1p(s->g.n_nodes);
	x[SPEC_inputs] = (float)s->g.n_inputs;
	x[SPEC_outputs] = (float)s->g.n_outputs;
	add_sizes(&s->g, parts, x);
	add_amounts(&c, ns, x);
	if (c.heaviest)
		add_linear(&s->g, c.heaviest, hw->lanes, x);
	x[SPEC_can_library] = can_library(s, t);
	x[SPEC_can_winograd] = t->winograd && spec_winograd(s);
	x[SPEC_strict] = t->strict;
	add_heat(&s->g, heat, x);
	add_device(t, hw, x);
}
