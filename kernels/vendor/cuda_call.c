/* kernels/vendor/cuda_call.c: what a call is to cuBLASLt or cuDNN: batches in one dimension, channels
 * in second place, one bias, weights in the order that cuDNN has engines for. */
#include "vendor.h"

#include <string.h>

static bool
no(struct err *e, const char *why)
{
	return err_set(e, ERR_INFEASIBLE, "library: %s", why);
}

/* ---- dimensions ------------------------------------------------------------------------------------- */
/* Dimensions [lo, hi) as one: its extent and stride; false where no one stride walks them. */
static bool
join(const struct call_view *v, int lo, int hi, int64_t *dim, int64_t *stride)
{
	*dim = 1;
	*stride = 0;
	for (int i = hi; i-- > lo;) {
		if (v->shape.dim[i] == 1)
			continue;
		if (*dim > 1 && v->stride[i] != *stride * *dim)
			return false;
		if (*dim == 1)
			*stride = v->stride[i];
		*dim *= v->shape.dim[i];
	}
	return true;
}

static bool
join_into(const struct call_view *v, const int *edge, int n, struct vendor_tensor *t)
{
	for (int i = 0; i < n; i++)
		if (!join(v, edge[i], edge[i + 1], &t->dim[i], &t->stride[i]))
			return false;
	t->buf = v->number;
	return true;
}

/* [batch, row, column] of [B.., M, N]; rows: the batches are rows as well. */
static bool
matrix_of(const struct call_view *v, bool rows, struct vendor_tensor *t)
{
	int n = v->shape.rank, edge[4] = {0, rows ? 0 : n - 2, n - 1, n};

	return join_into(v, edge, 3, t);
}

/* ---- steps -------------------------------------------------------------------------------------------- */
static const int posts[STEP_COUNT] = {[STEP_relu] = 1 + VENDOR_RELU,
    [STEP_gelu_erf] = 1 + VENDOR_GELU,
    [STEP_gelu_tanh] = 1 + VENDOR_GELU_TANH,
    [STEP_sigmoid] = 1 + VENDOR_SIGMOID,
    [STEP_tanh] = 1 + VENDOR_TANH,
    [STEP_silu] = 1 + VENDOR_SWISH,
    [STEP_clip] = 1 + VENDOR_CLIP};

/* Constants by value of the row, behind those that are there; aligned as any buffer. */
static bool
add_data(struct arena *a, struct vendor_op *op, const struct call_view *v, uint32_t *buf, struct err *e)
{
	int last = v->shape.rank - 1;
	int64_t n = v->shape.dim[last];
	uint32_t at = (op->n_data + 3) / 4 * 4;
	float *all;

	if (n > VENDOR_MAX_DATA - at)
		return no(e, "more constants than a call may hold");
	all = NEW_ARRAY(a, float, at + (uint32_t)n);
	if (op->n_data)
		memcpy(all, op->data, op->n_data * sizeof(*all));
	for (int64_t i = 0; i < n; i++)
		all[at + (uint32_t)i] = ((const float *)v->data)[i * v->stride[last]];
	op->data = all;
	op->n_data = at + (uint32_t)n;
	*buf = VENDOR_DATA + at;
	return true;
}

static bool
add_row(struct arena *a, struct vendor_op *op, const struct call_view *v, struct err *e)
{
	uint32_t *buf = &op->post[op->n_posts].buf;
	int last = v->shape.rank - 1;

	if (v->source == SOURCE_CONST) {
		if (!add_data(a, op, v, buf, e))
			return false;
	} else if (v->stride[last] != 1 && v->shape.dim[last] != 1) {
		return no(e, "a bias with gaps");
	} else {
		*buf = v->number;
	}
	op->post[op->n_posts++].what = VENDOR_BIAS;
	return true;
}

static bool
lies_alike(const struct call_view *a, const struct call_view *b)
{
	for (int i = 0; i < a->shape.rank; i++)
		if (a->shape.dim[i] != 1 && a->stride[i] != b->stride[i])
			return false;
	return true;
}

static bool
add_step(struct arena *a, struct vendor_op *op, const struct library_call *c, const struct call_step *s,
    struct err *e)
{
	if (op->n_posts == VENDOR_MAX_POSTS)
		return no(e, "too many steps");
	if (posts[s->kind]) {
		op->post[op->n_posts].what = (enum vendor_post)(posts[s->kind] - 1);
		if (s->kind == STEP_clip) {
			op->post[op->n_posts].a = s->a;
			op->post[op->n_posts].b = s->b;
		}
		op->n_posts++;
		return true;
	}
	if (s->kind == STEP_affine && s->b == 0 && s->a != 0 && op->kind == VENDOR_MATMUL &&
	    op->n_posts == 0 && op->scale == 0) {
		op->scale = s->a;
		return true;
	}
	if (s->kind != STEP_add || s->operand.type != DT_f32)
		return err_set(e, ERR_INFEASIBLE, "library: no step '%s' on a GPU", step_name(s->kind));
	if (view_is_row(&s->operand))
		return add_row(a, op, &s->operand, e);
	if (s->operand.source == SOURCE_CONST || !lies_alike(&s->operand, &c->result))
		return no(e, "what is added does not lie as the result does");
	op->post[op->n_posts].buf = s->operand.number;
	op->post[op->n_posts++].what = VENDOR_ADD;
	return true;
}

