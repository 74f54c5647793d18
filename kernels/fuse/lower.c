/* kernels/fuse/lower.c: what each primitive's element is, as an expression over its operands'
 * elements.  Layouts and broadcasts become index arithmetic; short reductions become chains. */
#include "lower_int.h"

#include <string.h>

static const struct shape *
shape_at(const struct lower *l, tensor_id t)
{
	return &graph_tensor(l->g, t)->shape;
}

ix_id
lower_flat(struct lower *l, const struct shape *s, const ix_id *idx)
{
	ix_id at = ix_const(l->tx, 0);
	int64_t stride = 1;

	for (int d = s->rank - 1; d >= 0; d--) {
		at = ix_add(l->tx, at, ix_mulc(l->tx, idx[d], stride));
		stride *= s->dim[d];
	}
	return at;
}

enum dtype
lower_acc_type(const struct lower *l, enum dtype t)
{
	if (t == DT_f16 || t == DT_bf16 || t == DT_f32)
		return l->p->target->strict ? DT_f64 : DT_f32;
	return t;
}

/* ---- constants --------------------------------------------------------------------------- */
static ex_id
const_element(struct lower *l, const struct tensor *t, int64_t i)
{
	if (dtype_is_float(t->type))
		return ex_real(l->tx, t->type, elem_get(t->type, t->data, i));
	return ex_whole(l->tx, t->type, elem_get_int(t->type, t->data, i));
}

static bool
is_uniform(const struct tensor *t, int64_t n)
{
	size_t size = dtype_size(t->type);

	for (int64_t i = 1; i < n; i++)
		if (memcmp(t->data, (const char *)t->data + (size_t)i * size, size) != 0)
			return false;
	return n > 0;
}

static ex_id
const_value(struct lower *l, tensor_id id, ix_id at)
{
	const struct tensor *t = graph_tensor(l->g, id);
	int64_t n = shape_count(&t->shape), i;

	if (n == 0)
		return ex_real(l->tx, t->type, 0);
	if (ix_is_const(l->tx, at, &i) && i >= 0 && i < n)
		return const_element(l, t, i);
	if (is_uniform(t, n))
		return const_element(l, t, 0);
	return ex_read(l->tx, t->type, id.i, at);
}

ex_id
lower_value(struct lower *l, tensor_id id, const ix_id *idx)
{
	const struct tensor *t = graph_tensor(l->g, id);

	if (l->maker[id.i] != NO_NODE && !l->kept[id.i])
		return lower_node(l, &l->g->nodes[l->maker[id.i]], idx);
	ix_id at = lower_flat(l, &t->shape, idx);

	if (t->role == ROLE_CONST && t->data)
		return const_value(l, id, at);
	return ex_read(l->tx, t->type, id.i, at);
}

/* ---- layouts ------------------------------------------------------------------------------ */
static ex_id
lower_reshape(struct lower *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]);
	ix_id at = lower_flat(l, shape_at(l, n->out[0]), idx), to[MAX_RANK];
	int64_t stride = 1;

	if (shape_count(in) == 0)
		return ex_real(l->tx, graph_tensor(l->g, n->out[0])->type, 0);
	for (int d = in->rank - 1; d >= 0; d--) {
		to[d] = ix_mod(l->tx, ix_div(l->tx, at, stride), in->dim[d]);
		stride *= in->dim[d];
	}
	return lower_value(l, n->in[0], to);
}

