/* daemon/orchestrate/lp.c: lp_solve 5.5 behind lp.h.
 *
 * Traps: dual values exist only with PRESOLVE_DUALS, lie in lp_solve's memory and move whenever
 * a row or column is added, hence the copies; scaling and presolve would renumber or disturb
 * rows that are all ones anyway; only status 0 is an optimum. */
#include "lp.h"

#include <lpsolve/lp_lib.h>
#include <stdlib.h>
#include <string.h>

struct simplex {
	lprec *lp;
	const volatile bool *cancel;
	uint32_t n_rows, n_cols, cap_rows, cap_cols, cap_work;
	double *x, *dual, *ones;
	int *work;
	uint64_t steps;
	int64_t max_steps; /* of one run: lp_solve can go round in a degenerate corner for ever */
};

static int __WINAPI
must_stop(lprec *lp, void *handle)
{
	const struct simplex *s = handle;

	return (s->cancel && *s->cancel) || get_total_iter(lp) > s->max_steps;
}

struct simplex *
simplex_new(const volatile bool *cancel)
{
	struct simplex *s = heap_alloc(sizeof(*s));

	s->cancel = cancel;
	s->lp = make_lp(0, 0);
	if (!s->lp)
		bug("lp_solve has no memory for an empty program");
	set_verbose(s->lp, NEUTRAL);
	set_minim(s->lp);
	set_scaling(s->lp, SCALE_NONE);
	set_improve(s->lp, IMPROVE_NONE);
	set_presolve(s->lp, PRESOLVE_DUALS, 0);
	put_abortfunc(s->lp, must_stop, s);
	return s;
}

void
simplex_free(struct simplex *s)
{
	if (!s)
		return;
	delete_lp(s->lp);
	free(s->x);
	free(s->dual);
	free(s->ones);
	free(s->work);
	free(s);
}

/* lp_solve counts from 1; work[0] stays free for the objective, which is row 0. */
static int *
one_based(struct simplex *s, uint32_t n, const uint32_t *v)
{
	if (n >= s->cap_work) {
		s->cap_work = (n + 1) * 2;
		s->work = heap_resize(s->work, sizeof(*s->work) * s->cap_work);
		s->ones = heap_resize(s->ones, sizeof(*s->ones) * s->cap_work);
		for (uint32_t i = 0; i < s->cap_work; i++)
			s->ones[i] = 1;
	}
	for (uint32_t i = 0; i < n; i++)
		s->work[i + 1] = (int)v[i] + 1;
	return s->work;
}

void
simplex_add_col(struct simplex *s, double cost, uint32_t n, const uint32_t *rows)
{
	int *at = one_based(s, n, rows);

	at[0] = 0;
	s->ones[0] = cost;
	if (!add_columnex(s->lp, (int)n + 1, s->ones, at))
		bug("lp_solve refused a column of %u rows", n);
	s->ones[0] = 1;
	s->n_cols++;
}

void
simplex_add_row(struct simplex *s, uint32_t n, const uint32_t *cols)
{
	int *at = one_based(s, n, cols);

	if (!add_constraintex(s->lp, (int)n, s->ones, at + 1, GE, 1))
		bug("lp_solve refused a row of %u columns", n);
	s->n_rows++;
}

void
simplex_set_cost(struct simplex *s, uint32_t col, double cost, bool is_forbidden)
{
	if (!set_obj(s->lp, (int)col + 1, cost) ||
	    !set_upbo(s->lp, (int)col + 1, is_forbidden ? 0 : get_infinite(s->lp)))
		bug("lp_solve refused the cost of column %u", col);
}

bool
simplex_run(struct simplex *s, const double **x, const double **dual)
{
	double *p;
	int status;

	s->max_steps = 1000 + 5 * ((int64_t)s->n_rows + s->n_cols);
	status = solve(s->lp);
	s->steps += (uint64_t)get_total_iter(s->lp);
	if (status != OPTIMAL && !(s->cancel && *s->cancel)) {
		default_basis(s->lp);
		set_anti_degen(s->lp, ANTIDEGEN_STALLING | ANTIDEGEN_FIXEDVARS);
		status = solve(s->lp);
		set_anti_degen(s->lp, ANTIDEGEN_NONE);
		s->steps += (uint64_t)get_total_iter(s->lp);
	}
	if (status != OPTIMAL)
		return false;
	if (s->n_cols > s->cap_cols) {
		s->cap_cols = s->n_cols * 2;
		s->x = heap_resize(s->x, sizeof(*s->x) * s->cap_cols);
	}
	if (s->n_rows > s->cap_rows) {
		s->cap_rows = s->n_rows * 2;
		s->dual = heap_resize(s->dual, sizeof(*s->dual) * s->cap_rows);
	}
	if (!get_ptr_variables(s->lp, &p))
		return false;
	memcpy(s->x, p, sizeof(*p) * s->n_cols);
	if (!get_ptr_dual_solution(s->lp, &p))
		return false;
	memcpy(s->dual, p + 1, sizeof(*p) * s->n_rows);
	*x = s->x;
	*dual = s->dual;
	return true;
}

uint64_t
simplex_steps(const struct simplex *s)
{
	return s->steps;
}

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
