/* kernels/fuse/stage.c: a stage for every kept tensor: axes with extents and strides, and the
 * expression of one element. */
#include "lower_int.h"

#include <string.h>

/* A stage under construction. */
struct build {
	struct lower *l;
	const struct node *n;
	struct stage *s;
	ix_id idx[MAX_RANK]; /* of the result's dimensions */
	ix_id red[MAX_RANK];
};

static const struct shape *
shape_at(const struct lower *l, tensor_id t)
{
	return &graph_tensor(l->g, t)->shape;
}

static ix_id
stage_axis_add(struct build *b, enum axis_role role, int64_t extent, int64_t stride)
{
	struct tx *x = b->l->tx;

	if (extent == 1)
		return ix_const(x, 0);
	axis_id id = tx_axis(x, role, 0, extent - 1, IX_NONE);
	uint32_t n = b->s->n_par + b->s->n_red;

	if (n == STAGE_AXES)
		bug("a stage has more than %d axes", STAGE_AXES);
	b->s->axis[n] = (struct stage_axis){.id = id, .extent = extent, .stride = stride, .outer = -1};
	if (role == AXIS_RED)
		b->s->n_red++;
	else
		b->s->n_par++;
	return ix_axis(x, id);
}

/* Parallel axes for the result's dimensions; `skip` (or -1) gets index 0 instead. */
static void
par_axes(struct build *b, const struct shape *s, int skip)
{
	int64_t stride = 1, strides[MAX_RANK];

	for (int d = s->rank - 1; d >= 0; d--) {
		strides[d] = stride;
		stride *= s->dim[d];
	}
	for (int d = 0; d < s->rank; d++)
		b->idx[d] =
		    d == skip ? ix_const(b->l->tx, 0) : stage_axis_add(b, AXIS_PAR, s->dim[d], strides[d]);
}

static struct stage *
stage_new(struct tile_prog *p, enum stage_kind kind, uint32_t tensor, uint32_t node)
{
	GROW(p->arena, p->stages, p->n_stages, p->cap_stages);
	struct stage *s = &p->stages[p->n_stages];

	*s = (struct stage){.kind = kind,
	    .tensor = tensor,
	    .tensor2 = UINT32_MAX,
	    .node = node,
	    .body = EX_NONE,
	    .a = EX_NONE,
	    .b = EX_NONE,
	    .init = EX_NONE,
	    .target = IX_NONE};
	if (tensor != UINT32_MAX)
		p->tensors[tensor].stage = p->n_stages;
	p->n_stages++;
	return s;
}

static void
make_map(struct build *b)
{
	par_axes(b, shape_at(b->l, b->n->out[0]), -1);
	b->s->body = lower_node(b->l, b->n, b->idx);
}

static void
make_reduce(struct build *b)
{
	const struct node *n = b->n;
	const struct shape *in = shape_at(b->l, n->in[0]);
	bool window = prim_info[n->prim].shape == SHAPE_WINDOW;

	par_axes(b, shape_at(b->l, n->out[0]), -1);
	for (int d = 0; d < in->rank; d++)
		b->red[d] = ix_const(b->l->tx, 0);
	if (window) {
		for (int d = 0; d < in->rank; d++)
			b->red[d] = stage_axis_add(b, AXIS_RED, at_ints(&n->at, ATTR_kernel)[d], 0);
	} else {
		const struct attr *axes = at_find(&n->at, ATTR_axes);
		for (int i = 0; i < axes->n; i++)
			b->red[axes->i[i]] = stage_axis_add(b, AXIS_RED, in->dim[axes->i[i]], 0);
	}
	b->s->body = lower_term(b->l, n, b->idx, b->red);
	b->s->acc = lower_acc_type(b->l, graph_tensor(b->l->g, n->out[0])->type);
}

static void
make_linear(struct build *b)
{
	const struct node *n = b->n;
	const struct shape *w = shape_at(b->l, n->in[1]);
	struct stage *s = b->s;

	par_axes(b, shape_at(b->l, n->out[0]), -1);
	if (n->prim == PRIM_matmul)
		b->red[0] = stage_axis_add(b, AXIS_RED, w->dim[w->rank - 2], 0);
	else
		for (int d = 0; d < w->rank - 1; d++)
			b->red[d] = stage_axis_add(b, AXIS_RED, w->dim[d], 0);
	lower_factors(b->l, n, b->idx, b->red, &s->a, &s->b);
	s->body = lower_term(b->l, n, b->idx, b->red);
	s->acc = lower_acc_type(b->l, graph_tensor(b->l->g, n->out[0])->type);
}

