/* kernels/interp/opaque.c: primitives whose results are made as a whole, from dense operands. */
#include "interp_int.h"

#include <stdlib.h>
#include <string.h>

static union val
load(const struct call *c, uint32_t operand, int64_t flat)
{
	return val_load(c->in[operand].t->type, c->in[operand].data, flat);
}

/* A tensor as lines along one axis: line l starts at line_start(), elements are `step` apart. */
struct lines {
	int64_t n, len, step;
};

static struct lines
lines_of(const struct shape *s, int64_t axis)
{
	struct lines l = {.len = s->dim[axis], .step = 1};

	for (int d = (int)axis + 1; d < s->rank; d++)
		l.step *= s->dim[d];
	l.n = l.step;
	for (int d = 0; d < axis; d++)
		l.n *= s->dim[d];
	return l;
}

static int64_t
line_start(const struct lines *l, int64_t i)
{
	return i / l->step * l->step * l->len + i % l->step;
}

static bool
run_cumsum(struct call *c, void *const *out)
{
	enum dtype t = c->out->type;
	struct lines l = lines_of(&c->out->shape, at_get(c->at, ATTR_axis));
	bool exclusive = at_get(c->at, ATTR_exclusive), reverse = at_get(c->at, ATTR_reverse);

	for (int64_t i = 0; i < l.n; i++) {
		union val sum = join_start(PRIM_sum, t);

		for (int64_t k = 0; k < l.len; k++) {
			int64_t at = line_start(&l, i) + (reverse ? l.len - 1 - k : k) * l.step;
			union val next = join_scalar(PRIM_sum, t, sum, load(c, 0, at));

			val_store(t, out[0], at, exclusive ? sum : next);
			sum = next;
		}
	}
	return true;
}

struct ranked {
	union val v;
	int64_t at;
	enum dtype type;
	bool largest;
};

/* Best first, equals in their order; a NaN counts as the largest number. */
static int
cmp_ranked(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;
	bool nan_a = dtype_is_float(a->type) && a->v.f != a->v.f;
	bool nan_b = dtype_is_float(b->type) && b->v.f != b->v.f;
	int c = (nan_a || nan_b) ? (int)nan_a - (int)nan_b
				 : (int)val_less(a->type, b->v, a->v) - (int)val_less(a->type, a->v, b->v);

	if (c)
		return a->largest ? -c : c;
	return (a->at > b->at) - (a->at < b->at);
}

static bool
run_topk(struct call *c, void *const *out)
{
	const struct tensor *x = c->in[0].t;
	int64_t axis = at_get(c->at, ATTR_axis), n_top = c->out->shape.dim[axis];
	struct lines from = lines_of(&x->shape, axis), to = lines_of(&c->out->shape, axis);
	struct ranked *line = heap_alloc(ck_mul(ck_size(from.len), sizeof(*line)));

	for (int64_t i = 0; i < from.n && n_top > 0; i++) {
		for (int64_t k = 0; k < from.len; k++)
			line[k] = (struct ranked){load(c, 0, line_start(&from, i) + k * from.step), k,
			    x->type, at_get(c->at, ATTR_largest) != 0};
		qsort(line, ck_size(from.len), sizeof(*line), cmp_ranked);
		for (int64_t k = 0; k < n_top; k++) {
			int64_t at = line_start(&to, i) + k * to.step;

			val_store(x->type, out[0], at, line[k].v);
			if (out[1])
				((int64_t *)out[1])[at] = line[k].at;
		}
	}
	free(line);
	return true;
}

static void
scatter_one(const struct call *c, void *out, int64_t at, union val v)
{
	static const enum prim joins[] = {PRIM_COUNT, PRIM_sum, PRIM_prod, PRIM_rmax, PRIM_rmin};
	enum dtype t = c->out->type;
	enum prim join = joins[at_get(c->at, ATTR_mode)];

	if (join != PRIM_COUNT)
		v = join_scalar(join, t, val_load(t, out, at), v);
	val_store(t, out, at, v);
}

static bool
index_at(struct call *c, int64_t flat, int64_t n, int64_t *out)
{
	int64_t i = load(c, 1, flat).i;

	*out = i < 0 ? i + n : i;
	if (*out >= 0 && *out < n)
		return true;
	return err_set(c->e, ERR_MODEL, "primitive %s: index %lld is out of range for an extent of %lld",
	    prim_info[c->p].name, (long long)i, (long long)n);
}

static void
copy_first(const struct call *c, void *out)
{
	size_t n = 0;

	if (shape_bytes(&c->out->shape, c->out->type, &n) && n)
		memcpy(out, c->in[0].data, n);
}

static bool
run_scatter_elements(struct call *c, void *const *out)
{
	const struct shape *s = &c->out->shape, *idx = &c->in[1].t->shape;
	int64_t axis = at_get(c->at, ATTR_axis), n = shape_count(idx), o[MAX_RANK];

	copy_first(c, out[0]);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = 0;

		index_of(idx, i, o);
		if (!index_at(c, i, s->dim[axis], &o[axis]))
			return false;
		for (int d = 0; d < s->rank; d++)
			at += o[d] * c->in[0].stride[d];
		scatter_one(c, out[0], at, load(c, 2, i));
	}
	return true;
}

static bool
run_scatter_nd(struct call *c, void *const *out)
{
	const struct shape *s = &c->out->shape, *idx = &c->in[1].t->shape;
	int64_t q = idx->dim[idx->rank - 1], block = 1, n_vectors = 1, at, k;

	copy_first(c, out[0]);
	for (int d = (int)q; d < s->rank; d++)
		block *= s->dim[d];
	for (int d = 0; d < idx->rank - 1; d++)
		n_vectors *= idx->dim[d];
	for (int64_t i = 0; i < n_vectors && block > 0; i++) {
		at = 0;
		for (int d = 0; d < q; d++) {
			if (!index_at(c, i * q + d, s->dim[d], &k))
				return false;
			at += k * c->in[0].stride[d];
		}
		for (int64_t j = 0; j < block; j++)
			scatter_one(c, out[0], at + j, load(c, 2, i * block + j));
	}
	return true;
}

typedef bool whole_fn(struct call *c, void *const *out);
static whole_fn *const wholes[PRIM_COUNT] = {
    [PRIM_cumsum] = run_cumsum,
    [PRIM_topk] = run_topk,
    [PRIM_scatter_elements] = run_scatter_elements,
    [PRIM_scatter_nd] = run_scatter_nd,
};

bool
prim_is_whole(enum prim p)
{
	return wholes[p] != NULL;
}

bool
opaque_run(struct call *c, void *const *out)
{
	return wholes[c->p](c, out);
}
