/* kernels/emit/pack.c: constant operands in the form that a kernel reads: blocks of columns, K
 * contiguous inside a block.  Applied once, when a plan is made. */
#include "emit.h"

#include <string.h>

static int64_t
elements(const struct pack *p)
{
	int64_t n = 1;

	for (int i = 0; i < p->rank; i++)
		if (!try_mul_i64(n, p->dim[i], &n))
			bug("a packed operand's size does not fit");
	return n;
}

size_t
pack_bytes(const struct pack *p, enum dtype t)
{
	return ck_mul(ck_size(elements(p)), dtype_size(t));
}

void
pack_apply(const struct pack *p, const struct tensor *operand, const void *data, void *out)
{
	int64_t n = elements(p), count = shape_count(&operand->shape), at[MAX_RANK] = {0};
	int64_t from = p->base, column = 0;
	size_t size = dtype_size(operand->type);

	for (int64_t i = 0; i < n; i++) {
		char *to = (char *)out + (size_t)i * size;
		bool inside = column < p->n_columns;

		if (inside && (from < 0 || from >= count))
			bug("packing reads element %lld of %lld", (long long)from, (long long)count);
		if (inside)
			memcpy(to, (const char *)data + (size_t)from * size, size);
		else
			memset(to, 0, size);
		for (int d = p->rank; d-- > 0;) {
			from += p->coef[d];
			column += p->column[d];
			if (++at[d] < p->dim[d])
				break;
			from -= p->coef[d] * p->dim[d];
			column -= p->column[d] * p->dim[d];
			at[d] = 0;
		}
	}
}
