/* daemon/orchestrate/direct.c: a small program given to lp_solve as it stands (D22): the choice of
 * BLP_LP_SOLVE, and the cross-check of tests.
 *
 * Rows: what is wanted has a maker; what a chosen kernel reads has one.  That allows kernels that
 * wait for each other in a circle; a solution that does gets a loop cut and is solved again: with T the
 * tensors that stay unmade and ext(T) the kernels that make some of T and read none of it, some kernel of
 * ext(T) must be chosen, as a wanted tensor is in T. */
#include "blp_int.h"
#include "lp.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CUTS = 200 };

struct direct {
	struct arena *a;
	const struct blp *p;
	bool *is_given;          /* tensor */
	struct adjacency makers; /* of a tensor; without kernels that must not be chosen */
	struct binary_row *rows;
	uint32_t n_rows, cap_rows;
	double *cost;
	uint8_t *x;
};

static bool
is_usable(const struct blp_kernel *k)
{
	return k->cost != BLP_NEVER;
}

static void
find_makers(struct direct *d)
{
	const struct blp *p = d->p;
	uint32_t *count = NEW_ARRAY(d->a, uint32_t, p->n_tensors);

	for (uint32_t k = 0; k < p->n_kernels; k++)
		for (uint32_t j = 0; is_usable(&p->kernels[k]) && j < p->kernels[k].n_out; j++)
			count[p->kernels[k].out[j]]++;
	d->makers = adjacency_make(d->a, p->n_tensors, count);
	memset(count, 0, sizeof(*count) * p->n_tensors);
	for (uint32_t k = 0; k < p->n_kernels; k++)
		for (uint32_t j = 0; is_usable(&p->kernels[k]) && j < p->kernels[k].n_out; j++) {
			uint32_t t = p->kernels[k].out[j];

			d->makers.item[d->makers.first[t] + count[t]++] = k;
		}
}

/* sum of x over `kernels` - x[reader] >= rhs; reader NONE: none. */
static void
add_row(struct direct *d, const uint32_t *kernels, uint32_t n, uint32_t reader, double rhs)
{
	uint32_t *col = NEW_ARRAY(d->a, uint32_t, (size_t)n + 1), m = 0;
	double *coef = NEW_ARRAY(d->a, double, (size_t)n + 1);
	bool makes_it = false; /* what it reads: then the row says nothing of it */

	for (uint32_t i = 0; i < n; i++) {
		makes_it |= kernels[i] == reader;
		if (kernels[i] == reader)
			continue;
		col[m] = kernels[i];
		coef[m++] = 1;
	}
	if (reader != NONE && !makes_it) {
		col[m] = reader;
		coef[m++] = -1;
	}
	GROW(d->a, d->rows, d->n_rows, d->cap_rows);
	d->rows[d->n_rows++] = (struct binary_row){m, col, coef, rhs};
}

static void
add_makers(struct direct *d, uint32_t t, uint32_t reader, double rhs)
{
	const uint32_t *first = d->makers.item + d->makers.first[t];

	if (!d->is_given[t])
		add_row(d, first, d->makers.first[t + 1] - d->makers.first[t], reader, rhs);
}

