/* kernels/cost/cost.c: what peaks and bandwidths alone say of a spec.  No schedule can beat it (D16); bound.c
 * adds what is known of the ways to compute it.
 *
 *   analytic = max(flops / peak, bytes / bandwidth of the fastest levels that hold them)
 *              + one call
 *
 * Every count here errs downward:
 *  - arithmetic: border taps of a convolution are left out, sums and products may share fused
 *    multiply-adds, a value that is the same along a broadcast is computed once, and what no result
 *    needs is not computed.  A convolution that may have Winograd's form counts for a fourth where
 *    that is allowed: 36 products of 144;
 *  - bytes: each external element that some result needs is read once, however often it is used. */
#include "cost_int.h"

#include <math.h>

/* Faster than any CPU core: without calibration bounds only tell large from small. */
const struct hw hw_fastest = {
    .flops_peak = 1e12,
    .bytes_per_s = {4e12, 2e12, 1e12, 5e11},
    .level_bytes = {1 << 20, 64 << 20, (int64_t)1 << 31},
    .call_ns = 1,
    .barrier_ns = 0,
    .simd_bytes = 64,
    .n_threads = 1,
    .winograd = true,
};

/* Ten times what is sold.  Its memory has the speed of its caches: nobody knows how large those are. */
const struct hw hw_fastest_gpu = {
    .flops_peak = 1e15,
    .tensor_peak = 3e16,
    .bytes_per_s = {1e15, 1e15, 1e15, 1e15},
    .level_bytes = {1 << 20, 1 << 30, 1 << 30},
    .call_ns = 1,
    .barrier_ns = 0,
    .simd_bytes = 16,
    .n_threads = 1,
    .winograd = true,
};

static double
count_of(const struct graph *g, tensor_id t)
{
	return (double)shape_count(&graph_tensor(g, t)->shape);
}

/* ---- how many different values ------------------------------------------------------------ */
static double
node_values(const struct graph *g, const struct node *n, const struct need *x)
{
	double made = count_of(g, n->out[0]), v = 1;

	for (uint32_t i = 0; i < n->n_in; i++)
		v = n->prim == PRIM_concat ? v + x[n->in[i].i].eff : v * MAX_OF(x[n->in[i].i].eff, 1.0);
	if (n->prim == PRIM_pad)
		v += 1;
	switch (prim_info[n->prim].class) {
	case CLASS_MAP:
	case CLASS_BCAST:
	case CLASS_LAYOUT:
		return n->n_in ? MIN_OF(made, v) : made;
	case CLASS_REDUCE:
	case CLASS_LINEAR:
	case CLASS_OPAQUE:
		return made;
	}
	return made;
}

/* ---- what is read ------------------------------------------------------------------------- */
/* Taps of a convolution or window over all of its result, and elements touched, channels and
 * batch left out for a convolution. */
static double
all_taps(const struct graph *g, const struct node *n, double *touched)
{
	const struct shape *x = &graph_tensor(g, n->in[0])->shape;
	bool conv = n->prim == PRIM_conv;
	double taps = 1, part;

	*touched = 1;
	for (int d = conv; d < x->rank - conv; d++) {
		struct window w = window_of(g, n, d);

		taps *= window_taps(&w, 0, 1, w.out, &part);
		*touched *= part;
	}
	return taps;
}

