/* kernels/schedule/lower_value.c: what each primitive's element is, as an expression over its operands'
 * elements. Layouts and broadcasts become index arithmetic. */
#include "lower_int.h"

#include <string.h>

const struct shape *
shape_at(const struct lowering *l, tensor_id t)
{
	return &graph_tensor(l->g, t)->shape;
}

enum dtype
type_at(const struct lowering *l, tensor_id t)
{
	return graph_tensor(l->g, t)->type;
}

/* ---- constants and kept tensors --------------------------------------------------------------- */
static ex_id
const_element(struct lowering *l, const struct tensor *t, int64_t i)
{
	if (dtype_is_float(t->type))
		return ex_real(l->tx, t->type, elem_get(t->type, t->data, i));
	return ex_whole(l->tx, t->type, elem_get_int(t->type, t->data, i));
}

/* One value everywhere, or at a known place. */
static bool
const_value(struct lowering *l, const struct tensor *t, const ix_id *idx, ex_id *out)
{
	int64_t n = shape_count(&t->shape), flat = 0, i;
	size_t size = dtype_size(t->type);
	bool known = true, uniform = true;

	for (int d = 0; d < t->shape.rank && known; d++) {
		known = ix_is_const(l->tx, idx[d], &i) && i >= 0 && i < t->shape.dim[d];
		flat = known ? flat * t->shape.dim[d] + i : 0;
	}
	for (i = 1; i < n && uniform; i++)
		uniform = memcmp(t->data, (const char *)t->data + (size_t)i * size, size) == 0;
	if (known || uniform)
		*out = const_element(l, t, known ? flat : 0);
	return known || uniform;
}

ex_id
value_at(struct lowering *l, tensor_id id, const ix_id *idx)
{
	const struct tensor *t = graph_tensor(l->g, id);
	ex_id v;

	if (shape_count(&t->shape) == 0) /* nobody asks for what is not there */
		return ex_real(l->tx, t->type, 0);
	if (l->maker[id.i] != NO_NODE && !l->kept[id.i])
		return node_value(l, &l->g->nodes[l->maker[id.i]], idx);
	if (t->role == ROLE_CONST && t->data && const_value(l, t, idx, &v))
		return v;
	return ex_load(l->tx, t->type, l->buf[id.i], ixv_make(l->tx, (uint32_t)t->shape.rank, idx));
}

/* ---- layouts -------------------------------------------------------------------------------------- */
static ex_id
reshape_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]), *out = shape_at(l, n->out[0]);
	ix_id flat = ix_const(l->tx, 0), to[MAX_RANK];
	int64_t stride = 1;

	for (int d = 0; d < out->rank; d++)
		flat = ix_add(l->tx, ix_mulc(l->tx, flat, out->dim[d]), idx[d]);
	for (int d = in->rank - 1; d >= 0; d--) {
		to[d] = ix_mod(l->tx, ix_div(l->tx, flat, stride), in->dim[d]);
		stride *= in->dim[d];
	}
	return value_at(l, n->in[0], to);
}

/* The index that a pad reads for index k of n, by its mode. */
static ix_id
pad_index(struct tx *x, enum pad_mode mode, ix_id k, int64_t n)
{
	ix_id m;

	if (mode == PAD_CONSTANT || (ix_get(x, k)->lo >= 0 && ix_get(x, k)->hi < n))
		return k;
	if (mode == PAD_EDGE)
		return ix_min(x, ix_max(x, k, ix_const(x, 0)), ix_const(x, n - 1));
	if (mode == PAD_WRAP)
		return ix_mod(x, k, n);
	m = ix_mod(x, k, MAX_OF(2 * (n - 1), (int64_t)1)); /* there and back again */
	return ix_min(x, m, ix_addc(x, ix_mulc(x, m, -1), 2 * (n - 1)));
}

static ex_id
pad_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]);
	enum pad_mode mode = (enum pad_mode)at_get(&n->at, ATTR_mode);
	ex_id outside = ex_real(l->tx, type_at(l, n->out[0]), at_get_real(&n->at, ATTR_value)), v;
	ix_id to[MAX_RANK];

	if (shape_count(in) == 0)
		return outside;
	for (int d = 0; d < in->rank; d++)
		to[d] =
		    pad_index(l->tx, mode, ix_addc(l->tx, idx[d], -at_ints(&n->at, ATTR_lo)[d]), in->dim[d]);
	v = value_at(l, n->in[0], to);
	for (int d = in->rank - 1; d >= 0 && mode == PAD_CONSTANT; d--)
		v = ex_guard(l->tx, to[d], 0, in->dim[d], v, outside);
	return v;
}

