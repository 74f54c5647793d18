/* daemon/rewrite/rules_layout.c: layout primitives that do nothing or meet each other: guards, and what is
 * said of many operands. */
#include "rewrite_int.h"

#include <math.h>
#include <string.h>

bool
moves_nothing(struct match *m)
{
	for (int i = 0; i < result_shape(m)->rank; i++)
		if (outer(m, ATTR_perm)[i] != i)
			return false;
	return true;
}

bool
slices_nothing(struct match *m)
{
	for (int i = 0; i < result_shape(m)->rank; i++)
		if (outer(m, ATTR_step)[i] != 1 && result_shape(m)->dim[i] > 1)
			return false;
	return same_shape(m);
}

bool
rule_concat_one(struct rw *r, const struct expr *x, tensor_id *out)
{
	uint32_t n = 0;

	if (x->prim != PRIM_concat)
		return false;
	int axis = ck_int(at_get(x->at, ATTR_axis));
	tensor_id *in = NEW_ARRAY(r->tmp, tensor_id, x->n_in);
	for (uint32_t i = 0; i < x->n_in; i++)
		if (rw_shape(r, x->in[i])->dim[axis] > 0)
			in[n++] = x->in[i];
	if (n == 1)
		*out = in[0];
	else if (n > 1 && n < x->n_in)
		*out = rw_op(r, PRIM_concat, in, n, x->at);
	else
		return false;
	return true;
}

bool
moves_only_ones(struct match *m)
{
	return perm_is_view(shape_of(m, 'x'), outer(m, ATTR_perm));
}

bool
transpose_of_transpose(struct match *m)
{
	int64_t perm[MAX_RANK];
	int rank = result_shape(m)->rank;

	list_permuted(rank, inner(m, ATTR_perm), outer(m, ATTR_perm), perm);
	at_list(&m->slot[0], ATTR_perm, rank, perm);
	return true;
}

bool
slice_of_slice(struct match *m)
{
	const struct shape *to = result_shape(m);
	int64_t start[MAX_RANK], step[MAX_RANK];

	for (int i = 0; i < to->rank; i++) {
		int64_t d = inner(m, ATTR_step)[i];
		start[i] = inner(m, ATTR_start)[i] + outer(m, ATTR_start)[i] * d;
		step[i] = to->dim[i] == 1 ? 1 : d * outer(m, ATTR_step)[i];
	}
	at_slice(&m->slot[0], to, start, step);
	return shape_count(to) > 0;
}

static bool
constant_pad(const struct attrs *at)
{
	return at_get(at, ATTR_mode) == PAD_CONSTANT;
}

/* The outer attributes, with the pads of n dimensions added, the operand's from `skip` on; false: one crops.
 */
static bool
add_pads(struct match *m, int n, int skip)
{
	static const enum attr_key keys[] = {ATTR_lo, ATTR_hi};
	bool ok = true;

	m->slot[0] = *m->at[0];
	for (size_t k = 0; k < COUNT_OF(keys); k++) {
		const int64_t *v = outer(m, keys[k]), *w = inner(m, keys[k]) + skip;
		int64_t sum[MAX_RANK];
		for (int i = 0; i < n; i++) {
			ok &= v[i] >= 0 && w[i] >= 0;
			sum[i] = v[i] + w[i];
		}
		at_list(&m->slot[0], keys[k], n, sum);
	}
	return ok;
}

bool
pad_of_pad(struct match *m)
{
	double v = at_get_real(m->at[1], ATTR_value), w = at_get_real(m->at[0], ATTR_value);

	return constant_pad(m->at[1]) && constant_pad(m->at[0]) && memcmp(&v, &w, sizeof(v)) == 0 &&
	    add_pads(m, result_shape(m)->rank, 0);
}

bool
rule_concat_concat(struct rw *r, const struct expr *x, tensor_id *out)
{
	uint32_t n = 0, cap = 0;
	tensor_id *in = NULL;
	bool any = false;

	for (uint32_t i = 0; x->prim == PRIM_concat && i < x->n_in; i++) {
		const struct node *c = rw_made_by(r, x->in[i], PRIM_concat);
		bool flat =
		    c && at_get(&c->at, ATTR_axis) == at_get(x->at, ATTR_axis) && rw_single(r, x->in[i]);
		any |= flat;
		for (uint32_t k = 0; k < (flat ? c->n_in : 1); k++) {
			GROW(r->tmp, in, n, cap);
			in[n++] = flat ? c->in[k] : x->in[i];
		}
	}
	if (any)
		*out = rw_op(r, PRIM_concat, in, n, x->at);
	return any;
}

