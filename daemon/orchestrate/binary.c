/* daemon/orchestrate/binary.c: small binary programs by lp_solve 5.5: the cross-check (D22).
 * Only status 0 is an optimum: 1 is an incumbent on giving up, and looks like an answer. */
#include "lp.h"

#include <lpsolve/lp_lib.h>
#include <stdlib.h>

bool
binary_run(uint32_t n_cols, const double *cost, uint32_t n_rows, const struct binary_row *rows, uint8_t *x)
{
	lprec *lp = make_lp(0, (int)n_cols);
	double *p;
	bool ok = false;

	if (!lp)
		bug("lp_solve has no memory for %u columns", n_cols);
	set_verbose(lp, NEUTRAL);
	set_minim(lp);
	for (uint32_t i = 0; i < n_cols; i++) {
		set_binary(lp, (int)i + 1, TRUE);
		set_obj(lp, (int)i + 1, cost[i]);
	}
	set_add_rowmode(lp, TRUE);
	for (uint32_t r = 0; r < n_rows; r++) {
		int *at = heap_alloc(sizeof(*at) * rows[r].n);
		double *coef = heap_alloc(sizeof(*coef) * rows[r].n);

		for (uint32_t i = 0; i < rows[r].n; i++) {
			at[i] = (int)rows[r].col[i] + 1;
			coef[i] = rows[r].coef[i];
		}
		if (!add_constraintex(lp, (int)rows[r].n, coef, at, GE, rows[r].rhs))
			bug("lp_solve refused row %u", r);
		free(at);
		free(coef);
	}
	set_add_rowmode(lp, FALSE);
	set_mip_gap(lp, TRUE, 0);
	set_mip_gap(lp, FALSE, 0);
	if (solve(lp) == OPTIMAL && get_ptr_variables(lp, &p)) {
		for (uint32_t i = 0; i < n_cols; i++)
			x[i] = p[i] > 0.5;
		ok = true;
	}
	delete_lp(lp);
	return ok;
}