static ex_id
concat_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	int axis = (int)at_get(&n->at, ATTR_axis);
	int64_t at = shape_at(l, n->out[0])->dim[axis];
	ex_id v = EX_NONE, part;
	ix_id to[MAX_RANK];

	memcpy(to, idx, sizeof(*to) * (size_t)shape_at(l, n->out[0])->rank);
	for (uint32_t k = n->n_in; k-- > 0;) {
		int64_t dim = shape_at(l, n->in[k])->dim[axis];

		at -= dim;
		if (dim == 0)
			continue;
		to[axis] = ix_addc(l->tx, idx[axis], -at);
		part = value_at(l, n->in[k], to);
		v = v == EX_NONE ? part : ex_guard(l->tx, to[axis], 0, dim, part, v);
	}
	return v != EX_NONE ? v : ex_real(l->tx, type_at(l, n->out[0]), 0);
}

ix_id
index_value(struct lowering *l, ex_id v, int64_t extent)
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

/* The least and the largest of a constant table's indices; false where it is none, or one counts from the
 * end. */
static bool
table_range(const struct lowering *l, tensor_id t, int64_t extent, int64_t *lo, int64_t *hi)
{
	const struct tensor *x = graph_tensor(l->g, t);
	const int64_t n = shape_count(&x->shape);

	if (x->role != ROLE_CONST || !x->data || x->type != DT_i64 || n == 0)
		return false;
	*lo = extent;
	*hi = 0;
	for (int64_t i = 0; i < n; i++) {
		*lo = MIN_OF(*lo, ((const int64_t *)x->data)[i]);
		*hi = MAX_OF(*hi, ((const int64_t *)x->data)[i]);
	}
	return *lo >= 0 && *hi < extent;
}

static ex_id
gather_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	int axis = (int)at_get(&n->at, ATTR_axis), q = shape_at(l, n->in[1])->rank;
	const struct shape *in = shape_at(l, n->in[0]);
	ex_id v = value_at(l, n->in[1], n->prim == PRIM_gather ? idx + axis : idx);
	ix_id to[MAX_RANK];
	int64_t lo, hi;

	for (int d = 0; d < in->rank; d++)
		to[d] = d <= axis || n->prim == PRIM_gather_elements ? idx[d] : idx[d - 1 + q];
	to[axis] = table_range(l, n->in[1], in->dim[axis], &lo, &hi) && ex_get(l->tx, v)->kind == EX_READ
	    ? ix_value(l->tx, v, lo, hi)
	    : index_value(l, v, in->dim[axis]);
	return value_at(l, n->in[0], to);
}

static ex_id
gather_nd_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	const struct shape *in = shape_at(l, n->in[0]), *is = shape_at(l, n->in[1]);
	int batch = (int)at_get(&n->at, ATTR_k), m = (int)is->dim[is->rank - 1];
	ix_id to[MAX_RANK], at[MAX_RANK];

	memcpy(at, idx, sizeof(*at) * (size_t)(is->rank - 1));
	for (int d = 0; d < in->rank; d++) {
		if (d < batch) {
			to[d] = idx[d];
		} else if (d < batch + m) {
			at[is->rank - 1] = ix_const(l->tx, d - batch);
			to[d] = index_value(l, value_at(l, n->in[1], at), in->dim[d]);
		} else {
			to[d] = idx[is->rank - 1 + d - batch - m];
		}
	}
	return value_at(l, n->in[0], to);
}

static ex_id
moved_value(struct lowering *l, const struct node *n, const ix_id *idx)
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
	return value_at(l, n->in[0], to);
}

static ex_id
map_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	ex_id arg[3];

	for (uint32_t k = 0; k < n->n_in; k++)
		arg[k] = value_at(l, n->in[k], idx);
	return ex_map(l->tx, n->prim, type_at(l, n->out[0]), n->n_in, arg);
}

ex_id
node_value(struct lowering *l, const struct node *n, const ix_id *idx)
{
	if (prim_info[n->prim].class == CLASS_MAP)
		return map_value(l, n, idx);
	switch ((int)n->prim) {
	case PRIM_reshape:
		return reshape_value(l, n, idx);
	case PRIM_pad:
		return pad_value(l, n, idx);
	case PRIM_concat:
		return concat_value(l, n, idx);
	case PRIM_gather:
	case PRIM_gather_elements:
		return gather_value(l, n, idx);
	case PRIM_gather_nd:
		return gather_nd_value(l, n, idx);
	case PRIM_iota:
		return ex_index(l->tx, idx[at_get(&n->at, ATTR_axis)]);
	case PRIM_bcast:
	case PRIM_transpose:
	case PRIM_slice:
		return moved_value(l, n, idx);
	default:
		bug("primitive %s has no expression", prim_info[n->prim].name);
	}
}

/* ---- reductions -------------------------------------------------------------------------------------- */
enum comb
comb_of(const struct node *n)
{
	bool last = at_find(&n->at, ATTR_last) && at_get(&n->at, ATTR_last);

	switch ((int)n->prim) {
	case PRIM_rmax:
	case PRIM_wmax:
		return COMB_max;
	case PRIM_rmin:
		return COMB_min;
	case PRIM_prod:
		return COMB_prod;
	case PRIM_argmax:
		return last ? COMB_argmax_last : COMB_argmax;
	case PRIM_argmin:
		return last ? COMB_argmin_last : COMB_argmin;
	default:
		return COMB_sum;
	}
}

