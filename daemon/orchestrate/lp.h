/* daemon/orchestrate/lp.h: linear programs min c.x, rows of ones >= 1, x >= 0, grown by rows and
 * columns and solved again from the last basis; small binary programs.  lp.c is the only file
 * that knows Clp, binary.c the only one that knows lp_solve. */
#ifndef KORCH_LP_H
#define KORCH_LP_H

#include "../../kernels/base/base.h"

struct simplex;
struct simplex *simplex_new(void);
void simplex_free(struct simplex *s);
/* rows, cols: ascending numbers from 0 of those that meet; the new one gets the next number. */
void simplex_add_col(struct simplex *s, double cost, uint32_t n, const uint32_t *rows);
void simplex_add_row(struct simplex *s, uint32_t n, const uint32_t *cols);
/* A forbidden column stays at 0. */
void simplex_set_cost(struct simplex *s, uint32_t col, double cost, bool is_forbidden);
/* rows: ascending; later ones move up. */
void simplex_drop_rows(struct simplex *s, uint32_t n, const uint32_t *rows);
/* The next run starts from the slack basis. */
void simplex_forget(struct simplex *s);
/* False when no optimum was found in the counted limit, or in as many steps as fit into so many seconds
 * (INFINITY: the counted limit alone): x and dual are then unset.  The arrays belong to `s` until the next
 * call. */
bool simplex_run(struct simplex *s, double seconds, const double **x, const double **dual);
uint64_t simplex_steps(const struct simplex *s);

/* min c.x, x binary; rows: sum of coef*x >= rhs. */
struct binary_row {
	uint32_t n;
	const uint32_t *col;
	const double *coef;
	double rhs;
};
enum binary_end {
	BINARY_OPTIMUM, /* proven: x is it */
	BINARY_LIMIT,   /* more steps would have been needed */
	BINARY_STOPPED, /* ->stop said so */
	BINARY_NONE     /* infeasible, or lp_solve lost its way */
};
struct binary_limit {
	uint64_t max_steps;       /* of the simplex; 0: no limit */
	bool (*stop)(void *self); /* asked at each of them; may be NULL */
	void *self;
};
enum binary_end binary_run(uint32_t n_cols, const double *cost, uint32_t n_rows,
    const struct binary_row *rows, const struct binary_limit *limit, uint8_t *x);

#endif
