/* kernels/schedule/lower.c: a block and its nest for every primitive that computes. */
#include "lower_int.h"

#include <string.h>

enum { TREE_LIMIT = 64 }; /* reads in an expression, about, before a layout gets a buffer of its own */

/* ---- a block under construction ------------------------------------------------------------------ */
struct making {
	struct lowering *l;
	const struct node *n;
	struct tir_block b;
	ix_id idx[MAX_RANK]; /* of the result's dimensions */
	ix_id red[MAX_RANK];
};

static struct making
begin(struct lowering *l, const struct node *n, const char *name)
{
	return (struct making){.l = l, .n = n, .b = {.name = name, .iter0 = l->p->n_iter, .comb = COMB_NONE}};
}

/* An extent of 1 needs no iterator. */
static ix_id
iterator(struct making *m, enum iter_kind kind, int d, int64_t extent)
{
	static const char letter[] = {[ITER_SPACE] = 'i', [ITER_REDUCE] = 'k', [ITER_CARRIED] = 'c'};

	if (extent == 1)
		return ix_const(m->l->tx, 0);
	m->b.n_iter++;
	return ix_axis(m->l->tx,
	    tir_add_iter(m->l->p, arena_printf(m->l->p->arena, "%c%d", letter[kind], d), kind, extent));
}

/* Iterators for all dimensions; dimension `skip` (or -1) is left alone. */
static void
iterators(struct making *m, enum iter_kind kind, const struct shape *s, int skip)
{
	for (int d = 0; d < s->rank; d++)
		if (d != skip)
			m->idx[d] = iterator(m, kind, d, s->dim[d]);
}

static void
result(struct making *m, buf_id buf, ex_id value)
{
	uint32_t k = m->b.n_out++;

	m->b.out[k] = buf;
	m->b.at[k] = ixv_make(m->l->tx, (uint32_t)m->l->p->buf[buf].rank, m->idx);
	m->b.value[k] = value;
}

/* The block, and a loop for each iterator around its one instance. */
static void
finish(struct making *m)
{
	struct tir *p = m->l->p;

	for (uint32_t k = 0; k < m->b.n_out; k++)
		m->b.value[k] = guarded_value(p, &m->b, m->b.value[k]);
	tir_nest(p, tir_add_blk(p, &m->b));
}

static const char *
name_of(const struct lowering *l, tensor_id t, const char *suffix)
{
	return arena_printf(l->p->arena, "t%u%s", t.i, suffix);
}

static buf_id
temp(struct lowering *l, tensor_id t, const char *suffix, enum dtype type)
{
	const struct shape *s = shape_at(l, t);
	struct tir_buf b = tir_buf_make(
	    arena_printf(l->p->arena, "%u%s", t.i, suffix), type, BUF_TEMP, SCOPE_global, s->rank, s->dim);

	return tir_add_buf(l->p, &b);
}

/* What was summed in another type, rounded once. */
static void
round_into(struct lowering *l, tensor_id t, buf_id acc)
{
	struct making m = begin(l, NULL, name_of(l, t, ""));
	const struct shape *s = shape_at(l, t);
	ex_id v;

	iterators(&m, ITER_SPACE, s, -1);
	v = ex_load(l->tx, l->p->buf[acc].type, acc, ixv_make(l->tx, (uint32_t)s->rank, m.idx));
	result(&m, l->buf[t.i], ex_map(l->tx, PRIM_cast, type_at(l, t), 1, &v));
	finish(&m);
}

/* ---- kinds of blocks ---------------------------------------------------------------------------------- */
static void
make_plain(struct lowering *l, const struct node *n)
{
	struct making m = begin(l, n, name_of(l, n->out[0], ""));

	iterators(&m, ITER_SPACE, shape_at(l, n->out[0]), -1);
	result(&m, l->buf[n->out[0].i], node_value(l, n, m.idx));
	finish(&m);
}

/* Sums and products of few bits lose them in every step. */
static enum dtype
acc_type(const struct lowering *l, enum comb c, enum dtype t)
{
	if (comb_info[c].exact || !dtype_is_float(t) || t == DT_f64)
		return t;
	return l->strict ? DT_f64 : DT_f32;
}

