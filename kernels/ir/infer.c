/* kernels/ir/infer.c: how a result's shape follows from operands and attributes: one function a
 * shape rule.  Attributes may come from hostile text: every number is checked before use, and all
 * arithmetic on them is checked. */
#include "ir_int.h"

/* Padding beyond this is nobody's: it keeps sums of positions far from overflow. */
#define FARTHEST ((int64_t)1 << 40)

struct args {
	enum prim p;
	const struct tensor *const *in;
	uint32_t n_in;
	const struct attrs *at;
	struct shape *out;
	struct err *e;
};

static const struct shape *
shape_of(const struct args *x, uint32_t i)
{
	return &x->in[i]->shape;
}

static bool
bad(const struct args *x, const char *why)
{
	return err_set(x->e, ERR_MODEL, "%s", why);
}

/* The attribute's numbers, one a dimension of `rank`. */
static bool
list_of(const struct args *x, enum attr_key key, int rank, const int64_t **out)
{
	const struct attr *a = at_find(x->at, key);

	if (a->n != rank)
		return err_set(x->e, ERR_MODEL, "attribute '%s' has %d numbers; it needs %d", attr_name(key),
		    a->n, rank);
	*out = a->i;
	return true;
}

static bool
axis_of(const struct args *x, int rank, int *out)
{
	int64_t axis = at_get(x->at, ATTR_axis);

	if (axis < 0 || axis >= rank)
		return err_set(x->e, ERR_MODEL, "axis %lld is not within rank %d", (long long)axis, rank);
	*out = (int)axis;
	return true;
}

static bool
flag_of(const struct args *x, enum attr_key key, int64_t last)
{
	int64_t v = at_get(x->at, key);

	if (v >= 0 && v <= last)
		return true;
	return err_set(x->e, ERR_MODEL, "attribute '%s' is %lld; it goes from 0 to %lld", attr_name(key),
	    (long long)v, (long long)last);
}

/* A shape given as an attribute: extents not negative, count in range. */
static bool
attr_shape(const struct args *x, struct shape *out)
{
	const struct attr *a = at_find(x->at, ATTR_shape);
	size_t bytes;

	*out = shape_make(a->n, a->i);
	if (shape_bytes(out, DT_f64, &bytes))
		return true;
	return bad(x, "attribute 'shape' has a negative extent, or too many elements");
}

static bool
rule_same(const struct args *x)
{
	int axis;

	for (uint32_t i = 1; i < x->n_in; i++)
		if (!shape_eq(shape_of(x, 0), shape_of(x, i)))
			return err_set(x->e, ERR_MODEL,
			    "operands 0 and %u have different shapes; broadcast them first", i);
	*x->out = *shape_of(x, 0);
	if (prim_info[x->p].attrs & ATTR_BIT(axis))
		return axis_of(x, x->out->rank, &axis) && flag_of(x, ATTR_exclusive, 1) &&
		    flag_of(x, ATTR_reverse, 1);
	return true;
}

static bool
rule_reduce(const struct args *x)
{
	const struct attr *axes = at_find(x->at, ATTR_axes);
	int64_t before = -1;
	bool position = x->p == PRIM_argmax || x->p == PRIM_argmin;

	*x->out = *shape_of(x, 0);
	for (int i = 0; i < axes->n; i++) {
		int64_t axis = axes->i[i];

		if (axis <= before || axis >= x->out->rank)
			return bad(x, "attribute 'axes' must be ascending and within the rank");
		if (position && x->out->dim[axis] == 0)
			return bad(x, "there is no position in an empty dimension");
		x->out->dim[axis] = 1;
		before = axis;
	}
	if (position)
		return axes->n == 1 ? flag_of(x, ATTR_last, 1) : bad(x, "it works along exactly one axis");
	return true;
}

static bool
is_near(int64_t v)
{
	return v >= -FARTHEST && v <= FARTHEST;
}

/* Extent of a window's result along one dimension: *out = positions of a window of `kernel`
 * taps, `dilation` apart, moved by `stride` over dim + lo + hi. */
static bool
window_extent(
    int64_t dim, int64_t kernel, int64_t stride, int64_t dilation, int64_t lo, int64_t hi, int64_t *out)
{
	int64_t room, reach;

	if (kernel < 1 || stride < 1 || dilation < 1 || !is_near(lo) || !is_near(hi) ||
	    !try_add_i64(dim, lo, &room) || !try_add_i64(room, hi, &room) ||
	    !try_mul_i64(kernel - 1, dilation, &reach) || !try_add_i64(reach, 1, &reach) ||
	    room > INT64_MAX / 4 || reach > INT64_MAX / 4)
		return false;
	*out = room < reach ? 0 : (room - reach) / stride + 1;
	return true;
}

