/* tests/prop/random_linear.c: see random_linear.h. */
#include "random_linear.h"

enum { MAX_SIDE = 5 };

struct maker {
	struct arena *a;
	struct graph *g;
	struct rng *r;
	bool wino;    /* 3x3 by constants, side by side */
	bool columns; /* enough of them for blocks */
};

static tensor_id
node(struct maker *m, enum prim p, uint32_t n, const tensor_id *in, const struct attrs *at, struct err *e)
{
	tensor_id out = NO_TENSOR;

	if (e->code == ERR_NONE && !graph_add(m->g, p, in, n, at, NO_NODE, &out, e))
		return (tensor_id){0};
	return e->code == ERR_NONE ? out : (tensor_id){0};
}

static tensor_id
one(struct maker *m, enum prim p, tensor_id x, struct err *e)
{
	return node(m, p, 1, &x, &(struct attrs){0}, e);
}

static tensor_id
two(struct maker *m, enum prim p, tensor_id x, tensor_id y, struct err *e)
{
	return node(m, p, 2, (tensor_id[]){x, y}, &(struct attrs){0}, e);
}

/* A tensor from outside: now a weight, now an input. */
static tensor_id
outside(struct maker *m, const struct shape *s, bool weight)
{
	if (weight)
		return graph_const(m->g, ROLE_WEIGHT, DT_f32, s, NULL, NULL);
	return graph_input(m->g, DT_f32, s, NULL);
}

/* An operand of x's shape, broadcast along random dimensions. */
static tensor_id
side(struct maker *m, tensor_id x, struct err *e)
{
	struct shape s = graph_tensor(m->g, x)->shape, full = s;
	struct attrs at = {0};

	for (int d = 0; d < s.rank; d++)
		if (rng_below(m->r, 2))
			s.dim[d] = 1;
	tensor_id b = outside(m, &s, rng_below(m->r, 2));

	if (shape_eq(&s, &full))
		return b;
	at_list(&at, ATTR_shape, full.rank, full.dim);
	return node(m, PRIM_bcast, 1, &b, &at, e);
}

static tensor_id
transposed(struct maker *m, tensor_id x, struct err *e)
{
	int rank = graph_tensor(m->g, x)->shape.rank;
	int64_t perm[MAX_RANK];
	struct attrs at = {0};

	for (int d = 0; d < rank; d++)
		perm[d] = d;
	for (int d = rank - 1; d > 0; d--) {
		int k = (int)rng_below(m->r, (uint32_t)d + 1);
		int64_t t = perm[d];
		perm[d] = perm[k];
		perm[k] = t;
	}
	at_list(&at, ATTR_perm, rank, perm);
	return node(m, PRIM_transpose, 1, &x, &at, e);
}

static tensor_id
flattened(struct maker *m, tensor_id x, struct err *e)
{
	const struct shape *s = &graph_tensor(m->g, x)->shape;
	int64_t dim[2] = {1, s->dim[s->rank - 1]};
	struct attrs at = {0};

	for (int d = 0; d + 1 < s->rank; d++)
		dim[0] *= s->dim[d];
	at_list(&at, ATTR_shape, 2, dim);
	return node(m, PRIM_reshape, 1, &x, &at, e);
}

static tensor_id
padded(struct maker *m, tensor_id x, struct err *e)
{
	const struct shape *s = &graph_tensor(m->g, x)->shape;
	int64_t lo[MAX_RANK] = {0}, hi[MAX_RANK] = {0};
	struct attrs at = {0};

	for (int d = 1; d + 1 < s->rank; d++) {
		lo[d] = MIN_OF((int64_t)rng_below(m->r, 3), s->dim[d] - 1);
		hi[d] = MIN_OF((int64_t)rng_below(m->r, 3), s->dim[d] - 1);
	}
	at_list(&at, ATTR_lo, s->rank, lo);
	at_list(&at, ATTR_hi, s->rank, hi);
	at_int(&at, ATTR_mode, rng_below(m->r, 3));
	at_real(&at, ATTR_value, 0.5);
	return node(m, PRIM_pad, 1, &x, &at, e);
}