/* Over one element: it is that one, zeros with their sign. */
static void
make_only(struct lowering *l, const struct node *n, enum dtype acc)
{
	tensor_id t = n->out[0];
	struct making m = begin(l, n, name_of(l, t, ""));
	ex_id v;

	iterators(&m, ITER_SPACE, shape_at(l, t), -1);
	for (int d = 0; d < MAX_RANK; d++)
		m.red[d] = ix_const(l->tx, 0);
	v = term_value(l, n, m.idx, m.red, acc);
	result(&m, l->buf[t.i], acc == type_at(l, t) ? v : ex_map(l->tx, PRIM_cast, type_at(l, t), 1, &v));
	finish(&m);
}

static void
make_reduce(struct lowering *l, const struct node *n)
{
	tensor_id t = n->out[0];
	enum comb c = comb_of(n);
	enum dtype type = comb_info[c].arity == 2 ? type_at(l, n->in[0]) : type_at(l, t),
		   acc = acc_type(l, c, type);
	bool apart = comb_info[c].arity == 1 && acc != type;
	struct making m;
	int64_t ext[MAX_RANK], depth = 1;
	int rank = red_extents(l, n, ext), axis = 0;

	for (int d = 0; d < rank; d++)
		depth *= ext[d];
	if (depth == 1 && comb_info[c].arity == 1) {
		make_only(l, n, acc);
		return;
	}
	m = begin(l, n, name_of(l, t, apart ? "'acc" : ""));
	iterators(&m, ITER_SPACE, shape_at(l, t), -1);
	if (depth == 0) { /* over nothing */
		m.b.name = name_of(l, t, "");
		result(&m, l->buf[t.i], comb_identity(l->tx, c, 0, type_at(l, t)));
		finish(&m);
		return;
	}
	for (int d = 0; d < rank; d++) {
		m.red[d] = iterator(&m, ITER_REDUCE, d, ext[d]);
		axis = ext[d] > 1 ? d : axis;
	}
	ex_id v = term_value(l, n, m.idx, m.red, acc);

	m.b.comb = c;
	if (comb_info[c].arity == 2)
		result(&m, temp(l, t, "'best", type), v);
	if (comb_info[c].arity == 2)
		v = ex_index(l->tx, m.red[axis]);
	buf_id sum = apart ? temp(l, t, "'acc", acc) : l->buf[t.i];

	result(&m, sum, v);
	finish(&m);
	if (apart)
		round_into(l, t, sum);
}

/* Element k of a scan reads element k - 1 of its result. */
static void
make_cumsum(struct lowering *l, const struct node *n)
{
	tensor_id t = n->out[0];
	const struct shape *s = shape_at(l, t);
	int axis = (int)at_get(&n->at, ATTR_axis);
	int64_t extent = s->dim[axis], reverse = at_get(&n->at, ATTR_reverse);
	enum dtype type = type_at(l, t), acc = dtype_is_float(type) ? DT_f64 : type;
	struct making m = begin(l, n, name_of(l, t, acc != type ? "'acc" : ""));
	buf_id sum = acc != type ? temp(l, t, "'acc", acc) : l->buf[t.i];
	ix_id before[MAX_RANK], k;

	iterators(&m, ITER_SPACE, s, axis);
	k = iterator(&m, ITER_CARRIED, axis, extent);
	m.idx[axis] = reverse ? ix_addc(l->tx, ix_mulc(l->tx, k, -1), extent - 1) : k;
	memcpy(before, m.idx, sizeof(before));
	before[axis] = ix_addc(l->tx, m.idx[axis], reverse ? 1 : -1);
	ex_id held = ex_load(l->tx, acc, sum, ixv_make(l->tx, (uint32_t)s->rank, before));
	ex_id zero = ex_real(l->tx, acc, 0), v;
	bool exclusive = at_get(&n->at, ATTR_exclusive) != 0;

	v = value_at(l, n->in[0], exclusive ? before : m.idx);
	v = ex_map(l->tx, PRIM_cast, acc, 1, &v);
	if (exclusive)
		v = ex_guard(l->tx, k, 1, extent, ex_map(l->tx, PRIM_add, acc, 2, (ex_id[]){held, v}), zero);
	else
		v = ex_map(l->tx, PRIM_add, acc, 2, (ex_id[]){ex_guard(l->tx, k, 1, extent, held, zero), v});
	result(&m, sum, v);
	finish(&m);
	if (sum != l->buf[t.i])
		round_into(l, t, sum);
}

