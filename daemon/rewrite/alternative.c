/* daemon/rewrite/alternative.c: second producers of a tensor, where only measuring can tell.
 *
 * Each function looks at one node of the finished graph and states another primitive that makes
 * the same tensor; what that one reads is built through the rules.  The union of all producers
 * stays without circles (D1): the graph refuses what would close one, and that is counted.
 * A slice of a map needs no such second form: a kernel of both computes what the slice shows. */
#include "rewrite_int.h"

/* On few elements it hardly matters where a map stands, and every alternative multiplies the
 * candidates around it. */
enum { DEFAULT_ELEMENTS = 16384 };

static bool
is_large_map(const struct rw *r, const struct node *n)
{
	int64_t few = r->o->alt_elements ? r->o->alt_elements : DEFAULT_ELEMENTS;

	return prim_info[n->prim].class == CLASS_MAP && shape_count(rw_shape(r, n->out[0])) > few;
}

/* The operand of map n that primitive p makes, for n alone (else it is stored anyway); all others
 * are broadcasts or constants. */
static bool
one_operand_by(const struct rw *r, const struct node *n, enum prim p, uint32_t *which)
{
	bool found = false;

	for (uint32_t i = 0; i < n->n_in; i++) {
		if (rw_made_by(r, n->in[i], p) && rw_single(r, n->in[i])) {
			if (found && n->in[*which].i != n->in[i].i)
				return false;
			found = true;
			*which = i;
		} else if (!rw_is_const(r, n->in[i]) && !rw_made_by(r, n->in[i], PRIM_bcast)) {
			return false;
		}
	}
	return found;
}

/* n with operand `which` (and equal ones) replaced, the others by `other`. */
static tensor_id
same_map(struct rw *r, const struct node *n, tensor_id was, tensor_id now, const struct attrs *cut)
{
	tensor_id in[3];

	for (uint32_t i = 0; i < n->n_in; i++)
		in[i] = n->in[i].i == was.i ? now : cut ? rw_op1(r, PRIM_slice, n->in[i], cut) : n->in[i];
	return rw_op(r, n->prim, in, n->n_in, &n->at);
}

/* E(concat(a, b)) = concat(E(a), E(b)): the map can go into the kernels that make a and b. */
bool
alt_map_before_concat(struct rw *r, const struct node *n, struct other *out)
{
	uint32_t which;

	if (!is_large_map(r, n) || !one_operand_by(r, n, PRIM_concat, &which))
		return false;
	tensor_id whole = n->in[which];
	const struct node *c = rw_made_by(r, whole, PRIM_concat);
	int axis = ck_int(at_get(&c->at, ATTR_axis));
	int64_t start[MAX_RANK] = {0};
	out->prim = PRIM_concat;
	out->n_in = c->n_in;
	out->in = NEW_ARRAY(r->tmp, tensor_id, c->n_in);
	out->at = c->at;
	for (uint32_t i = 0; i < c->n_in; i++) {
		struct attrs cut = {0};
		const struct shape part = *rw_shape(r, c->in[i]);
		at_slice(&cut, &part, start, NULL);
		out->in[i] = same_map(r, n, whole, c->in[i], &cut);
		start[axis] += part.dim[axis];
	}
	return true;
}

/* The operands other than `t` do not notice a layout of t: they are one number each. */
static bool
others_are_scalars(const struct rw *r, const struct node *n, tensor_id t)
{
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct node *b = rw_made_by(r, n->in[i], PRIM_bcast);
		if (n->in[i].i != t.i && (!b || shape_count(rw_shape(r, b->in[0])) != 1))
			return false;
	}
	return true;
}

/* The map on the layout's operand, whose shape the scalars are repeated to. */
static tensor_id
map_of_operand(struct rw *r, const struct node *n, tensor_id t, tensor_id x)
{
	struct shape s = *rw_shape(r, x), one = {.rank = s.rank};
	tensor_id in[3];

	for (int i = 0; i < one.rank; i++)
		one.dim[i] = 1;
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct node *b = rw_made_by(r, n->in[i], PRIM_bcast);
		in[i] = n->in[i].i == t.i ? x : rw_bcast(r, rw_reshape(r, b->in[0], &one), &s);
	}
	return rw_op(r, n->prim, in, n->n_in, &n->at);
}

/* The map on the operand of the layout p that stands before it, where that is no more work. */
static bool
map_before(struct rw *r, const struct node *n, enum prim p, struct other *out)
{
	uint32_t which;

	if (!is_large_map(r, n) || !one_operand_by(r, n, p, &which) ||
	    !others_are_scalars(r, n, n->in[which]))
		return false;
	tensor_id t = n->in[which];
	const struct node *was = rw_made_by(r, t, p);
	if (p == PRIM_pad ? at_get(&was->at, ATTR_mode) == PAD_CONSTANT
			  : shape_count(rw_shape(r, was->in[0])) > shape_count(rw_shape(r, t)))
		return false;
	out->prim = p;
	out->n_in = was->n_in;
	out->in = arena_dup(r->tmp, was->in, was->n_in * sizeof(*was->in));
	out->in[0] = map_of_operand(r, n, t, was->in[0]);
	out->at = was->at;
	return true;
}

