/* daemon/identify/group.c: the graph as identification sees it.
 *
 *  1. A view (one producer) is its operand's memory: tensors have roots.
 *  2. A broadcast that only maps and reductions read, or one of a constant, is an index map of its
 *     readers and belongs to each of them.
 *  3. A map whose other operands are read by its producer anyway, and which is that producer's
 *     only reader, is never better apart from it: what would be stored between them has the size
 *     of what is stored behind them.  Such chains are one group.  So are a linear primitive and
 *     its bias, a reduction and the maps on its result, and maps and layouts on few elements
 *     with one reader. */
#include "identify_int.h"

#include <string.h>

enum { MAX_UNIT_NODES = 24, SMALL_ELEMENTS = 16384, MAX_SMALL_INPUTS = 4 };

bool
tensor_is_const(const struct graph *g, tensor_id t)
{
	enum tensor_role role = graph_tensor(g, t)->role;

	return role == ROLE_CONST || role == ROLE_WEIGHT;
}

static uint32_t
n_makers(const struct groups *u, tensor_id t)
{
	return u->ix.maker_first[t.i + 1] - u->ix.maker_first[t.i];
}

static const struct node *
only_maker(const struct groups *u, tensor_id t)
{
	return n_makers(u, t) == 1 ? &u->g->nodes[u->ix.maker[u->ix.maker_first[t.i]]] : NULL;
}

static void
find_roots(struct groups *u)
{
	const struct graph *g = u->g;

	for (uint32_t t = 0; t < g->n_tensors; t++)
		u->root[t] = t;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		u->is_view[i] = node_is_view(g, n) && n_makers(u, n->out[0]) == 1;
		if (u->is_view[i])
			u->root[n->out[0].i] = u->root[n->in[0].i];
	}
	for (uint32_t i = 0; i < g->n_outputs; i++)
		u->is_output[u->root[g->outputs[i].i]] = true;
}

/* Does the reader visit a broadcast operand element by element, so that repeating is an index? */
static bool
reads_pointwise(const struct node *n)
{
	const struct prim_info *p = &prim_info[n->prim];

	return p->class == CLASS_MAP || (p->class == CLASS_REDUCE && p->shape == SHAPE_REDUCE);
}

/* Backwards: what reads a broadcast is known before it. */
static void
find_inlined(struct groups *u)
{
	const struct graph *g = u->g;
	bool *needs_memory = NEW_ARRAY(u->a, bool, g->n_tensors + 1);

	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct node *n = &g->nodes[i];
		if (n->prim == PRIM_bcast && n_makers(u, n->out[0]) == 1 && !u->is_output[n->out[0].i])
			u->is_inlined[i] = tensor_is_const(g, (tensor_id){u->root[n->in[0].i]}) ||
			    !needs_memory[n->out[0].i];
		if (u->is_view[i] || u->is_inlined[i] || reads_pointwise(n))
			continue;
		for (uint32_t k = 0; k < n->n_in; k++)
			needs_memory[u->root[n->in[k].i]] = true;
	}
}

tensor_id
groups_source(const struct groups *u, tensor_id t)
{
	for (;;) {
		tensor_id r = {u->root[t.i]};
		const struct node *n = only_maker(u, r);
		if (!n || !u->is_inlined[n - u->g->nodes])
			return r;
		t = n->in[0];
	}
}

/* ---- groups -------------------------------------------------------------------------------- */
static bool
has(const tensor_id *list, uint32_t n, tensor_id t)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].i == t.i)
			return true;
	return false;
}

static bool
is_member(const struct group *m, uint32_t node)
{
	for (uint32_t i = 0; i < m->n_nodes; i++)
		if (m->nodes[i] == node)
			return true;
	return false;
}

static void
group_inputs(const struct groups *u, struct group *m)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < m->n_nodes; i++)
		total += u->g->nodes[m->nodes[i]].n_in;
	m->in = NEW_ARRAY(u->a, tensor_id, total);
	m->n_in = 0;
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct node *n = &u->g->nodes[m->nodes[i]];
		for (uint32_t k = 0; k < n->n_in; k++) {
			tensor_id s = groups_source(u, n->in[k]);
			const struct node *maker = only_maker(u, s);
			if (tensor_is_const(u->g, s) || has(m->in, m->n_in, s) ||
			    (maker && is_member(m, (uint32_t)(maker - u->g->nodes))))
				continue;
			m->in[m->n_in++] = s;
		}
	}
}

