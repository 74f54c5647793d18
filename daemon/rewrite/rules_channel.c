/* daemon/rewrite/rules_channel.c: linear maps of channels meet what is linear over pixels.
 *
 * A 1x1 convolution multiplies each pixel's channels by one matrix, so it commutes with all that
 * mixes pixels alike in every channel: gathers of rows and columns, interpolation weights, sums,
 * enlarging by repetition.  Done before an enlargement it works on fewer pixels; and two
 * matrices with nothing between them are one.  Sums are reassociated. */
#include "rewrite_int.h"

#include "../../kernels/interp/interp.h"

enum { MAX_BASES = 16, MAX_STEPS = 200 };
static const int64_t MAX_PRODUCT = (int64_t)1 << 28; /* multiply-adds spent on folding a weight */

/* A 1x1 convolution with stride 1, no padding, one group, and known weights. */
static bool
is_channel_map(const struct rw *r, const struct expr *x)
{
	if (x->prim != PRIM_conv || x->result.type != DT_f32 || !shape_has_data(r, x->in[1]) ||
	    at_get(x->at, ATTR_group) != 1)
		return false;
	const struct shape *w = rw_shape(r, x->in[1]);
	for (int i = 0; i < w->rank - 2; i++)
		if (w->dim[i] != 1 || at_ints(x->at, ATTR_stride)[i] != 1 ||
		    at_ints(x->at, ATTR_ldil)[i] != 1 || at_ints(x->at, ATTR_lo)[i] ||
		    at_ints(x->at, ATTR_hi)[i])
			return false;
	return true;
}

static int64_t
channels(const struct rw *r, tensor_id t)
{
	const struct shape *s = rw_shape(r, t);

	return s->dim[s->rank - 1];
}

static int64_t
pixels(const struct rw *r, tensor_id t)
{
	int64_t c = channels(r, t);

	return c ? shape_count(rw_shape(r, t)) / c : 0;
}

/* ---- what a channel map can pass ------------------------------------------------------------ */
enum step { STEP_NONE, STEP_GATHER, STEP_WEIGH, STEP_SUM, STEP_BIAS, STEP_REPEAT };

/* Is c, a constant, the same in all channels (or: only different between channels)? */
static bool
varies_only(const struct rw *r, tensor_id c, bool in_channels)
{
	const struct shape *s = rw_shape(r, c);

	for (int d = 0; d < s->rank; d++)
		if (s->dim[d] != 1 && (d == s->rank - 1) != in_channels)
			return false;
	return true;
}

/* reshape(broadcast(reshape y)) that repeats pixels: y, with its channels untouched. */
static bool
is_repeat(const struct rw *r, const struct node *n, tensor_id *y)
{
	const struct node *b = n->prim == PRIM_reshape ? rw_made_by(r, n->in[0], PRIM_bcast) : NULL;
	const struct node *v = b ? rw_made_by(r, b->in[0], PRIM_reshape) : NULL;

	if (!v)
		return false;
	*y = v->in[0];
	int64_t c = channels(r, n->out[0]);
	return rw_shape(r, *y)->rank == rw_shape(r, n->out[0])->rank && channels(r, *y) == c &&
	    channels(r, v->out[0]) == c && channels(r, b->out[0]) == c;
}

static enum step
step_of(const struct rw *r, tensor_id t, tensor_id *child)
{
	const struct node *n = rw_maker(r, t);
	tensor_id c;

	if (!n || r->uses[t.i] > 2)
		return STEP_NONE;
	*child = n->in[0];
	switch (n->prim) {
	case PRIM_gather:
		if (shape_has_data(r, n->in[1]) && rw_shape(r, n->in[1])->rank == 1 &&
		    at_get(&n->at, ATTR_axis) < rw_shape(r, t)->rank - 1)
			return STEP_GATHER;
		return STEP_NONE;
	case PRIM_mul:
		return rw_const_under(r, n->in[1], &c) && varies_only(r, c, false) ? STEP_WEIGH : STEP_NONE;
	case PRIM_add:
		if (!rw_const_under(r, n->in[1], &c))
			return STEP_SUM;
		return shape_has_data(r, c) && varies_only(r, c, true) ? STEP_BIAS : STEP_NONE;
	case PRIM_reshape:
		return is_repeat(r, n, child) ? STEP_REPEAT : STEP_NONE;
	default:
		return STEP_NONE;
	}
}

/* ---- is it worth it -------------------------------------------------------------------------- */
struct survey {
	tensor_id base[MAX_BASES]; /* where the channel map would be applied */
	uint32_t n_bases, n_steps;
	double work; /* multiply-adds there, over the number of results a pixel */
};

