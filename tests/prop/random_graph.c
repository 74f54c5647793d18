/* tests/prop/random_graph.c: random primitive graphs.  A pool of f32 tensors grows node by
 * node; where a primitive wants a second operand of a certain shape, one of the pool is taken,
 * or a new input, weight or broadcast is made for it. */
#include "random_graph.h"

#include <math.h>
#include <string.h>

struct gen {
	struct graph *g;
	struct arena *a;
	struct rng *r;
	struct random_opts o;
	tensor_id *pool;
	uint32_t n_pool, cap_pool;
};

static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33};

static uint32_t
below(struct gen *n, uint32_t k)
{
	return rng_below(n->r, k);
}

static int64_t
extent(struct gen *n)
{
	for (;;) {
		int64_t d = extents[below(n, COUNT_OF(extents))];
		if (d <= n->o.max_extent)
			return d;
	}
}

static const struct shape *
shape_of(const struct gen *n, tensor_id t)
{
	return &graph_tensor(n->g, t)->shape;
}

static void
pool_add(struct gen *n, tensor_id t)
{
	GROW(n->a, n->pool, n->n_pool, n->cap_pool);
	n->pool[n->n_pool++] = t;
}

static tensor_id
pick(struct gen *n)
{
	if (n->o.chain && below(n, 4))
		return n->pool[n->n_pool - 1];
	return n->pool[below(n, n->n_pool)];
}

static tensor_id
add_node(struct gen *n, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at)
{
	struct attrs none = {0};
	struct err e = {0};
	tensor_id out[2];

	if (!graph_add(n->g, p, in, n_in, at ? at : &none, NO_NODE, out, &e))
		bug("random graph: %s", e.msg);
	return out[0];
}

static tensor_id
add_one(struct gen *n, enum prim p, tensor_id x, const struct attrs *at)
{
	return add_node(n, p, &x, 1, at);
}

/* A new operand from outside: input, weight, or a constant. */
static tensor_id
fresh(struct gen *n, const struct shape *s)
{
	switch (below(n, 4)) {
	case 0:
		return graph_input(n->g, DT_f32, s, NULL);
	case 1:
		if (shape_count(s) <= 64)
			return graph_const(
			    n->g, ROLE_CONST, DT_f32, s, random_values(n->a, n->r, DT_f32, s), NULL);
		/* fall through */
	default:
		return graph_const(n->g, ROLE_WEIGHT, DT_f32, s, random_values(n->a, n->r, DT_f32, s), NULL);
	}
}

static tensor_id
bcast_to(struct gen *n, tensor_id x, const struct shape *s)
{
	struct attrs at = {0};

	if (shape_eq(shape_of(n, x), s))
		return x;
	at_list(&at, ATTR_shape, s->rank, s->dim);
	return add_one(n, PRIM_bcast, x, &at);
}

/* Some tensor of exactly this shape. */
static tensor_id
operand(struct gen *n, const struct shape *s)
{
	uint32_t from = below(n, n->n_pool);

	for (uint32_t k = 0; k < n->n_pool && below(n, 3); k++) {
		tensor_id t = n->pool[(from + k) % n->n_pool];
		if (shape_eq(shape_of(n, t), s))
			return t;
	}
	struct shape small = *s;
	for (int i = 0; i < small.rank; i++)
		if (below(n, 2))
			small.dim[i] = 1;
	return bcast_to(n, fresh(n, &small), s);
}

static bool
small_enough(const struct gen *n, const struct shape *s)
{
	int64_t c = 1;

	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] < 1 || !try_mul_i64(c, s->dim[i], &c))
			return false;
	return c <= n->o.max_elements;
}

