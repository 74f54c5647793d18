/* daemon/fission/build.c: the sticky builder of primitives, and constant folding.
 *
 * A primitive whose operands are all constant is computed at once by the interpreter, so chains
 * of shape arithmetic vanish and layouts of weights cost nothing at run time.  Broadcasts and
 * iotas of constants stay nodes (they would only make data bigger) and are computed when a fold
 * needs them.  What is too large to fold stays in the graph. */
#include "fission_int.h"

#include <string.h>

enum { MAX_PRIMITIVES = 1 << 20 };
enum { MAX_TABLE = 4096 }; /* elements of a constant that goes into specs by value */
static const size_t max_fold_bytes = (size_t)1 << 30; /* of one result */
static const double max_fold_flops = 1e9;

const struct shape *
b_shape(const struct fission *f, tensor_id t)
{
	return &graph_tensor(f->g, t)->shape;
}

int
b_rank(const struct fission *f, tensor_id t)
{
	return b_shape(f, t)->rank;
}

int64_t
b_dim(const struct fission *f, tensor_id t, int axis)
{
	return b_shape(f, t)->dim[axis];
}

enum dtype
b_type(const struct fission *f, tensor_id t)
{
	return graph_tensor(f->g, t)->type;
}

static struct note *
note_of(struct fission *f, tensor_id t)
{
	while (f->n_notes <= t.i) {
		GROW(f->a, f->notes, f->n_notes, f->cap_notes);
		f->notes[f->n_notes++] = (struct note){0};
	}
	return &f->notes[t.i];
}

static enum known
known_of(const struct fission *f, tensor_id t)
{
	return t.i < f->n_notes ? f->notes[t.i].known : KNOWN_NOT;
}

bool
b_is_const(const struct fission *f, tensor_id t)
{
	return known_of(f, t) != KNOWN_NOT;
}

/* A weight of the model, or a broadcast of one. */
static bool
is_of_weight(const struct fission *f, tensor_id t)
{
	if (known_of(f, t) == KNOWN_LAZY) {
		const struct node *maker = &f->g->nodes[f->notes[t.i].maker];
		return maker->n_in > 0 && is_of_weight(f, maker->in[0]);
	}
	return graph_tensor(f->g, t)->role == ROLE_WEIGHT;
}

/* Numbers of the model itself are weights; small tables and single numbers are constants, which
 * go into specs by value. */
static enum tensor_role
role_for(const struct fission *f, enum dtype t, const struct shape *s, const tensor_id *from, uint32_t n)
{
	int64_t count = shape_count(s);

	if (count <= 1)
		return ROLE_CONST;
	if (count > MAX_TABLE)
		return ROLE_WEIGHT;
	if (!dtype_is_float(t))
		return ROLE_CONST;
	for (uint32_t i = 0; i < n; i++)
		if (is_of_weight(f, from[i]))
			return ROLE_WEIGHT;
	return n > 0 ? ROLE_CONST : ROLE_WEIGHT;
}

static tensor_id
add_const(struct fission *f, enum tensor_role role, enum dtype t, const struct shape *s, const void *data,
    const char *name)
{
	tensor_id id = graph_const(f->g, role, t, s, data, role == ROLE_WEIGHT ? name : NULL);
	struct note *n = note_of(f, id);

	n->known = KNOWN_DATA;
	n->data = data;
	return id;
}

tensor_id
b_table(struct fission *f, enum dtype t, const struct shape *s, const void *data)
{
	if (f->failed)
		return f->blank;
	return add_const(f, shape_count(s) <= MAX_TABLE ? ROLE_CONST : ROLE_WEIGHT, t, s, data, NULL);
}

tensor_id
b_weight(struct fission *f, const struct model_tensor *t, const char *name)
{
	if (!f_check_shape(f, &t->shape, t->type))
		return f->blank;
	return add_const(f, role_for(f, t->type, &t->shape, NULL, 0), t->type, &t->shape, t->data, name);
}

tensor_id
b_num(struct fission *f, enum dtype t, double v)
{
	struct shape s = {0};
	void *data = arena_alloc(f->a, 8);

	elem_set(t, data, 0, v);
	return b_table(f, t, &s, data);
}