/* Elements of operand i that are needed when `out` elements of the result are. */
static double
operand_need(const struct graph *g, const struct node *n, uint32_t i, double out)
{
	double have = count_of(g, n->in[i]), made = count_of(g, n->out[0]), touched;
	bool all = out >= made;
	const struct shape *x = &graph_tensor(g, n->in[i])->shape;

	if (made <= 0 || out <= 0 || have <= 0)
		return 0;
	switch (n->prim) {
	case PRIM_bcast:
		return ceil(out / (made / have));
	case PRIM_slice:
	case PRIM_transpose:
	case PRIM_reshape:
		return out;
	case PRIM_pad: /* what is padded may be all that is needed */
		return MAX_OF(0.0, MIN_OF(have, have - (made - out)));
	case PRIM_concat:
		return MAX_OF(0.0, have - (made - out));
	case PRIM_gather:
	case PRIM_gather_elements:
	case PRIM_gather_nd: /* any index may be asked for again and again */
		return i == 0 ? 1 : all ? have : 1;
	case PRIM_conv:
		if (i == 1 || !all)
			return 0; /* boxes know more */
		(void)all_taps(g, n, &touched);
		return touched * (double)x->dim[0] * (double)x->dim[x->rank - 1];
	case PRIM_wsum:
	case PRIM_wmax:
		if (!all)
			return 0;
		(void)all_taps(g, n, &touched);
		return touched;
	case PRIM_matmul:
		return all ? have : (double)x->dim[x->rank - 1 - (int)i];
	default:
		break;
	}
	if (prim_info[n->prim].class == CLASS_MAP)
		return out;
	if (prim_info[n->prim].class == CLASS_REDUCE)
		return out * (have / made);
	return all ? have : 1; /* opaque */
}

/* ---- arithmetic --------------------------------------------------------------------------- */
/* Peak counts a fused multiply-add as two.  Sums and products may share one, or vanish in an
 * accumulator's start; a choice or a comparison takes an instruction, and an exponential more
 * than its row of prim.def says. */
static double
map_flops(enum prim p)
{
	switch (p) {
	case PRIM_add:
	case PRIM_sub:
	case PRIM_mul:
	case PRIM_neg:
	case PRIM_abs:
	case PRIM_cast:
	case PRIM_not:
	case PRIM_bitnot:
	case PRIM_and:
	case PRIM_or:
	case PRIM_xor:
		return 0.5;
	case PRIM_pow: /* some exponents are cheap */
		return 1;
	default:
		return prim_info[p].flops;
	}
}

bool
cost_is_joined(const struct graph *g, const struct node *n)
{
	if (n->prim != PRIM_tanh || graph_tensor(g, n->out[0])->type != DT_f32)
		return false;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i].prim == PRIM_softplus && g->nodes[i].out[0].i == n->in[0].i)
			return true;
	return false;
}

/* Multiply-adds, counted as two, of the results that are needed for certain. */
double
cost_linear_flops(const struct graph *g, const struct node *n, const struct boxes *out, bool winograd)
{
	enum { SAVED = 4 }; /* D16: the best of the known forms */
	const struct shape *w = &graph_tensor(g, n->in[1])->shape;
	double flops = 0, touched;

	if (n->prim != PRIM_conv)
		return node_flops(g, n) * boxes_count(out) / MAX_OF(count_of(g, n->out[0]), 1.0);
	for (int i = 0; i < out->n; i++) {
		const struct box *b = &out->v[i];
		double taps = (double)b->n[0] * (double)b->n[out->rank - 1];

		for (int d = 1; d < out->rank - 1; d++) {
			struct window v = window_of(g, n, d);

			taps *= window_taps(&v, b->at[d], b->step[d], b->n[d], &touched);
		}
		flops += 2 * taps * (double)w->dim[w->rank - 2];
	}
	return winograd && node_winograd(g, n) ? flops / SAVED : flops;
}

double
cost_needed_flops(const struct graph *g, const struct node *n, const struct need *x, bool winograd)
{
	double made = count_of(g, n->out[0]), out = x[n->out[0].i].n, touched;
	double share = made > 0 ? MIN_OF(1.0, out / made) : 0;

	switch (prim_info[n->prim].class) {
	case CLASS_MAP:
		return cost_is_joined(g, n) ? 0 : map_flops(n->prim) * MIN_OF(out, x[n->out[0].i].eff);
	case CLASS_REDUCE:
		if (prim_info[n->prim].shape == SHAPE_WINDOW) /* sums of neighbouring windows share */
			return share >= 1 ? 0.5 * MIN_OF(made, all_taps(g, n, &touched)) : 0;
		return 0.5 * MIN_OF(x[n->in[0].i].n, x[n->in[0].i].eff);
	case CLASS_LINEAR:
		return cost_linear_flops(g, n, &x[n->out[0].i].of, winograd);
	case CLASS_BCAST:
	case CLASS_LAYOUT:
	case CLASS_OPAQUE:
		return 0;
	}
	return 0;
}