/* Does slice t go on, along the axis, where slice s ends?  Both with step 1 there and equal
 * elsewhere. */
static bool
goes_on(const struct rw *r, const struct node *s, const struct node *t, int axis)
{
	const struct shape *a = rw_shape(r, s->out[0]), *b = rw_shape(r, t->out[0]);

	if (s->in[0].i != t->in[0].i)
		return false;
	for (int i = 0; i < a->rank; i++) {
		int64_t s0 = at_ints(&s->at, ATTR_start)[i], d0 = at_ints(&s->at, ATTR_step)[i];
		int64_t s1 = at_ints(&t->at, ATTR_start)[i], d1 = at_ints(&t->at, ATTR_step)[i];
		bool ones = a->dim[i] == 1 && b->dim[i] == 1;
		if (i == axis ? (d0 != 1 || d1 != 1 || s1 != s0 + a->dim[i])
			      : (s0 != s1 || (d0 != d1 && !ones) || a->dim[i] != b->dim[i]))
			return false;
	}
	return true;
}

bool
rule_concat_slices(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (x->prim != PRIM_concat)
		return false;
	int axis = ck_int(at_get(x->at, ATTR_axis));
	for (uint32_t i = 0; i + 1 < x->n_in; i++) {
		const struct node *s = rw_made_by(r, x->in[i], PRIM_slice);
		const struct node *t = rw_made_by(r, x->in[i + 1], PRIM_slice);
		if (!s || !t || !goes_on(r, s, t, axis))
			continue;
		struct shape both = *rw_shape(r, x->in[i]);
		both.dim[axis] += rw_shape(r, x->in[i + 1])->dim[axis];
		tensor_id *in = NEW_ARRAY(r->tmp, tensor_id, x->n_in);
		memcpy(in, x->in, i * sizeof(*in));
		in[i] = rw_slice(r, s->in[0], &both, at_ints(&s->at, ATTR_start), at_ints(&s->at, ATTR_step));
		memcpy(in + i + 1, x->in + i + 2, (x->n_in - i - 2) * sizeof(*in));
		*out = x->n_in == 2 ? in[0] : rw_op(r, PRIM_concat, in, x->n_in - 1, x->at);
		return true;
	}
	return false;
}

/* e is the operand of the concat that holds all of the slice. */
bool
slice_of_part(struct match *m)
{
	int axis = ck_int(at_get(m->at[1], ATTR_axis));
	const struct shape *to = result_shape(m);
	int64_t start[MAX_RANK], from = 0;

	memcpy(start, outer(m, ATTR_start), (size_t)to->rank * sizeof(*start));
	int64_t first = start[axis], last = first + (to->dim[axis] - 1) * outer(m, ATTR_step)[axis];
	for (uint32_t i = 0; i < m->n_all && shape_count(to) > 0; i++) {
		int64_t wide = rw_shape(m->r, m->all[i])->dim[axis];
		if (MIN_OF(first, last) >= from && MAX_OF(first, last) < from + wide) {
			start[axis] -= from;
			at_slice(&m->slot[0], to, start, outer(m, ATTR_step));
			return make(m, m->all[i]);
		}
		from += wide;
	}
	return false;
}

bool
slice_inside_pad(struct match *m)
{
	const struct shape *was = shape_of(m, 'x'), *to = result_shape(m);
	int64_t start[MAX_RANK];

	for (int i = 0; i < was->rank; i++) {
		start[i] = outer(m, ATTR_start)[i] - inner(m, ATTR_lo)[i];
		int64_t last = start[i] + (to->dim[i] - 1) * outer(m, ATTR_step)[i];
		if (MIN_OF(start[i], last) < 0 || MAX_OF(start[i], last) >= was->dim[i])
			return false;
	}
	at_slice(&m->slot[0], to, start, outer(m, ATTR_step));
	return shape_count(to) > 0;
}

static int64_t
index_at(const struct tensor *t, int64_t i, int64_t wide)
{
	const int64_t v = t->type == DT_i64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];

	return v < 0 ? v + wide : v;
}

/* The constant's integers from 0 on, where they go in even steps over [0, wide). */
static bool
even_steps(const struct tensor *t, int64_t wide, int64_t *start, int64_t *step)
{
	int64_t n = shape_count(&t->shape), before = 0;

	if (n < 1 || (t->type != DT_i64 && t->type != DT_i32))
		return false;
	*step = 1;
	for (int64_t i = 0; i < n; i++) {
		const int64_t v = index_at(t, i, wide);

		if (v < 0 || v >= wide)
			return false;
		if (i == 0)
			*start = v;
		else if (i == 1)
			*step = v - before;
		else if (v - before != *step)
			return false;
		before = v;
	}
	return *step != 0;
}

