/* kernels/cost/bound.c: a time that no schedule of a spec can beat (D16): what peaks and bandwidths say, and
 * what is known of the ways in which a linear primitive can be computed (form.c), of how near to the peak
 * products come, and of how many exponentials and divisions the generator's text makes.
 *
 * A library's kernel is a schedule too: where a library has a call for the spec, what only the generator does
 * does not count. */
#include "cost_int.h"

#include "../vendor/library.h"

#include <math.h>

static bool
has_call(const struct spec *s)
{
	struct arena tmp = {0};
	struct library_call *call = NEW(&tmp, struct library_call);
	struct err e = {0};
	bool yes = library_call_of(s, call, &e);

	arena_fini(&tmp);
	return yes;
}

/* Results of the units that calibration timed by themselves. */
struct dear {
	double exps, divs;
};

static double
least(double a, double b)
{
	return a < b ? a : b;
}

/* What the generator's text of a map holds (kernels/generate/prelude_c.inc); what is the same along a
 * broadcast is computed once, and so may be the inverse of a divisor. */
static void
add_dear(const struct graph *g, const struct node *n, const struct need *x, struct dear *d)
{
	double made = least(x[n->out[0].i].n, x[n->out[0].i].eff);

	if (graph_tensor(g, n->out[0])->type != DT_f32)
		return;
	switch ((int)n->prim) {
	case PRIM_exp:
		d->exps += made;
		return;
	case PRIM_tanh:
		if (cost_is_joined(g, n))
			return;
		d->exps += made;
		d->divs += made;
		return;
	case PRIM_sigmoid:
	case PRIM_softplus:
		d->exps += made;
		d->divs += made;
		return;
	case PRIM_recip:
	case PRIM_erf:
	case PRIM_log:
		d->divs += made;
		return;
	case PRIM_div:
		d->divs += least(made, x[n->in[1].i].eff);
		return;
	}
}

static double
dear_s(const struct spec *s, const struct hw *hw, const struct need *x)
{
	struct dear d = {0};

	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (prim_info[s->g.nodes[i].prim].class == CLASS_MAP)
			add_dear(&s->g, &s->g.nodes[i], x, &d);
	return fmax(
	    hw->exp_per_s > 0 ? d.exps / hw->exp_per_s : 0, hw->div_per_s > 0 ? d.divs / hw->div_per_s : 0);
}

/* Products at the rate that they can reach. */
static double
linear_rate(const struct hw *hw)
{
	return hw->linear_flops > 0 ? hw->linear_flops : hw->flops_peak;
}

/* Calibration's loop and its margin were 1.4 % too slow for three of 30,000 kernels. */
static const double quicker = 1.03;

double
cost_least_rate(const struct hw *hw)
{
	return hw->linear_flops > 0 ? fmin(hw->linear_flops * quicker, hw->flops_peak) : hw->flops_peak;
}

static double
least_s(const struct spec *s, const struct hw *hw, const struct need *x, bool is_generated)
{
	double flops = 0;

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		const struct node *n = &s->g.nodes[i];

		if (prim_info[n->prim].class == CLASS_LINEAR)
			flops += cost_least_flops(&s->g, n, &x[n->out[0].i].of, hw, is_generated);
	}
	return flops / cost_least_rate(hw);
}

/* By the forms that there are, without what goes on around the products. */
static double
linear_s(const struct spec *s, const struct hw *hw, const struct need *x, bool is_generated)
{
	double flops = 0;

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		const struct node *n = &s->g.nodes[i];

		if (prim_info[n->prim].class == CLASS_LINEAR)
			flops += cost_form_flops(&s->g, n, &x[n->out[0].i].of, hw, is_generated);
	}
	return flops / linear_rate(hw);
}

/* Of maps' operations so many take a product's place: comparisons, choices and additions have units of their
 * own (an exponential of each element of a window: of 7,857 kernels one took less than all of them). */
