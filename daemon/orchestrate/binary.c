/* daemon/orchestrate/binary.c: small binary programs by lp_solve 5.5 (D22).
 * Only status 0 is an optimum: 1 is an incumbent on giving up, and looks like an answer. */
#include "lp.h"

#include <lpsolve/lp_lib.h>
#include <stdlib.h>

struct watch {
	const struct binary_limit *limit;
	uint64_t n_steps;
	enum binary_end why;
};

/* lp_solve asks at every step of the simplex whether to go on: counted work, the same on all hosts. */
static int __WINAPI
is_over(lprec *lp, void *self)
{
	struct watch *w = self;

	(void)lp;
	if (w->limit->max_steps && ++w->n_steps > w->limit->max_steps)
		w->why = BINARY_LIMIT;
	else if (w->limit->stop && w->limit->stop(w->limit->self))
		w->why = BINARY_STOPPED;
	return w->why == BINARY_LIMIT || w->why == BINARY_STOPPED;
}

static void
add_row(lprec *lp, const struct binary_row *row, uint32_t number)
{
	int *at = heap_alloc(sizeof(*at) * row->n);
	double *coef = heap_alloc(sizeof(*coef) * row->n);

	for (uint32_t i = 0; i < row->n; i++) {
		at[i] = (int)row->col[i] + 1;
		coef[i] = row->coef[i];
	}
	if (!add_constraintex(lp, (int)row->n, coef, at, GE, row->rhs))
		bug("lp_solve refused row %u", number);
	free(at);
	free(coef);
}

enum binary_end
binary_run(uint32_t n_cols, const double *cost, uint32_t n_rows, const struct binary_row *rows,
    const struct binary_limit *limit, uint8_t *x)
{
	lprec *lp = make_lp(0, (int)n_cols);
	struct watch watch = {.limit = limit, .why = BINARY_NONE};
	double *p;

	if (!lp)
		bug("lp_solve has no memory for %u columns", n_cols);
	set_verbose(lp, NEUTRAL);
	set_minim(lp);
	for (uint32_t i = 0; i < n_cols; i++) {
		set_binary(lp, (int)i + 1, TRUE);
		set_obj(lp, (int)i + 1, cost[i]);
	}
	set_add_rowmode(lp, TRUE);
	for (uint32_t r = 0; r < n_rows; r++)
		add_row(lp, &rows[r], r);
	set_add_rowmode(lp, FALSE);
	set_mip_gap(lp, TRUE, 0);
	set_mip_gap(lp, FALSE, 0);
	put_abortfunc(lp, is_over, &watch);
	if (solve(lp) == OPTIMAL && get_ptr_variables(lp, &p)) {
		for (uint32_t i = 0; i < n_cols; i++)
			x[i] = p[i] > 0.5;
		watch.why = BINARY_OPTIMUM;
	}
	delete_lp(lp);
	return watch.why;
}
