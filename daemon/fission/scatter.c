/* daemon/fission/scatter.c: scattering.  Where positions are constant and fill a box of the data, as an
 * assignment to a slice does (x[:, 1:, 1:] += y), only layouts are left: slices and concats. */
#include "fission_int.h"

static const char *const modes[] = {"none", "add", "mul", "max", "min", NULL};

static void
scatter_elements(struct fission *f, int mode)
{
	struct attrs at = {0};
	tensor_id in[3] = {f_in(f, 0), f_in(f, 1), f_in(f, 2)};

	at_int(&at, ATTR_axis, f_axis(f, "axis", b_rank(f, in[0])));
	at_int(&at, ATTR_mode, mode);
	f_out(f, 0, b_prim(f, PRIM_scatter_elements, in, 3, &at));
}

void
fiss_Scatter_9(struct fission *f)
{
	scatter_elements(f, 0);
}

void
fiss_ScatterElements_11(struct fission *f)
{
	scatter_elements(f, f_choice(f, "reduction", modes));
}

/* ---- boxes --------------------------------------------------------------------------- */
enum { FIXED = -1 };

/* Column j of the indices is lo[j] plus how far it is along their axis[j], or lo[j] alone. */
struct box {
	int n_columns;
	int64_t lo[MAX_RANK];
	int axis[MAX_RANK];
	struct shape at; /* of the positions: the indices' shape without its last axis */
};

static int64_t
from_start(int64_t at, int64_t extent)
{
	return at < 0 ? at + extent : at;
}

/* By the first position and its neighbour along each axis; whether the others agree, is asked later. */
static bool
guess_box(const int64_t *index, const struct shape *x, struct box *b)
{
	const int64_t k = b->n_columns;
	int64_t ahead = k;

	for (int j = 0; j < k; j++) {
		b->lo[j] = from_start(index[j], x->dim[j]);
		b->axis[j] = FIXED;
	}
	for (int a = b->at.rank - 1; a >= 0; ahead *= b->at.dim[a--]) {
		int n_moved = 0;

		for (int j = 0; b->at.dim[a] > 1 && j < k; j++) {
			if (from_start(index[ahead + j], x->dim[j]) == b->lo[j])
				continue;
			if (b->axis[j] != FIXED)
				return false;
			b->axis[j] = a;
			n_moved++;
		}
		if (b->at.dim[a] > 1 && n_moved != 1)
			return false; /* one position twice, or a diagonal */
	}
	return true;
}

static int64_t
box_extent(const struct box *b, int column)
{
	return b->axis[column] == FIXED ? 1 : b->at.dim[b->axis[column]];
}

static bool
is_box(const int64_t *index, const struct shape *x, const struct box *b)
{
	int64_t at[MAX_RANK] = {0}, n = shape_count(&b->at);

	for (int j = 0; j < b->n_columns; j++)
		if (b->lo[j] < 0 || b->lo[j] > x->dim[j] - box_extent(b, j))
			return false;
	for (int64_t i = 0; i < n; i++, index += b->n_columns) {
		for (int j = 0; j < b->n_columns; j++)
			if (from_start(index[j], x->dim[j]) !=
			    b->lo[j] + (b->axis[j] == FIXED ? 0 : at[b->axis[j]]))
				return false;
		for (int a = b->at.rank - 1; a >= 0 && ++at[a] == b->at.dim[a]; a--)
			at[a] = 0;
	}
	return true;
}

/* Asks nothing of operands that do not fit to each other: what a primitive says of them is better. */
static bool
find_box(struct fission *f, tensor_id x, tensor_id index, struct box *b)
{
	const struct shape *of = b_shape(f, x), *s = b_shape(f, index);
	const int64_t *data;

	if (f->failed || b_type(f, index) != DT_i64 || s->rank == 0 || shape_count(s) == 0 ||
	    s->dim[s->rank - 1] > of->rank)
		return false;
	*b = (struct box){.n_columns = (int)s->dim[s->rank - 1], .at = *s};
	b->at.rank--;
	data = b_data(f, index);
	of = b_shape(f, x); /* what is computed may move it */
	return data && guess_box(data, of, b) && is_box(data, of, b);
}

