/* daemon/rewrite/rules_sink.c: transposes, reshapes and broadcasts move towards the outputs, so
 * that the layouts of neighbouring operators meet and cancel, and work is done on the smaller
 * tensor.  T(p)x has dimension p[j] of x at place j. */
#include "rewrite_int.h"

#include <string.h>

/* Is t a T that leaves, with `inverse` behind it, the elements of its operand where they are?
 * The same T does; so does one that differs in dimensions of extent 1. */
static bool
undoes(const struct rw *r, tensor_id t, const int64_t *inverse)
{
	const struct node *n = rw_made_by(r, t, PRIM_transpose);
	int64_t both[MAX_RANK];

	if (!n)
		return false;
	list_permuted(rw_shape(r, t)->rank, at_ints(&n->at, ATTR_perm), inverse, both);
	return perm_is_view(rw_shape(r, n->in[0]), both);
}

/* Is there a tensor of which T(perm) gives t, and which costs no more than t: T's operand, a
 * permuted constant, a view, or a broadcast of one of these?  (A broadcast of a real T would let
 * it sink again, for ever.)  Asked of all operands before anything is built. */
static bool
strips(const struct rw *r, tensor_id t, const int64_t *perm)
{
	const struct shape *s = rw_shape(r, t);
	const struct node *b = rw_made_by(r, t, PRIM_bcast);
	int64_t inverse[MAX_RANK];

	perm_inverse(s->rank, perm, inverse);
	return undoes(r, t, inverse) || shape_has_data(r, t) || perm_is_view(s, inverse) ||
	    (b && strips(r, b->in[0], perm));
}

/* An input of the graph is stripped for nothing where somebody has transposed it so already: the residual
 * around the first convolutions. */
static bool
can_strip(const struct rw *r, tensor_id t, const int64_t *perm, bool inputs)
{
	int rank = rw_shape(r, t)->rank;
	int64_t inverse[MAX_RANK];

	perm_inverse(rank, perm, inverse);
	return strips(r, t, perm) ||
	    (inputs && rw_tensor(r, t)->role == ROLE_INPUT && rw_has_transpose(r, t, rank, inverse));
}

static tensor_id
strip_transpose(struct rw *r, tensor_id t, const int64_t *perm)
{
	const struct node *b = rw_made_by(r, t, PRIM_bcast);
	struct shape s = *rw_shape(r, t);
	int64_t inverse[MAX_RANK];

	perm_inverse(s.rank, perm, inverse);
	if (!b)
		return rw_transpose(r, t, s.rank, inverse);
	s = shape_permuted(&s, inverse);
	return rw_bcast(r, rw_transpose(r, b->in[0], s.rank, inverse), &s);
}

/* Strips T from all operands; *perm is the one they carry.  At least one is a real T: of what a node makes
 * where an input is to be stripped, for of two inputs each could be stripped for the other, for ever. */
static bool
strip_all(struct rw *r, const struct expr *x, const int64_t **perm, tensor_id *in)
{
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *t = rw_made_by(r, x->in[i], PRIM_transpose);
		bool all = t != NULL;
		if (!t)
			continue;
		const bool made = rw_maker(r, t->in[0]) != NULL;

		*perm = at_ints(&t->at, ATTR_perm);
		for (uint32_t k = 0; k < x->n_in && all; k++)
			all = can_strip(r, x->in[k], *perm, made);
		if (!all)
			continue;
		for (uint32_t k = 0; k < x->n_in; k++)
			in[k] = strip_transpose(r, x->in[k], *perm);
		return true;
	}
	return false;
}

bool
rule_sink_transpose_map(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	tensor_id in[3];

	if (prim_info[x->prim].class != CLASS_MAP || !strip_all(r, x, &perm, in))
		return false;
	*out = rw_transpose(r, rw_op(r, x->prim, in, x->n_in, x->at), x->result.shape.rank, perm);
	return true;
}

bool
rule_sink_transpose_concat(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	struct attrs at = {0};

	if (x->prim != PRIM_concat)
		return false;
	tensor_id *in = NEW_ARRAY(r->tmp, tensor_id, x->n_in);
	if (!strip_all(r, x, &perm, in))
		return false;
	at_int(&at, ATTR_axis, perm[at_get(x->at, ATTR_axis)]);
	*out = rw_transpose(r, rw_op(r, PRIM_concat, in, x->n_in, &at), x->result.shape.rank, perm);
	return true;
}