/* The union of what readers need is at least what one of them does, and what is known of all. */
static void
node_needs(const struct graph *g, const struct node *n, struct need *x)
{
	double out = 0;

	for (uint32_t k = 0; k < n->n_out; k++)
		out = MAX_OF(out, x[n->out[k].i].n);
	for (uint32_t k = 0; k < n->n_in; k++) {
		struct need *to = &x[n->in[k].i];
		const struct boxes *from = &x[n->out[0].i].of;
		struct box b;

		for (int i = 0; i < from->n; i++)
			if (box_operand(g, n, k, &from->v[i], &b))
				boxes_add(&to->of, &b);
		to->n = MAX_OF(to->n, MIN_OF(count_of(g, n->in[k]), operand_need(g, n, k, out)));
		if (to->n >= count_of(g, n->in[k]) && to->n > 0) {
			b = box_all(&graph_tensor(g, n->in[k])->shape);
			boxes_add(&to->of, &b);
		}
		to->n = MAX_OF(to->n, boxes_count(&to->of));
	}
}

void
cost_needs(const struct graph *g, struct need *x)
{
	for (uint32_t t = 0; t < g->n_tensors; t++)
		x[t].eff = count_of(g, (tensor_id){t});
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			x[g->nodes[i].out[k].i].eff =
			    MIN_OF(count_of(g, g->nodes[i].out[k]), node_values(g, &g->nodes[i], x));
	for (uint32_t t = 0; t < g->n_tensors; t++)
		x[t].of.rank = g->tensors[t].shape.rank;
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		const struct shape *s = &graph_tensor(g, g->outputs[i])->shape;
		struct box all = box_all(s);

		x[g->outputs[i].i].n = (double)shape_count(s);
		if (shape_count(s))
			boxes_add(&x[g->outputs[i].i].of, &all);
	}
	for (uint32_t i = g->n_nodes; i-- > 0;)
		node_needs(g, &g->nodes[i], x);
}

struct moved { /* bytes that a call moves */
	double round, hot, memory;
	double copy; /* of all operands and results that go round, needed or not: a copy in the ring holds
	                them */
};

/* needed: of its elements.  Of several results that are one tensor the bytes are moved once.  is_cpu: cold
 * weights are put out of its caches before each call (worker/rotation.h). */
static void
move_tensor(struct moved *m, const struct graph *g, tensor_id t, double needed, enum heat heat, bool is_cpu)
{
	double size = (double)dtype_size(graph_tensor(g, t)->type);

	if (heat == HEAT_HOT)
		m->hot += needed * size;
	else if (heat == HEAT_COLD && is_cpu && graph_tensor(g, t)->role == ROLE_WEIGHT)
		m->memory += needed * size;
	else
		m->round += needed * size, m->copy += count_of(g, t) * size;
}

static struct moved
moved_bytes(const struct graph *g, const struct need *x, struct str heat, bool is_cpu)
{
	struct moved m = {0};

	for (uint32_t i = 0; i < g->n_inputs; i++)
		move_tensor(&m, g, g->inputs[i], x[g->inputs[i].i].n, heat_at(heat, i), is_cpu);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		bool again = false;

		for (uint32_t k = 0; k < i; k++)
			again |= g->outputs[k].i == g->outputs[i].i;
		move_tensor(&m, g, g->outputs[i], again ? 0 : count_of(g, g->outputs[i]),
		    heat_at(heat, g->n_inputs + i), is_cpu);
	}
	return m;
}

