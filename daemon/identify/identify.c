/* daemon/identify/identify.c: from groups and their sets to candidates.
 *
 * Every node is a candidate alone, so that a plan always exists; every ONNX operator that is one
 * kernel is a candidate too, for the plan that frameworks run.  In `full` mode come all connected
 * convex sets of groups within the limits, each with all its live results, and, where that
 * differs, with its last results only (what others need of the rest they compute themselves). */
#include "identify_int.h"

#include <stdlib.h>
#include <string.h>

const struct identify_limits identify_limits_default = {.max_nodes = 12,
    .max_anchors = 1,
    .max_pairs = 256,
    .max_reductions = 4,
    .max_in = 6,
    .max_out = 3,
    .max_candidates = 20000};

enum { MAX_GRAPH_NODES = 1 << 15 };

/* ---- alone ------------------------------------------------------------------------------------- */
/* Each node with the broadcasts that live in it; where that is no kernel, without them, and each
 * of them alone. */
static bool
add_singles(const struct enumerator *f, const struct groups *u, struct err *e)
{
	struct bitset bare = bitset_make(f->tmp, f->g->n_nodes);

	for (uint32_t i = f->g->n_nodes; i-- > 0;) {
		const struct node *n = &f->g->nodes[i];
		if (u->is_view[i] || (u->is_inlined[i] && !bit_get(&bare, i)))
			continue;
		bool whole =
		    u->is_inlined[i] || cand_table_add(f->c, &i, 1, n->out, n->n_out, false) <= COLLECT_KNOWN;
		if (whole && !u->is_inlined[i])
			continue;
		if (cand_table_add(f->c, &i, 1, n->out, n->n_out, true) > COLLECT_KNOWN)
			return err_set(e, ERR_INFEASIBLE,
			    "primitive %s (node %u) alone is no kernel that can be "
			    "generated",
			    prim_info[n->prim].name, i);
		for (uint32_t k = 0; k < n->n_in; k++)
			for (uint32_t m = u->ix.maker_first[u->root[n->in[k].i]];
			     m < u->ix.maker_first[u->root[n->in[k].i] + 1]; m++)
				if (u->is_inlined[u->ix.maker[m]])
					bit_set(&bare, u->ix.maker[m]);
	}
	return true;
}

/* ---- sets -------------------------------------------------------------------------------------- */
struct members {
	uint32_t *nodes, n_nodes;
	tensor_id *live, *last; /* results needed outside; those of them that no member reads */
	uint32_t n_live, n_last;
};

static int
by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool
in_set(const struct group_set *set, uint32_t group)
{
	return bsearch(&group, set->groups, set->n, sizeof(group), by_number) != NULL;
}

static void
add_results(const struct groups *u, const struct group_set *set, const struct group *m, struct members *s)
{
	for (uint32_t k = 0; k < m->n_out; k++) {
		uint32_t t = m->out[k].i;
		bool outside = u->is_output[t], inside = false;
		for (uint32_t r = u->reader_first[t]; r < u->reader_first[t + 1]; r++) {
			outside |= !in_set(set, u->reader[r]);
			inside |= in_set(set, u->reader[r]);
		}
		if (outside)
			s->live[s->n_live++] = m->out[k];
		if (!inside)
			s->last[s->n_last++] = m->out[k];
	}
}

static struct members
members_of(const struct enumerator *f, const struct groups *u, const struct group_set *set)
{
	struct members s = {0};
	uint32_t n_nodes = 0, n_out = 0;

	for (uint32_t i = 0; i < set->n; i++) {
		n_nodes += u->groups[set->groups[i]].n_nodes;
		n_out += u->groups[set->groups[i]].n_out;
	}
	s.nodes = NEW_ARRAY(f->tmp, uint32_t, n_nodes);
	s.live = NEW_ARRAY(f->tmp, tensor_id, n_out + 1);
	s.last = NEW_ARRAY(f->tmp, tensor_id, n_out + 1);
	for (uint32_t i = 0; i < set->n; i++) {
		const struct group *m = &u->groups[set->groups[i]];
		memcpy(s.nodes + s.n_nodes, m->nodes, m->n_nodes * sizeof(*m->nodes));
		s.n_nodes += m->n_nodes;
		add_results(u, set, m, &s);
	}
	qsort(s.nodes, s.n_nodes, sizeof(*s.nodes), by_number);
	return s;
}

enum collected
identify_add_set(
    const struct enumerator *f, const struct groups *u, const struct group_set *set, uint32_t *n_results)
{
	struct members s = members_of(f, u, set);
	enum collected all = COLLECT_LIMIT, last = COLLECT_LIMIT;

	if (n_results)
		*n_results = MIN_OF(s.n_live, s.n_last);

	if (s.n_live && s.n_live <= f->lim->max_out)
		all = cand_table_add(f->c, s.nodes, s.n_nodes, s.live, s.n_live, false);
	if (s.n_last < s.n_live && s.n_last && s.n_last <= f->lim->max_out)
		last = cand_table_add(f->c, s.nodes, s.n_nodes, s.last, s.n_last, false);
	return MIN_OF(all, last);
}

static void
add_sets(const struct enumerator *f, const struct groups *u, const uint32_t *cluster, uint32_t *n_dropped)
{
	struct enum_result r;

	enum_sets(f->tmp, u, f->lim, cluster, &r);
	for (uint32_t i = 0; i < r.n_sets; i++)
		(void)identify_add_set(f, u, &r.sets[i], NULL);
	*n_dropped += r.n_dropped;
}