static ex_id
lower_pad(struct lower *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]);
	const int64_t *lo = at_ints(&n->at, ATTR_lo);
	enum pad_mode mode = (enum pad_mode)at_get(&n->at, ATTR_mode);
	enum dtype type = graph_tensor(l->g, n->out[0])->type;
	struct tx *x = l->tx;
	ix_id to[MAX_RANK];

	for (int d = 0; d < in->rank; d++) {
		int64_t dim = in->dim[d], period = MAX_OF(2 * (dim - 1), 1);
		ix_id k = ix_addc(x, idx[d], -lo[d]), m;

		to[d] = k;
		if (ix_get(x, k)->lo >= 0 && ix_get(x, k)->hi < dim)
			continue;
		if (mode == PAD_EDGE)
			to[d] = ix_min(x, ix_max(x, k, ix_const(x, 0)), ix_const(x, dim - 1));
		if (mode == PAD_WRAP)
			to[d] = ix_mod(x, k, dim);
		if (mode != PAD_REFLECT)
			continue;
		m = ix_mod(x, k, period); /* there and back again */
		to[d] = ix_min(x, m, ix_addc(x, ix_mulc(x, m, -1), 2 * (dim - 1)));
	}
	if (shape_count(in) == 0)
		return ex_real(x, type, at_get_real(&n->at, ATTR_value));
	ex_id v = lower_value(l, n->in[0], to);

	if (mode == PAD_CONSTANT)
		for (int d = in->rank - 1; d >= 0; d--)
			v = ex_guard(
			    x, to[d], 0, in->dim[d], v, ex_real(x, type, at_get_real(&n->at, ATTR_value)));
	return v;
}

static ex_id
lower_concat(struct lower *l, const struct node *n, const ix_id *idx)
{
	int axis = (int)at_get(&n->at, ATTR_axis);
	int64_t at = shape_at(l, n->out[0])->dim[axis];
	ex_id v = EX_NONE;
	ix_id to[MAX_RANK];

	memcpy(to, idx, sizeof(*to) * (size_t)shape_at(l, n->out[0])->rank);
	for (uint32_t k = n->n_in; k-- > 0;) {
		int64_t dim = shape_at(l, n->in[k])->dim[axis];

		at -= dim;
		if (dim == 0)
			continue;
		to[axis] = ix_addc(l->tx, idx[axis], -at);
		ex_id part = lower_value(l, n->in[k], to);
		v = v == EX_NONE ? part : ex_guard(l->tx, to[axis], 0, dim, part, v);
	}
	return v != EX_NONE ? v : ex_real(l->tx, graph_tensor(l->g, n->out[0])->type, 0);
}

ix_id
lower_index_value(struct lower *l, ex_id v, int64_t extent)
{
	struct tx *x = l->tx;
	struct ex n = *ex_get(x, v);

	if (n.kind == EX_CONST) {
		int64_t i = n.whole < 0 ? n.whole + extent : n.whole;
		return ix_const(x, MAX_OF(MIN_OF(i, extent - 1), (int64_t)0));
	}
	if (n.kind == EX_INDEX && ix_get(x, n.ix)->lo >= 0 && ix_get(x, n.ix)->hi < extent)
		return n.ix;
	v = ex_map(x, PRIM_cast, DT_i64, 1, &v);
	ex_id zero = ex_whole(x, DT_i64, 0), dim = ex_whole(x, DT_i64, extent);
	ex_id up = ex_map(x, PRIM_add, DT_i64, 2, (ex_id[]){v, dim});
	ex_id below = ex_map(x, PRIM_lt, DT_bool, 2, (ex_id[]){v, zero});
	ex_id i = ex_map(x, PRIM_select, DT_i64, 3, (ex_id[]){below, up, v});

	i = ex_map(x, PRIM_max, DT_i64, 2, (ex_id[]){i, zero});
	i = ex_map(x, PRIM_min, DT_i64, 2, (ex_id[]){i, ex_whole(x, DT_i64, extent - 1)});
	return ix_value(x, i, 0, extent - 1);
}

static ex_id
lower_gather(struct lower *l, const struct node *n, const ix_id *idx)
{
	int axis = (int)at_get(&n->at, ATTR_axis), q = shape_at(l, n->in[1])->rank;
	const struct shape *in = shape_at(l, n->in[0]);
	ex_id v = lower_value(l, n->in[1], idx + axis);
	ix_id to[MAX_RANK];

	for (int d = 0; d < in->rank; d++)
		to[d] = d < axis ? idx[d] : d == axis ? lower_index_value(l, v, in->dim[d]) : idx[d - 1 + q];
	return lower_value(l, n->in[0], to);
}

static ex_id
lower_gather_elements(struct lower *l, const struct node *n, const ix_id *idx)
{
	int axis = (int)at_get(&n->at, ATTR_axis), rank = shape_at(l, n->in[0])->rank;
	ex_id v = lower_value(l, n->in[1], idx);
	ix_id to[MAX_RANK];

	memcpy(to, idx, sizeof(*to) * (size_t)rank);
	to[axis] = lower_index_value(l, v, shape_at(l, n->in[0])->dim[axis]);
	return lower_value(l, n->in[0], to);
}