/* ---- folding ------------------------------------------------------------------------- */
/* All bytes of a constant's data, made now if they were not yet. */
static bool
compute(struct fission *f, enum prim p, const struct attrs *at, const tensor_id *in, uint32_t n_in,
    uint32_t n_out, struct tensor *out, void **data)
{
	const struct tensor **operands = NEW_ARRAY(f->a, const struct tensor *, n_in);
	const void **bytes = NEW_ARRAY(f->a, const void *, n_in);
	const struct tensor *results[2] = {&out[0], &out[1]};

	for (uint32_t i = 0; i < n_in; i++) {
		bytes[i] = b_data(f, in[i]);
		if (!bytes[i])
			return false;
	}
	for (uint32_t i = 0; i < n_in; i++)
		operands[i] = graph_tensor(f->g, in[i]);
	for (uint32_t i = 0; i < n_out; i++) {
		size_t n;
		if (!shape_bytes(&out[i].shape, out[i].type, &n))
			bug("a folded tensor does not fit");
		f->folded_bytes += n;
		data[i] = arena_alloc(f->a, n);
	}
	struct err e = {0};
	if (!interp_prim(p, at, n_in, operands, bytes, n_out, results, data, &e)) {
		f_fail(f, "%s", e.msg);
		return false;
	}
	return true;
}

const void *
b_data(struct fission *f, tensor_id t)
{
	struct note n = *note_of(f, t);
	size_t bytes;

	if (n.known != KNOWN_LAZY || n.data)
		return n.known == KNOWN_NOT ? NULL : n.data;
	const struct node *maker = &f->g->nodes[n.maker];
	struct tensor out = *graph_tensor(f->g, t);
	void *data[2];
	if (!shape_bytes(&out.shape, out.type, &bytes) || bytes > max_fold_bytes ||
	    bytes > f->m->max_tensor_bytes - f->folded_bytes)
		return NULL;
	struct attrs at = maker->at;
	tensor_id in = maker->n_in ? maker->in[0] : NO_TENSOR;
	if (!compute(f, maker->prim, &at, &in, maker->n_in, 1, &out, data))
		return NULL;
	note_of(f, t)->data = data[0];
	return data[0];
}

/* Steps of the interpreter; what only moves elements in lines is much cheaper. */
static double
work_of(const struct fission *f, enum prim p, const tensor_id *in, const struct tensor *out)
{
	double n = (double)shape_count(&out->shape);

	if (p == PRIM_matmul)
		return 2 * n * (double)b_dim(f, in[0], b_rank(f, in[0]) - 1);
	if (p == PRIM_conv) {
		const struct shape *w = b_shape(f, in[1]);
		return 2 * n * (double)shape_count(w) / (double)MAX_OF(w->dim[w->rank - 1], 1);
	}
	return p == PRIM_transpose || p == PRIM_slice || p == PRIM_reshape ? n : 30 * n;
}

static bool
may_fold(const struct fission *f, enum prim p, const tensor_id *in, uint32_t n_in, const struct tensor *out)
{
	size_t n;

	for (uint32_t i = 0; i < n_in; i++)
		if (!b_is_const(f, in[i]))
			return false;
	return shape_bytes(&out->shape, out->type, &n) && n <= max_fold_bytes &&
	    n <= f->m->max_tensor_bytes - f->folded_bytes && work_of(f, p, in, out) <= max_fold_flops;
}

/* Result tensors of a primitive; false after an error. */
static bool
results_of(struct fission *f, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at,
    struct tensor *out)
{
	const struct tensor **operands = NEW_ARRAY(f->a, const struct tensor *, n_in);
	struct err e = {0};

	for (uint32_t i = 0; i < n_in; i++)
		operands[i] = graph_tensor(f->g, in[i]);
	if (!prim_result(p, operands, n_in, at, out, &e)) {
		f_fail(f, "%s", e.msg);
		return false;
	}
	return f_check_shape(f, &out->shape, out->type);
}