/* ---- products ------------------------------------------------------------------------------------------ */
/* One matrix for all batches makes them rows of one product. */
static bool
make_matmul(const struct library_call *c, struct vendor_op *op, struct err *e)
{
	struct call_view b = c->b;
	bool rows = true, ok;

	for (int i = 0; i < b.shape.rank - 2; i++)
		rows = rows && (b.shape.dim[i] == 1 || b.stride[i] == 0);
	ok = rows && matrix_of(&c->a, true, &op->a) && matrix_of(&c->result, true, &op->d);
	if (ok)
		for (int i = 0; i < b.shape.rank - 2; i++)
			b.shape.dim[i] = 1;
	else
		ok = matrix_of(&c->a, false, &op->a) && matrix_of(&c->result, false, &op->d);
	op->kind = VENDOR_MATMUL;
	op->rank = 3;
	return (ok && matrix_of(&b, false, &op->b)) || no(e, "batches that no one stride walks");
}

/* [N, C, S..] of [N, S.., C]; a single spatial dimension gets one of extent 1 before it, which cuDNN wants.
 */
static void
picture_of(const struct call_view *v, uint32_t rank, struct vendor_tensor *t)
{
	int n = v->shape.rank, more = (int)rank - n;

	*t = (struct vendor_tensor){.buf = v->number};
	for (int i = 0; i < n; i++) {
		int to = i == 0 ? 0 : i == n - 1 ? 1 : i + 1 + more;

		t->dim[to] = v->shape.dim[i];
		t->stride[to] = v->stride[i];
	}
	for (int i = 0; i < more; i++)
		t->dim[2 + i] = 1;
}

/* Strides of extents of 1, which say nothing, as if all lay channels last: cuDNN reads the order off them. */
static void
settle(struct vendor_tensor *t, uint32_t rank)
{
	int64_t next = 1;

	for (uint32_t k = 0; k < rank; k++) {
		uint32_t i = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;

		if (t->dim[i] == 1)
			t->stride[i] = next;
		next = MAX_OF(next, t->stride[i] * t->dim[i]);
	}
}

static bool
make_conv(const struct library_call *c, struct vendor_op *op, struct err *e)
{
	int n = c->n_spatial, more = n == 1;
	int64_t at = 1;

	op->kind = VENDOR_CONV;
	op->rank = (uint32_t)(n + more + 2);
	if (n < 1 || n > 3)
		return no(e, "a convolution over other than one to three dimensions");
	picture_of(&c->a, op->rank, &op->a);
	picture_of(&c->result, op->rank, &op->d);
	/* [Co, C, K..] of [K.., C, Co] */
	op->b.buf = c->b.number;
	for (int i = 0; i < c->b.shape.rank; i++) {
		int to = i < n ? 2 + more + i : i == n ? 1 : 0;

		op->b.dim[to] = c->b.shape.dim[i];
		op->from[to] = c->b.stride[i];
	}
	op->b.dim[2] = more ? 1 : op->b.dim[2];
	for (uint32_t k = 0; k < op->rank; k++) { /* channels last, too */
		uint32_t i = k == 0 ? 1 : k == op->rank - 1 ? 0 : op->rank - k;

		op->b.stride[i] = at;
		if (__builtin_mul_overflow(at, op->b.dim[i], &at))
			return no(e, "weights that do not fit");
	}
	op->repack = c->b.source == SOURCE_WEIGHT;
	if (!op->repack)
		memcpy(op->b.stride, op->from, sizeof(op->from));
	for (int i = 0; i < 3; i++) {
		int from = i - more;

		op->lo[i] = from >= 0 && from < n ? c->lo[from] : 0;
		op->hi[i] = from >= 0 && from < n ? c->hi[from] : 0;
		op->stride[i] = from >= 0 && from < n ? c->stride[from] : 1;
		op->dilation[i] = from >= 0 && from < n ? c->dilation[from] : 1;
		if (op->lo[i] < 0 || op->hi[i] < 0)
			return no(e, "padding that crops");
	}
	settle(&op->a, op->rank);
	settle(&op->d, op->rank);
	return true;
}

bool
vendor_op_of(struct arena *a, const struct library_call *c, uint32_t n_operands, enum vendor_math math,
    struct vendor_op *out, struct err *e)
{
	*out = (struct vendor_op){.math = math};
	if (c->a.type != DT_f32 || c->b.type != DT_f32 || c->result.type != DT_f32)
		return no(e, "other than float32");
	if (c->a.source == SOURCE_CONST || c->b.source == SOURCE_CONST)
		return no(e, "products of constants by value");
	if (!(c->linear == CALL_conv ? make_conv(c, out, e) : make_matmul(c, out, e)))
		return false;
	out->d.buf = n_operands + c->result.number;
	for (uint32_t i = 0; i < c->n_steps; i++)
		if (!add_step(a, out, c, &c->step[i], e))
			return false;
	return true;
}