/* The T under the only (or first) operand of a primitive, with its permutation. */
static const struct node *
transposed(const struct rw *r, const struct expr *x, enum prim p, const int64_t **perm, int64_t *inverse)
{
	const struct node *t = x->prim == p ? rw_made_by(r, x->in[0], PRIM_transpose) : NULL;

	if (!t)
		return NULL;
	*perm = at_ints(&t->at, ATTR_perm);
	perm_inverse(rw_shape(r, x->in[0])->rank, *perm, inverse);
	return t;
}

bool
rule_sink_transpose_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	int64_t inverse[MAX_RANK];
	const struct node *t = transposed(r, x, PRIM_bcast, &perm, inverse);

	if (!t)
		return false;
	struct shape to = shape_permuted(&x->result.shape, inverse);
	*out = rw_transpose(r, rw_bcast(r, t->in[0], &to), to.rank, perm);
	return true;
}

bool
rule_sink_transpose_reduce(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	int64_t inverse[MAX_RANK], axes[MAX_RANK];
	const struct node *t = transposed(r, x, x->prim, &perm, inverse);
	struct attrs at = *x->at;
	int n = 0;

	if (!t || prim_info[x->prim].class != CLASS_REDUCE || prim_info[x->prim].shape != SHAPE_REDUCE)
		return false;
	const struct attr *was = at_find(x->at, ATTR_axes);
	for (int d = 0; d < x->result.shape.rank; d++) /* ascending in the operand's order */
		for (int i = 0; i < was->n; i++)
			if (perm[was->i[i]] == d)
				axes[n++] = d;
	at_list(&at, ATTR_axes, n, axes);
	*out = rw_transpose(r, rw_op1(r, x->prim, t->in[0], &at), x->result.shape.rank, perm);
	return true;
}

/* A primitive whose attributes hold one number a dimension, over T. */
static bool
sink_lists(struct rw *r, const struct expr *x, enum prim p, uint32_t keys, tensor_id *out)
{
	const int64_t *perm;
	int64_t inverse[MAX_RANK], list[MAX_RANK];
	const struct node *t = transposed(r, x, p, &perm, inverse);
	struct attrs at = *x->at;
	int rank = x->result.shape.rank;

	if (!t)
		return false;
	for (unsigned k = 0; k < ATTR_COUNT; k++)
		if (keys >> k & 1) {
			list_permuted(rank, at_ints(x->at, (enum attr_key)k), inverse, list);
			at_list(&at, (enum attr_key)k, rank, list);
		}
	*out = rw_transpose(r, rw_op1(r, p, t->in[0], &at), rank, perm);
	return true;
}

bool
rule_sink_transpose_window(struct rw *r, const struct expr *x, tensor_id *out)
{
	return sink_lists(r, x, PRIM_wsum, ATTR_WINDOW, out) || sink_lists(r, x, PRIM_wmax, ATTR_WINDOW, out);
}

bool
rule_sink_transpose_pad(struct rw *r, const struct expr *x, tensor_id *out)
{
	return sink_lists(r, x, PRIM_pad, ATTR_BIT(lo) | ATTR_BIT(hi), out);
}

bool
rule_sink_transpose_slice(struct rw *r, const struct expr *x, tensor_id *out)
{
	return sink_lists(r, x, PRIM_slice, ATTR_BIT(start) | ATTR_BIT(step) | ATTR_BIT(shape), out);
}

/* gather(T x, idx): the indices' dimensions stand together where the axis was. */
bool
rule_sink_transpose_gather(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	int64_t inverse[MAX_RANK], wide[MAX_RANK];
	const struct node *t = transposed(r, x, PRIM_gather, &perm, inverse);
	struct attrs at = {0};
	int n = 0;

	if (!t)
		return false;
	int axis = ck_int(at_get(x->at, ATTR_axis)), rank = rw_shape(r, x->in[0])->rank;
	int more = rw_shape(r, x->in[1])->rank - 1;
	int64_t to = perm[axis];
	at_int(&at, ATTR_axis, to);
	tensor_id y = rw_op2_at(r, PRIM_gather, t->in[0], x->in[1], &at);
	for (int j = 0; j < rank; j++) {
		if (j == axis) {
			for (int k = 0; k <= more; k++)
				wide[n++] = to + k;
		} else {
			wide[n++] = perm[j] + (perm[j] > to ? more : 0);
		}
	}
	*out = rw_transpose(r, y, n, wide);
	return true;
}