static tensor_id
add_node(struct fission *f, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at)
{
	tensor_id out[2] = {f->blank, f->blank};
	struct err e = {0};
	bool is_lazy = p == PRIM_bcast || p == PRIM_iota;

	if (f->g->n_nodes >= MAX_PRIMITIVES) {
		f_fail(f, "the model needs more than %d primitives", MAX_PRIMITIVES);
		return f->blank;
	}
	if (!graph_add(f->g, p, in, n_in, at, f->origin, out, &e)) {
		f_fail(f, "%s", e.msg);
		return f->blank;
	}
	for (uint32_t i = 0; i < n_in; i++)
		is_lazy = is_lazy && b_is_const(f, in[i]);
	struct note *n = note_of(f, out[0]);
	n->known = is_lazy ? KNOWN_LAZY : KNOWN_NOT;
	n->maker = f->g->n_nodes - 1;
	return out[0];
}

tensor_id
b_prim(struct fission *f, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at)
{
	static const struct attrs none;
	struct tensor out[2] = {{0}, {0}};
	void *data[2];

	if (f->failed)
		return f->blank;
	at = at ? at : &none;
	if (!results_of(f, p, in, n_in, at, &out[0]))
		return f->blank;
	bool is_lazy = p == PRIM_bcast || p == PRIM_iota || p == PRIM_topk;
	if (is_lazy || !may_fold(f, p, in, n_in, &out[0]))
		return add_node(f, p, in, n_in, at);
	if (!compute(f, p, at, in, n_in, 1, out, data))
		return f->failed ? f->blank : add_node(f, p, in, n_in, at);
	const char *name = NULL;
	for (uint32_t i = 0; i < n_in && !name; i++)
		name = graph_tensor(f->g, in[i])->name;
	return add_const(
	    f, role_for(f, out[0].type, &out[0].shape, in, n_in), out[0].type, &out[0].shape, data[0], name);
}

/* ---- maps ---------------------------------------------------------------------------- */
bool
b_common(struct fission *f, const struct shape *a, const struct shape *b, struct shape *out)
{
	*out = (struct shape){.rank = MAX_OF(a->rank, b->rank)};
	for (int i = 1; i <= out->rank; i++) {
		int64_t x = i <= a->rank ? a->dim[a->rank - i] : 1,
			y = i <= b->rank ? b->dim[b->rank - i] : 1;
		if (x != y && x != 1 && y != 1) {
			f_fail(f, "shapes do not broadcast: extents %lld and %lld meet", (long long)x,
			    (long long)y);
			return false;
		}
		out->dim[out->rank - i] = x == 1 ? y : x;
	}
	return true;
}

tensor_id
b_expand(struct fission *f, tensor_id x, const struct shape *s)
{
	struct shape padded = {.rank = s->rank};
	struct attrs at = {0};
	int ahead = s->rank - b_rank(f, x);

	if (f->failed || shape_eq(b_shape(f, x), s))
		return f->failed ? f->blank : x;
	for (int i = 0; i < s->rank; i++)
		padded.dim[i] = i < ahead ? 1 : b_dim(f, x, i - ahead);
	x = b_reshape(f, x, &padded);
	if (shape_eq(&padded, s))
		return x;
	at_list(&at, ATTR_shape, s->rank, s->dim);
	return b_prim(f, PRIM_bcast, &x, 1, &at);
}

tensor_id
b_map1(struct fission *f, enum prim p, tensor_id x)
{
	return b_prim(f, p, &x, 1, NULL);
}

tensor_id
b_map2(struct fission *f, enum prim p, tensor_id x, tensor_id y)
{
	struct shape s;

	if (f->failed || !b_common(f, b_shape(f, x), b_shape(f, y), &s))
		return f->blank;
	tensor_id in[2] = {b_expand(f, x, &s), b_expand(f, y, &s)};
	return b_prim(f, p, in, 2, NULL);
}

tensor_id
b_map2n(struct fission *f, enum prim p, tensor_id x, double y)
{
	return b_map2(f, p, x, b_num(f, b_type(f, x), y));
}

