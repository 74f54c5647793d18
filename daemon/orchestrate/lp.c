/* daemon/orchestrate/lp.c: lp.h by Clp.
 *
 * Clp rather than lp_solve: on a program that is solved again with other costs, lp_solve's warm
 * start took up to 18,000 steps and half a minute for what Clp does in tens of milliseconds, and
 * went round in degenerate corners for ever.
 *
 * Traps: adding a row or column one at a time copies the matrix, hence the pending batch; dual
 * values lie in Clp's memory and move whenever something is added, hence the copies. */
#include "lp.h"

#include <coin/Clp_C_Interface.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows or columns that Clp does not have yet: never both, as either names numbers of the other. */
struct pending {
	uint32_t n, cap, n_items, cap_items;
	int *start, *item; /* start: n + 1 */
	double *cost;
	bool are_rows;
};

struct simplex {
	Clp_Simplex *lp;
	uint32_t n_rows, n_cols, cap_ones;
	struct pending new;
	double *ones, *zeros, *infinite; /* cap_ones of each */
	double *x, *dual;
	bool dual_is_lost; /* columns or costs changed: the last basis is no start for the dual simplex */
	uint64_t steps;
};

struct simplex *
simplex_new(void)
{
	struct simplex *s = heap_alloc(sizeof(*s));

	s->lp = Clp_newModel();
	if (!s->lp)
		bug("Clp has no memory for an empty program");
	Clp_setLogLevel(s->lp, 0);
	Clp_scaling(s->lp, 0); /* all coefficients are 1 */
	return s;
}

void
simplex_free(struct simplex *s)
{
	if (!s)
		return;
	Clp_deleteModel(s->lp);
	free(s->new.start);
	free(s->new.item);
	free(s->new.cost);
	free(s->ones);
	free(s->zeros);
	free(s->infinite);
	free(s->x);
	free(s->dual);
	free(s);
}

static void
want_ones(struct simplex *s, uint32_t n)
{
	if (n <= s->cap_ones)
		return;
	s->cap_ones = n * 2;
	s->ones = heap_resize(s->ones, sizeof(*s->ones) * s->cap_ones);
	s->zeros = heap_resize(s->zeros, sizeof(*s->zeros) * s->cap_ones);
	s->infinite = heap_resize(s->infinite, sizeof(*s->infinite) * s->cap_ones);
	for (uint32_t i = 0; i < s->cap_ones; i++) {
		s->ones[i] = 1;
		s->zeros[i] = 0;
		s->infinite[i] = DBL_MAX;
	}
}

static void
flush(struct simplex *s)
{
	struct pending *p = &s->new;

	if (p->n == 0)
		return;
	want_ones(s, MAX_OF(p->n, p->n_items));
	if (p->are_rows)
		Clp_addRows(s->lp, (int)p->n, s->ones, s->infinite, p->start, p->item, s->ones);
	else
		Clp_addColumns(s->lp, (int)p->n, s->zeros, s->infinite, p->cost, p->start, p->item, s->ones);
	s->dual_is_lost |= !p->are_rows;
	p->n = p->n_items = 0;
}

static void
append(struct simplex *s, bool is_row, double cost, uint32_t n, const uint32_t *items)
{
	struct pending *p = &s->new;

	if (p->are_rows != is_row)
		flush(s);
	p->are_rows = is_row;
	if (p->n + 2 > p->cap) {
		p->cap = MAX_OF(64u, p->cap * 2);
		p->start = heap_resize(p->start, sizeof(*p->start) * p->cap);
		p->cost = heap_resize(p->cost, sizeof(*p->cost) * p->cap);
	}
	if (p->n_items + n > p->cap_items) {
		p->cap_items = MAX_OF(1024u, (p->n_items + n) * 2);
		p->item = heap_resize(p->item, sizeof(*p->item) * p->cap_items);
	}
	for (uint32_t i = 0; i < n; i++)
		p->item[p->n_items + i] = (int)items[i];
	p->cost[p->n] = cost;
	p->start[p->n] = (int)p->n_items;
	p->n_items += n;
	p->start[++p->n] = (int)p->n_items;
}