static bool
survey_tensor(const struct rw *r, tensor_id t, struct survey *s)
{
	tensor_id child;
	enum step step = step_of(r, t, &child);

	if (++s->n_steps > MAX_STEPS)
		return false;
	if (step != STEP_NONE)
		return survey_tensor(r, child, s) &&
		    (step != STEP_SUM || survey_tensor(r, rw_maker(r, t)->in[1], s));
	for (uint32_t i = 0; i < s->n_bases; i++)
		if (s->base[i].i == t.i)
			return true;
	if (s->n_bases == MAX_BASES)
		return false;
	s->base[s->n_bases++] = t;
	s->work += (double)pixels(r, t) * (double)channels(r, t);
	return true;
}

/* ---- building -------------------------------------------------------------------------------- */
struct channel_map {
	tensor_id weight; /* [1.., C, Co] */
	const struct attrs *at;
};

/* row [1.., C] times the matrix: [1.., Co] */
static tensor_id
map_row(struct rw *r, const struct channel_map *m, tensor_id c)
{
	struct shape row = *rw_shape(r, c), to = row;
	struct shape a = {.rank = 2, .dim = {1, channels(r, c)}};
	struct shape w = {
	    .rank = 2, .dim = {rw_shape(r, m->weight)->dim[row.rank - 2], channels(r, m->weight)}};

	to.dim[row.rank - 1] = w.dim[1];
	tensor_id matrix = rw_reshape(r, m->weight, &w);
	if (a.dim[1] == w.dim[0]) {
		tensor_id one = rw_reshape(r, c, &a);
		return rw_reshape(r, rw_op2(r, PRIM_matmul, one, matrix), &to);
	}
	/* one number for all channels */
	struct shape all = {.rank = 2, .dim = {1, w.dim[0]}};
	float *ones = arena_alloc(r->a, ck_mul(ck_size(w.dim[0]), sizeof(*ones)));
	for (int64_t i = 0; i < w.dim[0]; i++)
		ones[i] = *(const float *)rw_tensor(r, c)->data;
	tensor_id full = rw_const(r, ROLE_WEIGHT, DT_f32, &all, ones);
	return rw_reshape(r, rw_op2(r, PRIM_matmul, full, matrix), &to);
}

/* n's shape-like attribute with other channels. */
static struct shape
with_channels(const struct shape *s, int64_t c)
{
	struct shape to = *s;

	to.dim[to.rank - 1] = c;
	return to;
}

static tensor_id map_tensor(struct rw *r, const struct channel_map *m, tensor_id t);

/* The step that made t, on mapped channels. */
static tensor_id
map_step(struct rw *r, const struct channel_map *m, tensor_id t, enum step step, tensor_id child)
{
	const struct node *n = rw_maker(r, t);
	int64_t co = channels(r, m->weight);
	tensor_id y = map_tensor(r, m, child), z = y, c;
	struct shape s = with_channels(rw_shape(r, t), co);

	if (step == STEP_SUM)
		z = map_tensor(r, m, n->in[1]);
	r->origin = n->origin;
	switch (step) {
	case STEP_GATHER:
		return rw_op2_at(r, PRIM_gather, y, n->in[1], &n->at);
	case STEP_WEIGH:
		(void)rw_const_under(r, n->in[1], &c);
		return rw_op2(r, PRIM_mul, y, rw_bcast(r, c, &s));
	case STEP_SUM:
		return rw_op2(r, PRIM_add, y, z);
	case STEP_BIAS:
		(void)rw_const_under(r, n->in[1], &c);
		return rw_op2(r, PRIM_add, y, rw_bcast(r, map_row(r, m, c), &s));
	case STEP_REPEAT: {
		const struct node *b = rw_maker(r, n->in[0]);
		struct shape low = with_channels(rw_shape(r, b->in[0]), co),
			     high = with_channels(rw_shape(r, b->out[0]), co);
		return rw_reshape(r, rw_bcast(r, rw_reshape(r, y, &low), &high), &s);
	}
	case STEP_NONE:
		break;
	}
	bug("no such step");
}

/* What is rebuilt still belongs to the operator that it came from. */
static tensor_id
map_tensor(struct rw *r, const struct channel_map *m, tensor_id t)
{
	uint32_t origin = r->origin;
	tensor_id child, y;
	enum step step = step_of(r, t, &child);

	if (step == STEP_NONE)
		return rw_op2_at(r, PRIM_conv, t, m->weight, m->at);
	y = map_step(r, m, t, step, child);
	r->origin = origin;
	return y;
}

/* Rows [from, from + n) of the matrix. */
static tensor_id
weight_rows(struct rw *r, tensor_id weight, int64_t from, int64_t n)
{
	struct shape s = *rw_shape(r, weight);
	int64_t start[MAX_RANK] = {0};

	start[s.rank - 2] = from;
	s.dim[s.rank - 2] = n;
	return rw_slice(r, weight, &s, start, NULL);
}

