/* kernels/ir/piece.c: does a spec only move bytes, and each of its operands' stretches as a whole?
 *
 * Every tensor of such a spec is a list of pieces of operands, in the order of its bytes.  An operand is
 * one piece; a reshape keeps the list; a concat whose outer axes have extent 1 joins lists; a slice that
 * takes one stretch of memory cuts one out. */
#include "ir_int.h"

/* A concat of itself, of itself: a stranger's spec must not cost more than it is worth. */
enum { MAX_PIECES = 1024 };

struct pieces {
	struct spec_piece *p;
	uint32_t n;
};

/* Behind the others; one that goes on where the last ended lengthens it. */
static bool
append(struct pieces *to, struct spec_piece p)
{
	struct spec_piece *last = to->n ? &to->p[to->n - 1] : NULL;

	if (p.n_bytes == 0)
		return true;
	if (last && last->operand == p.operand && last->from + last->n_bytes == p.from) {
		last->n_bytes += p.n_bytes;
		return true;
	}
	p.to = last ? last->to + last->n_bytes : 0;
	if (to->n == MAX_PIECES)
		return false;
	to->p[to->n++] = p;
	return true;
}

static bool
outer_is_one(const struct shape *s, int axis)
{
	for (int i = 0; i < axis; i++)
		if (s->dim[i] != 1)
			return false;
	return true;
}

static bool
join(const struct graph *g, const struct node *n, const struct pieces *of, struct pieces *to)
{
	if (!outer_is_one(&graph_tensor(g, n->out[0])->shape, (int)at_get(&n->at, ATTR_axis)))
		return false;
	for (uint32_t i = 0; i < n->n_in; i++)
		for (uint32_t j = 0; j < of[n->in[i].i].n; j++)
			if (!append(to, of[n->in[i].i].p[j]))
				return false;
	return true;
}

/* Inside the axis that is cut all is taken as it lies, outside of it one index each. */
static bool
is_one_stretch(const struct shape *from, const struct shape *to, const int64_t *start, const int64_t *step)
{
	int axis = to->rank - 1;

	while (axis >= 0 && to->dim[axis] == from->dim[axis] &&
	    (to->dim[axis] == 1 || (start[axis] == 0 && step[axis] == 1)))
		axis--;
	return axis < 0 || ((to->dim[axis] == 1 || step[axis] == 1) && outer_is_one(to, axis));
}

bool
slice_stretch(const struct graph *g, const struct node *n, size_t *from, size_t *n_bytes)
{
	const struct tensor *t = graph_tensor(g, n->in[0]);
	const struct shape *s = &graph_tensor(g, n->out[0])->shape;
	const int64_t *start = at_ints(&n->at, ATTR_start), *step = at_ints(&n->at, ATTR_step);
	size_t stride = dtype_size(t->type);

	if (!is_one_stretch(&t->shape, s, start, step) || !shape_bytes(s, t->type, n_bytes))
		return false;
	*from = 0;
	for (int i = s->rank; i-- > 0; stride *= (size_t)t->shape.dim[i])
		*from += stride * (size_t)start[i];
	return true;
}

static bool
cut(const struct graph *g, const struct node *n, const struct pieces *of, struct pieces *to)
{
	size_t at, end;

	if (!slice_stretch(g, n, &at, &end))
		return false;
	end += at;
	for (uint32_t i = 0; i < of[n->in[0].i].n; i++) {
		struct spec_piece p = of[n->in[0].i].p[i];
		size_t lo = MAX_OF(p.to, at), hi = MIN_OF(p.to + p.n_bytes, end);

		if (lo >= hi)
			continue;
		p.from += lo - p.to;
		p.n_bytes = hi - lo;
		if (!append(to, p))
			return false;
	}
	return true;
}

static bool
move(const struct graph *g, const struct node *n, const struct pieces *of, struct pieces *to)
{
	switch ((int)n->prim) {
	case PRIM_reshape:
		*to = of[n->in[0].i];
		return true;
	case PRIM_concat:
		return join(g, n, of, to);
	case PRIM_slice:
		return cut(g, n, of, to);
	default:
		return false;
	}
}

/* A constant that the spec holds by value is nobody's piece. */
static bool
is_complete(const struct graph *g, tensor_id t, const struct pieces *of)
{
	const struct spec_piece *last = of->n ? &of->p[of->n - 1] : NULL;
	size_t n_bytes;

	return shape_bytes(&graph_tensor(g, t)->shape, graph_tensor(g, t)->type, &n_bytes) &&
	    n_bytes == (last ? last->to + last->n_bytes : 0);
}

bool
spec_pieces(struct arena *a, const struct spec *s, struct spec_piece **out, uint32_t *n)
{
	const struct graph *g = &s->g;
	struct pieces *of;
	struct spec_piece room[MAX_PIECES];

	if (g->n_outputs != 1)
		return false;
	of = NEW_ARRAY(a, struct pieces, g->n_tensors);
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct tensor *t = graph_tensor(g, g->inputs[i]);
		struct spec_piece all = {.operand = i};

		if (!shape_bytes(&t->shape, t->type, &all.n_bytes))
			return false;
		of[g->inputs[i].i] = (struct pieces){arena_dup(a, &all, sizeof(all)), all.n_bytes > 0};
	}
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct pieces to = {room, 0};

		if (!move(g, &g->nodes[i], of, &to) || !is_complete(g, g->nodes[i].out[0], &to))
			return false;
		of[g->nodes[i].out[0].i] = (struct pieces){arena_dup(a, to.p, to.n * sizeof(*to.p)), to.n};
	}
	*out = of[g->outputs[0].i].p;
	*n = of[g->outputs[0].i].n;
	return *n > 0 && g->n_nodes > 0;
}
