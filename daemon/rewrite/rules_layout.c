/* daemon/rewrite/rules_layout.c: layout primitives that do nothing or meet each other. */
#include "rewrite_int.h"

#include <math.h>
#include <string.h>

bool
rule_reshape_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (x->prim != PRIM_reshape || !shape_eq(rw_shape(r, x->in[0]), &x->result.shape))
		return false;
	*out = x->in[0];
	return true;
}

bool
rule_transpose_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	(void)r;
	if (x->prim != PRIM_transpose)
		return false;
	const int64_t *perm = at_ints(x->at, ATTR_perm);
	for (int i = 0; i < x->result.shape.rank; i++)
		if (perm[i] != i)
			return false;
	*out = x->in[0];
	return true;
}

bool
rule_bcast_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (x->prim != PRIM_bcast || !shape_eq(rw_shape(r, x->in[0]), &x->result.shape))
		return false;
	*out = x->in[0];
	return true;
}

bool
rule_slice_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (x->prim != PRIM_slice || !shape_eq(rw_shape(r, x->in[0]), &x->result.shape))
		return false;
	const int64_t *step = at_ints(x->at, ATTR_step);
	for (int i = 0; i < x->result.shape.rank; i++)
		if (step[i] != 1 && x->result.shape.dim[i] > 1)
			return false;
	*out = x->in[0];
	return true;
}

bool
rule_pad_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	(void)r;
	if (x->prim != PRIM_pad)
		return false;
	const int64_t *lo = at_ints(x->at, ATTR_lo), *hi = at_ints(x->at, ATTR_hi);
	for (int i = 0; i < x->result.shape.rank; i++)
		if (lo[i] || hi[i])
			return false;
	*out = x->in[0];
	return true;
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
rule_transpose_ones(struct rw *r, const struct expr *x, tensor_id *out)
{
	if (x->prim != PRIM_transpose || !perm_is_view(rw_shape(r, x->in[0]), at_ints(x->at, ATTR_perm)))
		return false;
	*out = rw_reshape(r, x->in[0], &x->result.shape);
	return true;
}

bool
rule_transpose_transpose(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *t = x->prim == PRIM_transpose ? rw_made_by(r, x->in[0], PRIM_transpose) : NULL;
	int64_t perm[MAX_RANK];

	if (!t)
		return false;
	list_permuted(x->result.shape.rank, at_ints(&t->at, ATTR_perm), at_ints(x->at, ATTR_perm), perm);
	*out = rw_transpose(r, t->in[0], x->result.shape.rank, perm);
	return true;
}

bool
rule_reshape_reshape(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *t = x->prim == PRIM_reshape ? rw_made_by(r, x->in[0], PRIM_reshape) : NULL;

	if (!t)
		return false;
	*out = rw_reshape(r, t->in[0], &x->result.shape);
	return true;
}

bool
rule_bcast_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *b = x->prim == PRIM_bcast ? rw_made_by(r, x->in[0], PRIM_bcast) : NULL;

	if (!b)
		return false;
	*out = rw_bcast(r, b->in[0], &x->result.shape);
	return true;
}

static tensor_id
make_slice(struct rw *r, tensor_id x, int rank, const int64_t *start, const int64_t *step, const int64_t *dim)
{
	struct attrs at = {0};

	at_list(&at, ATTR_shape, rank, dim);
	at_list(&at, ATTR_start, rank, start);
	at_list(&at, ATTR_step, rank, step);
	return rw_op1(r, PRIM_slice, x, &at);
}

bool
rule_slice_slice(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *s = x->prim == PRIM_slice ? rw_made_by(r, x->in[0], PRIM_slice) : NULL;
	int64_t start[MAX_RANK], step[MAX_RANK];

	if (!s || shape_count(&x->result.shape) == 0)
		return false;
	const int64_t *s0 = at_ints(&s->at, ATTR_start), *d0 = at_ints(&s->at, ATTR_step);
	const int64_t *s1 = at_ints(x->at, ATTR_start), *d1 = at_ints(x->at, ATTR_step);
	for (int i = 0; i < x->result.shape.rank; i++) {
		start[i] = s0[i] + s1[i] * d0[i];
		step[i] = x->result.shape.dim[i] == 1 ? 1 : d0[i] * d1[i];
	}
	*out = make_slice(r, s->in[0], x->result.shape.rank, start, step, x->result.shape.dim);
	return true;
}

static bool
constant_pad(const struct attrs *at)
{
	return at_get(at, ATTR_mode) == PAD_CONSTANT;
}

static bool
never_negative(const int64_t *v, int n)
{
	for (int i = 0; i < n; i++)
		if (v[i] < 0)
			return false;
	return true;
}