/* E(pad(x)) = pad(E(x)) where the pad repeats elements: fewer elements are computed. */
bool
alt_map_before_pad(struct rw *r, const struct node *n, struct other *out)
{
	return map_before(r, n, PRIM_pad, out);
}

/* E(gather(x)) = gather(E(x)): on whichever side there is less, or what is fused better. */
bool
alt_map_before_gather(struct rw *r, const struct node *n, struct other *out)
{
	return map_before(r, n, PRIM_gather, out);
}

/* A transposed convolution each of whose results meets one tap: as far apart as the window is large. */
static bool
meets_one_tap(const struct rw *r, const struct node *n)
{
	if (n->prim != PRIM_conv || at_get(&n->at, ATTR_group) != 1)
		return false;
	const struct shape *w = rw_shape(r, n->in[1]);
	if (w->rank * 2 > MAX_RANK + 2)
		return false;
	for (int d = 0; d < w->rank - 2; d++)
		if (w->dim[d] < 2 || at_ints(&n->at, ATTR_ldil)[d] != w->dim[d] ||
		    at_ints(&n->at, ATTR_lo)[d] != w->dim[d] - 1 ||
		    at_ints(&n->at, ATTR_hi)[d] != w->dim[d] - 1 || at_ints(&n->at, ATTR_stride)[d] != 1 ||
		    at_ints(&n->at, ATTR_dilation)[d] != 1)
			return false;
	return true;
}

/* w[K.., C, Co], its window turned: [1.., C, (K.., Co)], a tap beside the other. */
static tensor_id
taps_as_columns(struct rw *r, tensor_id w)
{
	const struct shape s = *rw_shape(r, w);
	const int n = s.rank - 2;
	int64_t start[MAX_RANK] = {0}, step[MAX_RANK], perm[MAX_RANK];
	struct shape one = {.rank = s.rank};
	struct attrs turned = {0};

	for (int d = 0; d < s.rank; d++) {
		start[d] = d < n ? s.dim[d] - 1 : 0;
		step[d] = d < n ? -1 : 1;
		perm[d] = d == 0 ? n : d <= n ? d - 1 : d;
		one.dim[d] = d < n ? 1 : s.dim[d];
	}
	for (int d = 0; d < n; d++)
		one.dim[n + 1] *= s.dim[d];
	at_slice(&turned, &s, start, step);
	return rw_reshape(r, rw_transpose(r, rw_op1(r, PRIM_slice, w, &turned), s.rank, perm), &one);
}

/* By taps as columns of one matrix, each result of which is put in its place. */
bool
alt_taps_as_columns(struct rw *r, const struct node *n, struct other *out)
{
	static const int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1}, none[MAX_RANK] = {0};

	if (!meets_one_tap(r, n))
		return false;
	const struct shape to = *rw_shape(r, n->out[0]), w = *rw_shape(r, n->in[1]),
			   x = *rw_shape(r, n->in[0]);
	const int dims = w.rank - 2;
	struct shape apart = {.rank = 2 * dims + 2};
	int64_t perm[MAX_RANK] = {0};
	struct attrs at = n->at; /* stride, dilation and group are one */

	at_list(&at, ATTR_lo, dims, none);
	at_list(&at, ATTR_hi, dims, none);
	at_list(&at, ATTR_ldil, dims, ones);
	for (int d = 0; d < dims; d++) { /* pixels, then taps: a pixel's taps beside it */
		apart.dim[1 + d] = x.dim[1 + d];
		apart.dim[1 + dims + d] = w.dim[d];
		perm[1 + 2 * d] = 1 + d;
		perm[2 + 2 * d] = 1 + dims + d;
	}
	apart.dim[0] = x.dim[0];
	apart.dim[2 * dims + 1] = w.dim[dims + 1];
	perm[2 * dims + 1] = 2 * dims + 1;
	tensor_id product =
	    rw_op(r, PRIM_conv, (tensor_id[]){n->in[0], taps_as_columns(r, n->in[1])}, 2, &at);
	*out = (struct other){.prim = PRIM_reshape, .n_in = 1, .in = NEW(r->tmp, tensor_id)};
	out->in[0] = rw_transpose(r, rw_reshape(r, product, &apart), apart.rank, perm);
	at_list(&out->at, ATTR_shape, to.rank, to.dim);
	return true;
}
