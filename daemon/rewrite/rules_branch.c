/* daemon/rewrite/rules_branch.c: branches that are one convolution.  Networks are trained with several
 * convolutions of one tensor side by side, that tensor itself among them, scaled or not, and their sum
 * behind; as their windows begin at the same places, it is the convolution by the sum of the weights (RepVGG,
 * arXiv 2101.03697, section 3.3). */
#include "rewrite_int.h"

enum { MAX_WEIGHT = 1 << 26 /* elements */ };

/* A summand: a convolution of x, or x, or x times a number a channel; and a constant that is added. */
struct branch {
	tensor_id x, bias, scale;
	const struct node *conv; /* NULL: a tap of its own channel alone */
};

static bool
is_none(tensor_id t)
{
	return t.i == UINT32_MAX;
}

/* By a weight whose numbers are there, and read by nobody else. */
static bool
is_conv(const struct rw *r, tensor_id t, struct branch *b)
{
	const struct node *n = rw_single(r, t) ? rw_made_by(r, t, PRIM_conv) : NULL;

	if (!n || !shape_has_data(r, n->in[1]))
		return false;
	b->conv = n;
	b->x = n->in[0];
	return true;
}

static bool
is_per_channel(const struct rw *r, tensor_id c)
{
	const struct shape *s = rw_shape(r, c);

	for (int d = 0; d < s->rank - 1; d++)
		if (s->dim[d] != 1)
			return false;
	return shape_has_data(r, c);
}

static bool
is_scaled(const struct rw *r, tensor_id t, struct branch *b)
{
	const struct node *n = rw_single(r, t) ? rw_made_by(r, t, PRIM_mul) : NULL;

	if (!n || !rw_const_under(r, n->in[1], &b->scale) || !is_per_channel(r, b->scale))
		return false;
	b->x = n->in[0];
	return true;
}

static tensor_id
without_bias(const struct rw *r, tensor_id t, tensor_id *bias)
{
	const struct node *n = rw_single(r, t) ? rw_made_by(r, t, PRIM_add) : NULL;

	*bias = NO_TENSOR;
	return n && rw_const_under(r, n->in[1], bias) && shape_has_data(r, *bias) ? n->in[0] : t;
}

/* `of` is what the other branch is a convolution of, or NO_TENSOR: this one has to be a convolution. */
static bool
read_branch(const struct rw *r, tensor_id t, tensor_id of, struct branch *b)
{
	*b = (struct branch){.x = t, .bias = NO_TENSOR, .scale = NO_TENSOR};
	if (t.i == of.i)
		return true;
	t = without_bias(r, t, &b->bias);
	if (is_none(of))
		return is_conv(r, t, b);
	return (is_conv(r, t, b) || is_scaled(r, t, b)) && b->x.i == of.i;
}

/* ---- windows ------------------------------------------------------------------------------------ */
/* Where windows lie beside the point that they are of, along one dimension. */
struct taps {
	int64_t first, step, n;
};

static struct taps
taps_of(const struct rw *r, const struct branch *b, int d)
{
	if (!b->conv)
		return (struct taps){0, 1, 1};
	return (struct taps){-at_ints(&b->conv->at, ATTR_lo)[d], at_ints(&b->conv->at, ATTR_dilation)[d],
	    rw_shape(r, b->conv->in[1])->dim[d]};
}

static int64_t
last_tap(const struct taps *t)
{
	return t->first + (t->n - 1) * t->step;
}

/* The least that has the taps of both; false where they lie between one another. */
static bool
unite_taps(const struct taps *a, const struct taps *b, struct taps *out)
{
	int64_t last = MAX_OF(last_tap(a), last_tap(b));

	out->first = MIN_OF(a->first, b->first);
	out->step = a->n > 1 ? a->step : b->n > 1 ? b->step : MAX_OF(last - out->first, (int64_t)1);
	if ((b->n > 1 && b->step != out->step) || (a->first - b->first) % out->step != 0 || out->first > 0)
		return false;
	out->n = (last - out->first) / out->step + 1;
	return true;
}

struct joint { /* of both branches */
	int n_dims;
	struct taps taps[MAX_RANK];
	struct shape w;
	struct attrs at;
};

static bool
same_list(const struct node *a, const struct node *b, enum attr_key key, int n)
{
	for (int d = 0; d < n; d++)
		if (at_ints(&a->at, key)[d] != at_ints(&b->at, key)[d])
			return false;
	return true;
}

static bool
all_ones(const struct node *n, enum attr_key key, int n_dims)
{
	for (int d = 0; d < n_dims; d++)
		if (at_ints(&n->at, key)[d] != 1)
			return false;
	return true;
}

/* The padding behind that gives the same extent. */
static bool
close_window(int64_t in, int64_t out, int64_t stride, const struct taps *t, int64_t *hi)
{
	int64_t reach = in - t->first - ((t->n - 1) * t->step + 1);

	*hi = MAX_OF((out - 1) * stride - reach, (int64_t)0);
	return (reach + *hi) / stride + 1 == out;
}

static int64_t
taps_in_all(const struct rw *r, const struct branch *b, int n_dims)
{
	int64_t n = 1;

	for (int d = 0; d < n_dims; d++)
		n *= taps_of(r, b, d).n;
	return n;
}

/* a is a convolution. */
static bool
join(const struct rw *r, const struct branch *a, const struct branch *b, const struct shape *result,
    struct joint *j)
{
	const struct node *n = a->conv;
	const struct shape *x = rw_shape(r, a->x);
	int64_t lo[MAX_RANK], hi[MAX_RANK], dilation[MAX_RANK], all = 1;