bool
rule_pad_pad(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *p = x->prim == PRIM_pad ? rw_made_by(r, x->in[0], PRIM_pad) : NULL;
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	struct attrs at = {0};
	int rank = x->result.shape.rank;

	if (!p || !constant_pad(&p->at) || !constant_pad(x->at))
		return false;
	double v = at_get_real(&p->at, ATTR_value), w = at_get_real(x->at, ATTR_value);
	if (memcmp(&v, &w, sizeof(v)) != 0 || !never_negative(at_ints(&p->at, ATTR_lo), rank) ||
	    !never_negative(at_ints(&p->at, ATTR_hi), rank) ||
	    !never_negative(at_ints(x->at, ATTR_lo), rank) || !never_negative(at_ints(x->at, ATTR_hi), rank))
		return false;
	for (int i = 0; i < rank; i++) {
		lo[i] = at_ints(&p->at, ATTR_lo)[i] + at_ints(x->at, ATTR_lo)[i];
		hi[i] = at_ints(&p->at, ATTR_hi)[i] + at_ints(x->at, ATTR_hi)[i];
	}
	at_list(&at, ATTR_lo, rank, lo);
	at_list(&at, ATTR_hi, rank, hi);
	at_int(&at, ATTR_mode, PAD_CONSTANT);
	at_real(&at, ATTR_value, v);
	*out = rw_op1(r, PRIM_pad, p->in[0], &at);
	return true;
}

bool
rule_concat_concat(struct rw *r, const struct expr *x, tensor_id *out)
{
	uint32_t total = 0, n = 0;
	bool any = false;

	if (x->prim != PRIM_concat)
		return false;
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *c = rw_made_by(r, x->in[i], PRIM_concat);
		bool flat =
		    c && at_get(&c->at, ATTR_axis) == at_get(x->at, ATTR_axis) && rw_single(r, x->in[i]);
		any |= flat;
		total += flat ? c->n_in : 1;
	}
	if (!any)
		return false;
	tensor_id *in = NEW_ARRAY(r->tmp, tensor_id, total);
	for (uint32_t i = 0; i < x->n_in; i++) {
		const struct node *c = rw_made_by(r, x->in[i], PRIM_concat);
		if (c && at_get(&c->at, ATTR_axis) == at_get(x->at, ATTR_axis) && rw_single(r, x->in[i]))
			for (uint32_t k = 0; k < c->n_in; k++)
				in[n++] = c->in[k];
		else
			in[n++] = x->in[i];
	}
	*out = rw_op(r, PRIM_concat, in, n, x->at);
	return true;
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
		in[i] = make_slice(r, s->in[0], both.rank, at_ints(&s->at, ATTR_start),
		    at_ints(&s->at, ATTR_step), both.dim);
		memcpy(in + i + 1, x->in + i + 2, (x->n_in - i - 2) * sizeof(*in));
		*out = x->n_in == 2 ? in[0] : rw_op(r, PRIM_concat, in, x->n_in - 1, x->at);
		return true;
	}
	return false;
}

bool
rule_slice_concat(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *c = x->prim == PRIM_slice ? rw_made_by(r, x->in[0], PRIM_concat) : NULL;
	int64_t start[MAX_RANK], from = 0;

	if (!c || shape_count(&x->result.shape) == 0)
		return false;
	int axis = ck_int(at_get(&c->at, ATTR_axis)), rank = x->result.shape.rank;
	memcpy(start, at_ints(x->at, ATTR_start), (size_t)rank * sizeof(*start));
	int64_t first = start[axis];
	int64_t last = first + (x->result.shape.dim[axis] - 1) * at_ints(x->at, ATTR_step)[axis];
	for (uint32_t i = 0; i < c->n_in; i++) {
		int64_t wide = rw_shape(r, c->in[i])->dim[axis];
		if (MIN_OF(first, last) >= from && MAX_OF(first, last) < from + wide) {
			start[axis] -= from;
			*out = make_slice(
			    r, c->in[i], rank, start, at_ints(x->at, ATTR_step), x->result.shape.dim);
			return true;
		}
		from += wide;
	}
	return false;
}

