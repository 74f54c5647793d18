/* daemon/rewrite/rules_window.c: windows of many elements. */
#include "rewrite_int.h"

/* A window over one dimension reads k elements, one over two k * k; below this the second pass costs
 * more than it saves. */
enum { MANY_TAPS = 25 };

/* The largest (or the sum) of a box is that of its rows' ones.  The window along dimension `keep` of x's
 * alone, or along all others. */
static struct attrs
window_part(const struct expr *x, int keep, bool others)
{
	struct attrs at = *x->at;
	int rank = x->result.shape.rank;
	static const struct {
		enum attr_key key;
		int64_t none;
	} list[] = {{ATTR_kernel, 1}, {ATTR_stride, 1}, {ATTR_dilation, 1}, {ATTR_lo, 0}, {ATTR_hi, 0}};

	for (size_t k = 0; k < COUNT_OF(list); k++) {
		int64_t v[MAX_RANK];
		for (int i = 0; i < rank; i++)
			v[i] = (i == keep) != others ? at_ints(x->at, list[k].key)[i] : list[k].none;
		at_list(&at, list[k].key, rank, v);
	}
	return at;
}

/* Each padded window holds an element in every dimension alone: an empty row would have no largest one. */
static bool
rows_are_full(const struct expr *x, int i)
{
	int64_t reach = (at_ints(x->at, ATTR_kernel)[i] - 1) * at_ints(x->at, ATTR_dilation)[i];

	return at_ints(x->at, ATTR_lo)[i] >= 0 && at_ints(x->at, ATTR_hi)[i] >= 0 &&
	    at_ints(x->at, ATTR_lo)[i] <= reach && at_ints(x->at, ATTR_hi)[i] <= reach &&
	    (at_ints(x->at, ATTR_dilation)[i] == 1 ||
		(at_ints(x->at, ATTR_lo)[i] == 0 && at_ints(x->at, ATTR_hi)[i] == 0));
}

bool
has_many_taps(struct match *m)
{
	int n_wide = 0, last = -1;
	int64_t taps = 1;

	for (int i = 0; i < result_shape(m)->rank; i++) {
		int64_t k = outer(m, ATTR_kernel)[i];
		taps *= k;
		if (k == 1)
			continue;
		if (!rows_are_full(m->x, i))
			return false;
		n_wide++;
		last = i;
	}
	m->slot[0] = window_part(m->x, last, false);
	m->slot[1] = window_part(m->x, last, true);
	return n_wide >= 2 && taps >= MANY_TAPS;
}
