/* client/plan_resolve.c: the search behind a plan, repeated: the only place of the client that
 * runs the solver, and only for `korch-plan verify --resolve`. */
#include "plan_explain.h"

#include "../daemon/orchestrate/blp.h"

#include <inttypes.h>

static void
make_kernels(struct arena *a, const struct plan *p, struct blp *b)
{
	struct blp_kernel *k = NEW_ARRAY(a, struct blp_kernel, p->n_candidates);

	for (uint32_t i = 0; i < p->n_candidates; i++) {
		const struct plan_candidate *c = &p->candidates[i];

		k[i] = (struct blp_kernel){.in = c->reads,
		    .n_in = c->n_reads,
		    .out = c->makes,
		    .n_out = c->n_makes,
		    .cost = c->cost_ns};
	}
	b->kernels = k;
	b->n_kernels = p->n_candidates;
}

/* The certificate's rows: the planner found them over many turns, a new search would not in one. */
static void
make_rows(struct arena *a, const struct plan *p, struct blp *b)
{
	struct blp_row *r = NEW_ARRAY(a, struct blp_row, p->n_rows);

	for (uint32_t i = 0; i < p->n_rows; i++)
		r[i] = (struct blp_row){p->rows[i].candidates, p->rows[i].n_candidates, p->rows[i].dual};
	b->rows = r;
	b->n_rows = p->n_rows;
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

/* By the search, and where that comes to no end within its limits, by lp_solve: what one has proved the other
 * may not. */
static bool
solve(struct arena *a, const struct plan *p, const struct blp *b, struct blp_result *out, struct err *e)
{
	const struct blp_limits by_search = {.solver = BLP_CLP}, by_lp_solve = {.solver = BLP_LP_SOLVE};
	uint32_t n_start, *start = chosen_of(a, p, &n_start);
	struct blp_result other;
	struct err too_large = {0};

	if (!blp_solve(a, b, start, n_start, &by_search, out, e))
		return err_in(e, "repeating the search");
	if (p->proved && !out->proved && blp_solve(a, b, start, n_start, &by_lp_solve, &other, &too_large) &&
	    other.proved)
		*out = other;
	return true;
}

bool
plan_resolve(struct arena *a, const struct plan *p, int64_t *cost, struct err *e)
{
	struct blp_result r;
	struct blp b = {0};

	make_kernels(a, p, &b);
	make_rows(a, p, &b);
	make_ends(a, p, &b);
	for (uint32_t i = 0; i < p->n_candidates; i++) {
		for (uint32_t j = 0; j < p->candidates[i].n_reads; j++)
			b.n_tensors = MAX_OF(b.n_tensors, p->candidates[i].reads[j] + 1);
		for (uint32_t j = 0; j < p->candidates[i].n_makes; j++)
			b.n_tensors = MAX_OF(b.n_tensors, p->candidates[i].makes[j] + 1);
	}
	if (!solve(a, p, &b, &r, e))
		return false;
	*cost = r.cost;
	/* A plan that does not claim to be optimal may be beaten: the caller says by how much. */
	if (r.cost < p->latency_ns && p->proved)
		return err_set(e, ERR_WRONG,
		    "the search finds a plan of %" PRId64 " ns, and this one takes %" PRId64 " ns", r.cost,
		    p->latency_ns);
	return !p->proved || r.proved ||
	    err_set(e, ERR_WRONG, "the plan claims to be optimal, and the search could not prove it");
}