static bool
rule_window(const struct args *x)
{
	const struct shape *s = shape_of(x, 0);
	const int64_t *kernel, *stride, *dilation, *lo, *hi;

	if (!list_of(x, ATTR_kernel, s->rank, &kernel) || !list_of(x, ATTR_stride, s->rank, &stride) ||
	    !list_of(x, ATTR_dilation, s->rank, &dilation) || !list_of(x, ATTR_lo, s->rank, &lo) ||
	    !list_of(x, ATTR_hi, s->rank, &hi))
		return false;
	x->out->rank = s->rank;
	for (int d = 0; d < s->rank; d++)
		if (!window_extent(
			s->dim[d], kernel[d], stride[d], dilation[d], lo[d], hi[d], &x->out->dim[d]))
			return err_set(x->e, ERR_MODEL, "the window along dimension %d is not usable", d);
	return true;
}

/* bcast and iota: the shape stands in the attribute. */
static bool
rule_attr(const struct args *x)
{
	const struct shape *s;
	int axis;

	if (!attr_shape(x, x->out))
		return false;
	if (x->n_in == 0)
		return axis_of(x, x->out->rank, &axis);
	s = shape_of(x, 0);
	if (s->rank != x->out->rank)
		return bad(x, "attribute 'shape' must have the operand's rank");
	for (int d = 0; d < s->rank; d++)
		if (s->dim[d] != x->out->dim[d] && s->dim[d] != 1)
			return err_set(x->e, ERR_MODEL, "dimension %d of extent %lld cannot become %lld", d,
			    (long long)s->dim[d], (long long)x->out->dim[d]);
	return true;
}

static bool
rule_reshape(const struct args *x)
{
	if (!attr_shape(x, x->out))
		return false;
	if (shape_count(x->out) == shape_count(shape_of(x, 0)))
		return true;
	return err_set(x->e, ERR_MODEL, "%lld elements cannot take a shape of %lld",
	    (long long)shape_count(shape_of(x, 0)), (long long)shape_count(x->out));
}

static bool
rule_perm(const struct args *x)
{
	const struct shape *s = shape_of(x, 0);
	const int64_t *perm;
	unsigned seen = 0;

	if (!list_of(x, ATTR_perm, s->rank, &perm))
		return false;
	x->out->rank = s->rank;
	for (int d = 0; d < s->rank; d++) {
		if (perm[d] < 0 || perm[d] >= s->rank || seen >> perm[d] & 1)
			return bad(x, "attribute 'perm' is not a permutation");
		seen |= 1u << perm[d];
		x->out->dim[d] = s->dim[perm[d]];
	}
	return true;
}

static bool
rule_slice(const struct args *x)
{
	const struct shape *s = shape_of(x, 0);
	const int64_t *start, *step;
	int64_t last;

	if (!attr_shape(x, x->out) || !list_of(x, ATTR_start, s->rank, &start) ||
	    !list_of(x, ATTR_step, s->rank, &step))
		return false;
	if (x->out->rank != s->rank)
		return bad(x, "attribute 'shape' must have the operand's rank");
	for (int d = 0; d < s->rank; d++) {
		if (step[d] == 0 || step[d] == INT64_MIN)
			return err_set(x->e, ERR_MODEL, "the step of dimension %d is not usable", d);
		if (x->out->dim[d] == 0)
			continue;
		if (start[d] < 0 || start[d] >= s->dim[d] ||
		    !try_mul_i64(x->out->dim[d] - 1, step[d], &last) || !try_add_i64(start[d], last, &last) ||
		    last < 0 || last >= s->dim[d])
			return err_set(x->e, ERR_MODEL, "the slice leaves dimension %d of extent %lld", d,
			    (long long)s->dim[d]);
	}
	return true;
}

static bool
rule_pad(const struct args *x)
{
	const struct shape *s = shape_of(x, 0);
	const int64_t *lo, *hi;

	if (!list_of(x, ATTR_lo, s->rank, &lo) || !list_of(x, ATTR_hi, s->rank, &hi) ||
	    !flag_of(x, ATTR_mode, PAD_WRAP))
		return false;
	x->out->rank = s->rank;
	for (int d = 0; d < s->rank; d++) {
		int64_t *n = &x->out->dim[d];

		if (!is_near(lo[d]) || !is_near(hi[d]) || !try_add_i64(s->dim[d], lo[d], n) ||
		    !try_add_i64(*n, hi[d], n) || *n < 0)
			return err_set(x->e, ERR_MODEL, "the padding of dimension %d is not usable", d);
		if (s->dim[d] == 0 && *n > 0 && at_get(x->at, ATTR_mode) != PAD_CONSTANT)
			return err_set(x->e, ERR_MODEL, "dimension %d is empty: nothing to repeat", d);
	}
	return true;
}