/* conv1x1(concat of enlarged parts) = sum of enlarged conv1x1(part), where that is less work. */
bool
rule_channels_before_pixels(struct rw *r, const struct expr *x, tensor_id *out)
{
	struct survey s = {0};

	if (!is_channel_map(r, x))
		return false;
	tensor_id t = x->in[0];
	const struct node *c = rw_made_by(r, t, PRIM_concat);
	bool parts = c && rw_single(r, t) && at_get(&c->at, ATTR_axis) == rw_shape(r, t)->rank - 1;
	uint32_t n = parts ? c->n_in : 1;
	const tensor_id *part = parts ? c->in : &t;
	for (uint32_t i = 0; i < n; i++)
		if (!survey_tensor(r, part[i], &s))
			return false;
	if (s.work > 0.8 * (double)pixels(r, t) * (double)channels(r, t))
		return false;
	for (uint32_t i = 0, from = 0; i < n; i++) {
		int64_t wide = channels(r, part[i]);
		struct channel_map m = {weight_rows(r, x->in[1], from, wide), x->at};
		tensor_id y = map_tensor(r, &m, part[i]);
		*out = i ? rw_op2(r, PRIM_add, *out, y) : y;
		from += ck_u32((size_t)wide);
	}
	return true;
}

/* ---- two matrices ------------------------------------------------------------------------------ */
static int64_t
matrix_rows(const struct shape *w)
{
	int64_t k = 1;

	for (int d = 0; d < w->rank - 1; d++)
		k *= w->dim[d];
	return k;
}

/* The weights' product, in the shape of the first with the last dimension of the second. */
static tensor_id
product_of(struct rw *r, tensor_id first, tensor_id second)
{
	struct shape a = *rw_shape(r, first), b = *rw_shape(r, second);
	struct shape m = {.rank = 2, .dim = {matrix_rows(&a), a.dim[a.rank - 1]}};
	struct shape n = {.rank = 2, .dim = {matrix_rows(&b), b.dim[b.rank - 1]}};

	a.dim[a.rank - 1] = n.dim[1];
	tensor_id left = rw_reshape(r, first, &m), right = rw_reshape(r, second, &n);
	return rw_reshape(r, rw_op2(r, PRIM_matmul, left, right), &a);
}

/* The linear primitive whose result, seen through a bias and a view, is `t`, for nobody else. */
static const struct node *
linear_behind(const struct rw *r, tensor_id t, tensor_id *bias)
{
	const struct node *v = rw_made_by(r, t, PRIM_reshape), *n;

	*bias = NO_TENSOR;
	if (!rw_single(r, t))
		return NULL;
	if (v && channels(r, v->in[0]) == channels(r, t))
		t = v->in[0];
	n = rw_made_by(r, t, PRIM_add);
	if (n && rw_const_under(r, n->in[1], bias) && shape_has_data(r, *bias) &&
	    varies_only(r, *bias, true) && rw_single(r, n->in[0]))
		n = rw_maker(r, n->in[0]);
	else
		n = rw_maker(r, t);
	if (!n || !rw_single(r, n->out[0]) || !shape_has_data(r, n->n_in > 1 ? n->in[1] : n->in[0]))
		return NULL;
	if (n->prim == PRIM_matmul && rw_shape(r, n->out[0])->rank == 2)
		return n;
	return n->prim == PRIM_conv && at_get(&n->at, ATTR_group) == 1 ? n : NULL;
}

/* (x A + b) B = x (A B) + b B, where that is less work. */
bool
rule_linear_linear(struct rw *r, const struct expr *x, tensor_id *out)
{
	tensor_id bias;
	bool rows = x->prim == PRIM_matmul && x->result.shape.rank == 2 && x->result.type == DT_f32 &&
	    shape_has_data(r, x->in[1]);

	if (!rows && !is_channel_map(r, x))
		return false;
	const struct node *n = linear_behind(r, x->in[0], &bias);
	if (!n)
		return false;
	const struct shape *a = rw_shape(r, n->in[1]), *b = rw_shape(r, x->in[1]);
	int64_t k = matrix_rows(a), mid = a->dim[a->rank - 1], to = b->dim[b->rank - 1];
	if (matrix_rows(b) != mid || k * to >= k * mid + mid * to || k * mid * to > MAX_PRODUCT)
		return false;
	tensor_id y = rw_op2_at(r, n->prim, n->in[0], product_of(r, n->in[1], x->in[1]), &n->at);
	if (bias.i != UINT32_MAX) {
		struct shape full = *rw_shape(r, y), w = {.rank = full.rank};
		for (int d = 0; d < w.rank; d++)
			w.dim[d] = 1;
		w.dim[w.rank - 2] = mid;
		w.dim[w.rank - 1] = to;
		struct channel_map m = {rw_reshape(r, x->in[1], &w), NULL};
		y = rw_op2(r, PRIM_add, y, rw_bcast(r, map_row(r, &m, bias), &full));
	}
	*out = rw_reshape(r, y, &x->result.shape);
	return true;
}
