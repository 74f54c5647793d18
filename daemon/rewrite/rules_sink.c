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

/* All operands without the T that they carry, which is "@".  At least one is a real T: of what a node makes
 * where an input is to be stripped, for of two inputs each could be stripped for the other, for ever. */
bool
all_strip(struct match *m)
{
	struct rw *r = m->r;

	for (uint32_t i = 0; i < m->n_all; i++) {
		const struct node *t = rw_made_by(r, m->all[i], PRIM_transpose);
		bool all = t != NULL;
		if (!t)
			continue;
		const bool made = rw_maker(r, t->in[0]) != NULL;

		for (uint32_t k = 0; k < m->n_all && all; k++)
			all = can_strip(r, m->all[k], at_ints(&t->at, ATTR_perm), made);
		if (!all)
			continue;
		tensor_id *in = NEW_ARRAY(r->tmp, tensor_id, m->n_all);
		for (uint32_t k = 0; k < m->n_all; k++)
			in[k] = strip_transpose(r, m->all[k], at_ints(&t->at, ATTR_perm));
		m->slot[0] = t->at;
		m->all = in;
		return true;
	}
	return false;
}

bool
parts_strip(struct match *m)
{
	if (!all_strip(m))
		return false;
	at_int(&m->slot[1], ATTR_axis, at_ints(&m->slot[0], ATTR_perm)[at_get(m->at[0], ATTR_axis)]);
	return true;
}

/* Of a matmul's operands, by a T that leaves rows and columns alone. */
bool
batches_strip(struct match *m)
{
	int rank = result_shape(m)->rank;

	for (uint32_t i = 0; i < m->n_all; i++) {
		const struct node *t = rw_made_by(m->r, m->all[i], PRIM_transpose);
		const int64_t *perm = t ? at_ints(&t->at, ATTR_perm) : NULL;
		if (t && (perm[rank - 1] != rank - 1 || perm[rank - 2] != rank - 2))
			return false;
	}
	return rank > 2 && all_strip(m);
}

/* The outer attributes in the order of T's operand: lists of one number a dimension, and axes, ascending. */
bool
attrs_before(struct match *m)
{
	const int64_t *perm = inner(m, ATTR_perm);
	int rank = result_shape(m)->rank;

	m->slot[0] = *m->at[0];
	for (int k = 0; k < m->slot[0].n; k++) {
		const struct attr *was = &m->at[0]->a[k];
		int64_t list[MAX_RANK];
		int n = 0;
		if (attr_kind_of(was->key) != ATTR_LIST)
			continue;
		for (int j = 0; j < rank && was->key != ATTR_axes; j++)
			list[perm[j]] = was->i[j];
		for (int d = 0; d < rank && was->key == ATTR_axes; d++)
			for (int i = 0; i < was->n; i++)
				if (perm[was->i[i]] == d)
					list[n++] = d;
		at_list(&m->slot[0], was->key, was->n, list);
	}
	return true;
}