static ex_id
lower_gather_nd(struct lower *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]), *is = shape_at(l, n->in[1]);
	int batch = (int)at_get(&n->at, ATTR_k), m = (int)is->dim[is->rank - 1];
	ix_id to[MAX_RANK], at[MAX_RANK];

	for (int d = 0; d < is->rank - 1; d++)
		at[d] = idx[d];
	for (int d = 0; d < in->rank; d++) {
		if (d < batch) {
			to[d] = idx[d];
		} else if (d < batch + m) {
			at[is->rank - 1] = ix_const(l->tx, d - batch);
			ex_id v = lower_value(l, n->in[1], at);
			to[d] = lower_index_value(l, v, in->dim[d]);
		} else {
			to[d] = idx[is->rank - 1 + d - batch - m];
		}
	}
	return lower_value(l, n->in[0], to);
}

static ex_id
lower_moved(struct lower *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]);
	ix_id to[MAX_RANK];

	for (int d = 0; d < in->rank; d++) {
		if (n->prim == PRIM_bcast)
			to[d] = in->dim[d] == 1 ? ix_const(l->tx, 0) : idx[d];
		else if (n->prim == PRIM_transpose)
			to[at_ints(&n->at, ATTR_perm)[d]] = idx[d];
		else
			to[d] = ix_addc(l->tx, ix_mulc(l->tx, idx[d], at_ints(&n->at, ATTR_step)[d]),
			    at_ints(&n->at, ATTR_start)[d]);
	}
	return lower_value(l, n->in[0], to);
}

/* ---- reductions --------------------------------------------------------------------------- */
ex_id
lower_identity(struct lower *l, enum prim p, enum dtype t)
{
	bool is_max = p == PRIM_rmax || p == PRIM_wmax || p == PRIM_argmax,
	     is_min = p == PRIM_rmin || p == PRIM_argmin;
	int bits = (int)dtype_size(t) * 8;

	if (!is_max && !is_min)
		return ex_real(l->tx, t, p == PRIM_prod ? 1 : 0);
	if (dtype_is_float(t))
		return ex_real(l->tx, t, is_max ? -__builtin_inf() : __builtin_inf());
	if (t == DT_bool)
		return ex_whole(l->tx, t, is_min);
	if (!dtype_is_signed(t))
		return ex_whole(l->tx, t, is_max ? 0 : bits == 64 ? -1 : ((int64_t)1 << bits) - 1);
	int64_t top = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;

	return ex_whole(l->tx, t, is_max ? -top - 1 : top);
}

/* The element of a window's operand at tap red[d], or the identity outside. */
static ex_id
window_term(struct lower *l, const struct node *n, const ix_id *idx, const ix_id *red)
{
	const struct shape *in = shape_at(l, n->in[0]);
	struct tx *x = l->tx;
	ix_id to[MAX_RANK];

	for (int d = 0; d < in->rank; d++) {
		to[d] = ix_mulc(x, idx[d], at_ints(&n->at, ATTR_stride)[d]);
		to[d] = ix_add(x, to[d], ix_mulc(x, red[d], at_ints(&n->at, ATTR_dilation)[d]));
		to[d] = ix_addc(x, to[d], -at_ints(&n->at, ATTR_lo)[d]);
	}
	enum dtype t = graph_tensor(l->g, n->out[0])->type;

	if (shape_count(in) == 0)
		return lower_identity(l, n->prim, t);
	ex_id v = lower_value(l, n->in[0], to);
	for (int d = in->rank - 1; d >= 0; d--)
		v = ex_guard(x, to[d], 0, in->dim[d], v, lower_identity(l, n->prim, t));
	return v;
}