/* softmax, or centring, over the last axis. */
static tensor_id
normalised(struct maker *m, tensor_id x, struct err *e)
{
	const struct shape s = graph_tensor(m->g, x)->shape;
	enum prim p = rng_below(m->r, 2) ? PRIM_rmax : PRIM_sum;
	struct attrs axes = {0}, full = {0};
	int64_t last = s.rank - 1;

	at_list(&axes, ATTR_axes, 1, &last);
	at_list(&full, ATTR_shape, s.rank, s.dim);
	tensor_id t = node(m, p, 1, &x, &axes, e);

	if (s.dim[last] > 1)
		t = node(m, PRIM_bcast, 1, &t, &full, e);
	x = two(m, PRIM_sub, x, t, e);
	if (p == PRIM_sum)
		return x;
	x = one(m, PRIM_exp, x, e);
	t = node(m, PRIM_sum, 1, &x, &axes, e);
	if (s.dim[last] > 1)
		t = node(m, PRIM_bcast, 1, &t, &full, e);
	return two(m, PRIM_div, x, t, e);
}

static tensor_id
chain(struct maker *m, tensor_id x, bool before, struct err *e)
{
	static const enum prim maps[] = {PRIM_relu, PRIM_sigmoid, PRIM_neg, PRIM_abs, PRIM_tanh};

	for (uint32_t n = rng_below(m->r, 4); n-- > 0 && e->code == ERR_NONE;)
		switch (rng_below(m->r, before ? 5 : 8)) {
		case 0:
		case 1:
			x = one(m, maps[rng_below(m->r, COUNT_OF(maps))], x, e);
			break;
		case 2:
			x = two(m, PRIM_add, x, side(m, x, e), e);
			break;
		case 3:
			x = two(m, PRIM_mul, side(m, x, e), x, e);
			break;
		case 4:
			x = before ? padded(m, x, e) : transposed(m, x, e);
			break;
		case 5:
			x = flattened(m, x, e);
			break;
		case 6:
			x = normalised(m, x, e);
			break;
		default:
			graph_output(m->g, x, NULL);
			x = one(m, PRIM_sigmoid, x, e);
		}
	return x;
}

static int64_t
extent(struct maker *m, int64_t most)
{
	static const int64_t liked[] = {1, 3, 7, 8, 9, 16, 17, 24, 32, 33};

	return rng_below(m->r, 2) ? MIN_OF(liked[rng_below(m->r, COUNT_OF(liked))], most)
				  : 1 + (int64_t)rng_below(m->r, (uint32_t)most);
}

static int64_t
columns(struct maker *m, int64_t most)
{
	static const int64_t in_blocks[] = {32, 48, 64, 80, 200};

	return m->columns ? in_blocks[rng_below(m->r, COUNT_OF(in_blocks))] : extent(m, most);
}

static tensor_id
random_matmul(struct maker *m, struct err *e)
{
	int batch = (int)rng_below(m->r, 3);
	struct shape a = {.rank = batch + 2}, b = {.rank = batch + 2};

	for (int d = 0; d < batch; d++)
		a.dim[d] = b.dim[d] = 1 + rng_below(m->r, 4);
	a.dim[batch] = extent(m, 40);
	a.dim[batch + 1] = b.dim[batch] = extent(m, 40);
	b.dim[batch + 1] = columns(m, 40);
	tensor_id x[2] = {outside(m, &a, rng_below(m->r, 4) == 0), outside(m, &b, rng_below(m->r, 2))};

	for (int k = 0; k < 2; k++) {
		struct attrs at = {0};
		int64_t perm[MAX_RANK];
		struct shape *s = k ? &b : &a;

		if (rng_below(m->r, 3)) {
			x[k] = k == 0 ? chain(m, x[k], true, e) : x[k];
			continue;
		}
		for (int d = 0; d < batch + 2; d++)
			perm[d] = d < batch ? d : 2 * batch + 1 - d;
		int64_t t = s->dim[batch];
		s->dim[batch] = s->dim[batch + 1];
		s->dim[batch + 1] = t;
		x[k] = outside(m, s, rng_below(m->r, 2));
		at_list(&at, ATTR_perm, batch + 2, perm);
		x[k] = node(m, PRIM_transpose, 1, &x[k], &at, e);
	}
	return two(m, PRIM_matmul, x[0], x[1], e);
}

