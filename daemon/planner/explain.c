/* daemon/planner/explain.c: hands what the job knows of specs and of the model's nodes to the account
 * that a plan keeps for korch-plan explain. */
#include "away.h"
#include "expect.h"
#include "perturb.h"

#include "../plan/account.h"

#include <math.h>

static struct account_cost *
account_costs(struct tune *t)
{
	struct account_cost *out =
	    NEW_ARRAY(t->arena, struct account_cost, MAX_OF(t->front.cands.n_specs, 1u));

	expect_anew(t); /* so that what was expected depends on the measurements alone */
	for (uint32_t s = 0; s < t->front.cands.n_specs; s++) {
		const struct spec_cost *c = &t->cost[s];

		out[s] = (struct account_cost){
		    .bound_ns = c->bound_ns, .has_failed = c->state == LAZY_FAILED, .cause = c->cause};
		if (cost_is_known(c)) {
			out[s].measured_ns = c->measured_ns;
			out[s].spread_ns = MAX_OF(c->spread_ns, (int64_t)0);
			out[s].error_ns = c->error_ns >= 0 && isfinite(c->error_ns) ? c->error_ns : 0;
		} else if (!out[s].has_failed)
			out[s].expected_ns = cost_expected(t, c);
	}
	return out;
}

/* The nodes whose results node n reads, each once. */
static void
list_reads(struct tune *t, const uint32_t *maker, uint32_t n, struct account_node *out)
{
	const struct model_node *x = &t->front.model.nodes[n];

	out->reads = NEW_ARRAY(t->arena, uint32_t, MAX_OF(x->n_in, 1u));
	for (uint32_t i = 0; i < x->n_in; i++) {
		uint32_t from = x->in[i] == NO_VALUE ? PLAN_NONE : maker[x->in[i]];
		bool again = from == PLAN_NONE;

		for (uint32_t j = 0; j < out->n_reads && !again; j++)
			again = out->reads[j] == from;
		if (!again)
			out->reads[out->n_reads++] = from;
	}
}

static struct account_node *
account_nodes(struct tune *t)
{
	const struct model *m = &t->front.model;
	const struct graph *g = &t->front.primitive;
	struct account_node *out = NEW_ARRAY(t->arena, struct account_node, MAX_OF(m->n_nodes, 1u));
	uint32_t *maker = NEW_ARRAY(t->arena, uint32_t, MAX_OF(m->n_values, 1u));

	for (uint32_t v = 0; v < m->n_values; v++)
		maker[v] = PLAN_NONE;
	for (uint32_t n = 0; n < m->n_nodes; n++) {
		out[n] = (struct account_node){
		    .name = m->nodes[n].name, .op = m->nodes[n].op, .lost = FATE_FOLDED};
		list_reads(t, maker, n, &out[n]);
		for (uint32_t i = 0; i < m->nodes[n].n_out; i++)
			if (m->nodes[n].out[i] != NO_VALUE)
				maker[m->nodes[n].out[i]] = n;
	}
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct account_node *n = g->nodes[i].origin < m->n_nodes ? &out[g->nodes[i].origin] : NULL;

		if (n && n->lost != FATE_REWRITTEN)
			n->lost = node_is_view(g, &g->nodes[i]) ? FATE_VIEW : FATE_REWRITTEN;
	}
	return out;
}

static void
tell_heats(const struct tune *t, struct plan *plan)
{
	plan->heats = NEW_ARRAY(t->arena, struct plan_heat, MAX_OF(plan->n_kernels, 1u));
	for (uint32_t i = 0; i < plan->n_kernels; i++) {
		struct hash spec = hash_bytes(plan->kernels[i].spec.p, plan->kernels[i].spec.n);
		uint32_t s;

		if (!plan_kernel_is_view(&plan->kernels[i]) && cost_find(t, &spec, &s) && t->cost[s].heat.n)
			plan->heats[plan->n_heats++] = (struct plan_heat){i, t->cost[s].heat};
	}
}

void
explain_plan(struct tune *t, struct plan *plan)
{
	struct account_in in = {
	    .graph = &t->front.graph,
	    .cands = &t->front.cands,
	    .program = &t->program,
	    .choice = &t->choice,
	    .mode = t->front.mode,
	    .limits = &t->front.limits,
	    .cost = account_costs(t),
	    .nodes = account_nodes(t),
	    .n_nodes = t->front.model.n_nodes,
	};

	account_make(t->arena, &in, plan);
	perturb_tell(t, plan);
	tell_heats(t, plan);
	away_tell(t, plan);
}