/* Place j takes the best of what comes behind place j - 1 in the order of values and positions. */
static void
make_topk(struct lowering *l, const struct node *n)
{
	const struct shape *in = shape_at(l, n->in[0]), *out = shape_at(l, n->out[0]);
	int axis = (int)at_get(&n->at, ATTR_axis);
	enum comb c = at_get(&n->at, ATTR_largest) ? COMB_argmax : COMB_least;
	enum dtype type = type_at(l, n->out[0]);
	struct making m = begin(l, n, name_of(l, n->out[0], ""));
	ix_id at[MAX_RANK], before[MAX_RANK], j, k;
	ex_id elem[2], held[2], none[2];
	ixv_id place;

	iterators(&m, ITER_SPACE, out, axis);
	m.idx[axis] = j = iterator(&m, ITER_CARRIED, axis, out->dim[axis]);
	k = iterator(&m, ITER_REDUCE, axis, in->dim[axis]);
	memcpy(at, m.idx, sizeof(at));
	memcpy(before, m.idx, sizeof(before));
	at[axis] = k;
	before[axis] = ix_addc(l->tx, j, -1);
	place = ixv_make(l->tx, (uint32_t)out->rank, before);
	elem[0] = value_at(l, n->in[0], at);
	elem[1] = ex_index(l->tx, k);
	for (uint32_t o = 0; o < 2; o++) {
		enum dtype t = o ? DT_i64 : type;

		held[o] = ex_load(l->tx, t, l->buf[n->out[o].i], place);
		none[o] = comb_identity(l->tx, c, o, t);
	}
	ex_id behind = comb_first(l->tx, c, elem, held); /* what is held comes before the element */

	behind = ex_guard(l->tx, j, 1, out->dim[axis], behind, ex_whole(l->tx, DT_bool, 1));
	m.b.comb = c;
	for (uint32_t o = 0; o < 2; o++)
		result(&m, l->buf[n->out[o].i],
		    ex_map(l->tx, PRIM_select, o ? DT_i64 : type, 3, (ex_id[]){behind, elem[o], none[o]}));
	finish(&m);
}

/* Where an update goes: index d of the result. */
static void
scatter_target(struct making *m, const struct shape *s, ix_id *to)
{
	struct lowering *l = m->l;
	const struct node *n = m->n;
	const struct shape *is = shape_at(l, n->in[1]);
	int q = (int)is->dim[is->rank - 1], axis;
	ix_id at[MAX_RANK];

	if (n->prim == PRIM_scatter_elements) {
		axis = (int)at_get(&n->at, ATTR_axis);
		memcpy(to, m->idx, sizeof(m->idx));
		to[axis] = index_value(l, value_at(l, n->in[1], m->idx), s->dim[axis]);
		return;
	}
	memcpy(at, m->idx, sizeof(at));
	for (int d = 0; d < s->rank; d++) {
		at[is->rank - 1] = ix_const(l->tx, d);
		to[d] = d < q ? index_value(l, value_at(l, n->in[1], at), s->dim[d])
			      : m->idx[is->rank - 1 + d - q];
	}
}