static tensor_id
random_conv(struct maker *m, struct err *e)
{
	int sp = 1 + (int)rng_below(m->r, 3) % 2 + (rng_below(m->r, 6) == 0);
	struct shape x = {.rank = sp + 2}, w = {.rank = sp + 2};
	int64_t group = 1, stride[3], dil[3], ldil[3], lo[3], hi[3];
	struct attrs at = {0};

	x.dim[0] = 1 + rng_below(m->r, 2);
	for (int d = 0; d < sp; d++) {
		x.dim[d + 1] = 1 + rng_below(m->r, sp == 3 ? 5 : 12);
		w.dim[d] = 1 + rng_below(m->r, 4);
		stride[d] = 1 + rng_below(m->r, 3) / 2;
		dil[d] = 1 + rng_below(m->r, 4) / 3;
		ldil[d] = 1 + rng_below(m->r, 5) / 4;
		lo[d] = (int64_t)rng_below(m->r, 4) - (rng_below(m->r, 8) == 0);
		hi[d] = (int64_t)rng_below(m->r, 4) - (rng_below(m->r, 8) == 0);
	}
	switch (m->columns ? 2 : rng_below(m->r, 3)) {
	case 0: /* depthwise, perhaps with a multiplier */
		group = x.dim[sp + 1] = extent(m, 33);
		w.dim[sp] = 1;
		w.dim[sp + 1] = group * (1 + rng_below(m->r, 4) / 3);
		break;
	case 1:
		group = 1 + rng_below(m->r, 3);
		w.dim[sp] = extent(m, 9);
		x.dim[sp + 1] = group * w.dim[sp];
		w.dim[sp + 1] = group * extent(m, 17);
		break;
	default:
		x.dim[sp + 1] = w.dim[sp] = extent(m, 20);
		w.dim[sp + 1] = columns(m, 40);
	}
	if (!m->columns &&
	    rng_below(m->r, 5) == 0) { /* a long row and few results: its window becomes columns */
		x.dim[sp] = 14 + rng_below(m->r, 20);
		w.dim[sp - 1] = 3 + rng_below(m->r, 2);
		group = 1;
		w.dim[sp] = x.dim[sp + 1] = extent(m, 9);
		w.dim[sp + 1] = 2 + rng_below(m->r, 3);
		stride[sp - 1] = dil[sp - 1] = 1;
	}
	if (m->wino) { /* whole tiles and tails, edges nearer than a tile */
		sp = 2;
		x.rank = w.rank = 4;
		group = 1;
		for (int d = 0; d < sp; d++) {
			x.dim[d + 1] = 2 + rng_below(m->r, 18);
			w.dim[d] = 3;
			stride[d] = dil[d] = ldil[d] = 1;
			lo[d] = rng_below(m->r, 3);
			hi[d] = rng_below(m->r, 3);
		}
		x.dim[3] = w.dim[2] = extent(m, 33);
		w.dim[3] = extent(m, 40);
	}
	at_list(&at, ATTR_stride, sp, stride);
	at_list(&at, ATTR_dilation, sp, dil);
	at_list(&at, ATTR_ldil, sp, ldil);
	at_list(&at, ATTR_lo, sp, lo);
	at_list(&at, ATTR_hi, sp, hi);
	at_int(&at, ATTR_group, group);
	tensor_id t = outside(m, &x, false);

	t = chain(m, t, true, e);
	return node(
	    m, PRIM_conv, 2, (tensor_id[]){t, outside(m, &w, m->wino || rng_below(m->r, 4) != 0)}, &at, e);
}

