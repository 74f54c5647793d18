/* daemon/orchestrate/cover.c: the covering program min c.x over landmark rows, by Clp with
 * columns and rows added as they are needed, and duals that are safe whatever Clp says.
 *
 * Columns: per node the cheapest kernel per node computed and the smallest; then, after each
 * solution, per node the kernel of most negative reduced cost.  Rows: landmarks violated by the
 * solution.  Invariant: every row has a column that may be used, else Clp would see an
 * infeasible program. */
#include "blp_int.h"
#include "lp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 100, HARDLY_ANY_ROWS = 30, MAX_IDLE = 2 };

struct link { /* the rows of a kernel, newest first */
	uint32_t row, next;
};
struct cover {
	const struct prog *g;
	struct landmarks *landmarks;
	struct simplex *lp;
	uint32_t *col_of, *kernel_of; /* kernel -> column or NONE; column -> kernel */
	uint32_t n_cols, cap_cols;
	/* Rows of the landmarks that lp holds, and since how many solutions each had no dual; the others,
	 * up to n_linked, wait until a solution violates them. */
	uint32_t *row_of, *lp_row, *idle, n_rows, n_linked,
	    cap_rows; /* lp row -> row -> lp row or NONE; row */
	struct link *links;
	uint32_t n_links, cap_links, *head; /* kernel -> newest link + 1 */
	double *price, *x;
	double *mean, *blurred; /* of x, later solutions count more; where rows are looked for */
	double *last_dual;      /* of the last optimum, n_last of them, by rows of lp */
	uint32_t n_last;
	uint32_t *work;
};

struct cover *
cover_new(const struct prog *g)
{
	struct cover *c = heap_alloc(sizeof(*c));

	c->g = g;
	c->landmarks = landmarks_new(g);
	c->col_of = heap_alloc(sizeof(*c->col_of) * g->n_kernels);
	memset(c->col_of, 0xff, sizeof(*c->col_of) * g->n_kernels);
	c->head = heap_alloc(sizeof(*c->head) * g->n_kernels);
	c->price = heap_alloc(sizeof(*c->price) * g->n_kernels);
	c->x = heap_alloc(sizeof(*c->x) * g->n_kernels);
	c->mean = heap_alloc(sizeof(*c->mean) * g->n_kernels);
	c->blurred = heap_alloc(sizeof(*c->blurred) * g->n_kernels);
	c->work = heap_alloc(sizeof(*c->work) * g->n_kernels);
	return c;
}

void
cover_free(struct cover *c)
{
	if (!c)
		return;
	landmarks_free(c->landmarks);
	simplex_free(c->lp);
	free(c->col_of);
	free(c->kernel_of);
	free(c->links);
	free(c->row_of);
	free(c->lp_row);
	free(c->idle);
	free(c->head);
	free(c->price);
	free(c->x);
	free(c->mean);
	free(c->blurred);
	free(c->last_dual);
	free(c->work);
	free(c);
}

static double
lp_cost(const struct prog *g, uint32_t k)
{
	return g->cost[k] == BLP_NEVER ? 0 : (double)g->cost[k];
}

static int
by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

/* Gives kernel k a column over the rows that lp knows. */
static void
add_column(struct cover *c, uint32_t k)
{
	uint32_t n = 0, *rows;
	struct arena tmp = {0};

	if (c->col_of[k] != NONE)
		return;
	for (uint32_t l = c->head[k]; l; l = c->links[l - 1].next)
		n++;
	rows = NEW_ARRAY(&tmp, uint32_t, n);
	n = 0;
	for (uint32_t l = c->head[k]; l; l = c->links[l - 1].next)
		if (c->lp_row[c->links[l - 1].row] != NONE)
			rows[n++] = c->lp_row[c->links[l - 1].row];
	qsort(rows, n, sizeof(*rows), by_number);
	if (c->n_cols == c->cap_cols) {
		c->cap_cols = MAX_OF(256u, c->cap_cols * 2);
		c->kernel_of = heap_resize(c->kernel_of, sizeof(*c->kernel_of) * c->cap_cols);
	}
	simplex_add_col(c->lp, lp_cost(c->g, k), n, rows);
	c->col_of[k] = c->n_cols;
	c->kernel_of[c->n_cols++] = k;
	arena_fini(&tmp);
}