tensor_id
b_select(struct fission *f, tensor_id c, tensor_id x, tensor_id y)
{
	struct shape s, s2;

	if (f->failed || !b_common(f, b_shape(f, x), b_shape(f, y), &s2) ||
	    !b_common(f, b_shape(f, c), &s2, &s))
		return f->blank;
	tensor_id in[3] = {b_expand(f, c, &s), b_expand(f, x, &s), b_expand(f, y, &s)};
	return b_prim(f, PRIM_select, in, 3, NULL);
}

tensor_id
b_cast(struct fission *f, tensor_id x, enum dtype to)
{
	struct attrs at = {0};

	if (f->failed || b_type(f, x) == to)
		return f->failed ? f->blank : x;
	at_int(&at, ATTR_to, (int64_t)to);
	return b_prim(f, PRIM_cast, &x, 1, &at);
}

/* ---- layout -------------------------------------------------------------------------- */
/* Do two shapes differ by extents of 1 alone? */
static bool
same_but_ones(const struct shape *x, const struct shape *y)
{
	int i = 0, k = 0;

	for (;;) {
		while (i < x->rank && x->dim[i] == 1)
			i++;
		while (k < y->rank && y->dim[k] == 1)
			k++;
		if (i == x->rank || k == y->rank)
			return i == x->rank && k == y->rank;
		if (x->dim[i++] != y->dim[k++])
			return false;
	}
}

/* A broadcast of constants takes other ones in ahead of itself, and stays a broadcast. */
static bool
reshape_lazy(struct fission *f, tensor_id x, const struct shape *s, tensor_id *out)
{
	const struct shape *wide = b_shape(f, x), *small;
	struct shape to = *s;
	tensor_id of;
	int i = 0;

	if (known_of(f, x) != KNOWN_LAZY || f->g->nodes[f->notes[x.i].maker].prim != PRIM_bcast ||
	    !same_but_ones(wide, s))
		return false;
	of = f->g->nodes[f->notes[x.i].maker].in[0];
	small = b_shape(f, of);
	for (int k = 0; k < to.rank; k++) {
		if (to.dim[k] == 1)
			continue;
		while (wide->dim[i] == 1)
			i++;
		to.dim[k] = small->dim[i++];
	}
	*out = b_expand(f, b_reshape(f, of, &to), s);
	return true;
}

tensor_id
b_reshape(struct fission *f, tensor_id x, const struct shape *s)
{
	struct attrs at = {0};
	tensor_id lazy;

	if (f->failed || shape_eq(b_shape(f, x), s))
		return f->failed ? f->blank : x;
	const struct tensor t = *graph_tensor(f->g, x);
	if (known_of(f, x) == KNOWN_DATA && shape_count(&t.shape) == shape_count(s))
		return add_const(f, t.role, t.type, s, f->notes[x.i].data, t.name);
	if (reshape_lazy(f, x, s, &lazy))
		return lazy;
	at_list(&at, ATTR_shape, s->rank, s->dim);
	return b_prim(f, PRIM_reshape, &x, 1, &at);
}

tensor_id
b_view(struct fission *f, tensor_id x, int rank, const int64_t *dims)
{
	struct shape s = shape_make(rank, dims);

	return b_reshape(f, x, &s);
}

tensor_id
b_transpose(struct fission *f, tensor_id x, const int64_t *perm)
{
	struct attrs at = {0};
	bool is_same = true;

	for (int i = 0; i < b_rank(f, x); i++)
		is_same = is_same && perm[i] == i;
	if (f->failed || is_same)
		return f->failed ? f->blank : x;
	at_list(&at, ATTR_perm, b_rank(f, x), perm);
	return b_prim(f, PRIM_transpose, &x, 1, &at);
}

tensor_id
b_slice(struct fission *f, tensor_id x, const int64_t *start, const int64_t *step, const struct shape *s)
{
	struct attrs at = {0};
	bool is_whole = shape_eq(b_shape(f, x), s);

	for (int i = 0; i < s->rank; i++)
		is_whole = is_whole && (step[i] == 1 || s->dim[i] == 1);
	if (f->failed || is_whole)
		return f->failed ? f->blank : x;
	at_list(&at, ATTR_shape, s->rank, s->dim);
	at_list(&at, ATTR_start, s->rank, start);
	at_list(&at, ATTR_step, s->rank, step);
	return b_prim(f, PRIM_slice, &x, 1, &at);
}

