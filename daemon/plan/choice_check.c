/* daemon/plan/choice_check.c: the checks of kernels/run/certify.h on a struct blp.  No solver code. */
#include "choice_check.h"

#include "../../kernels/run/certify.h"

/* Kernels that must not be used are no candidates: they read nothing and make nothing. */
static struct choice_facts
facts_of(struct arena *a, const struct blp *p)
{
	struct plan_candidate *c = NEW_ARRAY(a, struct plan_candidate, p->n_kernels);

	for (uint32_t k = 0; k < p->n_kernels; k++) {
		const struct blp_kernel *b = &p->kernels[k];

		c[k].cost_ns = b->cost;
		if (b->cost == BLP_NEVER)
			continue;
		c[k].reads = arena_dup(a, b->in, sizeof(*b->in) * b->n_in);
		c[k].makes = arena_dup(a, b->out, sizeof(*b->out) * b->n_out);
		c[k].n_reads = b->n_in;
		c[k].n_makes = b->n_out;
	}
	return (struct choice_facts){
	    c, p->n_kernels, p->n_tensors, p->given, p->wanted, p->n_given, p->n_wanted};
}

bool
blp_check_order(const struct blp *p, const uint32_t *order, uint32_t n, struct err *e)
{
	struct arena tmp = {0};
	struct choice_facts f = facts_of(&tmp, p);
	bool ok = certify_order(&f, order, n, e);

	arena_fini(&tmp);
	return ok;
}

bool
blp_check_bound(
    const struct blp *p, const struct blp_row *rows, uint32_t n_rows, double *bound, struct err *e)
{
	struct arena tmp = {0};
	struct choice_facts f = facts_of(&tmp, p);
	struct plan_row *r = NEW_ARRAY(&tmp, struct plan_row, n_rows);
	bool ok;

	for (uint32_t i = 0; i < n_rows; i++)
		r[i] = (struct plan_row){rows[i].kernels, rows[i].n, rows[i].dual};
	ok = certify_bound(&f, r, n_rows, bound, e);
	arena_fini(&tmp);
	return ok;
}