static void
group_facts(const struct groups *u, struct group *m)
{
	group_inputs(u, m);
	m->n_anchors = m->n_reductions = 0;
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct node *n = &u->g->nodes[m->nodes[i]];
		enum prim_class class = prim_info[n->prim].class;
		bool anchor = node_is_anchor(u->g, n);
		m->n_anchors += anchor;
		m->n_reductions += class == CLASS_REDUCE || (class == CLASS_LINEAR && !anchor);
		m->alone |= class == CLASS_OPAQUE || u->is_cut[m->nodes[i]];
	}
}

/* Readers and makers of each root, by group. */
static void
index_roots(struct groups *u)
{
	uint32_t n = u->g->n_tensors, *at;

	for (int side = 0; side < 2; side++) {
		uint32_t *first = NEW_ARRAY(u->a, uint32_t, n + 2), total = 0;
		for (uint32_t i = 0; i < u->n_groups; i++) {
			const struct group *m = &u->groups[i];
			for (uint32_t k = 0; k < (side ? m->n_out : m->n_in); k++)
				first[(side ? m->out : m->in)[k].i + 1]++, total++;
		}
		for (uint32_t t = 0; t < n; t++)
			first[t + 1] += first[t];
		uint32_t *list = NEW_ARRAY(u->a, uint32_t, total + 1);
		at = arena_dup(u->a, first, (n + 2) * sizeof(*first));
		for (uint32_t i = 0; i < u->n_groups; i++) {
			const struct group *m = &u->groups[i];
			for (uint32_t k = 0; k < (side ? m->n_out : m->n_in); k++)
				list[at[(side ? m->out : m->in)[k].i]++] = i;
		}
		*(side ? &u->maker_first : &u->reader_first) = first;
		*(side ? &u->maker : &u->reader) = list;
	}
}

/* Results that someone outside the group needs; reader_first may be stale but group_of is not. */
static void
group_outputs(struct groups *u, const struct bitset *wanted)
{
	for (uint32_t i = 0; i < u->n_groups; i++) {
		struct group *m = &u->groups[i];
		uint32_t total = 0;
		for (uint32_t k = 0; k < m->n_nodes; k++)
			total += u->g->nodes[m->nodes[k]].n_out;
		m->out = NEW_ARRAY(u->a, tensor_id, total);
		m->n_out = 0;
		for (uint32_t k = 0; k < m->n_nodes; k++) {
			const struct node *n = &u->g->nodes[m->nodes[k]];
			for (uint32_t o = 0; o < n->n_out; o++)
				if (bit_get(wanted, n->out[o].i))
					m->out[m->n_out++] = n->out[o];
		}
	}
}

static void
find_outputs(struct groups *u)
{
	struct bitset wanted = bitset_make(u->a, u->g->n_tensors);

	for (uint32_t t = 0; t < u->g->n_tensors; t++)
		if (u->is_output[t])
			bit_set(&wanted, t);
	for (uint32_t i = 0; i < u->n_groups; i++)
		for (uint32_t k = 0; k < u->groups[i].n_in; k++)
			bit_set(&wanted, u->groups[i].in[k].i);
	group_outputs(u, &wanted);
}

/* ---- chains ------------------------------------------------------------------------------- */
/* Each result element reads one element of the first operand. */
static bool
is_pointwise(enum prim p)
{
	return prim_info[p].class == CLASS_MAP || p == PRIM_slice || p == PRIM_transpose || p == PRIM_gather;
}

static bool
is_plain_reduction(enum prim p)
{
	return p == PRIM_sum || p == PRIM_rmax || p == PRIM_rmin || p == PRIM_prod;
}

static enum prim
prim_at(const struct groups *u, const struct group *m, uint32_t i)
{
	return u->g->nodes[m->nodes[i]].prim;
}

static bool
all_pointwise(const struct groups *u, const struct group *m)
{
	for (uint32_t i = 0; i < m->n_nodes; i++)
		if (!is_pointwise(prim_at(u, m, i)))
			return false;
	return true;
}

static bool
all_maps(const struct groups *u, const struct group *m)
{
	for (uint32_t i = 0; i < m->n_nodes; i++)
		if (prim_info[prim_at(u, m, i)].class != CLASS_MAP)
			return false;
	return true;
}