/* ---- one function a kind; each returns NO_TENSOR where x does not suit --------------------- */
static tensor_id
gen_map(struct gen *n, tensor_id x)
{
	static const enum prim one[] = {PRIM_neg, PRIM_abs, PRIM_tanh, PRIM_erf, PRIM_floor, PRIM_sigmoid,
	    PRIM_softplus, PRIM_relu, PRIM_sin, PRIM_sign};
	static const enum prim two[] = {PRIM_add, PRIM_sub, PRIM_mul, PRIM_min, PRIM_max};
	tensor_id in[2] = {x, x};

	switch (below(n, 8)) {
	case 0:
	case 1:
	case 2:
		return add_one(n, one[below(n, COUNT_OF(one))], x, NULL);
	case 3: /* sqrt of what is not negative */
		return add_one(n, PRIM_sqrt, add_one(n, PRIM_abs, x, NULL), NULL);
	case 4: /* exp of what is at most 1 */
		return add_one(n, PRIM_exp, add_one(n, PRIM_tanh, x, NULL), NULL);
	default:
		in[below(n, 2)] = operand(n, shape_of(n, x));
		return add_node(n, two[below(n, COUNT_OF(two))], in, 2, NULL);
	}
}

static tensor_id
gen_bcast(struct gen *n, tensor_id x)
{
	struct shape s = *shape_of(n, x);
	bool any = false;

	for (int i = 0; i < s.rank; i++)
		if (s.dim[i] == 1 && below(n, 4)) {
			s.dim[i] = extent(n);
			any = true;
		}
	return any && small_enough(n, &s) ? bcast_to(n, x, &s) : NO_TENSOR;
}

static int
random_axes(struct gen *n, int rank, int64_t *axes)
{
	int k = 0;

	for (int i = 0; i < rank; i++)
		if (below(n, 3) == 0)
			axes[k++] = i;
	if (!k && rank)
		axes[k++] = below(n, (uint32_t)rank);
	return k;
}

static tensor_id
gen_reduce(struct gen *n, tensor_id x)
{
	static const enum prim kinds[] = {PRIM_sum, PRIM_sum, PRIM_rmax, PRIM_rmin, PRIM_prod};
	int64_t axes[MAX_RANK];
	struct attrs at = {0};
	int k = random_axes(n, shape_of(n, x)->rank, axes);

	if (!k)
		return NO_TENSOR;
	at_list(&at, ATTR_axes, k, axes);
	return add_one(n, kinds[below(n, n->o.kinds & RG_PROD ? 5 : 4)], x, &at);
}

static tensor_id
gen_reshape(struct gen *n, tensor_id x)
{
	const struct shape *s = shape_of(n, x);
	struct shape to = {0};
	struct attrs at = {0};

	for (int i = 0; i < s->rank; i++) {
		int64_t d = s->dim[i];
		if (to.rank && below(n, 3) == 0) { /* join with the one before */
			to.dim[to.rank - 1] *= d;
			continue;
		}
		for (int64_t f = 2; f < d && to.rank + s->rank - i < MAX_RANK; f++)
			if (d % f == 0 && below(n, 2)) { /* split */
				to.dim[to.rank++] = f;
				d /= f;
				break;
			}
		to.dim[to.rank++] = d;
	}
	if (to.rank < 6 && below(n, 3) == 0) { /* one more dimension of extent 1 */
		int at_dim = (int)below(n, (uint32_t)to.rank + 1);
		memmove(to.dim + at_dim + 1, to.dim + at_dim, (size_t)(to.rank - at_dim) * sizeof(*to.dim));
		to.dim[at_dim] = 1;
		to.rank++;
	}
	at_list(&at, ATTR_shape, to.rank, to.dim);
	return add_one(n, PRIM_reshape, x, &at);
}

static tensor_id
gen_transpose(struct gen *n, tensor_id x)
{
	int rank = shape_of(n, x)->rank;
	int64_t perm[MAX_RANK];
	struct attrs at = {0};

	for (int i = 0; i < rank; i++)
		perm[i] = i;
	for (int i = rank - 1; i > 0; i--) {
		uint32_t j = below(n, (uint32_t)i + 1);
		int64_t t = perm[i];
		perm[i] = perm[j];
		perm[j] = t;
	}
	at_list(&at, ATTR_perm, rank, perm);
	return add_one(n, PRIM_transpose, x, &at);
}