/* A copy, then the updates in their order. */
static void
make_scatter(struct lowering *l, const struct node *n)
{
	static const enum prim join[] = {PRIM_COUNT, PRIM_add, PRIM_mul, PRIM_max, PRIM_min};
	tensor_id t = n->out[0];
	const struct shape *s = shape_at(l, t), *up = shape_at(l, n->in[2]);
	enum prim mode = join[at_get(&n->at, ATTR_mode)];
	struct making copy = begin(l, n, name_of(l, t, "'copy")), m;
	ix_id to[MAX_RANK];
	ex_id v[2];

	iterators(&copy, ITER_SPACE, s, -1);
	result(&copy, l->buf[t.i], value_at(l, n->in[0], copy.idx));
	finish(&copy);
	if (shape_count(up) == 0)
		return;
	m = begin(l, n, name_of(l, t, ""));
	iterators(&m, ITER_CARRIED, up, -1);
	scatter_target(&m, s, to);
	v[1] = value_at(l, n->in[2], m.idx);
	memcpy(m.idx, to, sizeof(to));
	v[0] = ex_load(l->tx, type_at(l, t), l->buf[t.i], ixv_make(l->tx, (uint32_t)s->rank, to));
	result(&m, l->buf[t.i], mode == PRIM_COUNT ? v[1] : ex_map(l->tx, mode, type_at(l, t), 2, v));
	finish(&m);
}

static void
make_node(struct lowering *l, const struct node *n)
{
	if (shape_count(shape_at(l, n->out[0])) == 0)
		return;
	switch ((int)n->prim) {
	case PRIM_cumsum:
		make_cumsum(l, n);
		return;
	case PRIM_topk:
		make_topk(l, n);
		return;
	case PRIM_scatter_elements:
	case PRIM_scatter_nd:
		make_scatter(l, n);
		return;
	default:
		break;
	}
	if (prim_info[n->prim].class == CLASS_REDUCE || prim_info[n->prim].class == CLASS_LINEAR)
		make_reduce(l, n);
	else
		make_plain(l, n);
}

/* ---- which tensors are kept
 * -------------------------------------------------------------------------------- */
static bool
moves_only(const struct node *n)
{
	enum prim_class c = prim_info[n->prim].class;

	return c == CLASS_BCAST || c == CLASS_LAYOUT || n->prim == PRIM_gather_nd;
}

/* How often the layout asks which row is meant: a product would ask it again at each element of the row. */
static uint32_t
asks_of_rows(const struct lowering *l, const struct node *n)
{
	const int last = shape_at(l, n->out[0])->rank - 1;
	uint32_t asks = 0;

	if (n->prim == PRIM_concat && at_get(&n->at, ATTR_axis) != last)
		return n->n_in - 1;
	for (int d = 0; n->prim == PRIM_pad && d < last; d++)
		asks += at_ints(&n->at, ATTR_lo)[d] != 0 || at_ints(&n->at, ATTR_hi)[d] != 0;
	return asks;
}

/* Rows of a product that are put together from several places, as those of a shifted window, are made once,
 * near the tile that reads them. */
static void
keep_rows(struct lowering *l)
{
	enum { FEW_ASKS = 2 };
	uint32_t *asks = NEW_ARRAY(l->p->arena, uint32_t, l->g->n_tensors);

	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		const struct node *n = &l->g->nodes[i];
		uint32_t most = 0;

		if (n->prim == PRIM_matmul && asks[n->in[0].i] >= FEW_ASKS)
			l->kept[n->in[0].i] = true;
		for (uint32_t k = 0; k < n->n_in; k++)
			most = MAX_OF(most, asks[n->in[k].i]);
		if (!l->kept[n->out[0].i])
			asks[n->out[0].i] = most + asks_of_rows(l, n);
	}
}

/* All that computes, and layouts of layouts that would multiply (two concats of each other's result). */
static void
keep(struct lowering *l)
{
	uint32_t *size = NEW_ARRAY(l->p->arena, uint32_t, l->g->n_tensors);

	for (uint32_t t = 0; t < l->g->n_tensors; t++)
		size[t] = 1;
	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		const struct node *n = &l->g->nodes[i];
		uint32_t sum = 1;

		for (uint32_t k = 0; k < n->n_in; k++)
			sum += size[n->in[k].i];
		for (uint32_t k = 0; k < n->n_out; k++) {
			l->kept[n->out[k].i] = !moves_only(n) || sum > TREE_LIMIT;
			size[n->out[k].i] = l->kept[n->out[k].i] ? 1 : sum;
		}
	}
	keep_rows(l);
	for (uint32_t i = 0; i < l->g->n_outputs; i++)
		l->kept[l->g->outputs[i].i] |= l->maker[l->g->outputs[i].i] != NO_NODE;
}