static void
matmul_factors(struct lower *l, const struct node *n, const ix_id *idx, ix_id k, ex_id *a, ex_id *b)
{
	int r = shape_at(l, n->out[0])->rank;
	ix_id to[MAX_RANK];

	memcpy(to, idx, sizeof(*to) * (size_t)r);
	to[r - 1] = k;
	*a = lower_value(l, n->in[0], to);
	to[r - 2] = k;
	to[r - 1] = idx[r - 1];
	*b = lower_value(l, n->in[1], to);
}

static void
conv_factors(struct lower *l, const struct node *n, const ix_id *idx, const ix_id *red, ex_id *a, ex_id *b)
{
	const struct shape *s = shape_at(l, n->in[0]), *w = shape_at(l, n->in[1]);
	int sp = s->rank - 2;
	int64_t group = at_get(&n->at, ATTR_group), per = w->dim[sp];
	struct tx *x = l->tx;
	ix_id to[MAX_RANK], at[MAX_RANK], wide[MAX_RANK];

	to[0] = idx[0];
	for (int d = 0; d < sp; d++) {
		wide[d] = ix_mulc(x, idx[d + 1], at_ints(&n->at, ATTR_stride)[d]);
		wide[d] = ix_add(x, wide[d], ix_mulc(x, red[d], at_ints(&n->at, ATTR_dilation)[d]));
		wide[d] = ix_addc(x, wide[d], -at_ints(&n->at, ATTR_lo)[d]);
		to[d + 1] = ix_div(x, wide[d], at_ints(&n->at, ATTR_ldil)[d]);
		at[d] = red[d];
	}
	ix_id g = ix_div(x, idx[sp + 1], w->dim[sp + 1] / group);

	to[sp + 1] = ix_add(x, ix_mulc(x, g, per), red[sp]);
	at[sp] = red[sp];
	at[sp + 1] = idx[sp + 1];
	*a = lower_value(l, n->in[0], to);
	*b = lower_value(l, n->in[1], at);
	ex_id zero = ex_real(x, graph_tensor(l->g, n->out[0])->type, 0);

	for (int d = sp - 1; d >= 0; d--) {
		*a = ex_guard(x, to[d + 1], 0, s->dim[d + 1], *a, zero);
		*a = ex_guard(x, ix_mod(x, wide[d], at_ints(&n->at, ATTR_ldil)[d]), 0, 1, *a, zero);
	}
}

void
lower_factors(struct lower *l, const struct node *n, const ix_id *idx, const ix_id *red, ex_id *a, ex_id *b)
{
	if (n->prim == PRIM_matmul)
		matmul_factors(l, n, idx, red[0], a, b);
	else
		conv_factors(l, n, idx, red, a, b);
}

ex_id
lower_term(struct lower *l, const struct node *n, const ix_id *idx, const ix_id *red)
{
	ix_id to[MAX_RANK];
	ex_id f[2];

	if (prim_info[n->prim].shape == SHAPE_WINDOW)
		return window_term(l, n, idx, red);
	if (prim_info[n->prim].class == CLASS_LINEAR) {
		lower_factors(l, n, idx, red, &f[0], &f[1]);
		enum dtype t = graph_tensor(l->g, n->out[0])->type, acc = lower_acc_type(l, t);
		f[0] = ex_map(l->tx, PRIM_cast, acc, 1, &f[0]);
		f[1] = ex_map(l->tx, PRIM_cast, acc, 1, &f[1]);
		return ex_map(l->tx, PRIM_mul, acc, 2, f);
	}
	for (int d = 0; d < shape_at(l, n->in[0])->rank; d++)
		to[d] = ix_add(l->tx, idx[d], red[d]);
	return lower_value(l, n->in[0], to);
}

enum prim
reduce_joiner(enum prim p)
{
	switch ((int)p) {
	case PRIM_rmax:
	case PRIM_wmax:
		return PRIM_max;
	case PRIM_rmin:
		return PRIM_min;
	case PRIM_prod:
		return PRIM_mul;
	default:
		return PRIM_add;
	}
}