bool
gathers_in_even_steps(struct match *m)
{
	int64_t start[MAX_RANK] = {0}, step[MAX_RANK];
	int axis = ck_int(at_get(m->at[0], ATTR_axis));
	struct shape s = *shape_of(m, 'x');

	for (int i = 0; i < s.rank; i++)
		step[i] = 1;
	if (!even_steps(rw_tensor(m->r, named(m, 'w')), s.dim[axis], &start[axis], &step[axis]))
		return false;
	s.dim[axis] = shape_count(shape_of(m, 'w'));
	at_slice(&m->slot[0], &s, start, step);
	return true;
}

/* What the constant's dimensions of several elements count up by: from 0 on, each the number of those that
 * count less. So it counts through all of [0, wide), its digits in some order. */
struct digits {
	int n;
	int64_t extent[MAX_RANK], step[MAX_RANK];
};

static bool
find_digits(const struct tensor *t, int64_t wide, struct digits *d)
{
	int64_t ahead = shape_count(&t->shape), at[MAX_RANK] = {0};

	d->n = 0;
	if (ahead != wide || wide < 2 || (t->type != DT_i64 && t->type != DT_i32))
		return false;
	for (int i = 0; i < t->shape.rank; i++) {
		ahead /= t->shape.dim[i];
		if (t->shape.dim[i] == 1)
			continue;
		d->extent[d->n] = t->shape.dim[i];
		d->step[d->n] = index_at(t, ahead, wide);
		if (d->step[d->n] < 1 || d->step[d->n] >= wide)
			return false;
		d->n++;
	}
	for (int64_t i = 0; i < wide; i++) {
		int64_t v = 0;

		for (int k = 0; k < d->n; k++)
			v += at[k] * d->step[k];
		if (index_at(t, i, wide) != v)
			return false;
		for (int k = d->n - 1; k >= 0 && ++at[k] == d->extent[k]; k--)
			at[k] = 0;
	}
	return true;
}

/* The digits by what they count, the most first; false where they do not make up numbers. */
static bool
order_digits(const struct digits *d, int64_t wide, int *order)
{
	for (int k = 0; k < d->n; k++) {
		int place = 0;

		for (int i = 0; i < d->n; i++)
			place += d->step[i] > d->step[k] || (d->step[i] == d->step[k] && i < k);
		order[place] = k;
	}
	for (int k = 0; k < d->n; k++) {
		if (d->step[order[k]] * d->extent[order[k]] != wide)
			return false;
		wide = d->step[order[k]];
	}
	return wide == 1;
}

/* "@": the shape with the axis as digits, "@2": the order in which the indices have them. */
bool
counts_by_digits(struct match *m)
{
	const struct shape *s = shape_of(m, 'x');
	int axis = ck_int(at_get(m->at[0], ATTR_axis)), order[MAX_RANK];
	struct shape apart = {.rank = axis};
	int64_t perm[MAX_RANK];
	struct digits d;

	if (!shape_has_data(m->r, named(m, 'w')) ||
	    !find_digits(rw_tensor(m->r, named(m, 'w')), s->dim[axis], &d) || d.n < 2 ||
	    s->rank - 1 + d.n > MAX_RANK || !order_digits(&d, s->dim[axis], order))
		return false;
	for (int i = 0; i < axis; i++)
		apart.dim[i] = s->dim[i];
	for (int k = 0; k < d.n; k++)
		apart.dim[apart.rank++] = d.extent[order[k]];
	for (int i = axis + 1; i < s->rank; i++)
		apart.dim[apart.rank++] = s->dim[i];
	for (int i = 0; i < apart.rank; i++)
		perm[i] = i;
	for (int k = 0; k < d.n; k++)
		perm[axis + order[k]] = axis + k;
	at_list(&m->slot[0], ATTR_shape, apart.rank, apart.dim);
	at_list(&m->slot[1], ATTR_perm, apart.rank, perm);
	return true;
}

