/* kernels/interp/shortcut.c: dense results by plain loops, for large weights that folding meets and for
 * references in full.  They give the very bits of the rules by element (element.c, map.c). */
#include "interp_int.h"

#include <stdlib.h>
#include <string.h>

/* out[o] = in[base + sum o[d] * stride[d]] */
struct strided {
	int64_t base, stride[MAX_RANK];
};

static bool
strided_of(const struct call *c, struct strided *m)
{
	const struct operand *x = &c->in[0];

	*m = (struct strided){0};
	if (c->p != PRIM_transpose && c->p != PRIM_bcast && c->p != PRIM_slice)
		return false;
	for (int d = 0; d < c->out->shape.rank; d++) {
		switch (c->p) {
		case PRIM_transpose:
			m->stride[d] = x->stride[at_ints(c->at, ATTR_perm)[d]];
			break;
		case PRIM_bcast:
			m->stride[d] = x->t->shape.dim[d] == 1 ? 0 : x->stride[d];
			break;
		case PRIM_slice:
			m->base += at_ints(c->at, ATTR_start)[d] * x->stride[d];
			m->stride[d] = at_ints(c->at, ATTR_step)[d] * x->stride[d];
			break;
		default:
			return false;
		}
	}
	return true;
}

static void
copy_line(char *to, const char *from, int64_t n, int64_t step, size_t size)
{
	if (size == 4)
		for (int64_t i = 0; i < n; i++)
			((uint32_t *)(void *)to)[i] = ((const uint32_t *)(const void *)from)[i * step];
	else
		for (int64_t i = 0; i < n; i++)
			memcpy(to + (size_t)i * size, from + i * step * (int64_t)size, size);
}

static void
copy_strided(const struct call *c, const struct strided *m, char *out)
{
	const struct shape *s = &c->out->shape;
	size_t size = dtype_size(c->out->type);
	int last = s->rank - 1;
	int64_t n = shape_count(s), len = s->rank ? s->dim[last] : 1, o[MAX_RANK] = {0};

	for (int64_t done = 0; done < n; done += len) {
		int64_t at = m->base;

		for (int d = 0; d < last; d++)
			at += o[d] * m->stride[d];
		copy_line(out + (size_t)done * size, (const char *)c->in[0].data + at * (int64_t)size, len,
		    s->rank ? m->stride[last] : 0, size);
		for (int d = last - 1; d >= 0 && ++o[d] == s->dim[d]; d--)
			o[d] = 0;
	}
}

static bool
are_floats(const struct call *c)
{
	for (uint32_t k = 0; k < c->n_in; k++)
		if (c->in[k].t->type != DT_f32)
			return false;
	return c->out->type == DT_f32;
}

/* Single operations round the same in float as through double. */
static bool
run_operation(enum prim p, const float *x, const float *y, float *out, int64_t n)
{
	switch (p) {
	case PRIM_add:
		for (int64_t i = 0; i < n; i++)
			out[i] = x[i] + y[i];
		return true;
	case PRIM_sub:
		for (int64_t i = 0; i < n; i++)
			out[i] = x[i] - y[i];
		return true;
	case PRIM_mul:
		for (int64_t i = 0; i < n; i++)
			out[i] = x[i] * y[i];
		return true;
	case PRIM_div:
		for (int64_t i = 0; i < n; i++)
			out[i] = x[i] / y[i];
		return true;
	default:
		return false;
	}
}

static bool
run_map(const struct call *c, float *out)
{
	int64_t n = shape_count(&c->out->shape);
	real1 *one = real1_for(c->p);
	real2 *two = real2_for(c->p);
	const float *x = c->in[0].data, *y = c->n_in == 2 ? c->in[1].data : NULL;

	if (c->n_in == 2 && run_operation(c->p, x, y, out, n))
		return true;
	if (!(c->n_in == 1 ? one != NULL : c->n_in == 2 && two))
		return false;
	for (int64_t i = 0; i < n; i++)
		out[i] = (float)(y ? two((double)x[i], (double)y[i]) : one((double)x[i]));
	return true;
}