/* The updates in the shape and order of the box. */
static tensor_id
to_box(struct fission *f, const struct box *b, const struct shape *x, tensor_id updates)
{
	struct shape moved = {0}, boxed = *x;
	int64_t perm[MAX_RANK];
	int rank = 0;

	for (int a = 0; a < b->at.rank; a++)
		if (b->at.dim[a] > 1)
			moved.dim[moved.rank++] = b->at.dim[a];
	for (int j = 0; j < b->n_columns; j++) {
		boxed.dim[j] = box_extent(b, j);
		if (b->axis[j] == FIXED)
			continue;
		perm[rank] = 0;
		for (int a = 0; a < b->axis[j]; a++)
			perm[rank] += b->at.dim[a] > 1;
		rank++;
	}
	for (int d = b->n_columns; d < x->rank; d++) {
		perm[rank++] = moved.rank;
		moved.dim[moved.rank++] = x->dim[d];
	}
	return b_reshape(f, b_transpose(f, b_reshape(f, updates, &moved), perm), &boxed);
}

/* x inside the box in the first `n` columns, whole in the others. */
struct part {
	int64_t start[MAX_RANK], step[MAX_RANK];
	struct shape s;
};

static struct part
part_of(const struct box *b, const struct shape *x, int n)
{
	struct part p = {.s = *x};

	for (int d = 0; d < x->rank; d++)
		p.step[d] = 1;
	for (int j = 0; j < n; j++) {
		p.start[j] = b->lo[j];
		p.s.dim[j] = box_extent(b, j);
	}
	return p;
}

/* ... and in column d so many from there. */
static tensor_id
beside(struct fission *f, const struct box *b, tensor_id x, int d, int64_t from, int64_t n)
{
	struct part p = part_of(b, b_shape(f, x), d);

	p.start[d] = from;
	p.s.dim[d] = n;
	return b_slice(f, x, p.start, p.step, &p.s);
}

/* x with the box in its place. */
static tensor_id
put_box(struct fission *f, const struct box *b, tensor_id x, tensor_id box)
{
	for (int d = b->n_columns - 1; d >= 0; d--) {
		int64_t lo = b->lo[d], hi = lo + box_extent(b, d), extent = b_dim(f, x, d);
		tensor_id part[3];
		uint32_t n = 0;

		if (lo > 0)
			part[n++] = beside(f, b, x, d, 0, lo);
		part[n++] = box;
		if (hi < extent)
			part[n++] = beside(f, b, x, d, hi, extent - hi);
		box = b_concat(f, part, n, d);
	}
	return box;
}

static tensor_id
scatter_box(struct fission *f, const struct box *b, tensor_id x, tensor_id updates, int mode)
{
	static const enum prim combine[] = {PRIM_COUNT, PRIM_add, PRIM_mul, PRIM_max, PRIM_min};
	const struct shape whole = *b_shape(f, x);
	const struct part p = part_of(b, &whole, b->n_columns);
	tensor_id box = to_box(f, b, &whole, updates);

	if (mode)
		box = b_map2(f, combine[mode], b_slice(f, x, p.start, p.step, &p.s), box);
	return put_box(f, b, x, box);
}

static bool
fits(const struct fission *f, const struct box *b, tensor_id x, tensor_id updates)
{
	const struct shape *u = b_shape(f, updates), *s = b_shape(f, x);
	bool ok = u->rank == b->at.rank + s->rank - b->n_columns && b_type(f, x) == b_type(f, updates);

	for (int i = 0; ok && i < u->rank; i++)
		ok = u->dim[i] == (i < b->at.rank ? b->at.dim[i] : s->dim[b->n_columns + i - b->at.rank]);
	return ok;
}

void
fiss_ScatterND_11(struct fission *f)
{
	struct attrs at = {0};
	tensor_id in[3] = {f_in(f, 0), f_in(f, 1), f_in(f, 2)};
	int mode = f_choice(f, "reduction", modes);
	struct box b;

	if (find_box(f, in[0], in[1], &b) && fits(f, &b, in[0], in[2])) {
		f_out(f, 0, scatter_box(f, &b, in[0], in[2], mode));
		return;
	}
	at_int(&at, ATTR_mode, mode);
	f_out(f, 0, b_prim(f, PRIM_scatter_nd, in, 3, &at));
}
