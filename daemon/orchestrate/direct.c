/* daemon/orchestrate/direct.c: the cross-check (D22): a small program given to lp_solve as it stands.
 *
 * Rows: what is wanted has a maker; what a chosen kernel reads has one.  That allows kernels that
 * wait for each other in a circle; a solution that does gets loop cuts and is solved again: with T the
 * tensors that stay unmade and ext(T) the kernels that make some of T and read none of it, a kernel
 * that reads of T needs one of ext(T). */
#include "blp.h"
#include "lp.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CUTS = 200 };

struct direct {
	struct arena *a;
	const struct blp *p;
	struct binary_row *rows;
	uint32_t n_rows, cap_rows;
	double *cost;
	uint8_t *x;
};

static bool
is_in(uint32_t t, const uint32_t *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i] == t)
			return true;
	return false;
}

/* sum of x over `kernels` (bytes, one a kernel) - x[reader] >= rhs; reader UINT32_MAX: none. */
static void
add_row(struct direct *d, const uint8_t *kernels, uint32_t reader, double rhs)
{
	uint32_t *col = NEW_ARRAY(d->a, uint32_t, (size_t)d->p->n_kernels + 1), n = 0;
	double *coef = NEW_ARRAY(d->a, double, (size_t)d->p->n_kernels + 1);

	for (uint32_t k = 0; k < d->p->n_kernels; k++) {
		double c = (kernels[k] ? 1.0 : 0.0) - (k == reader ? 1.0 : 0.0);

		if (c > 0 || c < 0) {
			col[n] = k;
			coef[n++] = c;
		}
	}
	GROW(d->a, d->rows, d->n_rows, d->cap_rows);
	d->rows[d->n_rows++] = (struct binary_row){n, col, coef, rhs};
}

static void
mark_makers(const struct direct *d, uint32_t t, uint8_t *kernels)
{
	for (uint32_t k = 0; k < d->p->n_kernels; k++)
		kernels[k] = d->p->kernels[k].cost != BLP_NEVER &&
		    is_in(t, d->p->kernels[k].out, d->p->kernels[k].n_out);
}

static void
add_support(struct direct *d)
{
	const struct blp *p = d->p;
	uint8_t *kernels = NEW_ARRAY(d->a, uint8_t, p->n_kernels);

	for (uint32_t i = 0; i < p->n_wanted; i++) {
		mark_makers(d, p->wanted[i], kernels);
		if (!is_in(p->wanted[i], p->given, p->n_given))
			add_row(d, kernels, UINT32_MAX, 1);
	}
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		memset(kernels, 0, p->n_kernels);
		if (p->kernels[k].cost == BLP_NEVER)
			add_row(d, kernels, k, 0);
		for (uint32_t j = 0; j < p->kernels[k].n_in; j++) {
			mark_makers(d, p->kernels[k].in[j], kernels);
			if (!is_in(p->kernels[k].in[j], p->given, p->n_given))
				add_row(d, kernels, k, 0);
		}
	}
}

/* What the chosen kernels make when each runs as soon as it can. */
static uint8_t *
simulate(const struct direct *d)
{
	const struct blp *p = d->p;
	uint8_t *have = NEW_ARRAY(d->a, uint8_t, p->n_tensors);
	bool moved = true;

	for (uint32_t i = 0; i < p->n_given; i++)
		have[p->given[i]] = 1;
	while (moved) {
		moved = false;
		for (uint32_t k = 0; k < p->n_kernels; k++) {
			bool can_run = d->x[k];

			for (uint32_t j = 0; j < p->kernels[k].n_in && can_run; j++)
				can_run = have[p->kernels[k].in[j]];
			for (uint32_t j = 0; can_run && j < p->kernels[k].n_out; j++) {
				moved |= !have[p->kernels[k].out[j]];
				have[p->kernels[k].out[j]] = 1;
			}
		}
	}
	return have;
}

/* False when the solution runs as it is. */
static bool
add_cuts(struct direct *d)
{
	const struct blp *p = d->p;
	const uint8_t *have = simulate(d);
	uint8_t *ext = NEW_ARRAY(d->a, uint8_t, p->n_kernels);
	bool is_cut = false;

	for (uint32_t k = 0; k < p->n_kernels; k++) {
		for (uint32_t j = 0; j < p->kernels[k].n_out; j++)
			ext[k] |= !have[p->kernels[k].out[j]];
		for (uint32_t j = 0; j < p->kernels[k].n_in; j++)
			ext[k] &= have[p->kernels[k].in[j]];
	}
	for (uint32_t i = 0; i < p->n_wanted && !is_cut; i++)
		if (!have[p->wanted[i]]) {
			add_row(d, ext, UINT32_MAX, 1);
			is_cut = true;
		}
	return is_cut;
}

bool
blp_solve_direct(struct arena *a, const struct blp *p, int64_t *cost, bool *proved, struct err *e)
{
	struct direct d = {.a = a,
	    .p = p,
	    .cost = NEW_ARRAY(a, double, p->n_kernels),
	    .x = NEW_ARRAY(a, uint8_t, p->n_kernels)};

	*proved = false;
	*cost = 0;
	for (uint32_t k = 0; k < p->n_kernels; k++)
		d.cost[k] = p->kernels[k].cost == BLP_NEVER ? 0 : (double)p->kernels[k].cost;
	add_support(&d);
	for (int i = 0; i < MAX_CUTS; i++) {
		if (!binary_run(p->n_kernels, d.cost, d.n_rows, d.rows, d.x))
			return err_set(e, ERR_FAILED, "lp_solve found no optimum");
		if (add_cuts(&d))
			continue;
		for (uint32_t k = 0; k < p->n_kernels; k++)
			*cost += d.x[k] ? p->kernels[k].cost : 0;
		*proved = true;
		return true;
	}
	return true;
}