static tensor_id
gen_slice(struct gen *n, tensor_id x)
{
	const struct shape *s = shape_of(n, x);
	int64_t start[MAX_RANK], step[MAX_RANK], dim[MAX_RANK];
	struct attrs at = {0};

	for (int i = 0; i < s->rank; i++) {
		int64_t d = s->dim[i];
		start[i] = 0, step[i] = 1, dim[i] = d;
		if (d == 1 || below(n, 2))
			continue;
		step[i] = 1 + (int64_t)below(n, 2);
		start[i] = below(n, (uint32_t)d);
		dim[i] = 1 + below(n, (uint32_t)((d - start[i] - 1) / step[i] + 1));
		if (below(n, 4) == 0) { /* backwards over the same elements */
			start[i] += (dim[i] - 1) * step[i];
			step[i] = -step[i];
		}
	}
	at_list(&at, ATTR_start, s->rank, start);
	at_list(&at, ATTR_step, s->rank, step);
	at_list(&at, ATTR_shape, s->rank, dim);
	return add_one(n, PRIM_slice, x, &at);
}

static tensor_id
gen_pad(struct gen *n, tensor_id x)
{
	static const double values[] = {0, 0, 1, -2.5};
	struct shape s = *shape_of(n, x);
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	int64_t mode = (int64_t)below(n, 4);
	struct attrs at = {0};

	for (int i = 0; i < s.rank; i++) {
		int64_t most = mode == PAD_REFLECT ? s.dim[i] - 1 : mode == PAD_WRAP ? s.dim[i] : 2;
		lo[i] = most > 0 && below(n, 2) ? below(n, (uint32_t)MIN_OF(most, 3) + 1) : 0;
		hi[i] = most > 0 && below(n, 2) ? below(n, (uint32_t)MIN_OF(most, 3) + 1) : 0;
		s.dim[i] += lo[i] + hi[i];
	}
	if (!s.rank || !small_enough(n, &s))
		return NO_TENSOR;
	at_list(&at, ATTR_lo, s.rank, lo);
	at_list(&at, ATTR_hi, s.rank, hi);
	at_int(&at, ATTR_mode, mode);
	at_real(&at, ATTR_value, mode == PAD_CONSTANT ? values[below(n, COUNT_OF(values))] : 0);
	return add_one(n, PRIM_pad, x, &at);
}

static tensor_id
gen_concat(struct gen *n, tensor_id x)
{
	struct shape s = *shape_of(n, x);
	tensor_id in[3] = {x};
	struct attrs at = {0};
	uint32_t k = 2 + below(n, 2);

	if (!s.rank)
		return NO_TENSOR;
	uint32_t axis = below(n, (uint32_t)s.rank);
	int64_t total = s.dim[axis];
	for (uint32_t i = 1; i < k; i++) {
		struct shape part = s;
		if (below(n, 2))
			part.dim[axis] = extent(n);
		total += part.dim[axis];
		in[i] = operand(n, &part);
	}
	s.dim[axis] = total;
	if (!small_enough(n, &s))
		return NO_TENSOR;
	at_int(&at, ATTR_axis, axis);
	return add_node(n, PRIM_concat, in, k, &at);
}

static tensor_id
gen_layout(struct gen *n, tensor_id x)
{
	switch (below(n, 8)) {
	case 0:
	case 1:
		return gen_reshape(n, x);
	case 2:
	case 3:
	case 4:
		return gen_transpose(n, x);
	case 5:
		return gen_slice(n, x);
	case 6:
		return gen_pad(n, x);
	default:
		return gen_concat(n, x);
	}
}

static tensor_id
gen_matmul(struct gen *n, tensor_id x)
{
	struct shape s = *shape_of(n, x);
	struct shape w = s;

	if (s.rank < 2)
		return NO_TENSOR;
	int64_t wide = extent(n);
	if (below(n, 2)) { /* x on the left */
		w.dim[s.rank - 2] = s.dim[s.rank - 1];
		w.dim[s.rank - 1] = wide;
		return add_node(n, PRIM_matmul, (tensor_id[]){x, operand(n, &w)}, 2, NULL);
	}
	w.dim[s.rank - 1] = s.dim[s.rank - 2];
	w.dim[s.rank - 2] = wide;
	return add_node(n, PRIM_matmul, (tensor_id[]){operand(n, &w), x}, 2, NULL);
}