/* A reduction and maps on its result. */
static bool
is_reduced(const struct groups *u, const struct group *m)
{
	if (!is_plain_reduction(prim_at(u, m, 0)))
		return false;
	for (uint32_t i = 1; i < m->n_nodes; i++)
		if (prim_info[prim_at(u, m, i)].class != CLASS_MAP)
			return false;
	return true;
}

static int64_t
elements(const struct groups *u, tensor_id t)
{
	return shape_count(&graph_tensor(u->g, t)->shape);
}

/* Maps and layouts on few elements: the call costs more than what it stores. */
static bool
is_small(const struct groups *u, const struct group *m, tensor_id result)
{
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		enum prim_class class = prim_info[prim_at(u, m, i)].class;
		if (class != CLASS_MAP && class != CLASS_LAYOUT && class != CLASS_BCAST)
			return false;
	}
	return elements(u, result) <= SMALL_ELEMENTS;
}

/* Could it be the epilogue of what it reads? */
static bool
follows_linear(const struct groups *u, const struct group *m)
{
	for (uint32_t k = 0; k < m->n_in; k++)
		for (uint32_t i = u->ix.maker_first[m->in[k].i]; i < u->ix.maker_first[m->in[k].i + 1]; i++) {
			enum prim_class class = prim_info[u->g->nodes[u->ix.maker[i]].prim].class;
			if (class == CLASS_LINEAR || class == CLASS_REDUCE)
				return true;
		}
	return false;
}

static uint32_t
n_inputs_joined(const struct group *p, const struct group *m, tensor_id t)
{
	uint32_t n = p->n_in;

	for (uint32_t k = 0; k < m->n_in; k++)
		n += m->in[k].i != t.i && !has(p->in, p->n_in, m->in[k]);
	return n;
}

static bool
only_reader(const struct groups *u, const struct group *m, tensor_id t)
{
	for (uint32_t i = u->reader_first[t.i]; i < u->reader_first[t.i + 1]; i++)
		if (&u->groups[u->reader[i]] != m)
			return false;
	return n_makers(u, t) == 1 && !u->is_output[t.i];
}

/* All other operands of m are such chains too, of what p reads: a bracket that closes in m. */
static bool
closes(const struct groups *u, const struct group *p, const struct group *m, tensor_id t)
{
	for (uint32_t k = 0; k < m->n_in; k++) {
		tensor_id s = m->in[k];
		if (s.i == t.i || has(p->in, p->n_in, s))
			continue;
		if (u->maker_first[s.i] == u->maker_first[s.i + 1] || !only_reader(u, m, s))
			return false;
		const struct group *q = &u->groups[u->maker[u->maker_first[s.i]]];
		if (!all_pointwise(u, q) || q->n_out != 1)
			return false;
		for (uint32_t i = 0; i < q->n_in; i++)
			if (!has(p->in, p->n_in, q->in[i]))
				return false;
	}
	return true;
}

/* The constant that is added to the result of a linear primitive. */
static bool
is_bias(const struct groups *u, const struct group *p, const struct group *m, tensor_id t)
{
	return p->n_nodes == 1 && m->n_nodes == 1 && m->n_in == 1 && prim_at(u, m, 0) == PRIM_add &&
	    prim_info[prim_at(u, p, 0)].class == CLASS_LINEAR && elements(u, t) == elements(u, m->out[0]);
}

static uint32_t
origin_of(const struct groups *u, const struct group *m)
{
	return u->g->nodes[m->nodes[0]].origin;
}

/* Is group m the only reader of t, which p makes, and not better apart from p? */
static bool
belongs(const struct groups *u, const struct group *p, const struct group *m, tensor_id t, bool biases)
{
	if (p->alone || m->alone || p->n_nodes + m->n_nodes > MAX_UNIT_NODES || p->n_out != 1 ||
	    m->n_out != 1 || n_makers(u, m->out[0]) != 1 || !only_reader(u, m, t))
		return false;
	if (u->merge == MERGE_WITHIN && origin_of(u, p) != origin_of(u, m))
		return false;
	if (biases)
		return is_bias(u, p, m, t);
	uint32_t n_in = n_inputs_joined(p, m, t);
	if (is_small(u, p, t) && is_small(u, m, m->out[0]) && n_in <= MAX_SMALL_INPUTS &&
	    !follows_linear(u, p))
		return true;
	if (!all_maps(u, m) || elements(u, t) != elements(u, m->out[0]))
		return false;
	if (is_reduced(u, p))
		return m->n_in == 1;
	return all_pointwise(u, p) && (n_in == p->n_in || closes(u, p, m, t));
}