/* gather(T x, idx): the indices' dimensions stand together where the axis was. */
bool
gather_before(struct match *m)
{
	const int64_t *perm = inner(m, ATTR_perm);
	int axis = ck_int(at_get(m->at[0], ATTR_axis)), more = shape_of(m, 'y')->rank - 1, n = 0;
	int64_t wide[MAX_RANK], to = perm[axis];

	for (int j = 0; j < shape_of(m, 'x')->rank; j++) {
		if (j == axis) {
			for (int k = 0; k <= more; k++)
				wide[n++] = to + k;
		} else {
			wide[n++] = perm[j] + (perm[j] > to ? more : 0);
		}
	}
	at_int(&m->slot[0], ATTR_axis, to);
	at_list(&m->slot[1], ATTR_perm, n, wide);
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
groups_move_whole(struct match *m)
{
	int64_t place[2 * MAX_RANK + 2], back[MAX_RANK], at_dim[2 * MAX_RANK + 2];
	struct shape to = {0};
	struct groups g;
	int order[2 * MAX_RANK + 2], n = 0;

	if (!groups_make(shape_of(m, 'y'), result_shape(m), &g))
		return false;
	for (int k = 0; k < g.n; k++) {
		if (!group_is_run(shape_of(m, 'x'), inner(m, ATTR_perm), g.a[k], g.a[k + 1], &place[k]))
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
			to.dim[to.rank++] = result_shape(m)->dim[j];
	}
	for (int k = 0; k < g.n; k++)
		for (int j = g.b[k]; j < g.b[k + 1]; j++)
			back[n++] = at_dim[k] + j - g.b[k];
	at_list(&m->slot[0], ATTR_shape, to.rank, to.dim);
	at_list(&m->slot[1], ATTR_perm, n, back);
	return true;
}

/* T2(reshape(T1 x)) where T2 moves whole groups: reshape(T2' T1 x), and the two T meet. */
bool
moves_whole_groups(struct match *m)
{
	const int64_t *perm = outer(m, ATTR_perm);
	int rank = result_shape(m)->rank, n = 0;
	int64_t up[2 * MAX_RANK];
	struct groups g;

	if (!groups_make(shape_of(m, 'y'), shape_of(m, 'z'), &g))
		return false;
	for (int j = 0; j < rank;) {
		int k = 0;
		while (perm[j] < g.b[k] || perm[j] >= g.b[k + 1])
			k++;
		for (int i = g.b[k]; i < g.b[k + 1]; i++, j++)
			if (j == rank || perm[j] != i)
				return false;
		for (int i = g.a[k]; i < g.a[k + 1]; i++)
			up[n++] = i;
	}
	/* Groups of the operand alone (extent 1) are not named by any dimension of the result. */
	for (int k = 0; k < g.n; k++)
		for (int i = g.a[k]; g.b[k] == g.b[k + 1] && i < g.a[k + 1]; i++)
			up[n++] = i;
	at_list(&m->slot[0], ATTR_perm, n, up);
	return true;
}

/* ---- matmul --------------------------------------------------------------------------------- */
/* The permutation that swaps the last two dimensions. */
static void
swap_of(int rank, int64_t *perm)
{
	for (int i = 0; i < rank; i++)
		perm[i] = i;
	perm[rank - 1] = rank - 2;
	perm[rank - 2] = rank - 1;
}

static bool
is_transposed(const struct rw *r, tensor_id t, int rank, const int64_t *perm)
{
	const struct node *n = rw_made_by(r, t, PRIM_transpose);

	return n && memcmp(at_ints(&n->at, ATTR_perm), perm, (size_t)rank * sizeof(*perm)) == 0;
}

/* When both are transposed, or the left one is a weight. */
bool
swapping_pays(struct match *m)
{
	int64_t perm[MAX_RANK];
	int rank = result_shape(m)->rank;

	swap_of(rank, perm);
	at_list(&m->slot[0], ATTR_perm, rank, perm);
	return is_transposed(m->r, named(m, 'y'), rank, perm) &&
	    (is_transposed(m->r, named(m, 'x'), rank, perm) || shape_has_data(m->r, named(m, 'x')));
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
works_in_low_rank(struct match *m)
{
	const struct shape *low = NULL, *result = result_shape(m);
	struct shape unused;

	for (uint32_t i = 0; i < m->n_all; i++) {
		const struct node *v = rw_made_by(m->r, m->all[i], PRIM_reshape);
		if (v && simpler(rw_shape(m->r, v->in[0]), low ? low : result))
			low = rw_shape(m->r, v->in[0]);
	}
	for (uint32_t i = 0; low && i < m->n_all; i++) {
		const struct node *b = rw_made_by(m->r, m->all[i], PRIM_bcast);
		const struct node *v = rw_made_by(m->r, m->all[i], PRIM_reshape);
		bool carries =
		    b || shape_has_data(m->r, m->all[i]) || (v && shape_eq(rw_shape(m->r, v->in[0]), low));
		/* Of equal rank neither shape is better: all operands have to carry it. */
		if ((b && !bcast_can_reshape(m->r, b, low, &unused)) ||
		    (low->rank == result->rank && !carries))
			return false;
	}
	if (low)
		at_list(&m->slot[0], ATTR_shape, low->rank, low->dim);
	return low != NULL;
}

/* Each group is reduced as a whole (dimensions longer than 1), or not at all. */
bool
reduces_whole_groups(struct match *m)
{
	const struct attr *was = at_find(m->at[0], ATTR_axes);
	const struct shape *low = shape_of(m, 'x'), *high = shape_of(m, 'y');
	int64_t axes[MAX_RANK];
	unsigned mask = 0;
	struct groups g;
	int n = 0;

	if (low->rank >= high->rank || !groups_make(low, high, &g))
		return false;
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
	m->slot[0] = *m->at[0];
	at_list(&m->slot[0], ATTR_axes, n, axes);
	return n > 0;
}

/* Enlarging by repetition is a reshape of a broadcast; a map behind it can go before it. */
bool
all_are_repeated(struct match *m)
{
	const struct shape *wide = NULL;
	struct shape unused;
	tensor_id c;

	for (uint32_t i = 0; i < m->n_all && !wide; i++) {
		const struct node *v = rw_made_by(m->r, m->all[i], PRIM_reshape);
		if (v && rw_made_by(m->r, v->in[0], PRIM_bcast))
			wide = rw_shape(m->r, v->in[0]);
	}
	for (uint32_t i = 0; wide && i < m->n_all; i++) {
		const struct node *v = rw_made_by(m->r, m->all[i], PRIM_reshape);
		const struct node *b = rw_made_by(m->r, m->all[i], PRIM_bcast);
		bool same =
		    v && rw_made_by(m->r, v->in[0], PRIM_bcast) && shape_eq(rw_shape(m->r, v->in[0]), wide);
		if (!same &&
		    !(b && rw_const_under(m->r, m->all[i], &c) && bcast_can_reshape(m->r, b, wide, &unused)))
			return false;
	}
	if (wide)
		at_list(&m->slot[0], ATTR_shape, wide->rank, wide->dim);
	return wide != NULL;
}

/* ---- broadcasts ------------------------------------------------------------------------------ */
/* E(B(a), B(b)) = B(E(B'(a), B'(b))) with B' up to the common shape of a and b. */
bool
all_fit_a_smaller_shape(struct match *m)
{
	struct shape low = *result_shape(m);

	for (int d = 0; d < low.rank; d++)
		low.dim[d] = 1;
	for (uint32_t i = 0; i < m->n_all; i++) {
		const struct shape *s = rw_shape(m->r, rw_under(m->r, m->all[i]));
		for (int d = 0; d < low.rank; d++)
			low.dim[d] = s->dim[d] == 1 ? low.dim[d] : s->dim[d];
	}
	at_list(&m->slot[0], ATTR_shape, low.rank, low.dim);
	return !shape_eq(&low, result_shape(m));
}