static void
window_list(struct gen *n, struct attrs *at, enum attr_key key, int rank, int64_t from, uint32_t range)
{
	int64_t v[MAX_RANK];

	for (int i = 0; i < rank; i++)
		v[i] = from + below(n, range);
	at_list(at, key, rank, v);
}

static tensor_id
gen_conv(struct gen *n, tensor_id x)
{
	static const int64_t sizes[] = {1, 1, 2, 3, 3, 5};
	const struct shape *s = shape_of(n, x);
	struct shape w;
	struct attrs at = {0};
	struct err e = {0};
	struct tensor result;
	int sp = s->rank - 2;

	if (sp < 1 || sp > 3)
		return NO_TENSOR;
	int64_t c = s->dim[s->rank - 1], group = 1;
	if (below(n, 3) == 0)
		for (int64_t f = c; f > 1; f--)
			if (c % f == 0 && below(n, 2)) {
				group = f;
				break;
			}
	w.rank = sp + 2;
	for (int i = 0; i < sp; i++)
		w.dim[i] = sizes[below(n, COUNT_OF(sizes))];
	w.dim[sp] = c / group;
	w.dim[sp + 1] = group * (group == c ? 1 : extent(n));
	window_list(n, &at, ATTR_stride, sp, 1, below(n, 2) + 1);
	window_list(n, &at, ATTR_dilation, sp, 1, below(n, 4) == 0 ? 2 : 1);
	window_list(n, &at, ATTR_ldil, sp, 1, below(n, 6) == 0 ? 2 : 1);
	window_list(n, &at, ATTR_lo, sp, 0, 3);
	window_list(n, &at, ATTR_hi, sp, 0, 3);
	at_int(&at, ATTR_group, group);
	const struct tensor *xt = graph_tensor(n->g, x);
	const struct tensor wt = {.role = ROLE_WEIGHT, .type = DT_f32, .shape = w};
	if (!prim_result(PRIM_conv, (const struct tensor *[]){xt, &wt}, 2, &at, &result, &e) ||
	    !small_enough(n, &result.shape))
		return NO_TENSOR;
	tensor_id wid =
	    graph_const(n->g, ROLE_WEIGHT, DT_f32, &w, random_values(n->a, n->r, DT_f32, &w), NULL);
	return add_node(n, PRIM_conv, (tensor_id[]){x, wid}, 2, &at);
}

/* Of the same geometry but for its windows, and the same result; NO_TENSOR: none was found. */
static tensor_id
another_conv(struct gen *n, const struct node *first)
{
	static const int64_t sizes[] = {1, 1, 3, 3, 5};
	const struct tensor *x = graph_tensor(n->g, first->in[0]);
	struct tensor w = *graph_tensor(n->g, first->in[1]), result;
	struct attrs at = first->at;
	const struct shape want = *shape_of(n, first->out[0]);
	struct err e = {0};
	int sp = x->shape.rank - 2;

	for (int k = 0; k < 12; k++) {
		for (int i = 0; i < sp; i++)
			w.shape.dim[i] = sizes[below(n, COUNT_OF(sizes))];
		window_list(n, &at, ATTR_lo, sp, 0, 4);
		window_list(n, &at, ATTR_hi, sp, 0, 4);
		window_list(n, &at, ATTR_dilation, sp, 1, below(n, 4) == 0 ? 2 : 1);
		if (!prim_result(PRIM_conv, (const struct tensor *[]){x, &w}, 2, &at, &result, &e) ||
		    !shape_eq(&result.shape, &want))
			continue;
		tensor_id t = graph_const(
		    n->g, ROLE_WEIGHT, DT_f32, &w.shape, random_values(n->a, n->r, DT_f32, &w.shape), NULL);
		return add_node(n, PRIM_conv, (tensor_id[]){first->in[0], t}, 2, &at);
	}
	return NO_TENSOR;
}

