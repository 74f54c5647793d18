/* kernels/ir/verify.c: the invariants of a graph, checked.  A broken one is our own fault. */
#include "ir.h"

#include <stdlib.h>

static void
verify_tensor(const struct graph *g, uint32_t t, bool has_maker)
{
	const struct tensor *x = &g->tensors[t];
	size_t bytes;

	if (!shape_bytes(&x->shape, x->type, &bytes))
		bug("tensor %%%u: its size does not fit", t);
	if ((x->role == ROLE_INNER) != has_maker)
		bug("tensor %%%u: role %d and %s", t, (int)x->role, has_maker ? "a producer" : "no producer");
	if (x->role == ROLE_CONST && !x->data && bytes)
		bug("tensor %%%u: a constant without data", t);
}

static void
verify_node(const struct graph *g, uint32_t i, const struct bitset *made)
{
	const struct node *n = &g->nodes[i];
	const struct tensor **in = heap_alloc(ck_mul(MAX_OF(n->n_in, 1u), sizeof(*in)));
	struct tensor want;
	struct err e = {0};

	for (uint32_t k = 0; k < n->n_in; k++) {
		if (n->in[k].i >= g->n_tensors)
			bug("node %u (%s): operand %u does not exist", i, prim_info[n->prim].name, k);
		if (!bit_get(made, n->in[k].i))
			bug("node %u (%s): operand %%%u has no producer before it", i,
			    prim_info[n->prim].name, n->in[k].i);
		in[k] = graph_tensor(g, n->in[k]);
	}
	if (n->n_out != prim_n_out(n->prim))
		bug("node %u (%s): %u results", i, prim_info[n->prim].name, n->n_out);
	if (!prim_result(n->prim, in, n->n_in, &n->at, &want, &e))
		bug("node %u: %s", i, e.msg);
	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct tensor *out = graph_tensor(g, n->out[k]);

		if (out->type != (k ? DT_i64 : want.type) || !shape_eq(&out->shape, &want.shape))
			bug("node %u (%s): result %%%u has another type or shape than its rule says", i,
			    prim_info[n->prim].name, n->out[k].i);
	}
	free(in);
}

/* Every producer of a tensor stands before its readers: a topological order of the union over
 * all alternatives, hence no circle. */
static void
verify_order(const struct graph *g, struct arena *tmp)
{
	uint32_t *last_maker = NEW_ARRAY(tmp, uint32_t, g->n_tensors);

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			last_maker[g->nodes[i].out[k].i] = i;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_in; k++) {
			tensor_id t = g->nodes[i].in[k];

			if (graph_tensor(g, t)->role == ROLE_INNER && last_maker[t.i] >= i)
				bug("node %u (%s) reads %%%u before all its producers; sort the graph", i,
				    prim_info[g->nodes[i].prim].name, t.i);
		}
}

void
graph_verify(const struct graph *g)
{
	struct arena tmp = {0};
	struct bitset made = bitset_make(&tmp, g->n_tensors);

	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (g->tensors[t].role != ROLE_INNER)
			bit_set(&made, t);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		verify_node(g, i, &made);
		for (uint32_t k = 0; k < g->nodes[i].n_out; k++)
			bit_set(&made, g->nodes[i].out[k].i);
	}
	for (uint32_t t = 0; t < g->n_tensors; t++)
		verify_tensor(g, t, g->tensors[t].role == ROLE_INNER && bit_get(&made, t));
	for (uint32_t i = 0; i < g->n_inputs; i++)
		if (g->inputs[i].i >= g->n_tensors || graph_tensor(g, g->inputs[i])->role == ROLE_INNER)
			bug("input %u is no given tensor", i);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		if (g->outputs[i].i >= g->n_tensors)
			bug("output %u does not exist", i);
	verify_order(g, &tmp);
	arena_fini(&tmp);
}