/* The kernel of a list that costs least by what it computes. */
static uint32_t
cheapest(const struct cover *c, const uint32_t *kernels, uint32_t n, const uint32_t *members, bool is_small)
{
	const struct prog *g = c->g;
	double best_value = INFINITY;
	uint32_t best = NONE;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = kernels[i], size = MAX_OF(members[k], 1u);
		double value = is_small ? (double)size * 1e13 + lp_cost(g, k) : lp_cost(g, k) / size;

		if (g->cost[k] != BLP_NEVER && value < best_value) {
			best_value = value;
			best = k;
		}
	}
	return best;
}

/* Without a usable column the row would make the program infeasible. */
static void
want_column(struct cover *c, const uint32_t *row, uint32_t n)
{
	const uint32_t *members;
	uint32_t k;

	for (uint32_t i = 0; i < n; i++)
		if (c->col_of[row[i]] != NONE && c->g->cost[row[i]] != BLP_NEVER)
			return;
	landmarks_nodes(c->landmarks, &members);
	if ((k = cheapest(c, row, n, members, false)) != NONE)
		add_column(c, k);
}

/* Gives lp a row of the landmarks. */
static void
enter_row(struct cover *c, uint32_t r)
{
	uint32_t n, n_cols = 0;
	const uint32_t *row = landmarks_row(c->landmarks, r, &n);

	want_column(c, row, n);
	for (uint32_t i = 0; i < n; i++)
		if (c->col_of[row[i]] != NONE)
			c->work[n_cols++] = c->col_of[row[i]];
	qsort(c->work, n_cols, sizeof(*c->work), by_number);
	simplex_add_row(c->lp, n_cols, c->work);
	c->idle[r] = 0;
	c->lp_row[r] = c->n_rows;
	c->row_of[c->n_rows++] = r;
}

/* Rows that the landmarks have and the cover has not. */
static void
take_rows(struct cover *c)
{
	uint32_t n_all = landmarks_count(c->landmarks);

	if (n_all > c->cap_rows) {
		c->cap_rows = n_all * 2;
		c->row_of = heap_resize(c->row_of, sizeof(*c->row_of) * c->cap_rows);
		c->lp_row = heap_resize(c->lp_row, sizeof(*c->lp_row) * c->cap_rows);
		c->idle = heap_resize(c->idle, sizeof(*c->idle) * c->cap_rows);
	}
	for (uint32_t r = c->n_linked; r < n_all; r++) {
		uint32_t n;
		const uint32_t *row = landmarks_row(c->landmarks, r, &n);

		c->lp_row[r] = NONE;
		for (uint32_t i = 0; i < n; i++) {
			if (c->n_links == c->cap_links) {
				c->cap_links = MAX_OF(4096u, c->cap_links * 2);
				c->links = heap_resize(c->links, sizeof(*c->links) * c->cap_links);
			}
			c->links[c->n_links++] = (struct link){r, c->head[row[i]]};
			c->head[row[i]] = c->n_links;
		}
		c->n_linked = r + 1;
		enter_row(c, r);
	}
}

/* Rows that lp has not and the solution violates.  Returns how many. */
static uint32_t
recall_rows(struct cover *c)
{
	uint32_t before = c->n_rows;

	for (uint32_t r = 0; r < c->n_linked; r++) {
		uint32_t n;
		const uint32_t *row = landmarks_row(c->landmarks, r, &n);
		double weight = 0;

		for (uint32_t i = 0; c->lp_row[r] == NONE && i < n; i++)
			weight += c->x[row[i]];
		if (c->lp_row[r] == NONE && weight < 0.99)
			enter_row(c, r);
	}
	return c->n_rows - before;
}

/* Rows that had no dual in the last solutions leave lp once they are the larger part of it: every step
 * of the simplex pays for them, and they are found again where they matter. */
static void
drop_rows(struct cover *c)
{
	uint32_t n_idle = 0, n = 0, m = 0, *gone;

	for (uint32_t i = 0; i < c->n_rows; i++)
		n_idle += c->idle[c->row_of[i]] > MAX_IDLE;
	if (n_idle * 2 < c->n_rows)
		return;
	gone = heap_alloc(sizeof(*gone) * MAX_OF(n_idle, 1u));
	for (uint32_t i = 0; i < c->n_rows; i++) {
		uint32_t r = c->row_of[i];

		if (c->idle[r] > MAX_IDLE) {
			c->lp_row[r] = NONE;
			gone[n++] = i;
			continue;
		}
		if (i < c->n_last)
			c->last_dual[m] = c->last_dual[i];
		c->lp_row[r] = m;
		c->row_of[m++] = r;
	}
	simplex_drop_rows(c->lp, n, gone);
	free(gone);
	c->n_last = MIN_OF(c->n_last, m);
	c->n_rows = m;
}