int
red_extents(const struct lowering *l, const struct node *n, int64_t *out)
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

/* The operand's element under tap red[d] of a window; outside, what changes nothing. */
static ex_id
window_term(struct lowering *l, const struct node *n, const ix_id *idx, const ix_id *red, enum dtype acc)
{
	const struct shape *in = shape_at(l, n->in[0]);
	struct tx *x = l->tx;
	ex_id none = comb_identity(x, comb_of(n), 0, acc), v;
	ix_id to[MAX_RANK];

	if (shape_count(in) == 0)
		return none;
	for (int d = 0; d < in->rank; d++) {
		to[d] = ix_mulc(x, idx[d], at_ints(&n->at, ATTR_stride)[d]);
		to[d] = ix_add(x, to[d], ix_mulc(x, red[d], at_ints(&n->at, ATTR_dilation)[d]));
		to[d] = ix_addc(x, to[d], -at_ints(&n->at, ATTR_lo)[d]);
	}
	v = value_at(l, n->in[0], to);
	v = ex_map(x, PRIM_cast, acc, 1, &v);
	for (int d = in->rank - 1; d >= 0; d--)
		v = ex_guard(x, to[d], 0, in->dim[d], v, none);
	return v;
}

static ex_id
product_of(struct lowering *l, ex_id a, ex_id b, enum dtype acc)
{
	a = ex_map(l->tx, PRIM_cast, acc, 1, &a);
	b = ex_map(l->tx, PRIM_cast, acc, 1, &b);
	return ex_map(l->tx, PRIM_mul, acc, 2, (ex_id[]){a, b});
}

static ex_id
matmul_term(struct lowering *l, const struct node *n, const ix_id *idx, ix_id k, enum dtype acc)
{
	int r = shape_at(l, n->out[0])->rank;
	ix_id to[MAX_RANK];
	ex_id a, b;

	memcpy(to, idx, sizeof(*to) * (size_t)r);
	to[r - 1] = k;
	a = value_at(l, n->in[0], to);
	to[r - 2] = k;
	to[r - 1] = idx[r - 1];
	b = value_at(l, n->in[1], to);
	return product_of(l, a, b, acc);
}

/* A tap outside, or between the operand's elements (ldil), takes no part: not even times infinity. */
static ex_id
conv_term(struct lowering *l, const struct node *n, const ix_id *idx, const ix_id *red, enum dtype acc)
{
	const struct shape *s = shape_at(l, n->in[0]), *w = shape_at(l, n->in[1]);
	int sp = s->rank - 2;
	int64_t per = w->dim[sp], per_group = w->dim[sp + 1] / at_get(&n->at, ATTR_group);
	struct tx *x = l->tx;
	ix_id to[MAX_RANK], at[MAX_RANK], wide[MAX_RANK];
	ex_id v, zero = ex_real(x, acc, 0);

	to[0] = idx[0];
	for (int d = 0; d < sp; d++) {
		wide[d] = ix_mulc(x, idx[d + 1], at_ints(&n->at, ATTR_stride)[d]);
		wide[d] = ix_add(x, wide[d], ix_mulc(x, red[d], at_ints(&n->at, ATTR_dilation)[d]));
		wide[d] = ix_addc(x, wide[d], -at_ints(&n->at, ATTR_lo)[d]);
		to[d + 1] = ix_div(x, wide[d], at_ints(&n->at, ATTR_ldil)[d]);
		at[d] = red[d];
	}
	to[sp + 1] = ix_add(x, ix_mulc(x, ix_div(x, idx[sp + 1], per_group), per), red[sp]);
	at[sp] = red[sp];
	at[sp + 1] = idx[sp + 1];
	v = product_of(l, value_at(l, n->in[0], to), value_at(l, n->in[1], at), acc);
	for (int d = sp - 1; d >= 0; d--) {
		v = ex_guard(x, to[d + 1], 0, s->dim[d + 1], v, zero);
		v = ex_guard(x, ix_mod(x, wide[d], at_ints(&n->at, ATTR_ldil)[d]), 0, 1, v, zero);
	}
	return v;
}

ex_id
term_value(struct lowering *l, const struct node *n, const ix_id *idx, const ix_id *red, enum dtype acc)
{
	ix_id to[MAX_RANK];
	ex_id v;

	if (n->prim == PRIM_matmul)
		return matmul_term(l, n, idx, red[0], acc);
	if (n->prim == PRIM_conv)
		return conv_term(l, n, idx, red, acc);
	if (prim_info[n->prim].shape == SHAPE_WINDOW)
		return window_term(l, n, idx, red, acc);
	for (int d = 0; d < shape_at(l, n->in[0])->rank; d++)
		to[d] = ix_add(l->tx, idx[d], red[d]);
	v = value_at(l, n->in[0], to);
	return ex_map(l->tx, PRIM_cast, acc, 1, &v);
}