static tensor_id
with_constant(struct gen *n, enum prim p, tensor_id x)
{
	struct shape row = *shape_of(n, x);
	struct attrs at = {0};

	for (int d = 0; d < row.rank - 1; d++)
		row.dim[d] = 1;
	at_list(&at, ATTR_shape, row.rank, shape_of(n, x)->dim);
	tensor_id c =
	    graph_const(n->g, ROLE_WEIGHT, DT_f32, &row, random_values(n->a, n->r, DT_f32, &row), NULL);
	return add_node(n, p, (tensor_id[]){x, add_one(n, PRIM_bcast, c, &at)}, 2, NULL);
}

static tensor_id
gen_branches(struct gen *n, tensor_id x)
{
	tensor_id sum = gen_conv(n, x);

	if (sum.i == NO_TENSOR.i)
		return sum;
	const struct node first = n->g->nodes[n->g->n_nodes - 1];
	for (uint32_t k = 1 + below(n, 3); k > 0; k--) {
		bool same = shape_eq(shape_of(n, x), shape_of(n, sum));
		tensor_id t = same && below(n, 3) == 0 ? x
		    : same && below(n, 3) == 0         ? with_constant(n, PRIM_mul, x)
						       : another_conv(n, &first);
		if (t.i == NO_TENSOR.i)
			return sum;
		if (below(n, 2))
			t = with_constant(n, PRIM_add, t);
		sum = add_node(
		    n, PRIM_add, below(n, 2) ? (tensor_id[]){sum, t} : (tensor_id[]){t, sum}, 2, NULL);
	}
	return sum;
}

static tensor_id
gen_window(struct gen *n, tensor_id x)
{
	const struct shape *s = shape_of(n, x);
	int64_t kernel[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK], lo[MAX_RANK], hi[MAX_RANK];
	struct attrs at = {0};
	struct tensor result;
	struct err e = {0};

	if (!s->rank)
		return NO_TENSOR;
	for (int i = 0; i < s->rank; i++) {
		kernel[i] = stride[i] = dilation[i] = 1;
		lo[i] = hi[i] = 0;
		if (s->dim[i] < 3 || below(n, 2))
			continue;
		kernel[i] = 2 + below(n, 2);
		stride[i] = 1 + below(n, 2);
		lo[i] = below(n, 2); /* under the kernel: no window is empty */
		hi[i] = below(n, 2);
	}
	at_list(&at, ATTR_kernel, s->rank, kernel);
	at_list(&at, ATTR_stride, s->rank, stride);
	at_list(&at, ATTR_dilation, s->rank, dilation);
	at_list(&at, ATTR_lo, s->rank, lo);
	at_list(&at, ATTR_hi, s->rank, hi);
	enum prim p = below(n, 2) ? PRIM_wsum : PRIM_wmax;
	const struct tensor *xt = graph_tensor(n->g, x);
	if (!prim_result(p, &xt, 1, &at, &result, &e) || !small_enough(n, &result.shape))
		return NO_TENSOR;
	return add_one(n, p, x, &at);
}

static tensor_id
gen_select(struct gen *n, tensor_id x)
{
	static const enum prim compare[] = {PRIM_eq, PRIM_lt, PRIM_le};
	struct attrs to_i32 = {0}, to_f32 = {0};
	const struct shape *s = shape_of(n, x);

	if (below(n, 3) == 0) {
		at_int(&to_i32, ATTR_to, below(n, 2) ? DT_i32 : DT_bool);
		at_int(&to_f32, ATTR_to, DT_f32);
		/* clipped first: converting what does not fit is not defined */
		tensor_id small = add_one(n, PRIM_tanh, x, NULL);
		return add_one(n, PRIM_cast, add_one(n, PRIM_cast, small, &to_i32), &to_f32);
	}
	tensor_id y = operand(n, s);
	tensor_id c = add_node(n, compare[below(n, 3)], (tensor_id[]){x, y}, 2, NULL);
	return add_node(n, PRIM_select, (tensor_id[]){c, y, operand(n, s)}, 3, NULL);
}