void
simplex_add_col(struct simplex *s, double cost, uint32_t n, const uint32_t *rows)
{
	append(s, false, cost, n, rows);
	s->n_cols++;
}

void
simplex_add_row(struct simplex *s, uint32_t n, const uint32_t *cols)
{
	append(s, true, 0, n, cols);
	s->n_rows++;
}

void
simplex_set_cost(struct simplex *s, uint32_t col, double cost, bool is_forbidden)
{
	flush(s);
	Clp_objective(s->lp)[col] = cost;
	Clp_columnUpper(s->lp)[col] = is_forbidden ? 0 : DBL_MAX;
	s->dual_is_lost = true;
}

void
simplex_drop_rows(struct simplex *s, uint32_t n, const uint32_t *rows)
{
	int *which = heap_alloc(sizeof(*which) * MAX_OF(n, 1u));

	flush(s);
	for (uint32_t i = 0; i < n; i++)
		which[i] = (int)rows[i];
	Clp_deleteRows(s->lp, (int)n, which);
	s->n_rows -= n;
	free(which);
}

void
simplex_forget(struct simplex *s)
{
	flush(s);
	for (uint32_t i = 0; i < s->n_cols; i++)
		Clp_setColumnStatus(s->lp, (int)i, 3); /* at its lower bound */
	for (uint32_t i = 0; i < s->n_rows; i++)
		Clp_setRowStatus(s->lp, (int)i, 1); /* basic */
	s->dual_is_lost = false;
}

/* Of either simplex, by row and column: 1,593 steps over 61,529 rows and 25,339 columns took 4.6 s. */
static const double step_s = 35e-9;

/* Steps for so many seconds: counted, so that a run is the same whenever it is run again (D21).  Not by turns
 * of a few hundred with a look at the clock between: each turn begins with other perturbed costs, and some
 * programs never end. */
static int64_t
steps_in(const struct simplex *s, double seconds)
{
	return 1 + (int64_t)fmin(seconds / (step_s * (double)(s->n_rows + s->n_cols + 1)), INT32_MAX);
}

enum end { END_OPTIMUM, END_LOST, END_TIME };

/* One run of either simplex, of the steps that are left: what it takes is taken off them. */
static enum end
run_once(struct simplex *s, bool by_primal, int64_t *left)
{
	const int64_t usual = 2000 + 5 * ((int64_t)s->n_rows + s->n_cols);

	Clp_setNumberIterations(s->lp, 0);
	Clp_setMaximumIterations(s->lp, (int)MIN_OF(MIN_OF(usual, *left), INT32_MAX));
	(void)(by_primal ? Clp_primal(s->lp, 0) : Clp_dual(s->lp, 0));
	s->steps += (uint64_t)Clp_numberIterations(s->lp);
	*left -= Clp_numberIterations(s->lp);
	if (Clp_status(s->lp) == 0)
		return END_OPTIMUM;
	return *left <= 0 ? END_TIME : END_LOST;
}

bool
simplex_run(struct simplex *s, double seconds, const double **x, const double **dual)
{
	enum end end;
	int64_t left = steps_in(s, seconds);

	flush(s);
	end = run_once(s, s->dual_is_lost, &left);
	if (end == END_LOST) {
		simplex_forget(s);
		end = run_once(s, false, &left);
	}
	if (end != END_OPTIMUM)
		return false;
	s->dual_is_lost = false;
	s->x = heap_resize(s->x, sizeof(*s->x) * MAX_OF(s->n_cols, 1u));
	s->dual = heap_resize(s->dual, sizeof(*s->dual) * MAX_OF(s->n_rows, 1u));
	memcpy(s->x, Clp_primalColumnSolution(s->lp), sizeof(*s->x) * s->n_cols);
	memcpy(s->dual, Clp_dualRowSolution(s->lp), sizeof(*s->dual) * s->n_rows);
	*x = s->x;
	*dual = s->dual;
	return true;
}

uint64_t
simplex_steps(const struct simplex *s)
{
	return s->steps;
}