static void
make_scan(struct build *b)
{
	const struct node *n = b->n;
	const struct shape *s = shape_at(b->l, n->out[0]);
	int axis = (int)at_get(&n->at, ATTR_axis);

	par_axes(b, s, axis);
	b->idx[axis] = stage_axis_add(b, AXIS_RED, s->dim[axis], 0);
	b->s->body = lower_value(b->l, n->in[0], b->idx);
	b->s->target = lower_flat(b->l, s, b->idx);
	enum dtype t = graph_tensor(b->l->g, n->out[0])->type;
	b->s->acc = dtype_is_float(t) ? DT_f64 : t;
}

/* Results along the axis are places 0..k-1 of the sorted extremes; target: the place's flat index
 * for position 0, with the axis' stride in `k_stride`. */
static void
make_topk(struct build *b)
{
	const struct node *n = b->n;
	const struct shape *in = shape_at(b->l, n->in[0]), *out = shape_at(b->l, n->out[0]);
	int axis = (int)at_get(&n->at, ATTR_axis);

	par_axes(b, out, axis);
	b->s->target = lower_flat(b->l, out, b->idx);
	b->idx[axis] = stage_axis_add(b, AXIS_RED, in->dim[axis], 0);
	b->s->body = lower_value(b->l, n->in[0], b->idx);
	b->s->k = out->dim[axis];
	b->s->k_stride = 1;
	for (int d = axis + 1; d < out->rank; d++)
		b->s->k_stride *= out->dim[d];
	b->s->tensor2 = n->out[1].i;
	b->l->p->tensors[n->out[1].i].stage = b->l->p->n_stages - 1;
}

/* Where an update goes: the flat index of the result. */
static ix_id
scatter_target(struct build *b)
{
	struct lower *l = b->l;
	const struct node *n = b->n;
	const struct shape *s = shape_at(l, n->in[0]), *is = shape_at(l, n->in[1]);
	ix_id to[MAX_RANK], at[MAX_RANK];

	if (n->prim == PRIM_scatter_elements) {
		int axis = (int)at_get(&n->at, ATTR_axis);
		memcpy(to, b->idx, sizeof(to));
		to[axis] = lower_index_value(l, lower_value(l, n->in[1], b->idx), s->dim[axis]);
		return lower_flat(l, s, to);
	}
	int m = (int)is->dim[is->rank - 1];

	memcpy(at, b->idx, sizeof(at));
	for (int d = 0; d < s->rank; d++) {
		at[is->rank - 1] = ix_const(l->tx, d);
		to[d] = d < m ? lower_index_value(l, lower_value(l, n->in[1], at), s->dim[d])
			      : b->idx[is->rank - 1 + d - m];
	}
	return lower_flat(l, s, to);
}

/* The updates' axes are reduction axes: they run in order, and later ones win. */
static void
make_scatter(struct build *b)
{
	const struct node *n = b->n;
	const struct shape *s = shape_at(b->l, n->out[0]), *up = shape_at(b->l, n->in[2]);
	struct stage *st = b->s;

	st->count = shape_count(s);
	st->init_axis = tx_axis(b->l->tx, AXIS_PAR, 0, MAX_OF(st->count - 1, (int64_t)0), IX_NONE);
	ix_id at = ix_axis(b->l->tx, st->init_axis), to[MAX_RANK];
	int64_t stride = 1;

	for (int d = s->rank - 1; d >= 0; d--) {
		to[d] = ix_mod(b->l->tx, ix_div(b->l->tx, at, stride), s->dim[d]);
		stride *= s->dim[d];
	}
	st->init = lower_value(b->l, n->in[0], to);
	st->n_update = shape_count(up);
	if (st->n_update == 0)
		return;
	for (int d = 0; d < up->rank; d++)
		b->idx[d] = stage_axis_add(b, AXIS_RED, up->dim[d], 0);
	st->body = lower_value(b->l, n->in[2], b->idx);
	st->target = scatter_target(b);
}