/* Dimensions of the group, in T's order: do they stand together and ascending in the operand?
 * Those of extent 1 do not matter.  *first is the operand's place of the group. */
static bool
group_is_run(const struct shape *x, const int64_t *perm, int from, int to, int64_t *first)
{
	int64_t last = -1;

	*first = -1;
	for (int j = from; j < to; j++) {
		if (x->dim[perm[j]] == 1)
			continue;
		if (last >= 0) {
			if (perm[j] < last)
				return false;
			for (int64_t d = last + 1; d < perm[j]; d++)
				if (x->dim[d] != 1)
					return false;
		}
		last = perm[j];
		if (*first < 0)
			*first = last;
	}
	if (*first < 0 && from < to)
		*first = perm[from];
	return true;
}

/* reshape(T(perm) x) = T'(reshape' x) where each group of the reshape is a run of x's
 * dimensions: the groups are ordered as they stand in x, reshaped, and T' restores their order. */
bool
rule_sink_transpose_reshape(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	int64_t inverse[MAX_RANK], place[2 * MAX_RANK + 2], back[MAX_RANK], at_dim[2 * MAX_RANK + 2];
	const struct node *t = transposed(r, x, PRIM_reshape, &perm, inverse);
	struct shape to = {0};
	struct groups g;
	int order[2 * MAX_RANK + 2], n = 0;

	if (!t || !groups_make(rw_shape(r, x->in[0]), &x->result.shape, &g))
		return false;
	const struct shape *from = rw_shape(r, t->in[0]);
	for (int k = 0; k < g.n; k++) {
		if (!group_is_run(from, perm, g.a[k], g.a[k + 1], &place[k]))
			return false;
		int i =
		    k; /* insertion by place; groups without source dimensions stay behind the one before */
		if (place[k] < 0)
			place[k] = k ? place[k - 1] : -1;
		for (; i > 0 && place[order[i - 1]] > place[k]; i--)
			order[i] = order[i - 1];
		order[i] = k;
	}
	for (int i = 0; i < g.n; i++) {
		int k = order[i];
		at_dim[k] = to.rank;
		for (int j = g.b[k]; j < g.b[k + 1]; j++)
			to.dim[to.rank++] = x->result.shape.dim[j];
	}
	for (int k = 0; k < g.n; k++)
		for (int j = g.b[k]; j < g.b[k + 1]; j++)
			back[n++] = at_dim[k] + j - g.b[k];
	*out = rw_transpose(r, rw_reshape(r, t->in[0], &to), n, back);
	return true;
}

/* T2(reshape(T1 x)) where T2 moves whole groups: reshape(T2' T1 x), and the two T meet. */
bool
rule_transpose_reshape_transpose(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *v = x->prim == PRIM_transpose ? rw_made_by(r, x->in[0], PRIM_reshape) : NULL;
	const struct node *t = v ? rw_made_by(r, v->in[0], PRIM_transpose) : NULL;
	const int64_t *perm = t ? at_ints(x->at, ATTR_perm) : NULL;
	int64_t up[2 * MAX_RANK];
	struct groups g;
	int n = 0;

	if (!t || !groups_make(rw_shape(r, v->in[0]), rw_shape(r, v->out[0]), &g))
		return false;
	for (int j = 0; j < x->result.shape.rank;) {
		int k = 0;
		while (perm[j] < g.b[k] || perm[j] >= g.b[k + 1])
			k++;
		for (int i = g.b[k]; i < g.b[k + 1]; i++, j++)
			if (j == x->result.shape.rank || perm[j] != i)
				return false;
		for (int i = g.a[k]; i < g.a[k + 1]; i++)
			up[n++] = i;
	}
	/* Groups of the operand alone (extent 1) are not named by any dimension of the result. */
	for (int k = 0; k < g.n; k++)
		for (int i = g.a[k]; g.b[k] == g.b[k + 1] && i < g.a[k + 1]; i++)
			up[n++] = i;
	*out = rw_reshape(r, rw_transpose(r, v->in[0], n, up), &x->result.shape);
	return true;
}