/* A window over each channel by itself. */
static tensor_id
depthwise(struct maker *m, tensor_id y, struct err *e)
{
	struct shape w = {
	    .rank = 4, .dim = {3, 1 + 2 * rng_below(m->r, 2), 1, graph_tensor(m->g, y)->shape.dim[3]}};
	int64_t stride[2] = {1 + rng_below(m->r, 2), 1}, ones[2] = {1, 1}, pad[2] = {1, w.dim[1] / 2};
	struct attrs at = {0};

	at_list(&at, ATTR_stride, 2, stride);
	at_list(&at, ATTR_dilation, 2, ones);
	at_list(&at, ATTR_ldil, 2, ones);
	at_list(&at, ATTR_lo, 2, pad);
	at_list(&at, ATTR_hi, 2, pad);
	at_int(&at, ATTR_group, w.dim[3]);
	return node(m, PRIM_conv, 2, (tensor_id[]){y, outside(m, &w, rng_below(m->r, 3) != 0)}, &at, e);
}

/* Another linear primitive behind the first: its rows are rows of what the first made. */
static tensor_id
second(struct maker *m, tensor_id y, struct err *e)
{
	const struct shape s = graph_tensor(m->g, y)->shape;
	int64_t k = s.dim[s.rank - 1];

	if (e->code != ERR_NONE)
		return y;
	if (s.rank == 4 && m->columns && rng_below(m->r, 3))
		return depthwise(m, y, e);
	if (s.rank == 4 && rng_below(m->r, 2)) {
		struct shape w = {.rank = 4, .dim = {1, 1, k, extent(m, 40)}};
		static const int64_t one_[2] = {1, 1}, none[2] = {0, 0};
		struct attrs at = {0};

		at_list(&at, ATTR_stride, 2, one_);
		at_list(&at, ATTR_dilation, 2, one_);
		at_list(&at, ATTR_ldil, 2, one_);
		at_list(&at, ATTR_lo, 2, none);
		at_list(&at, ATTR_hi, 2, none);
		at_int(&at, ATTR_group, 1);
		return node(
		    m, PRIM_conv, 2, (tensor_id[]){y, outside(m, &w, rng_below(m->r, 3) != 0)}, &at, e);
	}
	struct shape w = s;

	if (rng_below(m->r, 2)) {
		y = flattened(m, y, e);
		w.rank = 2;
	}
	if (w.rank < 2)
		return y;
	w.dim[w.rank - 2] = k;
	w.dim[w.rank - 1] = extent(m, 40);
	return two(m, PRIM_matmul, y, outside(m, &w, rng_below(m->r, 3) != 0), e);
}

static bool
random_one(struct maker m, struct spec *out)
{
	struct graph g, sorted;
	struct arena *a = m.a;
	struct rng *r = m.r;
	struct err e = {0};

	graph_init(&g, a);
	m.g = &g;
	tensor_id y = !m.wino && rng_below(r, 2) ? random_matmul(&m, &e) : random_conv(&m, &e);

	y = chain(&m, y, false, &e);
	if (rng_below(r, 3) == 0) {
		y = second(&m, y, &e);
		y = chain(&m, y, false, &e);
	}
	if (e.code != ERR_NONE || shape_count(&graph_tensor(&g, y)->shape) == 0)
		return false;
	graph_output(&g, y, NULL);
	graph_sort(&sorted, a, &g, NULL);
	if (sorted.n_nodes == 0 || sorted.n_nodes > SPEC_MAX_NODES)
		return false;
	spec_of_graph(a, &sorted, out);
	return true;
}

bool
random_linear(struct arena *a, struct rng *r, struct spec *out)
{
	return random_one((struct maker){.a = a, .r = r}, out);
}

bool
random_winograd(struct arena *a, struct rng *r, struct spec *out)
{
	return random_one((struct maker){.a = a, .r = r, .wino = true}, out);
}

bool
random_columns(struct arena *a, struct rng *r, struct spec *out)
{
	return random_one((struct maker){.a = a, .r = r, .columns = true}, out);
}