/* Sets with two anchors; what one kernel cannot hold kernels/schedule refuses. */
static void
add_pairs(const struct enumerator *f, const struct groups *u, uint32_t *n_dropped)
{
	struct enum_result r;

	enum_pairs(f->tmp, u, f->lim, &r);
	for (uint32_t i = 0; i < r.n_sets; i++)
		(void)identify_add_set(f, u, &r.sets[i], NULL);
	*n_dropped += r.n_dropped;
}

/* ---- operators ---------------------------------------------------------------------------------- */
/* Nodes that the outputs need when every tensor is made by its first producer: what stands in the
 * graph without alternatives. */
static bool *
first_producers(const struct enumerator *f, const struct groups *u)
{
	bool *needed = NEW_ARRAY(f->tmp, bool, f->g->n_tensors + 1);
	bool *is_first = NEW_ARRAY(f->tmp, bool, f->g->n_nodes + 1);

	for (uint32_t i = 0; i < f->g->n_outputs; i++)
		needed[f->g->outputs[i].i] = true;
	for (uint32_t i = f->g->n_nodes; i-- > 0;) {
		const struct node *n = &f->g->nodes[i];
		for (uint32_t k = 0; k < n->n_out; k++)
			is_first[i] |=
			    needed[n->out[k].i] && u->ix.maker[u->ix.maker_first[n->out[k].i]] == i;
		for (uint32_t k = 0; is_first[i] && k < n->n_in; k++)
			needed[n->in[k].i] = true;
	}
	return is_first;
}

struct origin {
	uint32_t node, group;
};

/* Per group the ONNX node it came from; NO_NODE for what only alternatives use. */
static struct origin *
origins(const struct enumerator *f, const struct groups *u)
{
	struct origin *o = NEW_ARRAY(f->tmp, struct origin, u->n_groups + 1);
	bool *is_first = first_producers(f, u);

	for (uint32_t i = 0; i < u->n_groups; i++) {
		uint32_t node = u->groups[i].nodes[0];
		o[i] = (struct origin){is_first[node] ? f->g->nodes[node].origin : NO_NODE, i};
	}
	return o;
}

static int
by_origin(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

/* Each ONNX operator whole; split[] receives per group its operator where that is no one kernel,
 * NO_NODE elsewhere. */
static void
add_operators(const struct enumerator *f, const struct groups *u, uint32_t *split)
{
	struct origin *o = origins(f, u);
	struct group_set set = {NEW_ARRAY(f->tmp, uint32_t, u->n_groups + 1), 0};

	qsort(o, u->n_groups, sizeof(*o), by_origin);
	for (uint32_t i = 0; i < u->n_groups; i += set.n) {
		set.n = 0;
		do
			set.groups[set.n] = o[i + set.n].group;
		while (++set.n + i < u->n_groups && o[i].node != NO_NODE && o[i + set.n].node == o[i].node);
		/* An operator's own primitives need no limit on their number: the spec has one. */
		bool whole = set.n == 1 || identify_add_set(f, u, &set, NULL) <= COLLECT_KNOWN;
		for (uint32_t k = 0; k < set.n; k++)
			split[set.groups[k]] = whole ? NO_NODE : set.groups[0];
	}
}

/* What is no one kernel is solved within itself, over the groups that a full search has: chains of maps one
 * by one would be twenty times as many candidates, and none of them better. */
static void
add_by_operator(const struct enumerator *f, uint32_t *n_dropped)
{
	struct groups within;
	uint32_t *split;

	fusion_groups_make(f->tmp, f->g, MERGE_WITHIN, &within);
	split = NEW_ARRAY(f->tmp, uint32_t, within.n_groups + 1);
	add_operators(f, &within, split);
	add_sets(f, &within, split, n_dropped);
}

static void
add_all(const struct enumerator *f, const struct groups *plain, uint32_t *n_dropped)
{
	struct groups joined;

	add_operators(f, plain, NEW_ARRAY(f->tmp, uint32_t, plain->n_groups + 1));
	fusion_groups_make(f->tmp, f->g, MERGE_ALL, &joined);
	add_sets(f, &joined, NULL, n_dropped);
	add_pairs(f, &joined, n_dropped);
}

bool
identify_run(struct arena *a, const struct graph *g, enum identify_mode mode,
    const struct identify_limits *lim, struct cand_set *out, struct err *e)
{
	struct arena tmp = {0};
	struct enumerator f = {.tmp = &tmp, .g = g, .lim = lim ? lim : &identify_limits_default};
	struct groups plain;
	uint32_t n_dropped = 0;

	if (g->n_nodes > MAX_GRAPH_NODES)
		return err_set(e, ERR_LIMIT, "the model has %u primitives; at most %d are handled",
		    g->n_nodes, (int)MAX_GRAPH_NODES);
	fusion_groups_make(&tmp, g, MERGE_NONE, &plain);
	f.c = cand_table_new(a, &tmp, &plain, f.lim, out);
	bool ok = add_singles(&f, &plain, e);
	if (ok && mode == IDENTIFY_OPERATOR)
		add_by_operator(&f, &n_dropped);
	if (ok && mode == IDENTIFY_FULL)
		add_all(&f, &plain, &n_dropped);
	out->n_dropped += n_dropped;
	cand_table_finish(f.c);
	arena_fini(&tmp);
	return ok;
}
