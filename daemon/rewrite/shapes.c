/* daemon/rewrite/shapes.c: algebra of permutations and of reshapes. */
#include "rewrite_int.h"

/* Walks both shapes, always on the side that is behind, until the products meet.  Dimensions of
 * extent 1 join the group that is open, or make one of their own. */
bool
groups_make(const struct shape *from, const struct shape *to, struct groups *out)
{
	int i = 0, j = 0;

	out->n = 0;
	while (i < from->rank || j < to->rank) {
		int64_t p = 1, q = 1;

		out->a[out->n] = i;
		out->b[out->n] = j;
		if (i < from->rank)
			p = from->dim[i++];
		else
			q = to->dim[j++];
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
		out->n++;
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
