/* client/plan_resolve.c: the search behind a plan, repeated: the only place of the client that
 * runs the solver, and only for `korch-plan verify --resolve`. */
#include "plan_explain.h"

#include "../daemon/orchestrate/blp.h"

#include <inttypes.h>

/* What each candidate costs beyond its share of the rows' duals.  A plan with it takes at least so much more
 * than the sum of the duals (plan_certify() has checked the rows). */
static double *
reduced_costs(struct arena *a, const struct plan *p, double *sum)
{
	double *r = NEW_ARRAY(a, double, MAX_OF(p->n_candidates, 1u));

	*sum = 0;
	for (uint32_t i = 0; i < p->n_candidates; i++)
		r[i] = (double)p->candidates[i].cost_ns;
	for (uint32_t i = 0; i < p->n_rows; i++) {
		*sum += p->rows[i].dual;
		for (uint32_t k = 0; k < p->rows[i].n_candidates; k++)
			r[p->rows[i].candidates[k]] -= p->rows[i].dual;
	}
	return r;
}

/* Candidates that no plan below this one can have are left out: the planner's search had found the rows that
 * say so before its last turn, a new one would not in as many rounds. */
static void
make_kernels(struct arena *a, const struct plan *p, struct blp *b)
{
	struct blp_kernel *k = NEW_ARRAY(a, struct blp_kernel, p->n_candidates);
	double sum, *reduced = reduced_costs(a, p, &sum);

	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct plan_candidate *c = &p->candidates[i];

		k[i] = (struct blp_kernel){.in = c->reads,
		    .n_in = c->n_reads,
		    .out = c->makes,
		    .n_out = c->n_makes,
		    .cost = !c->is_chosen && sum + reduced[i] > (double)p->latency_ns + 1 ? BLP_NEVER
											  : c->cost_ns};
	}
	b->kernels = k;
	b->n_kernels = p->n_candidates;
}

/* Some candidate makes it.  An input that is an output, or a constant, is made by none. */
static bool
is_made(const struct plan *p, uint32_t tensor)
{
	for (uint32_t i = 0; i < p->n_candidates; i++)
		for (uint32_t j = 0; j < p->candidates[i].n_makes; j++)
			if (p->candidates[i].makes[j] == tensor)
				return true;
	return false;
}

/* What lies in outputs is wanted; what lies in inputs and constants is given, and so is what is
 * read and never made. */
static void
make_ends(struct arena *a, const struct plan *p, struct blp *b)
{
	uint32_t *given, *wanted = NEW_ARRAY(a, uint32_t, p->n_places);
	uint32_t n_given = 0, n_wanted = 0, n_reads = 0;

	for (uint32_t i = 0; i < p->n_candidates; i++)
		n_reads += p->candidates[i].n_reads;
	given = NEW_ARRAY(a, uint32_t, (size_t)n_reads + p->n_places);
	for (uint32_t i = 0; i < p->n_candidates; i++)
		for (uint32_t j = 0; j < p->candidates[i].n_reads; j++)
			if (!is_made(p, p->candidates[i].reads[j]))
				given[n_given++] = p->candidates[i].reads[j];
	for (uint32_t i = 0; i < p->n_places; i++) {
		const struct place *at = &p->places[i];

		b->n_tensors = MAX_OF(b->n_tensors, at->tensor + 1);
		if (at->kind == PLACE_INPUT || at->kind == PLACE_CONST)
			given[n_given++] = at->tensor;
		else if (at->kind == PLACE_OUTPUT)
			wanted[n_wanted++] = at->tensor;
	}
	b->given = given;
	b->n_given = n_given;
	b->wanted = wanted;
	b->n_wanted = n_wanted;
}

/* What the plan chose, which the search starts with, as the planner's did: to prove that nothing is below
 * needs fewer states than to find it. */
static uint32_t *
chosen_of(struct arena *a, const struct plan *p, uint32_t *n)
{
	uint32_t *chosen = NEW_ARRAY(a, uint32_t, p->n_candidates);

	*n = 0;
	for (uint32_t i = 0; i < p->n_candidates; i++)
		if (p->candidates[i].is_chosen)
			chosen[(*n)++] = i;
	return chosen;
}

bool
plan_resolve(struct arena *a, const struct plan *p, int64_t *cost, struct err *e)
{
	struct blp_limits usual = {0};
	struct blp_result r;
	struct blp b = {0};
	uint32_t n_start, *start = chosen_of(a, p, &n_start);

	make_kernels(a, p, &b);
	make_ends(a, p, &b);
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		for (uint32_t j = 0; j < p->candidates[i].n_reads; j++)
			b.n_tensors = MAX_OF(b.n_tensors, p->candidates[i].reads[j] + 1);
		for (uint32_t j = 0; j < p->candidates[i].n_makes; j++)
			b.n_tensors = MAX_OF(b.n_tensors, p->candidates[i].makes[j] + 1);
	}
	if (!blp_solve(a, &b, start, n_start, &usual, &r, e))
		return err_in(e, "repeating the search");
	*cost = r.cost;
	/* A plan that does not claim to be optimal may be beaten: the caller says by how much. */
	if (r.cost < p->latency_ns && p->proved)
		return err_set(e, ERR_WRONG,
		    "the search finds a plan of %" PRId64 " ns, and this one takes %" PRId64 " ns", r.cost,
		    p->latency_ns);
	return !p->proved || r.proved ||
	    err_set(e, ERR_WRONG, "the plan claims to be optimal, and the search could not prove it");
}