static tensor_id
gen_gather(struct gen *n, tensor_id x)
{
	struct shape s = *shape_of(n, x);
	struct attrs at = {0};

	if (!s.rank)
		return NO_TENSOR;
	uint32_t axis = below(n, (uint32_t)s.rank);
	int64_t k = extent(n), was = s.dim[axis];
	struct shape is = shape_make(1, &k);
	int64_t *index = NEW_ARRAY(n->a, int64_t, k);
	for (int64_t i = 0; i < k; i++)
		index[i] = (int64_t)below(n, 2 * (uint32_t)was) - was;
	s.dim[axis] = k;
	if (!small_enough(n, &s))
		return NO_TENSOR;
	at_int(&at, ATTR_axis, axis);
	tensor_id table = graph_const(n->g, ROLE_CONST, DT_i64, &is, index, NULL);
	return add_node(n, PRIM_gather, (tensor_id[]){x, table}, 2, &at);
}

static tensor_id
gen_opaque(struct gen *n, tensor_id x)
{
	struct attrs at = {0};
	int rank = shape_of(n, x)->rank;

	if (!rank)
		return NO_TENSOR;
	at_int(&at, ATTR_axis, below(n, (uint32_t)rank));
	at_int(&at, ATTR_exclusive, below(n, 2));
	at_int(&at, ATTR_reverse, below(n, 2));
	return add_one(n, PRIM_cumsum, x, &at);
}

static const struct {
	uint32_t kind, weight;
	tensor_id (*make)(struct gen *n, tensor_id x);
} makers[] = {
    {RG_MAP, 8, gen_map},
    {RG_BCAST, 2, gen_bcast},
    {RG_REDUCE, 3, gen_reduce},
    {RG_LAYOUT, 5, gen_layout},
    {RG_MATMUL, 2, gen_matmul},
    {RG_CONV, 2, gen_conv},
    {RG_WINDOW, 1, gen_window},
    {RG_SELECT, 1, gen_select},
    {RG_GATHER, 1, gen_gather},
    {RG_OPAQUE, 1, gen_opaque},
    {RG_BRANCHES, 6, gen_branches},
};

static tensor_id
gen_any(struct gen *n)
{
	uint32_t total = 0;

	for (size_t i = 0; i < COUNT_OF(makers); i++)
		total += makers[i].kind & n->o.kinds ? makers[i].weight : 0;
	uint32_t at = below(n, total);
	for (size_t i = 0; i < COUNT_OF(makers); i++) {
		uint32_t w = makers[i].kind & n->o.kinds ? makers[i].weight : 0;
		if (at < w)
			return makers[i].make(n, pick(n));
		at -= w;
	}
	return NO_TENSOR;
}

/* Spatial shapes suit convolutions and windows, the others matmuls and maps. */
static struct shape
first_shape(struct gen *n)
{
	for (;;) {
		struct shape s = {.rank = 4, .dim = {1 + (int64_t)(below(n, 4) == 0)}};
		if (!(n->o.kinds & (RG_CONV | RG_WINDOW)) || below(n, 2))
			s.rank = 1 + (int)below(n, 4);
		for (int i = s.rank == 4; i < s.rank; i++)
			s.dim[i] = extent(n);
		if (small_enough(n, &s))
			return s;
	}
}

static void
add_outputs(struct gen *n, uint32_t max)
{
	struct graph_index ix = graph_index_make(n->a, n->g);
	uint32_t most = max ? max : UINT32_MAX;

	for (uint32_t i = n->n_pool; i-- > 0 && n->g->n_outputs < most;) {
		uint32_t t = n->pool[i].i;
		bool made = ix.maker_first[t] != ix.maker_first[t + 1];
		bool read = ix.reader_first[t] != ix.reader_first[t + 1];
		if (made && (!read || below(n, 8) == 0))
			graph_output(n->g, n->pool[i], NULL);
	}
}