/* Sums and the like: each result takes its operands in the order in which they lie. */
static bool
run_reduction(const struct call *c, float *out)
{
	const struct shape *s = &c->in[0].t->shape;
	int64_t n = shape_count(s), n_out = shape_count(&c->out->shape), o[MAX_RANK] = {0};
	int64_t stride[MAX_RANK], len, step;
	const float *x = c->in[0].data;
	real2 *join = real2_for(c->p);
	double *sum;

	if (s->rank == 0 || n == 0)
		return false;
	sum = heap_alloc(ck_mul((size_t)n_out, sizeof(*sum)));
	strides_of(&c->out->shape, stride);
	for (int d = 0; d < s->rank; d++)
		stride[d] = c->out->shape.dim[d] == s->dim[d] ? stride[d] : 0;
	len = s->dim[s->rank - 1];
	step = stride[s->rank - 1];
	for (int64_t i = 0; i < n_out; i++)
		sum[i] = join_start(c->p, DT_f32).f;
	for (int64_t done = 0; done < n; done += len) {
		int64_t at = 0;

		for (int d = 0; d < s->rank - 1; d++)
			at += o[d] * stride[d];
		for (int64_t i = 0; i < len; i++)
			sum[at + i * step] = join(sum[at + i * step], (double)x[done + i]);
		for (int d = s->rank - 2; d >= 0 && ++o[d] == s->dim[d]; d--)
			o[d] = 0;
	}
	for (int64_t i = 0; i < n_out; i++)
		out[i] = (float)sum[i];
	free(sum);
	return true;
}

/* Where each position of dimension d of the result lies in the operand; -1: nowhere. */
static int64_t *
folded(const struct call *c, int d)
{
	int64_t n = c->out->shape.dim[d], *at = heap_alloc(ck_mul((size_t)n, sizeof(*at)));

	for (int64_t i = 0; i < n; i++)
		at[i] = fold_index((enum pad_mode)at_get(c->at, ATTR_mode), i - at_ints(c->at, ATTR_lo)[d],
		    c->in[0].t->shape.dim[d]);
	return at;
}

static void
pad_line(const float *x, const int64_t *at, float value, float *out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = at[i] < 0 || !x ? value : x[at[i]];
}

static bool
run_pad(const struct call *c, float *out)
{
	const struct shape *s = &c->out->shape;
	const float *x = c->in[0].data, value = (float)at_get_real(c->at, ATTR_value);
	int64_t n = shape_count(s), o[MAX_RANK] = {0}, *at[MAX_RANK], len;
	int last = s->rank - 1;

	if (last < 0 || n == 0)
		return false;
	len = s->dim[last];
	for (int d = 0; d <= last; d++)
		at[d] = folded(c, d);
	for (int64_t done = 0; done < n; done += len) {
		int64_t from = 0;

		for (int d = 0; d < last && from >= 0; d++)
			from = at[d][o[d]] < 0 ? -1 : from + at[d][o[d]] * c->in[0].stride[d];
		pad_line(from < 0 ? NULL : x + from, at[last], value, out + done, len);
		for (int d = last - 1; d >= 0 && ++o[d] == s->dim[d]; d--)
			o[d] = 0;
	}
	for (int d = 0; d <= last; d++)
		free(at[d]);
	return true;
}

bool
shortcut_run(const struct call *c, void *out)
{
	struct strided m;
	size_t n;

	if (c->p == PRIM_reshape && shape_bytes(&c->out->shape, c->out->type, &n)) {
		if (n)
			memcpy(out, c->in[0].data, n);
		return true;
	}
	if (c->n_in == 1 && strided_of(c, &m)) {
		copy_strided(c, &m, out);
		return true;
	}
	if (!are_floats(c))
		return false;
	if (prim_info[c->p].class == CLASS_MAP)
		return run_map(c, out);
	if (c->p == PRIM_sum || c->p == PRIM_prod || c->p == PRIM_rmax || c->p == PRIM_rmin)
		return run_reduction(c, out);
	return c->p == PRIM_pad && run_pad(c, out);
}
