/* kernels/interp/element.c: reductions, windows, broadcasts, layouts and linear primitives, one
 * result element at a time. */
#include "interp_int.h"

void
strides_of(const struct shape *s, int64_t *stride)
{
	int64_t n = 1;

	for (int d = s->rank; d-- > 0;) {
		stride[d] = n;
		n *= MAX_OF(s->dim[d], (int64_t)1);
	}
}

void
index_of(const struct shape *s, int64_t flat, int64_t *o)
{
	for (int d = s->rank; d-- > 0;) {
		if (((uint64_t)flat | (uint64_t)s->dim[d]) >> 32 == 0) { /* several times faster */
			o[d] = (uint32_t)flat % (uint32_t)s->dim[d];
			flat = (uint32_t)flat / (uint32_t)s->dim[d];
			continue;
		}
		o[d] = flat % s->dim[d];
		flat /= s->dim[d];
	}
}

static int64_t
flat_of(const struct operand *x, const int64_t *o)
{
	int64_t at = 0;

	for (int d = 0; d < x->t->shape.rank; d++)
		at += o[d] * x->stride[d];
	return at;
}

/* ---- reductions over a box of the operand ------------------------------------------- */

/* Element k of the box along d lies at base + k * inc; outside the operand it takes no part. */
struct box {
	int rank;
	int64_t base[MAX_RANK], inc[MAX_RANK], n[MAX_RANK];
};

static struct box
box_of(const struct call *c, const int64_t *o)
{
	const struct shape *s = &c->in[0].t->shape;
	struct box b = {.rank = s->rank};

	if (prim_info[c->p].shape == SHAPE_WINDOW) {
		for (int d = 0; d < s->rank; d++) {
			b.base[d] = o[d] * at_ints(c->at, ATTR_stride)[d] - at_ints(c->at, ATTR_lo)[d];
			b.inc[d] = at_ints(c->at, ATTR_dilation)[d];
			b.n[d] = at_ints(c->at, ATTR_kernel)[d];
		}
		return b;
	}
	for (int d = 0; d < s->rank; d++) {
		b.base[d] = o[d];
		b.inc[d] = b.n[d] = 1;
	}
	for (int i = 0; i < at_find(c->at, ATTR_axes)->n; i++)
		b.n[at_ints(c->at, ATTR_axes)[i]] = s->dim[at_ints(c->at, ATTR_axes)[i]];
	return b;
}

/* Steps k through the box, last dimension fastest; false at the end. */
static bool
box_next(const struct box *b, int64_t *k)
{
	for (int d = b->rank; d-- > 0;) {
		if (++k[d] < b->n[d])
			return true;
		k[d] = 0;
	}
	return false;
}

static bool
box_empty(const struct box *b)
{
	for (int d = 0; d < b->rank; d++)
		if (b->n[d] == 0)
			return true;
	return false;
}

static bool
box_flat(const struct call *c, const struct box *b, const int64_t *k, int64_t *flat)
{
	*flat = 0;
	for (int d = 0; d < b->rank; d++) {
		int64_t at = b->base[d] + k[d] * b->inc[d];

		if (at < 0 || at >= c->in[0].t->shape.dim[d])
			return false;
		*flat += at * c->in[0].stride[d];
	}
	return true;
}

static union val
element_reduce(struct call *c, const int64_t *o, int64_t flat)
{
	struct box b = box_of(c, o);
	union val v = join_start(c->p, c->out->type);
	int64_t k[MAX_RANK] = {0};

	if (box_empty(&b))
		return v;
	do
		if (box_flat(c, &b, k, &flat))
			v = join_scalar(c->p, c->out->type, v, c->get(c, 0, flat));
	while (!c->failed && box_next(&b, k));
	return v;
}

/* A NaN is the extreme, and the first of them counts. */
static bool
is_nan(enum dtype t, union val v)
{
	return dtype_is_float(t) && v.f != v.f;
}

static union val
element_position(struct call *c, const int64_t *o, int64_t flat)
{
	struct box b = box_of(c, o);
	enum dtype t = c->in[0].t->type;
	int64_t k[MAX_RANK] = {0}, n = 0, best = 0;
	bool last = at_get(c->at, ATTR_last) != 0;
	union val top = {0};

	do {
		union val v;
		bool better, equal;

		if (!box_flat(c, &b, k, &flat))
			bug("a position outside the operand");
		v = c->get(c, 0, flat);
		better = c->p == PRIM_argmax ? val_less(t, top, v) : val_less(t, v, top);
		equal = !val_less(t, v, top) && !val_less(t, top, v) && !is_nan(t, v);
		if (n == 0 || (!is_nan(t, top) && (better || is_nan(t, v) || (last && equal)))) {
			top = v;
			best = n;
		}
		n++;
	} while (!c->failed && box_next(&b, k));
	return (union val){.i = best};
}

/* ---- layouts ------------------------------------------------------------------------ */