static void
add_buffer(struct lowering *l, tensor_id t, const char *name, enum buf_role role, uint32_t index)
{
	const struct tensor *s = graph_tensor(l->g, t);
	const bool is_weight = role == BUF_OPERAND && s->role == ROLE_WEIGHT;
	struct tir_buf b = tir_buf_make(
	    name, s->type, role, is_weight ? SCOPE_pack : SCOPE_global, s->shape.rank, s->shape.dim);

	if (shape_count(&s->shape) == 0)
		return;
	b.index = index;
	b.data = role == BUF_TABLE ? s->data : NULL;
	l->buf[t.i] = tir_add_buf(l->p, &b);
}

static void
add_buffers(struct lowering *l)
{
	const struct graph *g = l->g;

	for (uint32_t t = 0; t < g->n_tensors; t++)
		l->buf[t] = BUF_NONE;
	for (uint32_t i = 0; i < g->n_inputs; i++)
		add_buffer(l, g->inputs[i], arena_printf(l->p->arena, "%u", g->inputs[i].i), BUF_OPERAND, i);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (l->maker[g->outputs[i].i] != NO_NODE && l->buf[g->outputs[i].i] == BUF_NONE)
			add_buffer(l, g->outputs[i], arena_printf(l->p->arena, "%u", g->outputs[i].i),
			    BUF_RESULT, i);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		const char *name = arena_printf(l->p->arena, "%u", t);

		if (l->buf[t] != BUF_NONE)
			continue;
		if (l->kept[t])
			add_buffer(l, (tensor_id){t}, name, BUF_TEMP, 0);
		else if (g->tensors[t].role == ROLE_CONST && g->tensors[t].data)
			add_buffer(l, (tensor_id){t}, name, BUF_TABLE, 0);
	}
}

/* A result that is an operand, a constant, or another result once more. */
static void
copy_result(struct lowering *l, tensor_id t, uint32_t index)
{
	const struct tensor *s = graph_tensor(l->g, t);
	struct making m = begin(l, NULL, arena_printf(l->p->arena, "t%u'out%u", t.i, index));
	struct tir_buf b = tir_buf_make(arena_printf(l->p->arena, "%u'out%u", t.i, index), s->type,
	    BUF_RESULT, SCOPE_global, s->shape.rank, s->shape.dim);

	if (shape_count(&s->shape) == 0)
		return;
	b.index = index;
	iterators(&m, ITER_SPACE, &s->shape, -1);
	ex_id v = value_at(l, t, m.idx);

	result(&m, tir_add_buf(l->p, &b), v);
	finish(&m);
}

void
schedule_lower(struct arena *a, const struct spec *s, bool strict, struct tir *out)
{
	struct lowering l = {.p = out, .g = &s->g, .tx = tx_make(a), .strict = strict};
	uint32_t n = s->g.n_tensors;

	tx_set_strict(l.tx, strict);
	tir_begin(out, a, l.tx, TIR_NEST);
	l.maker = NEW_ARRAY(a, uint32_t, n);
	l.kept = NEW_ARRAY(a, bool, n);
	l.buf = NEW_ARRAY(a, buf_id, n);
	memset(l.maker, 0xff, n * sizeof(*l.maker)); /* NO_NODE */
	for (uint32_t i = s->g.n_nodes; i-- > 0;)
		for (uint32_t k = 0; k < s->g.nodes[i].n_out; k++)
			l.maker[s->g.nodes[i].out[k].i] = i;
	keep(&l);
	add_buffers(&l);
	for (uint32_t i = 0; i < s->g.n_nodes; i++)
		if (l.kept[s->g.nodes[i].out[0].i])
			make_node(&l, &s->g.nodes[i]);
	for (uint32_t i = 0; i < s->g.n_outputs; i++) {
		buf_id b = l.buf[s->g.outputs[i].i];

		if (b == BUF_NONE || out->buf[b].role != BUF_RESULT || out->buf[b].index != i)
			copy_result(&l, s->g.outputs[i], i);
	}
}