	*j = (struct joint){.n_dims = x->rank - 2, .w = *rw_shape(r, n->in[1]), .at = n->at};
	if (!all_ones(n, ATTR_ldil, j->n_dims))
		return false;
	if (b->conv ? !all_ones(b->conv, ATTR_ldil, j->n_dims) ||
		    !same_list(n, b->conv, ATTR_stride, j->n_dims) ||
		    at_get(&n->at, ATTR_group) != at_get(&b->conv->at, ATTR_group)
		    : !all_ones(n, ATTR_stride, j->n_dims) || !shape_eq(x, result))
		return false;
	for (int d = 0; d < j->n_dims; d++) {
		struct taps one = taps_of(r, a, d), two = taps_of(r, b, d), *t = &j->taps[d];

		if (!unite_taps(&one, &two, t) ||
		    !close_window(
			x->dim[d + 1], result->dim[d + 1], at_ints(&n->at, ATTR_stride)[d], t, &hi[d]))
			return false;
		lo[d] = -t->first;
		dilation[d] = t->step;
		if (t->n > MAX_WEIGHT / all)
			return false;
		j->w.dim[d] = t->n;
		all *= t->n;
	}
	at_list(&j->at, ATTR_lo, j->n_dims, lo);
	at_list(&j->at, ATTR_hi, j->n_dims, hi);
	at_list(&j->at, ATTR_dilation, j->n_dims, dilation);
	/* x alone costs nothing to add: it is worth no tap more */
	return all <= taps_in_all(r, a, j->n_dims) + (b->conv ? taps_in_all(r, b, j->n_dims) : 0) &&
	    shape_count(&j->w) <= MAX_WEIGHT;
}

/* ---- weights ------------------------------------------------------------------------------------ */
/* Number of the tap of `w` at these, which are taps of the branch. */
static int64_t
place(const struct joint *j, const struct taps *of, const int64_t *at)
{
	int64_t p = 0;

	for (int d = 0; d < j->n_dims; d++)
		p = p * j->taps[d].n +
		    (of[d].first + at[d] * of[d].step - j->taps[d].first) / j->taps[d].step;
	return p;
}

static void
add_weight(const struct rw *r, const struct joint *j, const struct branch *b, float *to)
{
	const float *from = rw_tensor(r, b->conv->in[1])->data;
	int64_t matrix = j->w.dim[j->n_dims] * j->w.dim[j->n_dims + 1], at[MAX_RANK] = {0};
	int64_t n = taps_in_all(r, b, j->n_dims);
	struct taps of[MAX_RANK];

	for (int d = 0; d < j->n_dims; d++)
		of[d] = taps_of(r, b, d);
	for (int64_t t = 0; t < n; t++) {
		float *tap = to + place(j, of, at) * matrix;

		for (int64_t i = 0; i < matrix; i++)
			tap[i] += from[t * matrix + i];
		for (int d = j->n_dims - 1; d >= 0 && ++at[d] == of[d].n; d--)
			at[d] = 0;
	}
}

/* Each result channel reads its own. */
static void
add_own_channel(const struct rw *r, const struct joint *j, const struct branch *b, float *to)
{
	const float *scale = is_none(b->scale) ? NULL : rw_tensor(r, b->scale)->data;
	int64_t step = scale && shape_count(rw_shape(r, b->scale)) > 1, rows = j->w.dim[j->n_dims],
		columns = j->w.dim[j->n_dims + 1], at[MAX_RANK] = {0};
	struct taps of[MAX_RANK];

	for (int d = 0; d < j->n_dims; d++)
		of[d] = taps_of(r, b, d);
	to += place(j, of, at) * rows * columns;
	for (int64_t c = 0; c < columns; c++)
		to[c % rows * columns + c] += scale ? scale[c * step] : 1.0f;
}

static tensor_id
sum_of_weights(struct rw *r, const struct joint *j, const struct branch *a, const struct branch *b)
{
	int64_t n = shape_count(&j->w);
	float *w = arena_alloc(r->a, ck_add(ck_mul(ck_size(n), sizeof(*w)), 16));

	add_weight(r, j, a, w);
	if (b->conv)
		add_weight(r, j, b, w);
	else
		add_own_channel(r, j, b, w);
	return rw_const(r, fold_role(n, true), DT_f32, &j->w, w);
}

bool
rule_linear_branches(struct rw *r, const struct expr *x, tensor_id *out)
{
	struct branch a, b;
	struct joint j;
	tensor_id bias;
	bool left;

	if (x->prim != PRIM_add || x->result.type != DT_f32)
		return false;
	left = read_branch(r, x->in[0], NO_TENSOR, &a);
	if (!left && !read_branch(r, x->in[1], NO_TENSOR, &a))
		return false;
	if (!read_branch(r, x->in[left ? 1 : 0], a.x, &b) || !join(r, &a, &b, &x->result.shape, &j))
		return false;
	bias = is_none(a.bias) ? b.bias : is_none(b.bias) ? a.bias : fold_map2(r, PRIM_add, a.bias, b.bias);
	if (is_none(bias) && !(is_none(a.bias) && is_none(b.bias)))
		return false;
	*out = rw_op2_at(r, PRIM_conv, a.x, sum_of_weights(r, &j, &a, &b), &j.at);
	if (!is_none(bias))
		*out = rw_op2(r, PRIM_add, *out, rw_bcast(r, bias, &x->result.shape));
	return true;
}