/* How many steps a reduction has along each of its indices. */
static int
red_extents(const struct lower *l, const struct node *n, int64_t *out)
{
	const struct shape *in = shape_at(l, n->in[0]);

	if (n->prim == PRIM_matmul) {
		out[0] = in->dim[in->rank - 1];
		return 1;
	}
	if (n->prim == PRIM_conv) {
		const struct shape *w = shape_at(l, n->in[1]);
		memcpy(out, w->dim, sizeof(*out) * (size_t)(w->rank - 1));
		return w->rank - 1;
	}
	for (int d = 0; d < in->rank; d++)
		out[d] = prim_info[n->prim].shape == SHAPE_WINDOW ? at_ints(&n->at, ATTR_kernel)[d] : 1;
	if (prim_info[n->prim].shape != SHAPE_WINDOW) {
		const struct attr *axes = at_find(&n->at, ATTR_axes);
		for (int i = 0; i < axes->n; i++)
			out[axes->i[i]] = in->dim[axes->i[i]];
	}
	return in->rank;
}

/* A short reduction as a chain in row-major order.  In strict mode a sum starts with zero, as long ones do
 * and the interpreter's: -0 alone is -0, 0 + -0 is not. */
static ex_id
lower_chain(struct lower *l, const struct node *n, const ix_id *idx)
{
	struct tx *x = l->tx;
	enum dtype t = graph_tensor(l->g, n->out[0])->type, acc = lower_acc_type(l, t);
	int64_t ext[MAX_RANK], at[MAX_RANK] = {0};
	int rank = red_extents(l, n, ext), d;
	bool from_zero =
	    l->p->target->strict && reduce_joiner(n->prim) == PRIM_add && node_depth(l->g, n) > 1;
	ex_id sum = from_zero ? ex_real(x, acc, 0) : EX_NONE, v[2];
	ix_id red[MAX_RANK];

	do {
		for (d = 0; d < rank; d++)
			red[d] = ix_const(x, at[d]);
		v[1] = lower_term(l, n, idx, red);
		v[1] = ex_map(x, PRIM_cast, acc, 1, &v[1]);
		v[0] = sum;
		sum = sum == EX_NONE ? v[1] : ex_map(x, reduce_joiner(n->prim), acc, 2, v);
		for (d = rank - 1; d >= 0 && ++at[d] == ext[d]; d--)
			at[d] = 0;
	} while (d >= 0);
	return ex_map(x, PRIM_cast, t, 1, &sum);
}

/* ---- the node ------------------------------------------------------------------------------ */
static ex_id
lower_map(struct lower *l, const struct node *n, const ix_id *idx)
{
	ex_id arg[3];

	for (uint32_t k = 0; k < n->n_in; k++)
		arg[k] = lower_value(l, n->in[k], idx);
	return ex_map(l->tx, n->prim, graph_tensor(l->g, n->out[0])->type, n->n_in, arg);
}

ex_id
lower_node(struct lower *l, const struct node *n, const ix_id *idx)
{
	switch (prim_info[n->prim].class) {
	case CLASS_MAP:
		return lower_map(l, n, idx);
	case CLASS_REDUCE:
	case CLASS_LINEAR:
		if (node_depth(l->g, n) == 0)
			return lower_identity(l, n->prim, graph_tensor(l->g, n->out[0])->type);
		return lower_chain(l, n, idx);
	case CLASS_BCAST:
		return lower_moved(l, n, idx);
	default:
		break;
	}
	switch ((int)n->prim) {
	case PRIM_reshape:
		return lower_reshape(l, n, idx);
	case PRIM_pad:
		return lower_pad(l, n, idx);
	case PRIM_concat:
		return lower_concat(l, n, idx);
	case PRIM_gather:
		return lower_gather(l, n, idx);
	case PRIM_gather_elements:
		return lower_gather_elements(l, n, idx);
	case PRIM_gather_nd:
		return lower_gather_nd(l, n, idx);
	case PRIM_iota:
		return ex_index(l->tx, idx[at_get(&n->at, ATTR_axis)]);
	case PRIM_transpose:
	case PRIM_slice:
		return lower_moved(l, n, idx);
	default:
		bug("primitive %s has no expression", prim_info[n->prim].name);
	}
}

int64_t
node_depth(const struct graph *g, const struct node *n)
{
	struct lower l = {.g = g};
	int64_t ext[MAX_RANK], depth = 1;
	int rank = red_extents(&l, n, ext);

	for (int d = 0; d < rank; d++)
		depth *= ext[d];
	return depth;
}