static union val
element_bcast(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *x = &c->in[0];

	flat = 0;
	for (int d = 0; d < x->t->shape.rank; d++)
		flat += x->t->shape.dim[d] == 1 ? 0 : o[d] * x->stride[d];
	return c->get(c, 0, flat);
}

static union val
element_reshape(struct call *c, const int64_t *o, int64_t flat)
{
	(void)o;
	return c->get(c, 0, flat);
}

static union val
element_transpose(struct call *c, const int64_t *o, int64_t flat)
{
	const int64_t *perm = at_ints(c->at, ATTR_perm);

	flat = 0;
	for (int d = 0; d < c->out->shape.rank; d++)
		flat += o[d] * c->in[0].stride[perm[d]];
	return c->get(c, 0, flat);
}

static union val
element_slice(struct call *c, const int64_t *o, int64_t flat)
{
	const int64_t *start = at_ints(c->at, ATTR_start), *step = at_ints(c->at, ATTR_step);

	flat = 0;
	for (int d = 0; d < c->out->shape.rank; d++)
		flat += (start[d] + o[d] * step[d]) * c->in[0].stride[d];
	return c->get(c, 0, flat);
}

static int64_t
modulo(int64_t x, int64_t n)
{
	return (x % n + n) % n;
}

int64_t
fold_index(enum pad_mode mode, int64_t x, int64_t n)
{
	if (x >= 0 && x < n)
		return x;
	switch (mode) {
	case PAD_CONSTANT:
		return -1;
	case PAD_EDGE:
		return x < 0 ? 0 : n - 1;
	case PAD_WRAP:
		return modulo(x, n);
	case PAD_REFLECT:
		if (n == 1)
			return 0;
		x = modulo(x, 2 * (n - 1));
		return x < n ? x : 2 * (n - 1) - x;
	}
	bug("padding of mode %d", (int)mode);
}

static union val
element_pad(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *x = &c->in[0];
	const int64_t *lo = at_ints(c->at, ATTR_lo);
	double v = at_get_real(c->at, ATTR_value);

	flat = 0;
	for (int d = 0; d < x->t->shape.rank; d++) {
		int64_t at =
		    fold_index((enum pad_mode)at_get(c->at, ATTR_mode), o[d] - lo[d], x->t->shape.dim[d]);

		if (at < 0)
			return dtype_is_float(c->out->type) ? (union val){.f = v}
							    : (union val){.i = real_to_int(c->out->type, v)};
		flat += at * x->stride[d];
	}
	return c->get(c, 0, flat);
}

static union val
element_concat(struct call *c, const int64_t *o, int64_t flat)
{
	int64_t axis = at_get(c->at, ATTR_axis), at = o[axis];
	uint32_t i = 0;
	int64_t p[MAX_RANK];

	while (at >= c->in[i].t->shape.dim[axis])
		at -= c->in[i++].t->shape.dim[axis];
	for (int d = 0; d < c->out->shape.rank; d++)
		p[d] = d == axis ? at : o[d];
	flat = flat_of(&c->in[i], p);
	return c->get(c, i, flat);
}

static union val
element_iota(struct call *c, const int64_t *o, int64_t flat)
{
	(void)flat;
	return (union val){.i = o[at_get(c->at, ATTR_axis)]};
}

/* The index at `flat` of operand 1, counted from the end where negative; 0 after an error. */
static int64_t
read_index(struct call *c, int64_t flat, int64_t n)
{
	int64_t i = c->get(c, 1, flat).i, k = i < 0 ? i + n : i;

	if (k >= 0 && k < n)
		return k;
	if (!c->failed)
		c->failed = !err_set(c->e, ERR_MODEL,
		    "primitive %s: index %lld is out of range for an extent of %lld", prim_info[c->p].name,
		    (long long)i, (long long)n);
	return 0;
}

static union val
element_gather(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *x = &c->in[0], *idx = &c->in[1];
	int axis = (int)at_get(c->at, ATTR_axis), n = idx->t->shape.rank;
	int64_t p[MAX_RANK];

	for (int d = 0; d < axis; d++)
		p[d] = o[d];
	p[axis] = read_index(c, flat_of(idx, o + axis), x->t->shape.dim[axis]);
	for (int d = axis + 1; d < x->t->shape.rank; d++)
		p[d] = o[d - 1 + n];
	flat = flat_of(x, p);
	return c->failed ? (union val){0} : c->get(c, 0, flat);
}

static union val
element_gather_elements(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *x = &c->in[0];
	int axis = (int)at_get(c->at, ATTR_axis);
	int64_t p[MAX_RANK];

	for (int d = 0; d < x->t->shape.rank; d++)
		p[d] = o[d];
	p[axis] = read_index(c, flat, x->t->shape.dim[axis]);
	return c->failed ? (union val){0} : c->get(c, 0, flat_of(x, p));
}

