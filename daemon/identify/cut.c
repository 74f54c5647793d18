/* daemon/identify/cut.c: steps that a tensor is cut into: an LSTM's, say, of what its matrix makes of all of
 * them.
 *
 * Such a slice is no work: the plan lays it out inside what it is cut from (daemon/plan/view.c).  Inside of a
 * kernel it would make each step's kernel another one, by where it begins: eighty specs to compile and to
 * measure in place of one.  With what makes all steps it never pays: a kernel would make them all for one, or
 * store more than it may. So it stands alone.  Few slices of a tensor, as an LSTM's gates are, do not: they
 * are one kernel with its maker. */
#include "identify_int.h"

enum { STEPS = 8 };

/* Per root: does a concatenation read it?  It would be laid out inside that one's result. */
static bool *
find_joined(const struct groups *u)
{
	bool *is_joined = NEW_ARRAY(u->a, bool, u->g->n_tensors + 1);

	for (uint32_t i = 0; i < u->g->n_nodes; i++) {
		const struct node *n = &u->g->nodes[i];

		for (uint32_t k = 0; n->prim == PRIM_concat && k < n->n_in; k++)
			is_joined[u->root[n->in[k].i]] = true;
	}
	return is_joined;
}

/* Bytes of its own in the plan's memory, and of nothing else: neither given nor wanted elsewhere. */
static bool
may_lie_inside(const struct groups *u, const struct node *n, const bool *is_joined)
{
	size_t from, n_bytes;

	return n->prim == PRIM_slice && slice_stretch(u->g, n, &from, &n_bytes) &&
	    from % STRETCH_ALIGN == 0 &&
	    u->ix.maker_first[n->out[0].i + 1] == u->ix.maker_first[n->out[0].i] + 1 &&
	    !u->is_output[n->out[0].i] && !is_joined[u->root[n->out[0].i]] &&
	    !tensor_is_const(u->g, (tensor_id){u->root[n->in[0].i]});
}

bool *
groups_find_cuts(const struct groups *u)
{
	bool *is_cut = NEW_ARRAY(u->a, bool, u->g->n_nodes + 1);
	const bool *is_joined = find_joined(u);
	uint32_t *n_steps = NEW_ARRAY(u->a, uint32_t, u->g->n_tensors + 1);

	for (uint32_t i = 0; i < u->g->n_nodes; i++) {
		is_cut[i] = may_lie_inside(u, &u->g->nodes[i], is_joined);
		if (is_cut[i])
			n_steps[u->root[u->g->nodes[i].in[0].i]]++;
	}
	for (uint32_t i = 0; i < u->g->n_nodes; i++)
		if (is_cut[i])
			is_cut[i] = n_steps[u->root[u->g->nodes[i].in[0].i]] >= STEPS;
	return is_cut;
}