static bool
rule_concat(const struct args *x)
{
	int axis;

	*x->out = *shape_of(x, 0);
	if (!axis_of(x, x->out->rank, &axis))
		return false;
	for (uint32_t i = 1; i < x->n_in; i++) {
		struct shape s = *shape_of(x, i);
		int64_t n = s.rank == x->out->rank ? s.dim[axis] : 0;

		if (s.rank == x->out->rank)
			s.dim[axis] = x->out->dim[axis];
		if (!shape_eq(&s, x->out))
			return err_set(x->e, ERR_MODEL, "operands 0 and %u differ in more than the axis", i);
		if (!try_add_i64(x->out->dim[axis], n, &x->out->dim[axis]))
			return bad(x, "the result is too long");
	}
	return true;
}

/* out = head dimensions of a, all of b, tail dimensions of a from `from` on. */
static bool
splice(const struct args *x, const struct shape *a, int head, const struct shape *b, int n_b, int from)
{
	int n = 0;

	if (head + n_b + a->rank - from > MAX_RANK)
		return err_set(x->e, ERR_MODEL, "the result has more than %d dimensions", MAX_RANK);
	for (int d = 0; d < head; d++)
		x->out->dim[n++] = a->dim[d];
	for (int d = 0; d < n_b; d++)
		x->out->dim[n++] = b->dim[d];
	for (int d = from; d < a->rank; d++)
		x->out->dim[n++] = a->dim[d];
	x->out->rank = n;
	return true;
}

static bool
rule_gather(const struct args *x)
{
	int axis;

	return axis_of(x, shape_of(x, 0)->rank, &axis) &&
	    splice(x, shape_of(x, 0), axis, shape_of(x, 1), shape_of(x, 1)->rank, axis + 1);
}

/* Indices beside the data: same rank, no longer than the data but along the axis. */
static bool
indices_fit(const struct args *x, int *axis)
{
	const struct shape *s = shape_of(x, 0), *idx = shape_of(x, 1);

	if (!axis_of(x, s->rank, axis))
		return false;
	if (idx->rank != s->rank)
		return bad(x, "indices must have the operand's rank");
	for (int d = 0; d < s->rank; d++)
		if (d != *axis && idx->dim[d] > s->dim[d])
			return err_set(x->e, ERR_MODEL, "indices are longer than dimension %d", d);
	return true;
}

static bool
rule_gather_elem(const struct args *x)
{
	int axis;

	*x->out = *shape_of(x, 1);
	return indices_fit(x, &axis);
}

static bool
rule_matmul(const struct args *x)
{
	const struct shape *a = shape_of(x, 0), *b = shape_of(x, 1);
	int r = a->rank;

	if (r < 2 || b->rank != r)
		return bad(x, "operands must have one rank, at least 2");
	for (int d = 0; d < r - 2; d++)
		if (a->dim[d] != b->dim[d])
			return bad(x, "batch extents differ; broadcast them first");
	if (a->dim[r - 1] != b->dim[r - 2])
		return err_set(x->e, ERR_MODEL, "%lld columns meet %lld rows", (long long)a->dim[r - 1],
		    (long long)b->dim[r - 2]);
	*x->out = *a;
	x->out->dim[r - 1] = b->dim[r - 1];
	return true;
}

