/* kernels/vendor/part.c: a call as several, each for a block of the result's rows: what the threads of a
 * pool do side by side, where a library's own threads are not wanted. */
#include "library.h"

/* The dimension of the products that is split: the first that has a row for each, else the longest; never the
 * last one, along which libraries have their vectors. */
static int
split_dim(const struct library_call *c, uint32_t most)
{
	const struct shape *s = &c->result.shape;
	int longest = 0;

	for (int d = 0; d + 1 < s->rank; d++) {
		if (s->dim[d] >= (int64_t)most)
			return d;
		if (s->dim[d] > s->dim[longest])
			longest = d;
	}
	return longest;
}

/* Rows `from` to `to` of a dimension, where the view has it. */
static void
take_rows(struct call_view *v, int dim, int64_t from, int64_t to)
{
	v->offset += from * v->stride[dim];
	v->shape.dim[dim] = to - from;
}

/* The rows of the convolved tensor that those of the result need, and what is left of the padding. */
static bool
take_field(struct library_call *c, int dim, int64_t from, int64_t to)
{
	int i = dim - 1;
	int64_t reach = c->dilation[i] * (c->b.shape.dim[i] - 1) + 1, n = c->a.shape.dim[dim];
	int64_t lo = from * c->stride[i] - c->lo[i], hi = (to - 1) * c->stride[i] - c->lo[i] + reach;

	c->lo[i] = MAX_OF(-lo, (int64_t)0);
	c->hi[i] = MAX_OF(hi - n, (int64_t)0);
	lo = MAX_OF(lo, (int64_t)0);
	hi = MIN_OF(hi, n);
	if (lo >= hi)
		return false;
	take_rows(&c->a, dim, lo, hi);
	return true;
}

static bool
has_rows(const struct call_view *v, const struct shape *of, int dim)
{
	return v->shape.rank == of->rank && v->shape.dim[dim] == of->dim[dim];
}

bool
library_call_part(const struct library_call *c, uint32_t i, uint32_t n, struct library_call *out)
{
	const struct shape whole = c->result.shape;
	int dim = split_dim(c, n);
	int64_t rows = whole.dim[dim], from = rows * i / n, to = rows * (i + 1) / n;

	*out = *c;
	if (n == 1)
		return true;
	if (from == to || whole.rank < 2)
		return false;
	take_rows(&out->result, dim, from, to);
	for (uint32_t k = 0; k < c->n_steps; k++)
		if (has_rows(&c->step[k].operand, &whole, dim))
			take_rows(&out->step[k].operand, dim, from, to);
	if (c->linear == CALL_conv && dim > 0)
		return take_field(out, dim, from, to);
	if (!has_rows(&c->a, &whole, dim))
		return false;
	take_rows(&out->a, dim, from, to);
	if (c->linear == CALL_matmul && dim + 2 < whole.rank && has_rows(&c->b, &whole, dim))
		take_rows(&out->b, dim, from, to);
	return true;
}