/* ---- matmul --------------------------------------------------------------------------------- */
/* T that leaves the last two dimensions alone. */
static bool
batch_only(const int64_t *perm, int rank)
{
	return perm[rank - 1] == rank - 1 && perm[rank - 2] == rank - 2;
}

bool
rule_sink_transpose_matmul(struct rw *r, const struct expr *x, tensor_id *out)
{
	const int64_t *perm;
	tensor_id in[2];
	int rank = x->result.shape.rank;

	if (x->prim != PRIM_matmul || rank < 3)
		return false;
	for (int i = 0; i < 2; i++) {
		const struct node *t = rw_made_by(r, x->in[i], PRIM_transpose);
		if (t && !batch_only(at_ints(&t->at, ATTR_perm), rank))
			return false;
	}
	if (!strip_all(r, x, &perm, in))
		return false;
	*out = rw_transpose(r, rw_op2(r, PRIM_matmul, in[0], in[1]), rank, perm);
	return true;
}

static bool
swaps_last_two(const struct rw *r, tensor_id t)
{
	const struct node *n = rw_made_by(r, t, PRIM_transpose);
	int rank = rw_shape(r, t)->rank;

	if (!n)
		return false;
	const int64_t *perm = at_ints(&n->at, ATTR_perm);
	for (int i = 0; i < rank - 2; i++)
		if (perm[i] != i)
			return false;
	return perm[rank - 1] == rank - 2;
}

/* (A B) = T(T(B) T(A)): pays when both are transposed, or the left one is a weight. */
bool
rule_swap_matmul(struct rw *r, const struct expr *x, tensor_id *out)
{
	tensor_id a, b;
	int64_t perm[MAX_RANK];
	int rank = x->result.shape.rank;

	if (x->prim != PRIM_matmul)
		return false;
	bool ta = swaps_last_two(r, x->in[0]), tb = swaps_last_two(r, x->in[1]);
	if (!(ta && tb) && !(tb && shape_has_data(r, x->in[0])))
		return false;
	for (int i = 0; i < rank; i++)
		perm[i] = i;
	perm[rank - 1] = rank - 2;
	perm[rank - 2] = rank - 1;
	a = rw_transpose(r, x->in[0], rank, perm);
	b = rw_transpose(r, x->in[1], rank, perm);
	*out = rw_transpose(r, rw_op2(r, PRIM_matmul, b, a), rank, perm);
	return true;
}

/* ---- reshapes ------------------------------------------------------------------------------- */
/* Is `from` the simpler shape to work in?  Of lower rank; or of the same one, the dimensions of
 * extent 1 standing elsewhere (a transpose of a row or column). */
static bool
simpler(const struct shape *from, const struct shape *to)
{
	int i = 0, j = 0;

	if (from->rank != to->rank)
		return from->rank < to->rank;
	for (;;) {
		while (i < from->rank && from->dim[i] == 1)
			i++;
		while (j < to->rank && to->dim[j] == 1)
			j++;
		if (i == from->rank || j == to->rank)
			return i == from->rank && j == to->rank;
		if (from->dim[i++] != to->dim[j++])
			return false;
	}
}

/* Some operand is a view of a simpler tensor: work there. */
bool
rule_sink_reshape_map(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct shape *low = NULL;
	tensor_id in[3];

	if (prim_info[x->prim].class != CLASS_MAP)
		return false;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *v = rw_made_by(r, x->in[i], PRIM_reshape);
		if (v && simpler(rw_shape(r, v->in[0]), low ? low : &x->result.shape))
			low = rw_shape(r, v->in[0]);
	}
	if (!low)
		return false;
	struct shape to = *low, unused;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *b = rw_made_by(r, x->in[i], PRIM_bcast);
		const struct node *v = rw_made_by(r, x->in[i], PRIM_reshape);
		bool carries =
		    b || shape_has_data(r, x->in[i]) || (v && shape_eq(rw_shape(r, v->in[0]), &to));
		/* Of equal rank neither shape is better: all operands have to carry it. */
		if ((b && !bcast_can_reshape(r, b, &to, &unused)) ||
		    (to.rank == x->result.shape.rank && !carries))
			return false;
	}
	for (uint32_t i = 0; i < x->n_in; i++)
		in[i] = rw_reshape(r, x->in[i], &to);
	*out = rw_reshape(r, rw_op(r, x->prim, in, x->n_in, x->at), &x->result.shape);
	return true;
}