void
random_graph(struct graph *g, struct arena *a, struct rng *r, const struct random_opts *o)
{
	struct gen n = {.g = g, .a = a, .r = r, .o = *o};

	if (!n.o.max_extent)
		n.o.max_extent = 9;
	if (!n.o.max_elements)
		n.o.max_elements = 4096;
	graph_init(g, a);
	for (uint32_t k = 1 + below(&n, 2); k; k--) {
		struct shape s = first_shape(&n);
		pool_add(&n, graph_input(g, DT_f32, &s, NULL));
	}
	uint32_t want = MAX_OF(n.o.n_nodes, 1u);
	for (uint32_t tries = 0; tries < 100 * want && g->n_nodes < want; tries++) {
		tensor_id t = gen_any(&n);
		if (t.i != UINT32_MAX)
			pool_add(&n, t);
	}
	if (!g->n_nodes)
		pool_add(&n, add_one(&n, PRIM_relu, n.pool[0], NULL));
	add_outputs(&n, n.o.max_outputs);
	graph_verify(g);
}

/* ---- values ----------------------------------------------------------------------------- */
static void
value_set(enum dtype t, void *p, int64_t i, struct rng *r)
{
	int k = (int)rng_below(r, 9) - 4;

	switch (t) {
	case DT_f32:
		((float *)p)[i] = rng_below(r, 16) ? (float)rng_normal(r) : 0;
		break;
	case DT_f64:
		((double *)p)[i] = rng_below(r, 16) ? rng_normal(r) : 0;
		break;
	case DT_i64:
		((int64_t *)p)[i] = k;
		break;
	case DT_i32:
		((int32_t *)p)[i] = k;
		break;
	case DT_i16:
		((int16_t *)p)[i] = (int16_t)k;
		break;
	case DT_i8:
		((int8_t *)p)[i] = (int8_t)k;
		break;
	case DT_bool:
		((uint8_t *)p)[i] = (uint8_t)(k > 0);
		break;
	case DT_u8:
		((uint8_t *)p)[i] = (uint8_t)(k + 4);
		break;
	case DT_u16:
		((uint16_t *)p)[i] = (uint16_t)(k + 4);
		break;
	case DT_u32:
		((uint32_t *)p)[i] = (uint32_t)(k + 4);
		break;
	case DT_u64:
		((uint64_t *)p)[i] = (uint64_t)(k + 4);
		break;
	case DT_f16:
		((uint16_t *)p)[i] = (uint16_t)(0x3800 + 64 * k);
		break; /* around a half */
	case DT_bf16:
		((uint16_t *)p)[i] = (uint16_t)(0x3f00 + 8 * k);
		break;
	case DT_COUNT:
		bug("no such type");
	}
}

void *
random_values(struct arena *a, struct rng *r, enum dtype t, const struct shape *s)
{
	int64_t count = shape_count(s);
	void *p = arena_alloc(a, ck_mul(ck_size(count), dtype_size(t)) + 16);

	for (int64_t i = 0; i < count; i++)
		value_set(t, p, i, r);
	return p;
}

const void **
random_inputs(struct arena *a, struct rng *r, const struct graph *g)
{
	const void **in = NEW_ARRAY(a, const void *, g->n_inputs + 1);

	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct tensor *t = graph_tensor(g, g->inputs[i]);
		in[i] = random_values(a, r, t->type, &t->shape);
	}
	return in;
}

double
values_distance(enum dtype t, const struct shape *s, const void *have, const void *want, double floor)
{
	int64_t count = shape_count(s);
	double most = floor, worst = 0;

	if (t != DT_f32)
		return memcmp(have, want, ck_mul(ck_size(count), dtype_size(t))) ? (double)INFINITY : 0;
	for (int64_t i = 0; i < count; i++) {
		double h = (double)((const float *)have)[i], w = (double)((const float *)want)[i];
		if (isnan(h) && isnan(w))
			continue;
		if (isinf(h) || isinf(w) || isnan(h) || isnan(w)) {
			if (h == w)
				continue;
			return (double)INFINITY;
		}
		most = fmax(most, fabs(w));
		worst = fmax(worst, fabs(h - w));
	}
	return worst / most;
}