static const double maps_beside = 0.8;

struct rates { /* seconds of the linear primitives, share of other operations, and is the kernel the
	          generator's? */
	double linear_s, others;
	bool is_generated;
};

/* Calls of a small kernel overlap, so that what is dear does not wait for the call. */
static int64_t
bound_ns(const struct spec *s, const struct hw *hw, const struct need *x, const struct rates *r,
    int64_t plain, struct cost_parts *p)
{
	double a_second = 1e9 / MAX_OF(hw->n_threads, 1), ns;

	p->flop_ns = fmax(
	    p->flop_ns, (r->linear_s + r->others * (p->flops - p->linear_flops) / hw->flops_peak) * a_second);
	ns = fmax(p->flop_ns, p->byte_ns) + p->call_ns;
	if (r->is_generated)
		ns = fmax(ns, dear_s(s, hw, x) * a_second);
	return MAX_OF(plain, (int64_t)floor(fmin(ns, 1e15)));
}

int64_t
cost_bound_heat_ns(const struct spec *s, const struct hw *hw, struct str heat, struct cost_parts *parts)
{
	struct arena tmp = {0};
	struct need *x = NEW_ARRAY(&tmp, struct need, s->g.n_tensors + 1);
	struct cost_parts p;
	int64_t ns = cost_analytic_ns(s, hw, heat, &p);
	double again, alone;

	if (hw->lanes > 0) {
		struct rates r = {.others = maps_beside, .is_generated = !has_call(s)};

		cost_needs(&s->g, x);
		r.linear_s = least_s(s, hw, x, r.is_generated);
		again = cost_again_s(&s->g, hw, x, &alone);
		p.byte_ns += again * 1e9;
		p.flop_ns = fmax(p.flop_ns, r.linear_s * 1e9 / MAX_OF(hw->n_threads, 1) + alone * 1e9);
		ns = bound_ns(s, hw, x, &r, ns, &p);
	}
	arena_fini(&tmp);
	if (parts)
		*parts = p;
	return ns;
}

int64_t
cost_bound_ns(const struct spec *s, const struct hw *hw, struct cost_parts *parts)
{
	return cost_bound_heat_ns(s, hw, STR(""), parts);
}

/* All of every tensor. */
static void
need_all(const struct graph *g, struct need *x)
{
	cost_needs(g, x);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		const struct shape *shape = &graph_tensor(g, (tensor_id){t})->shape;
		struct box all = box_all(shape);

		x[t].n = (double)shape_count(shape);
		if (shape_count(shape))
			boxes_add(&x[t].of, &all);
	}
}

int64_t
cost_work_ns(const struct spec *s, const struct hw *hw, struct str heat, struct cost_parts *parts)
{
	struct arena tmp = {0};
	struct need *x = NEW_ARRAY(&tmp, struct need, s->g.n_tensors + 1);
	struct cost_parts p, bound;
	int64_t least = cost_analytic_ns(s, hw, heat, &p);
	double others = 0, ns = 0;

	bound = p;
	if (hw->lanes > 0) {
		struct rates r = {.others = 1, .is_generated = !has_call(s)};

		cost_needs(&s->g, x);
		r.linear_s = linear_s(s, hw, x, r.is_generated);
		least = bound_ns(s, hw, x, &r, least, &bound);
		need_all(&s->g, x);
		for (uint32_t i = 0; i < s->g.n_nodes; i++)
			if (prim_info[s->g.nodes[i].prim].class != CLASS_LINEAR)
				others += cost_needed_flops(&s->g, &s->g.nodes[i], x, hw->winograd);
		ns = (linear_s(s, hw, x, r.is_generated) + others / hw->flops_peak) * 1e9 /
			MAX_OF(hw->n_threads, 1) +
		    p.call_ns;
	}
	arena_fini(&tmp);
	if (parts)
		*parts = p;
	return MAX_OF(least, (int64_t)fmin(ns, 1e15));
}