/* Seconds to move `bytes` of each of a ring's copies in turn.  A cache that is smaller than what
 * goes round holds at most its own size of it when a copy's turn comes again. */
static double
move_s(const struct hw *hw, double bytes, double copy)
{
	double n = floor(RING_L2_CACHES * (double)hw->level_bytes[1] / MAX_OF(copy, 1.0)) + 2;
	double round = bytes * MIN_OF(n, (double)RING_MAX_COPIES), held = 0, s = 0;

	for (int level = 0; level < 3 && held < 1; level++) {
		double share =
		    MAX_OF(held, round > 0 ? MIN_OF(1.0, (double)hw->level_bytes[level] / round) : 1);
		s += (share - held) * bytes / hw->bytes_per_s[level];
		held = share;
	}
	return s + (1 - held) * bytes / hw->bytes_per_s[3];
}

/* What is hot is there in full, in the fastest of the core's own levels that hold it. */
static double
move_hot_s(const struct hw *hw, double bytes)
{
	double share = bytes > 0 ? MIN_OF(1.0, (double)hw->level_bytes[0] / bytes) : 1;

	return bytes * (share / hw->bytes_per_s[0] + (1 - share) / hw->bytes_per_s[1]);
}

/* Tensor cores and the other units may work side by side; only linear primitives can use both. */
static double
flops_s(const struct hw *hw, const struct cost_parts *p)
{
	double both = p->flops / (hw->flops_peak + hw->tensor_peak);

	return fmax(both, (p->flops - p->linear_flops) / hw->flops_peak);
}

int64_t
cost_analytic_ns(const struct spec *s, const struct hw *hw, struct str heat, struct cost_parts *parts)
{
	struct arena tmp = {0};
	struct need *x = NEW_ARRAY(&tmp, struct need, s->g.n_tensors + 1);
	struct cost_parts p = {0};
	struct moved m;
	int threads = MAX_OF(hw->n_threads, 1);

	cost_needs(&s->g, x);
	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		double flops = cost_needed_flops(&s->g, &s->g.nodes[i], x, hw->winograd);

		p.flops += flops;
		if (prim_info[s->g.nodes[i].prim].class == CLASS_LINEAR)
			p.linear_flops += flops;
	}
	m = moved_bytes(&s->g, x, heat, hw->lanes > 0);
	p.bytes = m.round + m.hot + m.memory;
	p.flop_ns = flops_s(hw, &p) / threads * 1e9;
	p.byte_ns = (move_s(hw, m.round / threads, m.copy / threads) + move_hot_s(hw, m.hot / threads) +
			m.memory / threads / hw->bytes_per_s[3]) *
	    1e9;
	p.call_ns = hw->call_ns;
	arena_fini(&tmp);
	if (parts)
		*parts = p;
	double ns = floor(MAX_OF(p.flop_ns, p.byte_ns) + p.call_ns);
	return ns < 1 ? 1 : ns > 1e15 ? (int64_t)1e15 : (int64_t)ns;
}

static int64_t
floor_parts(const struct spec *s, bool is_gpu, int n_threads, struct cost_parts *parts)
{
	struct hw hw = is_gpu ? hw_fastest_gpu : hw_fastest;

	hw.n_threads = is_gpu ? 1 : MAX_OF(n_threads, 1);
	return cost_analytic_ns(s, &hw, STR(""), parts);
}

int64_t
cost_floor_ns(const struct spec *s, bool is_gpu, int n_threads)
{
	return floor_parts(s, is_gpu, n_threads, NULL);
}

double
cost_floor_flop_ns(const struct spec *s, bool is_gpu, int n_threads)
{
	struct cost_parts parts;

	(void)floor_parts(s, is_gpu, n_threads, &parts);
	return parts.flop_ns;
}