static void
join(struct groups *u, uint32_t p, uint32_t m)
{
	struct group *from = &u->groups[p], *to = &u->groups[m];
	uint32_t n = from->n_nodes + to->n_nodes, i = 0, j = 0;
	uint32_t *nodes = NEW_ARRAY(u->a, uint32_t, n);

	for (uint32_t k = 0; k < n; k++) {
		bool left = j == to->n_nodes || (i < from->n_nodes && from->nodes[i] < to->nodes[j]);
		nodes[k] = left ? from->nodes[i++] : to->nodes[j++];
	}
	to->nodes = nodes;
	to->n_nodes = n;
	group_facts(u, to);
	*from = (struct group){0};
}

/* One sweep; true when something was joined.  The indexes are those from before the sweep, so a
 * group takes part in one joining only. */
static bool
join_chains(struct groups *u, bool biases)
{
	bool *touched = NEW_ARRAY(u->a, bool, u->n_groups + 1), any = false;
	uint32_t n = 0;

	for (uint32_t m = 0; m < u->n_groups; m++)
		for (uint32_t k = 0; k < u->groups[m].n_in && !touched[m]; k++) {
			tensor_id t = u->groups[m].in[k];
			if (n_makers(u, t) != 1 || u->maker_first[t.i] == u->maker_first[t.i + 1])
				continue;
			uint32_t p = u->maker[u->maker_first[t.i]];
			if (touched[p] || !belongs(u, &u->groups[p], &u->groups[m], t, biases))
				continue;
			join(u, p, m);
			touched[p] = touched[m] = any = true;
		}
	for (uint32_t i = 0; i < u->n_groups; i++)
		if (u->groups[i].n_nodes)
			u->groups[n++] = u->groups[i];
	u->n_groups = n;
	find_outputs(u);
	index_roots(u);
	return any;
}

/* ---- order ---------------------------------------------------------------------------------- */
/* Topological over all alternatives; among those ready, by first node. */
static void
order_groups(struct groups *u)
{
	struct group *sorted = NEW_ARRAY(u->a, struct group, u->n_groups + 1);
	bool *done = NEW_ARRAY(u->a, bool, u->n_groups + 1);
	uint32_t n = 0;

	while (n < u->n_groups) {
		uint32_t before = n;
		for (uint32_t i = 0; i < u->n_groups; i++) {
			bool ready = !done[i];
			for (uint32_t k = 0; k < u->groups[i].n_in && ready; k++) {
				uint32_t t = u->groups[i].in[k].i;
				for (uint32_t m = u->maker_first[t]; m < u->maker_first[t + 1]; m++)
					ready &= done[u->maker[m]];
			}
			if (ready) {
				done[i] = true;
				sorted[n++] = u->groups[i];
			}
		}
		if (n == before)
			bug("groups wait for each other in a circle");
	}
	u->groups = sorted;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < sorted[i].n_nodes; k++)
			u->group_of[sorted[i].nodes[k]] = i;
	index_roots(u);
}

void
fusion_groups_make(struct arena *a, const struct graph *g, enum groups_merge merge, struct groups *out)
{
	struct groups *u = out;

	*u = (struct groups){.a = a, .g = g, .ix = graph_index_make(a, g), .merge = merge};
	u->root = NEW_ARRAY(a, uint32_t, g->n_tensors + 1);
	u->is_view = NEW_ARRAY(a, bool, g->n_nodes + 1);
	u->is_inlined = NEW_ARRAY(a, bool, g->n_nodes + 1);
	u->is_output = NEW_ARRAY(a, bool, g->n_tensors + 1);
	u->group_of = NEW_ARRAY(a, uint32_t, g->n_nodes + 1);
	u->groups = NEW_ARRAY(a, struct group, g->n_nodes + 1);
	memset(u->group_of, 0xff, (g->n_nodes + 1) * sizeof(*u->group_of));
	find_roots(u);
	find_inlined(u);
	u->is_cut = groups_find_cuts(u);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (u->is_view[i] || u->is_inlined[i])
			continue;
		struct group *m = &u->groups[u->n_groups++];
		m->nodes = arena_dup(a, &i, sizeof(i));
		m->n_nodes = 1;
		group_facts(u, m);
	}
	find_outputs(u);
	index_roots(u);
	if (merge != MERGE_NONE)
		(void)join_chains(u, true);
	while (merge != MERGE_NONE && join_chains(u, false))
		;
	order_groups(u);
}