bool
rule_slice_pad(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *p = x->prim == PRIM_slice ? rw_made_by(r, x->in[0], PRIM_pad) : NULL;
	int64_t start[MAX_RANK];

	if (!p || shape_count(&x->result.shape) == 0)
		return false;
	const struct shape *was = rw_shape(r, p->in[0]);
	for (int i = 0; i < was->rank; i++) {
		start[i] = at_ints(x->at, ATTR_start)[i] - at_ints(&p->at, ATTR_lo)[i];
		int64_t last = start[i] + (x->result.shape.dim[i] - 1) * at_ints(x->at, ATTR_step)[i];
		if (MIN_OF(start[i], last) < 0 || MAX_OF(start[i], last) >= was->dim[i])
			return false;
	}
	*out = make_slice(r, p->in[0], was->rank, start, at_ints(x->at, ATTR_step), x->result.shape.dim);
	return true;
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
		int64_t v = t->type == DT_i64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
		v += v < 0 ? wide : 0;
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
rule_gather_slice(struct rw *r, const struct expr *x, tensor_id *out)
{
	int64_t start[MAX_RANK] = {0}, step[MAX_RANK];

	if (x->prim != PRIM_gather || !shape_has_data(r, x->in[1]))
		return false;
	int axis = ck_int(at_get(x->at, ATTR_axis));
	struct shape s = *rw_shape(r, x->in[0]);
	for (int i = 0; i < s.rank; i++)
		step[i] = 1;
	if (!even_steps(rw_tensor(r, x->in[1]), s.dim[axis], &start[axis], &step[axis]))
		return false;
	s.dim[axis] = shape_count(rw_shape(r, x->in[1]));
	*out = rw_reshape(r, make_slice(r, x->in[0], s.rank, start, step, s.dim), &x->result.shape);
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
rule_reshape_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *b = x->prim == PRIM_reshape ? rw_made_by(r, x->in[0], PRIM_bcast) : NULL;
	struct shape low;

	if (!b || !bcast_can_reshape(r, b, &x->result.shape, &low))
		return false;
	*out = rw_bcast(r, rw_reshape(r, b->in[0], &low), &x->result.shape);
	return true;
}

bool
rule_transpose_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *b = x->prim == PRIM_transpose ? rw_made_by(r, x->in[0], PRIM_bcast) : NULL;

	if (!b)
		return false;
	const int64_t *perm = at_ints(x->at, ATTR_perm);
	if (!shape_has_data(r, b->in[0]) && !perm_is_view(rw_shape(r, b->in[0]), perm))
		return false;
	*out = rw_bcast(r, rw_transpose(r, b->in[0], x->result.shape.rank, perm), &x->result.shape);
	return true;
}

/* Repeating along one dimension, then along another: [n,1] -> [n,2] -> [2n] meets [m,1] -> [m,2].
 * The first merge moves behind the second broadcast, and both broadcasts become one. */
bool
rule_bcast_reshape_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *v = x->prim == PRIM_bcast ? rw_made_by(r, x->in[0], PRIM_reshape) : NULL;
	const struct node *b = v ? rw_made_by(r, v->in[0], PRIM_bcast) : NULL;
	struct shape mid = {0}, big = {0};
	struct groups g;
	bool merges = false;

	if (!b)
		return false;
	const struct shape *y = rw_shape(r, v->in[0]), *s = rw_shape(r, x->in[0]);
	if (!groups_make(y, s, &g))
		return false;
	for (int k = 0; k < g.n; k++) {
		/* A merge that the outer broadcast leaves alone is taken apart again. */
		bool apart = g.b[k + 1] == g.b[k] + 1 && g.a[k + 1] > g.a[k] + 1 &&
		    s->dim[g.b[k]] == x->result.shape.dim[g.b[k]];
		int from = apart ? g.a[k] : g.b[k], to = apart ? g.a[k + 1] : g.b[k + 1];
		merges |= apart;
		if (mid.rank + to - from > MAX_RANK)
			return false;
		for (int i = from; i < to; i++) {
			big.dim[big.rank++] = apart ? y->dim[i] : x->result.shape.dim[i];
			mid.dim[mid.rank++] = apart ? y->dim[i] : s->dim[i];
		}
	}
	struct shape low;
	if (!merges || !bcast_can_reshape(r, b, &mid, &low))
		return false;
	*out = rw_reshape(r, rw_bcast(r, rw_reshape(r, v->in[0], &mid), &big), &x->result.shape);
	return true;
}

bool
rule_slice_bcast(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *b = x->prim == PRIM_slice ? rw_made_by(r, x->in[0], PRIM_bcast) : NULL;
	int64_t start[MAX_RANK], step[MAX_RANK];

	if (!b || shape_count(&x->result.shape) == 0)
		return false;
	const struct shape *from = rw_shape(r, b->in[0]), *big = rw_shape(r, x->in[0]);
	struct shape to = x->result.shape;
	for (int i = 0; i < to.rank; i++) {
		bool repeated = from->dim[i] != big->dim[i];
		start[i] = repeated ? 0 : at_ints(x->at, ATTR_start)[i];
		step[i] = repeated ? 1 : at_ints(x->at, ATTR_step)[i];
		to.dim[i] = repeated ? 1 : to.dim[i];
	}
	*out = rw_bcast(r, make_slice(r, b->in[0], to.rank, start, step, to.dim), &x->result.shape);
	return true;
}

