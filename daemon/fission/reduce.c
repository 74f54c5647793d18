/* daemon/fission/reduce.c: reductions over axes.  The primitive keeps its axes with extent 1;
 * keepdims=0 is a reshape behind it. */
#include "fission_int.h"

/* The axes of a Reduce operator, ascending; -1 when it is to do nothing. */
static int
axes_of(struct fission *f, int rank, int64_t *axes)
{
	int n;
	const int64_t *list = f_list(f, 1, "axes", &n);
	bool wanted[MAX_RANK] = {false};

	if (n == 0 && f_int(f, "noop_with_empty_axes"))
		return -1;
	for (int i = 0; i < n && !f->failed; i++)
		wanted[f_axis_of(f, list[i], rank)] = true;
	int m = 0;
	for (int i = 0; i < rank; i++)
		if (n == 0 || wanted[i])
			axes[m++] = i;
	return m;
}

static tensor_id
drop_axes(struct fission *f, tensor_id y, int n, const int64_t *axes)
{
	const struct shape s = *b_shape(f, y);
	int64_t dims[MAX_RANK];
	int rank = 0, k = 0;

	if (f_int(f, "keepdims"))
		return y;
	for (int i = 0; i < s.rank; i++) {
		if (k < n && axes[k] == i)
			k++;
		else
			dims[rank++] = s.dim[i];
	}
	return b_view(f, y, rank, dims);
}

typedef tensor_id map_fn(struct fission *f, tensor_id x);

static tensor_id
same(struct fission *f, tensor_id x)
{
	(void)f;
	return x;
}

static tensor_id
map_abs(struct fission *f, tensor_id x)
{
	return b_map1(f, PRIM_abs, x);
}

static tensor_id
square(struct fission *f, tensor_id x)
{
	return b_map2(f, PRIM_mul, x, x);
}

static tensor_id
map_sqrt(struct fission *f, tensor_id x)
{
	return b_map1(f, PRIM_sqrt, x);
}

static tensor_id
map_log(struct fission *f, tensor_id x)
{
	return b_map1(f, PRIM_log, x);
}

/* after(reduce(before(x))).  With no axes and the flag set the reduction alone is left out. */
static void
reduce(struct fission *f, enum prim p, map_fn *before, map_fn *after)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int n = axes_of(f, b_rank(f, x), axes);

	x = before(f, x);
	f_out(f, 0, n < 0 ? after(f, x) : after(f, drop_axes(f, b_reduce(f, p, x, n, axes), n, axes)));
}

void
fiss_ReduceSum_1(struct fission *f)
{
	reduce(f, PRIM_sum, same, same);
}

void
fiss_ReduceMax_1(struct fission *f)
{
	reduce(f, PRIM_rmax, same, same);
}

void
fiss_ReduceMin_1(struct fission *f)
{
	reduce(f, PRIM_rmin, same, same);
}

void
fiss_ReduceProd_1(struct fission *f)
{
	reduce(f, PRIM_prod, same, same);
}

void
fiss_ReduceL1_1(struct fission *f)
{
	reduce(f, PRIM_sum, map_abs, same);
}

void
fiss_ReduceL2_1(struct fission *f)
{
	reduce(f, PRIM_sum, square, map_sqrt);
}

void
fiss_ReduceSumSquare_1(struct fission *f)
{
	reduce(f, PRIM_sum, square, same);
}

void
fiss_ReduceLogSum_1(struct fission *f)
{
	reduce(f, PRIM_sum, same, map_log);
}

void
fiss_ReduceMean_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int n = axes_of(f, b_rank(f, x), axes);

	f_out(f, 0, n < 0 ? x : drop_axes(f, b_mean(f, x, n, axes), n, axes));
}

/* m + log sum exp(x - m); m = max x, but 0 where that is infinite */
void
fiss_ReduceLogSumExp_1(struct fission *f)
{
	tensor_id x = f_in(f, 0);
	int64_t axes[MAX_RANK];
	int n = axes_of(f, b_rank(f, x), axes);

	if (n < 0) {
		f_out(f, 0, x);
		return;
	}
	tensor_id top = b_reduce(f, PRIM_rmax, x, n, axes);
	top = b_select(f, b_map1(f, PRIM_isinf, top), b_num(f, b_type(f, x), 0), top);
	tensor_id sum = b_reduce(f, PRIM_sum, b_map1(f, PRIM_exp, b_map2(f, PRIM_sub, x, top)), n, axes);
	f_out(f, 0, drop_axes(f, b_map2(f, PRIM_add, b_map1(f, PRIM_log, sum), top), n, axes));
}

static void
position(struct fission *f, enum prim p)
{
	tensor_id x = f_in(f, 0);
	int64_t axis = f_axis(f, "axis", b_rank(f, x));
	struct attrs at = {0};

	at_list(&at, ATTR_axes, 1, &axis);
	at_int(&at, ATTR_last, f_int(f, "select_last_index") != 0);
	f_out(f, 0, drop_axes(f, b_prim(f, p, &x, 1, &at), 1, &axis));
}

void
fiss_ArgMax_1(struct fission *f)
{
	position(f, PRIM_argmax);
}

void
fiss_ArgMin_1(struct fission *f)
{
	position(f, PRIM_argmin);
}