static void
start(struct cover *c)
{
	const uint32_t *members;
	const struct adjacency *nodes = landmarks_nodes(c->landmarks, &members);

	c->lp = simplex_new();
	landmarks_add_coverage(c->landmarks);
	for (uint32_t v = 0; v < c->g->n_landmarks; v++) {
		uint32_t n = nodes->first[v + 1] - nodes->first[v], k;

		for (int small = 0; n && small < 2; small++)
			if ((k = cheapest(c, nodes->item + nodes->first[v], n, members, small)) != NONE)
				add_column(c, k);
	}
	take_rows(c);
}

/* Costs changed since the last run: columns follow, every row keeps a usable column. */
static void
restart(struct cover *c)
{
	drop_rows(c);
	for (uint32_t j = 0; j < c->n_cols; j++)
		simplex_set_cost(
		    c->lp, j, lp_cost(c->g, c->kernel_of[j]), c->g->cost[c->kernel_of[j]] == BLP_NEVER);
	for (uint32_t i = 0; i < c->n_rows; i++) {
		uint32_t n;
		const uint32_t *row = landmarks_row(c->landmarks, c->row_of[i], &n);

		want_column(c, row, n);
	}
}

static void
price_all(struct cover *c, const double *dual)
{
	memset(c->price, 0, sizeof(*c->price) * c->g->n_kernels);
	for (uint32_t r = 0; r < c->n_rows; r++) {
		uint32_t n;
		const uint32_t *row = landmarks_row(c->landmarks, c->row_of[r], &n);

		if (dual[r] < 1e-9)
			continue;
		for (uint32_t i = 0; i < n; i++)
			c->price[row[i]] += dual[r];
	}
}

/* Per node the most negative kernel; the number of columns added. */
static uint32_t
add_columns(struct cover *c)
{
	const struct prog *g = c->g;
	const uint32_t *members;
	const struct adjacency *nodes = landmarks_nodes(c->landmarks, &members);
	uint32_t before = c->n_cols;

	for (uint32_t v = 0; v < g->n_landmarks; v++) {
		double least = -1e-3;
		uint32_t best = NONE;

		for (uint32_t j = nodes->first[v]; j < nodes->first[v + 1]; j++) {
			uint32_t k = nodes->item[j];
			double r = lp_cost(g, k) - c->price[k];

			if (r < least && c->col_of[k] == NONE && g->cost[k] != BLP_NEVER) {
				least = r;
				best = k;
			}
		}
		if (best != NONE)
			add_column(c, best);
	}
	if (c->n_cols != before)
		return c->n_cols - before;
	/* Kernels that compute no marked node. */
	for (uint32_t k = 0; k < g->n_kernels; k++)
		if (c->col_of[k] == NONE && g->cost[k] != BLP_NEVER && lp_cost(g, k) - c->price[k] < -1e-3)
			add_column(c, k);
	return c->n_cols - before;
}

/* Solves over all columns; false when the linear program was given up. */
static bool
solve_columns(struct cover *c, const struct blp_limits *limits)
{
	const double *x, *dual;

	do {
		if (blp_is_stopped(limits) ||
		    !simplex_run(c->lp, limits->seconds_left ? limits->seconds_left(limits->self) : INFINITY,
			&x, &dual))
			return false;
		c->last_dual = heap_resize(c->last_dual, sizeof(*dual) * c->n_rows);
		memcpy(c->last_dual, dual, sizeof(*dual) * c->n_rows);
		c->n_last = c->n_rows;
		memset(c->x, 0, sizeof(*c->x) * c->g->n_kernels);
		for (uint32_t j = 0; j < c->n_cols; j++)
			c->x[c->kernel_of[j]] = x[j];
		price_all(c, dual);
	} while (add_columns(c) > 0);
	return true;
}

/* Any duals >= 0 that over-price no kernel give a bound: clipped, and lowered where a kernel
 * is over-priced, in exact arithmetic. */