bool
rule_slice_map(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *m = x->prim == PRIM_slice ? rw_maker(r, x->in[0]) : NULL;
	tensor_id in[3];

	if (!m || prim_info[m->prim].class != CLASS_MAP || !rw_single(r, x->in[0]))
		return false;
	for (uint32_t i = 0; i < m->n_in; i++)
		in[i] = rw_op1(r, PRIM_slice, m->in[i], x->at);
	*out = rw_op(r, m->prim, in, m->n_in, &m->at);
	return true;
}

/* ---- paddings that the reader can do itself ---------------------------------------------- */
bool
rule_pad_into_conv(struct rw *r, const struct expr *x, tensor_id *out)
{
	const struct node *p = x->prim == PRIM_conv ? rw_made_by(r, x->in[0], PRIM_pad) : NULL;
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	struct attrs at = *x->at;
	int rank = x->result.shape.rank;

	if (!p || !constant_pad(&p->at) || at_get_real(&p->at, ATTR_value) != 0)
		return false;
	const int64_t *pl = at_ints(&p->at, ATTR_lo), *ph = at_ints(&p->at, ATTR_hi);
	if (pl[0] || ph[0] || pl[rank - 1] || ph[rank - 1] || !never_negative(pl, rank) ||
	    !never_negative(ph, rank))
		return false;
	for (int i = 0; i < rank - 2; i++) {
		if (at_ints(x->at, ATTR_ldil)[i] != 1)
			return false;
		lo[i] = at_ints(x->at, ATTR_lo)[i] + pl[i + 1];
		hi[i] = at_ints(x->at, ATTR_hi)[i] + ph[i + 1];
		/* A crop of the pad is no crop of what was padded. */
		if (at_ints(x->at, ATTR_lo)[i] < 0 || at_ints(x->at, ATTR_hi)[i] < 0)
			return false;
	}
	at_list(&at, ATTR_lo, rank - 2, lo);
	at_list(&at, ATTR_hi, rank - 2, hi);
	*out = rw_op2_at(r, PRIM_conv, p->in[0], x->in[1], &at);
	return true;
}

bool
rule_pad_into_window(struct rw *r, const struct expr *x, tensor_id *out)
{
	bool window = x->prim == PRIM_wsum || x->prim == PRIM_wmax;
	const struct node *p = window ? rw_made_by(r, x->in[0], PRIM_pad) : NULL;
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	struct attrs at = *x->at;
	int rank = x->result.shape.rank;

	if (!p || !constant_pad(&p->at) ||
	    at_get_real(&p->at, ATTR_value) != (x->prim == PRIM_wsum ? 0 : -(double)INFINITY))
		return false;
	for (int i = 0; i < rank; i++) {
		int64_t pl = at_ints(&p->at, ATTR_lo)[i], ph = at_ints(&p->at, ATTR_hi)[i];
		int64_t reach = (at_ints(x->at, ATTR_kernel)[i] - 1) * at_ints(x->at, ATTR_dilation)[i];
		lo[i] = at_ints(x->at, ATTR_lo)[i] + pl;
		hi[i] = at_ints(x->at, ATTR_hi)[i] + ph;
		/* Each window keeps an element: an empty one would have no meaning. */
		bool own = at_ints(x->at, ATTR_lo)[i] >= 0 && at_ints(x->at, ATTR_hi)[i] >= 0;
		if (pl < 0 || ph < 0 || !own || lo[i] > reach || hi[i] > reach ||
		    ((pl || ph) && at_ints(x->at, ATTR_dilation)[i] != 1))
			return false;
	}
	at_list(&at, ATTR_lo, rank, lo);
	at_list(&at, ATTR_hi, rank, hi);
	*out = rw_op1(r, x->prim, p->in[0], &at);
	return true;
}

bool
rule_window_none(struct rw *r, const struct expr *x, tensor_id *out)
{
	if ((x->prim != PRIM_wsum && x->prim != PRIM_wmax) ||
	    !shape_eq(rw_shape(r, x->in[0]), &x->result.shape))
		return false;
	for (int i = 0; i < x->result.shape.rank; i++)
		if (at_ints(x->at, ATTR_kernel)[i] != 1 || at_ints(x->at, ATTR_stride)[i] != 1 ||
		    at_ints(x->at, ATTR_lo)[i] || at_ints(x->at, ATTR_hi)[i])
			return false;
	*out = x->in[0];
	return true;
}
