/* daemon/plan/plan_evidence.c: what a plan says of its own choice (D17, D18): every candidate of
 * the program with its cost, the landmark rows with their duals, the sums, and the words. */
#include "plan_int.h"

#include <math.h>

static uint32_t *
first_tensors(struct making *m, const uint32_t *classes, uint32_t n)
{
	uint32_t *v = NEW_ARRAY(m->a, uint32_t, n);

	for (uint32_t i = 0; i < n; i++)
		v[i] = m->p->tensor_of[classes[i]];
	return v;
}

/* What a kernel reads but constants: those are there on every device that has the plan. */
static uint32_t
reads_of(struct making *m, const struct blp_kernel *k, uint32_t **out)
{
	uint32_t *v = NEW_ARRAY(m->a, uint32_t, k->n_in), n = 0;

	for (uint32_t i = 0; i < k->n_in; i++)
		if (!m->class_data[k->in[i]])
			v[n++] = m->p->tensor_of[k->in[i]];
	*out = v;
	return n;
}

/* Kernels that cannot be used are no candidates; number[kernel] for the others. */
static uint32_t *
list_candidates(struct making *m)
{
	const struct blp *p = &m->p->blp;
	struct plan *plan = m->plan;
	uint32_t *number = NEW_ARRAY(m->a, uint32_t, p->n_kernels);

	plan->candidates = NEW_ARRAY(m->a, struct plan_candidate, p->n_kernels);
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		const struct blp_kernel *b = &p->kernels[k];
		struct plan_candidate *c = &plan->candidates[plan->n_candidates];

		number[k] = UINT32_MAX;
		if (b->cost == BLP_NEVER)
			continue;
		number[k] = plan->n_candidates++;
		c->n_reads = reads_of(m, b, &c->reads);
		c->makes = first_tensors(m, b->out, b->n_out);
		c->n_makes = b->n_out;
		c->cost_ns = b->cost;
		c->is_measured = making_is_measured(m, m->p->spec_of[k]);
		c->reduced_cost = isfinite(m->in->choice->reduced[k]) ? m->in->choice->reduced[k] : 0;
	}
	return number;
}

static void
list_rows(struct making *m, const uint32_t *number)
{
	const struct blp_result *r = m->in->choice;

	m->plan->rows = NEW_ARRAY(m->a, struct plan_row, r->n_rows);
	m->plan->n_rows = r->n_rows;
	for (uint32_t i = 0; i < r->n_rows; i++) {
		struct plan_row *row = &m->plan->rows[i];

		row->dual = r->rows[i].dual;
		row->candidates = NEW_ARRAY(m->a, uint32_t, r->rows[i].n);
		for (uint32_t j = 0; j < r->rows[i].n; j++)
			if (number[r->rows[i].kernels[j]] != UINT32_MAX)
				row->candidates[row->n_candidates++] = number[r->rows[i].kernels[j]];
	}
}

void
evidence_make(struct making *m)
{
	struct plan *plan = m->plan;
	uint32_t *number = list_candidates(m);
	bool all_measured = true;
	int64_t by_duals;

	list_rows(m, number);
	for (uint32_t i = 0; i < plan->n_steps; i++) {
		struct plan_candidate *c;

		plan->steps[i].candidate = number[plan->steps[i].candidate];
		c = &plan->candidates[plan->steps[i].candidate];
		c->is_chosen = true;
		all_measured &= c->is_measured;
		plan->latency_ns += c->cost_ns;
	}
	plan->bound_ns = MIN_OF(m->in->choice->bound, plan->latency_ns);
	plan->proved = m->in->choice->proved && all_measured && m->in->cands->n_dropped == 0;
	plan->n_primitives = m->in->graph->n_nodes;
	plan->n_candidates_total = m->in->cands->n_cands;
	plan->n_distinct = m->in->cands->n_specs - m->in->cands->n_views;
	by_duals = (int64_t)ceil(m->in->choice->pi);
	plan->certificate = by_duals >= plan->bound_ns
	    ? STR("bound checked by duals")
	    : str_of(arena_printf(m->a, "LP bound %lld checked; optimality by %s", (long long)by_duals,
		  m->in->choice->solver == BLP_LP_SOLVE ? "lp_solve (--resolve searches)"
							: "search (--resolve repeats it)"));
}