/* Each group is reduced as a whole (dimensions longer than 1), or not at all. */
bool
rule_sink_reshape_reduce(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *v = x->n_in == 1 ? rw_made_by(r, x->in[0], PRIM_reshape) : NULL;
	struct groups g;
	struct attrs at = *x->at;
	int64_t axes[MAX_RANK];
	unsigned mask = 0;
	int n = 0;

	if (!v ||
	    (x->prim != PRIM_sum && x->prim != PRIM_rmax && x->prim != PRIM_rmin && x->prim != PRIM_prod))
		return false;
	const struct shape *low = rw_shape(r, v->in[0]), *high = rw_shape(r, x->in[0]);
	if (low->rank >= high->rank || !groups_make(low, high, &g))
		return false;
	const struct attr *was = at_find(x->at, ATTR_axes);
	for (int i = 0; i < was->n; i++)
		mask |= 1u << was->i[i];
	for (int k = 0; k < g.n; k++) {
		bool kept = false, gone = false;
		for (int j = g.b[k]; j < g.b[k + 1]; j++) {
			gone |= high->dim[j] > 1 && (mask >> j & 1);
			kept |= high->dim[j] > 1 && !(mask >> j & 1);
		}
		if (gone && kept)
			return false;
		for (int i = g.a[k]; gone && i < g.a[k + 1]; i++)
			axes[n++] = i;
	}
	if (!n)
		return false;
	at_list(&at, ATTR_axes, n, axes);
	*out = rw_reshape(r, rw_op1(r, x->prim, v->in[0], &at), &x->result.shape);
	return true;
}

/* Enlarging by repetition is a reshape of a broadcast; a map behind it can go before it.  Nothing
 * is built before it is sure: a rule that gives up must leave no trace. */
bool
rule_sink_reshape_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	tensor_id in[3], c;
	const struct shape *wide = NULL;
	struct shape unused;

	if (prim_info[x->prim].class != CLASS_MAP)
		return false;
	for (uint32_t i = 0; i < x->n_in && !wide; i++) {
		const struct node *v = rw_made_by(r, x->in[i], PRIM_reshape);
		if (v && rw_made_by(r, v->in[0], PRIM_bcast))
			wide = rw_shape(r, v->in[0]);
	}
	if (!wide)
		return false;
	struct shape to = *wide;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *v = rw_made_by(r, x->in[i], PRIM_reshape);
		const struct node *b = rw_made_by(r, x->in[i], PRIM_bcast);
		bool same = v && rw_made_by(r, v->in[0], PRIM_bcast) && shape_eq(rw_shape(r, v->in[0]), &to);
		bool repeated = b && rw_const_under(r, x->in[i], &c) && bcast_can_reshape(r, b, &to, &unused);
		if (!same && !repeated)
			return false;
	}
	for (uint32_t i = 0; i < x->n_in; i++)
		in[i] = rw_reshape(r, x->in[i], &to);
	*out = rw_reshape(r, rw_op(r, x->prim, in, x->n_in, x->at), &x->result.shape);
	return true;
}

/* ---- broadcasts ------------------------------------------------------------------------------ */
/* E(B(a), B(b)) = B(E(B'(a), B'(b))) with B' up to the common shape of a and b. */
bool
rule_sink_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	struct shape low = x->result.shape;
	tensor_id in[3];

	if (prim_info[x->prim].class != CLASS_MAP)
		return false;
	for (int d = 0; d < low.rank; d++)
		low.dim[d] = 1;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *b = rw_made_by(r, x->in[i], PRIM_bcast);
		const struct shape *s = rw_shape(r, b ? b->in[0] : x->in[i]);
		for (int d = 0; d < low.rank; d++)
			low.dim[d] = s->dim[d] == 1 ? low.dim[d] : s->dim[d];
	}
	if (shape_eq(&low, &x->result.shape))
		return false;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *b = rw_made_by(r, x->in[i], PRIM_bcast);
		in[i] = rw_bcast(r, b ? b->in[0] : x->in[i], &low);
	}
	*out = rw_bcast(r, rw_op(r, x->prim, in, x->n_in, x->at), &x->result.shape);
	return true;
}