static bool
rule_conv(const struct args *x)
{
	const struct shape *s = shape_of(x, 0), *w = shape_of(x, 1);
	int n = s->rank - 2;
	int64_t group = at_get(x->at, ATTR_group);
	const int64_t *stride, *dilation, *ldil, *lo, *hi;

	if (n < 1 || w->rank != s->rank)
		return bad(x, "operands must have one rank, at least 3");
	if (!list_of(x, ATTR_stride, n, &stride) || !list_of(x, ATTR_dilation, n, &dilation) ||
	    !list_of(x, ATTR_ldil, n, &ldil) || !list_of(x, ATTR_lo, n, &lo) || !list_of(x, ATTR_hi, n, &hi))
		return false;
	if (group < 1 || s->dim[n + 1] % group || s->dim[n + 1] / group != w->dim[n] || w->dim[n + 1] % group)
		return err_set(x->e, ERR_MODEL,
		    "%lld channels, %lld groups, %lld channels a group of weights, "
		    "%lld results do not go together",
		    (long long)s->dim[n + 1], (long long)group, (long long)w->dim[n],
		    (long long)w->dim[n + 1]);
	*x->out = *s;
	x->out->dim[n + 1] = w->dim[n + 1];
	for (int d = 0; d < n; d++) {
		int64_t wide = s->dim[d + 1]; /* with the zeros that ldil puts between elements */

		if (ldil[d] < 1 ||
		    (wide > 0 && (!try_mul_i64(wide - 1, ldil[d], &wide) || !try_add_i64(wide, 1, &wide))) ||
		    !window_extent(
			wide, w->dim[d], stride[d], dilation[d], lo[d], hi[d], &x->out->dim[d + 1]))
			return err_set(
			    x->e, ERR_MODEL, "the window along spatial dimension %d is not usable", d);
	}
	return true;
}

static bool
rule_topk(const struct args *x)
{
	int64_t k = at_get(x->at, ATTR_k);
	int axis;

	*x->out = *shape_of(x, 0);
	if (!axis_of(x, x->out->rank, &axis) || !flag_of(x, ATTR_largest, 1))
		return false;
	if (k < 0 || k > x->out->dim[axis])
		return err_set(
		    x->e, ERR_MODEL, "%lld of %lld elements", (long long)k, (long long)x->out->dim[axis]);
	x->out->dim[axis] = k;
	return true;
}

static bool
rule_scatter(const struct args *x)
{
	const struct shape *s = shape_of(x, 0), *idx = shape_of(x, 1), *up = shape_of(x, 2);
	struct shape want;
	struct args y = *x;
	int axis;

	if (!flag_of(x, ATTR_mode, 4))
		return false;
	*x->out = *s;
	if (x->p == PRIM_scatter_elements) {
		if (!shape_eq(idx, up))
			return bad(x, "indices and updates have different shapes");
		return indices_fit(x, &axis);
	}
	y.out = &want;
	if (idx->rank < 1 || idx->dim[idx->rank - 1] > s->rank)
		return bad(x, "index vectors are longer than the operand's rank");
	if (!splice(&y, s, 0, idx, idx->rank - 1, (int)idx->dim[idx->rank - 1]))
		return false;
	return shape_eq(&want, up) ? true : bad(x, "updates have the wrong shape");
}

static bool
rule_gather_nd(const struct args *x)
{
	const struct shape *s = shape_of(x, 0), *idx = shape_of(x, 1);
	int64_t b = at_get(x->at, ATTR_k), q;

	if (idx->rank < 1 || b < 0 || b >= idx->rank || b >= s->rank)
		return bad(x, "attribute 'k' leaves no dimension to index");
	q = idx->dim[idx->rank - 1];
	if (q < 1 || q > s->rank - b)
		return bad(x, "index vectors do not fit the operand's rank");
	for (int d = 0; d < b; d++)
		if (s->dim[d] != idx->dim[d])
			return bad(x, "batch extents differ");
	return splice(x, s, 0, idx, idx->rank - 1, (int)(b + q));
}

typedef bool rule_fn(const struct args *x);
static rule_fn *const rules[] = {
    [SHAPE_SAME] = rule_same,
    [SHAPE_REDUCE] = rule_reduce,
    [SHAPE_WINDOW] = rule_window,
    [SHAPE_ATTR] = rule_attr,
    [SHAPE_RESHAPE] = rule_reshape,
    [SHAPE_PERM] = rule_perm,
    [SHAPE_SLICE] = rule_slice,
    [SHAPE_PAD] = rule_pad,
    [SHAPE_CONCAT] = rule_concat,
    [SHAPE_GATHER] = rule_gather,
    [SHAPE_GATHER_ELEM] = rule_gather_elem,
    [SHAPE_MATMUL] = rule_matmul,
    [SHAPE_CONV] = rule_conv,
    [SHAPE_TOPK] = rule_topk,
    [SHAPE_SAME_AS_FIRST] = rule_scatter,
    [SHAPE_GATHER_ND] = rule_gather_nd,
};

bool
shape_infer(enum prim p, const struct tensor *const *in, uint32_t n_in, const struct attrs *at,
    struct shape *out, struct err *e)
{
	struct args x = {p, in, n_in, at, out, e};

	*out = (struct shape){.rank = 0};
	return rules[prim_info[p].shape](&x);
}