static void
make_safe(struct cover *c, struct cover_result *out)
{
	const struct prog *g = c->g;

	for (uint32_t i = 0; i < c->n_last; i++)
		if (c->last_dual[i] > 0 && c->last_dual[i] < 0x1p42)
			out->dual[c->row_of[i]] = (fixed_cost)floor(c->last_dual[i] * (double)FIXED_ONE);
	for (uint32_t k = 0; k < g->n_kernels; k++)
		out->reduced[k] = g->cost[k] == BLP_NEVER ? FIXED_NEVER : g->cost[k] * FIXED_ONE;
	for (uint32_t i = 0; i < c->n_last; i++) {
		uint32_t n, r = c->row_of[i];
		const uint32_t *row = landmarks_row(c->landmarks, r, &n);
		fixed_cost most = out->dual[r];

		for (uint32_t j = 0; j < n; j++)
			most = MIN_OF(most, out->reduced[row[j]]);
		out->dual[r] = most;
		c->idle[r] = most == 0 ? c->idle[r] + 1 : 0;
		if (most == 0)
			continue;
		for (uint32_t j = 0; j < n; j++)
			if (out->reduced[row[j]] != FIXED_NEVER)
				out->reduced[row[j]] -= most;
		out->pi += most;
	}
}

/* Where rows are looked for: half way from the last solution, a corner that nothing holds in its place, to
 * the mean of them all; and as if every kernel of small reduced cost had some weight too (up to `weight`,
 * less by the logarithm of what it costs to use it).  A row over many of those would only move the solution
 * to one of them. */
static void
blur(struct cover *c, double weight)
{
	const struct prog *g = c->g;
	double cost = 0;

	for (uint32_t k = 0; k < g->n_kernels; k++)
		cost += c->x[k] > 0 ? c->x[k] * lp_cost(g, k) : 0;
	for (uint32_t k = 0; k < g->n_kernels; k++) {
		double reduced = fmax(0, lp_cost(g, k) - c->price[k]) / fmax(cost, 1);

		c->blurred[k] = (c->mean[k] + c->x[k]) / 2;
		if (weight > 0 && g->cost[k] != BLP_NEVER && reduced < 1e-3)
			c->blurred[k] += weight * fmin(1, log10(1e-3 / (reduced + 1e-7)) / 4);
	}
}

/* Rows that the last solution and its surroundings violate; few of these mean that they move it little,
 * and then those that gain by themselves are looked for too.  Which weight finds the rows that matter
 * differs from program to program, so that rounds take turns.  Returns how many. */
static uint32_t
add_rows(struct cover *c, bool deep, uint32_t round)
{
	static const double weights[] = {0.02, 0.05, 0.01, 0.1};
	const struct prog *g = c->g;
	uint32_t n = recall_rows(c);

	for (uint32_t k = 0; k < g->n_kernels; k++)
		c->mean[k] = round == 1 ? c->x[k] : (c->mean[k] + c->x[k]) / 2;
	if (n >= FEW_ROWS)
		return n;
	for (int i = 0; i < 2 && !deep && n < HARDLY_ANY_ROWS; i++) {
		blur(c, i == 0 ? weights[round % COUNT_OF(weights)] : 0);
		n += landmarks_separate(c->landmarks, c->blurred, false, round);
	}
	if (n < HARDLY_ANY_ROWS / 3)
		n += landmarks_separate(c->landmarks, c->x, deep, round);
	if (n < FEW_ROWS) {
		for (uint32_t k = 0; k < g->n_kernels; k++)
			c->price[k] =
			    g->cost[k] == BLP_NEVER ? INFINITY : fmax(0, lp_cost(g, k) - c->price[k]);
		n += landmarks_ascend(c->landmarks, c->price, FEW_ROWS);
	}
	take_rows(c);
	return n;
}

void
cover_solve(struct arena *a, struct cover *c, const struct blp_limits *limits, struct cover_result *out)
{
	bool deep = false;

	if (!c->lp)
		start(c);
	else
		restart(c);
	for (uint32_t round = 1; solve_columns(c, limits) && round < limits->max_rounds; round++) {
		uint32_t n = add_rows(c, deep, round);

		if (n == 0 && deep)
			break;
		deep = n == 0 || (deep && n < 4);
	}
	out->pi = 0;
	out->dual = NEW_ARRAY(a, fixed_cost, landmarks_count(c->landmarks));
	out->reduced = NEW_ARRAY(a, fixed_cost, c->g->n_kernels);
	make_safe(c, out);
	out->n_simplex = simplex_steps(c->lp);
	out->n_columns = c->n_cols;
	out->n_rows = landmarks_count(c->landmarks);
}

const uint32_t *
cover_row(const struct cover *c, uint32_t row, uint32_t *n)
{
	return landmarks_row(c->landmarks, row, n);
}
