/* daemon/plan/program.c: from a graph's candidates to the binary program.
 *
 * A view shows its operand's bytes through another shape: all tensors joined by views are one
 * class, and a class is one tensor of the program.  That holds with alternatives too, as all makers
 * of a tensor make the same values. */
#include "plan_make.h"

#include <stdlib.h>
#include <string.h>

/* A class is named by its first tensor. */
static uint32_t *
find_classes(struct arena *a, const struct graph *g)
{
	uint32_t *up = NEW_ARRAY(a, uint32_t, g->n_tensors);

	for (uint32_t t = 0; t < g->n_tensors; t++)
		up[t] = t;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (node_is_view(g, &g->nodes[i]))
			sets_join(up, g->nodes[i].in[0].i, g->nodes[i].out[0].i);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		up[t] = sets_root(up, t);
	return up;
}

/* Does `number` the roots so that operands come before results (Kahn; nodes are nearly in order,
 * so the sweeps are few).  A circle, which the graph's invariant rules out, would end in id order. */
static uint32_t
number_classes(struct arena *a, const struct graph *g, const uint32_t *root, uint32_t *number)
{
	uint32_t *n_wait = NEW_ARRAY(a, uint32_t, g->n_tensors), n = 0;
	bool *is_done = NEW_ARRAY(a, bool, g->n_nodes), moved = true;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t o = 0; o < g->nodes[i].n_out; o++)
			n_wait[root[g->nodes[i].out[o].i]] += !node_is_view(g, &g->nodes[i]);
	memset(number, 0xff, sizeof(*number) * g->n_tensors);
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (root[t] == t && n_wait[t] == 0)
			number[t] = n++;
	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < g->n_nodes; i++) {
			const struct node *x = &g->nodes[i];
			bool is_ready = !is_done[i] && !node_is_view(g, x);

			for (uint32_t j = 0; j < x->n_in && is_ready; j++)
				is_ready = number[root[x->in[j].i]] != UINT32_MAX;
			if (!is_ready)
				continue;
			is_done[i] = moved = true;
			for (uint32_t o = 0; o < x->n_out; o++) {
				uint32_t r = root[x->out[o].i];

				if (--n_wait[r] == 0 && number[r] == UINT32_MAX)
					number[r] = n++;
			}
		}
	}
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (root[t] == t && number[t] == UINT32_MAX)
			number[t] = n++;
	return n;
}

static uint32_t *
classes_of(struct arena *a, const struct program *p, const tensor_id *t, uint32_t n, uint32_t *n_out)
{
	uint32_t *v = NEW_ARRAY(a, uint32_t, n), m = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t c = p->class_of[t[i].i], j = 0;

		while (j < m && v[j] != c)
			j++;
		if (j == m)
			v[m++] = c;
	}
	*n_out = m;
	return v;
}

static void
make_kernels(struct arena *a, struct program *p, const struct cand_set *c)
{
	p->n_kernels = c->n_cands;
	p->kernels = NEW_ARRAY(a, struct blp_kernel, c->n_cands);
	p->spec_of = NEW_ARRAY(a, uint32_t, c->n_cands);
	for (uint32_t k = 0; k < c->n_cands; k++) {
		struct blp_kernel *b = &p->kernels[k];

		b->in = classes_of(a, p, c->cands[k].in, c->cands[k].n_in, &b->n_in);
		b->out = classes_of(a, p, c->cands[k].out, c->cands[k].n_out, &b->n_out);
		b->cost = 1;
		p->spec_of[k] = c->cands[k].spec;
	}
}

static void
make_nodes(struct arena *a, struct program *p, const struct graph *g)
{
	struct blp_node *nodes;
	uint32_t n = 0, cap = 0;

	nodes = NULL;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *x = &g->nodes[i];

		if (node_is_view(g, x))
			continue;
		for (uint32_t o = 0; o < x->n_out; o++) {
			GROW(a, nodes, n, cap);
			nodes[n].tensor = p->class_of[x->out[o].i];
			nodes[n].in = classes_of(a, p, x->in, x->n_in, &nodes[n].n_in);
			n++;
		}
	}
	p->blp.nodes = nodes;
	p->blp.n_nodes = n;
}

void
program_make(struct arena *a, const struct graph *g, const struct cand_set *c, struct program *p)
{
	struct arena tmp = {0};
	uint32_t *root = find_classes(&tmp, g), *number = NEW_ARRAY(&tmp, uint32_t, g->n_tensors);
	uint32_t *given, n_given = 0, n = number_classes(&tmp, g, root, number);
	bool *is_given = NEW_ARRAY(&tmp, bool, n);

	*p = (struct program){0};
	p->class_of = NEW_ARRAY(a, uint32_t, g->n_tensors);
	p->tensor_of = NEW_ARRAY(a, uint32_t, n);
	p->parent_of = NEW_ARRAY(a, uint32_t, n);
	p->at = NEW_ARRAY(a, size_t, n);
	p->first_view = c->n_specs;
	memset(p->parent_of, 0xff, sizeof(*p->parent_of) * n);
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		p->class_of[t] = number[root[t]];
		p->tensor_of[number[root[t]]] = root[t];
		is_given[number[root[t]]] |= g->tensors[t].role != ROLE_INNER;
	}
	given = NEW_ARRAY(a, uint32_t, n);
	for (uint32_t t = 0; t < n; t++)
		if (is_given[t])
			given[n_given++] = t;
	make_kernels(a, p, c);
	make_nodes(a, p, g);
	p->blp.n_tensors = n;
	p->blp.n_kernels = p->n_kernels;
	p->blp.kernels = p->kernels;
	p->blp.given = given;
	p->blp.n_given = n_given;
	p->blp.wanted = classes_of(a, p, g->outputs, g->n_outputs, &p->blp.n_wanted);
	arena_fini(&tmp);
}

void
program_set_costs(struct program *p, const int64_t *spec_cost)
{
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		int64_t c = p->spec_of[k] < p->first_view ? spec_cost[p->spec_of[k]] : 1;

		p->kernels[k].cost = c == BLP_NEVER ? c : MIN_OF(MAX_OF(c, (int64_t)1), BLP_MAX_COST);
	}
}
