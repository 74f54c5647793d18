/* daemon/rewrite/shapes.c: algebra of permutations, of reshapes and of slices. */
#include "rewrite_int.h"

/* Walks both shapes, always on the side that is behind, until the products meet.  A dimension of
 * extent 1 pairs with another one, or is a group of its own that has nothing on the other side. */
bool
groups_make(const struct shape *from, const struct shape *to, struct groups *out)
{
	int i = 0, j = 0;

	for (out->n = 0; i < from->rank || j < to->rank; out->n++) {
		int64_t p = i < from->rank ? from->dim[i] : 1, q = j < to->rank ? to->dim[j] : 1;
		out->a[out->n] = i;
		out->b[out->n] = j;
		if (p == 0 || q == 0)
			return false;
		i += i < from->rank && (p == 1 || q > 1 || j == to->rank);
		j += j < to->rank && (q == 1 || p > 1 || out->a[out->n] == from->rank);
		if (p == 1 || q == 1) {
			if (p != q && (p == 1 ? j : i) > (p == 1 ? out->b[out->n] : out->a[out->n]))
				return false; /* elements on one side only */
			continue;
		}
		while (p != q) {
			if (p < q && i < from->rank)
				p *= from->dim[i++];
			else if (q < p && j < to->rank)
				q *= to->dim[j++];
			else
				return false;
			if (p == 0 || q == 0)
				return false;
		}
	}
	out->a[out->n] = from->rank;
	out->b[out->n] = to->rank;
	return true;
}

void
perm_inverse(int rank, const int64_t *perm, int64_t *out)
{
	for (int i = 0; i < rank; i++)
		out[perm[i]] = i;
}

struct shape
shape_permuted(const struct shape *s, const int64_t *perm)
{
	struct shape to = {.rank = s->rank};

	for (int i = 0; i < s->rank; i++)
		to.dim[i] = s->dim[perm[i]];
	return to;
}

void
list_permuted(int rank, const int64_t *list, const int64_t *perm, int64_t *out)
{
	for (int i = 0; i < rank; i++)
		out[i] = list[perm[i]];
}

bool
perm_is_view(const struct shape *s, const int64_t *perm)
{
	int64_t last = -1;

	for (int i = 0; i < s->rank; i++) {
		if (s->dim[perm[i]] == 1)
			continue;
		if (perm[i] < last)
			return false;
		last = perm[i];
	}
	return true;
}

void
at_slice(struct attrs *at, const struct shape *to, const int64_t *start, const int64_t *step)
{
	static const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1};

	_Static_assert(COUNT_OF(ones) == MAX_RANK, "a step a dimension");
	at_list(at, ATTR_shape, to->rank, to->dim);
	at_list(at, ATTR_start, to->rank, start);
	at_list(at, ATTR_step, to->rank, step ? step : ones);
}