static union val
element_gather_nd(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *x = &c->in[0], *idx = &c->in[1];
	int b = (int)at_get(c->at, ATTR_k), n = idx->t->shape.rank - 1, q = (int)idx->t->shape.dim[n];
	int64_t p[MAX_RANK];

	flat = 0;
	for (int d = 0; d < n; d++)
		flat += o[d] * idx->stride[d];
	for (int d = 0; d < b; d++)
		p[d] = o[d];
	for (int d = 0; d < q; d++)
		p[b + d] = read_index(c, flat + d, x->t->shape.dim[b + d]);
	for (int d = b + q; d < x->t->shape.rank; d++)
		p[d] = o[d - b - q + n];
	return c->failed ? (union val){0} : c->get(c, 0, flat_of(x, p));
}

/* ---- linear ------------------------------------------------------------------------- */

static union val
mul_add(enum dtype t, union val sum, union val a, union val b)
{
	if (dtype_is_float(t))
		sum.f += a.f * b.f;
	else
		sum.i = (int64_t)((uint64_t)sum.i + (uint64_t)a.i * (uint64_t)b.i);
	return sum;
}

static union val
element_matmul(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *a = &c->in[0], *b = &c->in[1];
	int r = c->out->shape.rank;
	int64_t at_a = 0, at_b = o[r - 1];
	union val sum = join_start(PRIM_sum, c->out->type);

	(void)flat;
	for (int d = 0; d < r - 1; d++)
		at_a += o[d] * a->stride[d];
	for (int d = 0; d < r - 2; d++)
		at_b += o[d] * b->stride[d];
	for (int64_t k = 0; k < a->t->shape.dim[r - 1] && !c->failed; k++)
		sum = mul_add(
		    c->out->type, sum, c->get(c, 0, at_a + k), c->get(c, 1, at_b + k * b->stride[r - 2]));
	return sum;
}

/* Offset in the operand of tap k of the window at o; false where padding or an inserted zero lies. */
static bool
conv_tap(const struct call *c, const int64_t *o, const int64_t *k, int n, int64_t *at)
{
	const struct operand *x = &c->in[0];

	for (int d = 0; d < n; d++) {
		int64_t ldil = at_ints(c->at, ATTR_ldil)[d];
		int64_t p = o[d + 1] * at_ints(c->at, ATTR_stride)[d] - at_ints(c->at, ATTR_lo)[d] +
		    k[d] * at_ints(c->at, ATTR_dilation)[d];

		if (p < 0 || p % ldil || p / ldil >= x->t->shape.dim[d + 1])
			return false;
		*at += p / ldil * x->stride[d + 1];
	}
	return true;
}

static union val
element_conv(struct call *c, const int64_t *o, int64_t flat)
{
	const struct operand *x = &c->in[0], *w = &c->in[1];
	int n = x->t->shape.rank - 2;
	int64_t depth = w->t->shape.dim[n], per_group = w->t->shape.dim[n + 1] / at_get(c->at, ATTR_group);
	int64_t first = o[n + 1] / per_group * depth, k[MAX_RANK] = {0};
	struct box taps = {.rank = n};
	union val sum = join_start(PRIM_sum, c->out->type);

	for (int d = 0; d < n; d++)
		taps.n[d] = w->t->shape.dim[d];
	do {
		int64_t at_x = o[0] * x->stride[0] + first, at_w = o[n + 1];

		if (!conv_tap(c, o, k, n, &at_x))
			continue;
		for (int d = 0; d < n; d++)
			at_w += k[d] * w->stride[d];
		for (flat = 0; flat < depth && !c->failed; flat++)
			sum = mul_add(c->out->type, sum, c->get(c, 0, at_x + flat),
			    c->get(c, 1, at_w + flat * w->stride[n]));
	} while (!c->failed && box_next(&taps, k));
	return sum;
}

typedef union val element_fn(struct call *c, const int64_t *o, int64_t flat);
static element_fn *const elements[PRIM_COUNT] = {
    [PRIM_sum] = element_reduce,
    [PRIM_rmax] = element_reduce,
    [PRIM_rmin] = element_reduce,
    [PRIM_prod] = element_reduce,
    [PRIM_wsum] = element_reduce,
    [PRIM_wmax] = element_reduce,
    [PRIM_argmax] = element_position,
    [PRIM_argmin] = element_position,
    [PRIM_bcast] = element_bcast,
    [PRIM_reshape] = element_reshape,
    [PRIM_transpose] = element_transpose,
    [PRIM_slice] = element_slice,
    [PRIM_pad] = element_pad,
    [PRIM_concat] = element_concat,
    [PRIM_iota] = element_iota,
    [PRIM_gather] = element_gather,
    [PRIM_gather_elements] = element_gather_elements,
    [PRIM_gather_nd] = element_gather_nd,
    [PRIM_matmul] = element_matmul,
    [PRIM_conv] = element_conv,
};

union val
element_value(struct call *c, const int64_t *o, int64_t flat)
{
	if (!elements[c->p])
		bug("primitive %s has no element rule", prim_info[c->p].name);
	return elements[c->p](c, o, flat);
}