static void
add_support(struct direct *d)
{
	const struct blp *p = d->p;

	for (uint32_t i = 0; i < p->n_wanted; i++)
		add_makers(d, p->wanted[i], NONE, 1);
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		if (!is_usable(&p->kernels[k]))
			add_row(d, NULL, 0, k, 0);
		for (uint32_t j = 0; j < p->kernels[k].n_in; j++)
			add_makers(d, p->kernels[k].in[j], k, 0);
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
add_cut(struct direct *d)
{
	const struct blp *p = d->p;
	const uint8_t *have = simulate(d);
	uint32_t *ext = NEW_ARRAY(d->a, uint32_t, p->n_kernels), n = 0, unmade = 0;

	for (uint32_t k = 0; k < p->n_kernels; k++) {
		const struct blp_kernel *b = &p->kernels[k];
		bool makes = false, reads = false;

		for (uint32_t j = 0; j < b->n_out; j++)
			makes |= !have[b->out[j]];
		for (uint32_t j = 0; j < b->n_in; j++)
			reads |= !have[b->in[j]];
		if (makes && !reads && is_usable(b))
			ext[n++] = k;
	}
	while (unmade < p->n_wanted && have[p->wanted[unmade]])
		unmade++;
	if (unmade == p->n_wanted)
		return false;
	add_row(d, ext, n, NONE, 1);
	return true;
}

static bool
too_large(const struct direct *d, struct err *e)
{
	return err_set(e, ERR_LIMIT,
	    "the program (%u kernels, %u rows) is too large for lp_solve: choose by --solver clp, or make it "
	    "smaller with --fusion operator or --rewrites off",
	    d->p->n_kernels, d->n_rows);
}

/* *is_open: it was stopped, or went through all cuts. */
static bool
solve(struct direct *d, const struct adjacency *rows, uint32_t n_rows, const struct blp_limits *lim,
    bool *is_open, struct err *e)
{
	struct binary_limit limit = {.stop = lim->stop, .self = lim->self};

	*is_open = false;
	add_support(d);
	for (uint32_t i = 0; i < n_rows; i++)
		add_row(d, rows->item + rows->first[i], rows->first[i + 1] - rows->first[i], NONE, 1);
	for (int i = 0; i < MAX_CUTS; i++) {
		enum binary_end end;

		limit.max_steps =
		    MAX_OF(lim->max_work / ((uint64_t)d->p->n_kernels + d->n_rows + 1), (uint64_t)1);
		end = binary_run(d->p->n_kernels, d->cost, d->n_rows, d->rows, &limit, d->x);
		if (end == BINARY_LIMIT)
			return too_large(d, e);
		if (end == BINARY_NONE)
			return err_set(e, ERR_FAILED, "lp_solve found no optimum: choose by --solver clp");
		*is_open = end == BINARY_STOPPED;
		if (*is_open || !add_cut(d))
			return true;
	}
	*is_open = true;
	return true;
}

bool
direct_run(struct arena *a, const struct blp *p, const struct adjacency *rows, uint32_t n_rows,
    const struct blp_limits *lim, struct direct_out *out, struct err *e)
{
	struct direct d = {.a = a,
	    .p = p,
	    .is_given = NEW_ARRAY(a, bool, p->n_tensors),
	    .cost = NEW_ARRAY(a, double, p->n_kernels),
	    .x = NEW_ARRAY(a, uint8_t, p->n_kernels)};
	bool is_open;

	*out = (struct direct_out){.set = NEW_ARRAY(a, uint32_t, p->n_kernels)};
	for (uint32_t i = 0; i < p->n_given; i++)
		d.is_given[p->given[i]] = true;
	for (uint32_t k = 0; k < p->n_kernels; k++)
		d.cost[k] = is_usable(&p->kernels[k]) ? (double)p->kernels[k].cost : 0;
	find_makers(&d);
	if (!solve(&d, rows, n_rows, lim, &is_open, e))
		return false;
	for (uint32_t k = 0; k < p->n_kernels && !is_open; k++) {
		if (!d.x[k])
			continue;
		out->set[out->n_set++] = k;
		out->cost += p->kernels[k].cost;
	}
	out->proved = !is_open;
	return true;
}

bool
blp_solve_direct(struct arena *a, const struct blp *p, int64_t *cost, bool *proved, struct err *e)
{
	struct direct_out out;

	const struct blp_limits none = {.max_work = UINT64_MAX};

	if (!direct_run(a, p, NULL, 0, &none, &out, e))
		return false;
	*cost = out.cost;
	*proved = out.proved;
	return true;
}

/* ---- in place of the search ---------------------------------------------------------------------- */
/* The cleaned program as one of its own; what was given is read by none of its kernels. */
static struct blp
program_of(struct arena *a, const struct prog *g)
{
	struct blp_kernel *k = NEW_ARRAY(a, struct blp_kernel, g->n_kernels);
	uint32_t *wanted = NEW_ARRAY(a, uint32_t, g->n_tensors), n = 0;

	for (uint32_t i = 0; i < g->n_kernels; i++)
		k[i] = (struct blp_kernel){.in = g->in.item + g->in.first[i],
		    .n_in = g->in.first[i + 1] - g->in.first[i],
		    .out = g->out.item + g->out.first[i],
		    .n_out = g->out.first[i + 1] - g->out.first[i],
		    .cost = g->cost[i]};
	for (uint32_t t = 0; t < g->n_tensors; t++)
		if (g->is_wanted[t])
			wanted[n++] = t;
	return (struct blp){.n_tensors = g->n_tensors,
	    .n_kernels = g->n_kernels,
	    .kernels = k,
	    .wanted = wanted,
	    .n_wanted = n};
}

bool
search_direct(struct search *s, struct err *e)
{
	struct blp p = program_of(s->a, s->g);
	struct direct_out out;

	search_rows(s);
	s->bound = MIN_OF((s->lp.pi + FIXED_ONE - 1) >> FIXED_BITS, s->cost);
	if (!direct_run(s->a, &p, &s->rows, s->n_rows, s->limits, &out, e))
		return false;
	if (!out.proved)
		return true;
	if (out.cost > s->cost)
		return err_set(e, ERR_WRONG, "lp_solve's optimum is %lld ns, and a plan of %lld ns is known",
		    (long long)out.cost, (long long)s->cost);
	if (out.cost < s->bound)
		return err_set(e, ERR_WRONG, "lp_solve's optimum is %lld ns, and the duals prove %lld ns",
		    (long long)out.cost, (long long)s->bound);
	if (!prog_schedule(s->a, s->g, out.set, out.n_set, NULL, NULL))
		return err_set(e, ERR_WRONG, "lp_solve's plan waits for itself");
	if (out.cost < s->cost) {
		s->set = out.set;
		s->n_set = out.n_set;
	}
	s->cost = s->bound = out.cost;
	return true;
}