tensor_id
b_slice1(struct fission *f, tensor_id x, int axis, int64_t from, int64_t n)
{
	struct shape s = *b_shape(f, x);
	int64_t start[MAX_RANK] = {0}, step[MAX_RANK];

	for (int i = 0; i < MAX_RANK; i++)
		step[i] = 1;
	start[axis] = from;
	s.dim[axis] = n;
	return b_slice(f, x, start, step, &s);
}

tensor_id
b_pad(struct fission *f, tensor_id x, const int64_t *lo, const int64_t *hi, enum pad_mode mode, double value)
{
	struct attrs at = {0};
	bool is_none = true;
	int rank = b_rank(f, x);

	for (int i = 0; i < rank; i++)
		is_none = is_none && lo[i] == 0 && hi[i] == 0;
	if (f->failed || is_none)
		return f->failed ? f->blank : x;
	at_list(&at, ATTR_lo, rank, lo);
	at_list(&at, ATTR_hi, rank, hi);
	at_int(&at, ATTR_mode, mode);
	at_real(&at, ATTR_value, value);
	return b_prim(f, PRIM_pad, &x, 1, &at);
}

tensor_id
b_concat(struct fission *f, const tensor_id *in, uint32_t n, int axis)
{
	struct attrs at = {0};

	if (n == 1)
		return in[0];
	at_int(&at, ATTR_axis, axis);
	return b_prim(f, PRIM_concat, in, n, &at);
}

tensor_id
b_gather(struct fission *f, tensor_id x, tensor_id index, int axis)
{
	struct attrs at = {0};
	tensor_id in[2] = {x, index};

	at_int(&at, ATTR_axis, axis);
	return b_prim(f, PRIM_gather, in, 2, &at);
}

tensor_id
b_iota(struct fission *f, const struct shape *s, int axis)
{
	struct attrs at = {0};

	at_list(&at, ATTR_shape, s->rank, s->dim);
	at_int(&at, ATTR_axis, axis);
	return b_prim(f, PRIM_iota, NULL, 0, &at);
}

/* ---- reductions and products --------------------------------------------------------- */
tensor_id
b_reduce(struct fission *f, enum prim p, tensor_id x, int n, const int64_t *axes)
{
	struct attrs at = {0};

	at_list(&at, ATTR_axes, n, axes);
	if (prim_info[p].attrs & ATTR_BIT(last))
		at_int(&at, ATTR_last, 0);
	return n == 0 ? x : b_prim(f, p, &x, 1, &at);
}

tensor_id
b_reduce1(struct fission *f, enum prim p, tensor_id x, int axis)
{
	int64_t axes = axis;

	return b_reduce(f, p, x, 1, &axes);
}

/* sum / n: the division is a multiplication for floats, so that it can move into weights. */
tensor_id
b_mean(struct fission *f, tensor_id x, int n, const int64_t *axes)
{
	double count = 1;

	for (int i = 0; i < n; i++)
		count *= (double)b_dim(f, x, (int)axes[i]);
	tensor_id sum = b_reduce(f, PRIM_sum, x, n, axes);
	if (dtype_is_float(b_type(f, x)))
		return b_map2n(f, PRIM_mul, sum, 1.0 / count);
	return b_map2n(f, PRIM_div, sum, count);
}

tensor_id
b_window(struct fission *f, enum prim p, tensor_id x, const int64_t *kernel, const int64_t *stride,
    const int64_t *dilation, const int64_t *lo, const int64_t *hi)
{
	struct attrs at = {0};
	int rank = b_rank(f, x);

	at_list(&at, ATTR_lo, rank, lo);
	at_list(&at, ATTR_hi, rank, hi);
	at_list(&at, ATTR_kernel, rank, kernel);
	at_list(&at, ATTR_stride, rank, stride);
	at_list(&at, ATTR_dilation, rank, dilation);
	return b_prim(f, p, &x, 1, &at);
}

tensor_id
b_matmul(struct fission *f, tensor_id x, tensor_id y)
{
	tensor_id in[2] = {x, y};

	return b_prim(f, PRIM_matmul, in, 2, NULL);
}