bool
bcast_can_reshape(const struct rw *r, const struct node *b, const struct shape *want, struct shape *low)
{
	const struct shape *from = rw_shape(r, b->in[0]), *big = rw_shape(r, b->out[0]);
	struct groups g;

	*low = *want;
	if (!groups_make(big, want, &g))
		return false;
	for (int k = 0; k < g.n; k++) {
		bool kept = false, repeated = false;
		for (int i = g.a[k]; i < g.a[k + 1]; i++) {
			repeated |= from->dim[i] != big->dim[i];
			kept |= from->dim[i] == big->dim[i] && big->dim[i] > 1;
		}
		if (kept && repeated)
			return false;
		for (int j = g.b[k]; repeated && j < g.b[k + 1]; j++)
			low->dim[j] = 1;
	}
	return true;
}

bool
repeats_apart(struct match *m)
{
	struct shape low;
	bool ok = bcast_can_reshape(m->r, rw_maker(m->r, named(m, 'y')), result_shape(m), &low);

	at_list(&m->slot[0], ATTR_shape, low.rank, low.dim);
	return ok;
}

/* Repeating along one dimension, then along another: [n,1] -> [n,2] -> [2n] meets [m,1] -> [m,2].
 * The first merge moves behind the second broadcast, and both broadcasts become one. */
bool
merge_goes_behind(struct match *m)
{
	const struct shape *y = shape_of(m, 'y'), *s = shape_of(m, 'z'), *result = result_shape(m);
	struct shape mid = {0}, big = {0}, low;
	struct groups g;
	bool merges = false;

	if (!groups_make(y, s, &g))
		return false;
	for (int k = 0; k < g.n; k++) {
		/* A merge that the outer broadcast leaves alone is taken apart again. */
		bool apart = g.b[k + 1] == g.b[k] + 1 && g.a[k + 1] > g.a[k] + 1 &&
		    s->dim[g.b[k]] == result->dim[g.b[k]];
		int from = apart ? g.a[k] : g.b[k], to = apart ? g.a[k + 1] : g.b[k + 1];
		merges |= apart;
		if (mid.rank + to - from > MAX_RANK)
			return false;
		for (int i = from; i < to; i++) {
			big.dim[big.rank++] = apart ? y->dim[i] : result->dim[i];
			mid.dim[mid.rank++] = apart ? y->dim[i] : s->dim[i];
		}
	}
	at_list(&m->slot[0], ATTR_shape, mid.rank, mid.dim);
	at_list(&m->slot[1], ATTR_shape, big.rank, big.dim);
	return merges && bcast_can_reshape(m->r, rw_maker(m->r, named(m, 'y')), &mid, &low);
}

bool
slice_of_bcast(struct match *m)
{
	const struct shape *from = shape_of(m, 'x'), *big = shape_of(m, 'y');
	int64_t start[MAX_RANK], step[MAX_RANK];
	struct shape to = *result_shape(m);

	for (int i = 0; i < to.rank; i++) {
		bool repeated = from->dim[i] != big->dim[i];
		start[i] = repeated ? 0 : outer(m, ATTR_start)[i];
		step[i] = repeated ? 1 : outer(m, ATTR_step)[i];
		to.dim[i] = repeated ? 1 : to.dim[i];
	}
	at_slice(&m->slot[0], &to, start, step);
	return shape_count(result_shape(m)) > 0;
}

/* ---- paddings that the reader can do itself ---------------------------------------------- */
bool
conv_can_pad(struct match *m)
{
	const int64_t *lo = inner(m, ATTR_lo), *hi = inner(m, ATTR_hi);
	int last = result_shape(m)->rank - 1;

	return constant_pad(m->at[1]) && at_get_real(m->at[1], ATTR_value) == 0 && all_are(m, ATTR_ldil, 1) &&
	    !lo[0] && !hi[0] && !lo[last] && !hi[last] && add_pads(m, last - 1, 1);
}

bool
window_can_pad(struct match *m)
{
	double neutral = m->x->prim == PRIM_wsum ? 0 : -(double)INFINITY;

	if (!constant_pad(m->at[1]) || at_get_real(m->at[1], ATTR_value) != neutral ||
	    !add_pads(m, result_shape(m)->rank, 0))
		return false;
	for (int i = 0; i < result_shape(m)->rank; i++) {
		int64_t dilation = outer(m, ATTR_dilation)[i],
			reach = (outer(m, ATTR_kernel)[i] - 1) * dilation;
		bool pads = inner(m, ATTR_lo)[i] || inner(m, ATTR_hi)[i];
		/* Each window keeps an element: an empty one would have no meaning. */
		if (at_ints(&m->slot[0], ATTR_lo)[i] > reach || at_ints(&m->slot[0], ATTR_hi)[i] > reach ||
		    (pads && dilation != 1))
			return false;
	}
	return true;
}