static enum stage_kind
kind_of(const struct lower *l, const struct node *n)
{
	switch ((int)n->prim) {
	case PRIM_argmax:
	case PRIM_argmin:
		return STAGE_ARG;
	case PRIM_cumsum:
		return STAGE_SCAN;
	case PRIM_topk:
		return STAGE_TOPK;
	case PRIM_scatter_elements:
	case PRIM_scatter_nd:
		return STAGE_SCATTER;
	default:
		break;
	}
	if (node_unrolls(l, n) ||
	    (prim_info[n->prim].class != CLASS_REDUCE && prim_info[n->prim].class != CLASS_LINEAR))
		return STAGE_MAP;
	return prim_info[n->prim].class == CLASS_LINEAR ? STAGE_LINEAR : STAGE_REDUCE;
}

static void
stage_of_node(struct lower *l, uint32_t node)
{
	static void (*const make[])(struct build *) = {[STAGE_MAP] = make_map,
	    [STAGE_REDUCE] = make_reduce,
	    [STAGE_ARG] = make_reduce,
	    [STAGE_LINEAR] = make_linear,
	    [STAGE_SCAN] = make_scan,
	    [STAGE_TOPK] = make_topk,
	    [STAGE_SCATTER] = make_scatter};
	const struct node *n = &l->g->nodes[node];
	struct build b = {.l = l, .n = n};
	enum stage_kind kind = kind_of(l, n);

	if (shape_count(shape_at(l, n->out[0])) == 0)
		return;
	b.s = stage_new(l->p, kind, n->out[0].i, node);
	b.s->prim = n->prim;
	b.s->at = &n->at;
	make[kind](&b);
}

/* A result that is an operand, a constant, or another result's tensor once more: a copy. */
static void
stage_of_copy(struct lower *l, tensor_id t, uint32_t result)
{
	struct tile_prog *p = l->p;
	const struct tensor *from = graph_tensor(l->g, t);

	if (shape_count(&from->shape) == 0)
		return;
	GROW(p->arena, p->tensors, p->n_tensors, p->cap_tensors);
	p->tensors[p->n_tensors] = (struct tile_tensor){.at = AT_RESULT,
	    .type = from->type,
	    .count = shape_count(&from->shape),
	    .index = result,
	    .stage = UINT32_MAX};
	struct build b = {.l = l, .s = stage_new(p, STAGE_MAP, p->n_tensors++, NO_NODE)};

	par_axes(&b, &from->shape, -1);
	b.s->body = lower_value(l, t, b.idx);
}

static void
place_known(struct lower *l)
{
	struct tile_prog *p = l->p;
	const struct graph *g = l->g;

	p->n_tensors = p->cap_tensors = g->n_tensors;
	p->tensors = NEW_ARRAY(p->arena, struct tile_tensor, g->n_tensors);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		const struct tensor *s = &g->tensors[t];

		p->tensors[t] = (struct tile_tensor){
		    .type = s->type, .count = shape_count(&s->shape), .stage = UINT32_MAX};
		if (s->role == ROLE_CONST) {
			p->tensors[t].at = AT_TABLE;
			p->tensors[t].data = s->data;
		}
	}
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		p->tensors[g->inputs[i].i].at = AT_OPERAND;
		p->tensors[g->inputs[i].i].index = i;
	}
}

bool
stages_make(struct lower *l, struct err *e)
{
	const struct graph *g = l->g;

	(void)e;
	place_known(l);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (l->kept[g->nodes[i].out[0].i])
			stage_of_node(l, i);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		struct tile_tensor *t = &l->p->tensors[g->outputs[i].i];

		if (t->at == AT_NOWHERE && l->maker[g->outputs[i].i] != NO_NODE) {
			t->at = AT_RESULT;
			t->index = i;
		} else {
			stage_of_copy(l, g->outputs[i], i);
		}
	}
	return true;
}

void
stage_append(struct tile_prog *p, const struct stage *s)
{
	GROW(p->arena, p->stages, p->n_stages, p->cap_stages);
	p->tensors[s->tensor].stage = p->n_stages;
	if (s->tensor2 != UINT32_MAX)
		p->tensors[s->tensor2].stage = p->n_stages;
	p->stages[p->n_stages++] = *s;
}
