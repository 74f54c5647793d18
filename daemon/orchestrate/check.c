/* daemon/orchestrate/check.c: is a plan executable, is a bound right?  Stands alone: it shares no
 * code with the solver, so that a fault there cannot hide here. */
#include "blp.h"

#include <string.h>

static bool
check_wanted(const struct blp *p, const bool *have, struct err *e)
{
	for (uint32_t i = 0; i < p->n_wanted; i++)
		if (!have[p->wanted[i]])
			return err_set(e, ERR_FAILED, "tensor %u is wanted and not made", p->wanted[i]);
	return true;
}

static bool *
given_tensors(struct arena *a, const struct blp *p)
{
	bool *have = NEW_ARRAY(a, bool, p->n_tensors);

	for (uint32_t i = 0; i < p->n_given; i++)
		have[p->given[i]] = true;
	return have;
}

bool
blp_check_order(const struct blp *p, const uint32_t *order, uint32_t n, struct err *e)
{
	struct arena tmp = {0};
	bool *have = given_tensors(&tmp, p), ok = true;

	for (uint32_t i = 0; i < n && ok; i++) {
		const struct blp_kernel *k;

		if (order[i] >= p->n_kernels) {
			ok = err_set(e, ERR_FAILED, "step %u runs kernel %u of %u", i, order[i], p->n_kernels);
			break;
		}
		k = &p->kernels[order[i]];
		for (uint32_t j = 0; j < k->n_in && ok; j++)
			if (!have[k->in[j]])
				ok = err_set(e, ERR_FAILED, "step %u (kernel %u) reads tensor %u before it is made", i,
				    order[i], k->in[j]);
		for (uint32_t j = 0; j < k->n_out; j++)
			have[k->out[j]] = true;
	}
	ok = ok && check_wanted(p, have, e);
	arena_fini(&tmp);
	return ok;
}

/* Readers of each tensor, once per read. */
struct readers {
	uint32_t *first, *kernel;
};

static struct readers
find_readers(struct arena *a, const struct blp *p)
{
	struct readers r = {NEW_ARRAY(a, uint32_t, (size_t)p->n_tensors + 2), NULL};
	size_t n = 0;

	for (uint32_t k = 0; k < p->n_kernels; k++)
		for (uint32_t j = 0; j < p->kernels[k].n_in; j++, n++)
			r.first[p->kernels[k].in[j] + 2]++;
	for (uint32_t t = 2; t <= p->n_tensors; t++)
		r.first[t] += r.first[t - 1];
	r.kernel = NEW_ARRAY(a, uint32_t, n);
	for (uint32_t k = 0; k < p->n_kernels; k++)
		for (uint32_t j = 0; j < p->kernels[k].n_in; j++)
			r.kernel[r.first[p->kernels[k].in[j] + 1]++] = k;
	return r;
}

/* Can all that is wanted be made without the kernels of `row`? */
static bool
can_escape(const struct blp *p, const struct readers *readers, const struct blp_row *row, struct arena *tmp)
{
	struct arena_mark mark = arena_mark(tmp);
	bool *have = given_tensors(tmp, p), *is_out = NEW_ARRAY(tmp, bool, p->n_kernels), all = true;
	uint32_t *missing = NEW_ARRAY(tmp, uint32_t, p->n_kernels);
	uint32_t *ready = NEW_ARRAY(tmp, uint32_t, p->n_kernels), n = 0;

	for (uint32_t i = 0; i < row->n; i++)
		is_out[row->kernels[i]] = true;
	for (uint32_t k = 0; k < p->n_kernels; k++) {
		for (uint32_t j = 0; j < p->kernels[k].n_in; j++)
			missing[k] += !have[p->kernels[k].in[j]];
		if (missing[k] == 0)
			ready[n++] = k;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct blp_kernel *k = &p->kernels[ready[i]];

		if (is_out[ready[i]] || k->cost == BLP_NEVER)
			continue;
		for (uint32_t o = 0; o < k->n_out; o++) {
			uint32_t t = k->out[o];

			if (have[t])
				continue;
			have[t] = true;
			for (uint32_t j = readers->first[t]; j < readers->first[t + 1]; j++)
				if (--missing[readers->kernel[j]] == 0)
					ready[n++] = readers->kernel[j];
		}
	}
	for (uint32_t i = 0; i < p->n_wanted; i++)
		all &= have[p->wanted[i]];
	arena_reset(tmp, mark);
	return all;
}

bool
blp_check_bound(const struct blp *p, const struct blp_row *rows, uint32_t n_rows, double *bound,
    struct err *e)
{
	struct arena tmp = {0};
	struct readers readers = find_readers(&tmp, p);
	double *price = NEW_ARRAY(&tmp, double, p->n_kernels);
	bool ok = true;

	*bound = 0;
	for (uint32_t r = 0; r < n_rows && ok; r++) {
		uint32_t last = 0;

		if (!(rows[r].dual >= 0)) {
			ok = err_set(e, ERR_FAILED, "row %u has the dual %g; duals are not negative", r, rows[r].dual);
			break;
		}
		for (uint32_t i = 0; i < rows[r].n && ok; i++) {
			uint32_t k = rows[r].kernels[i];

			if (k >= p->n_kernels || (i && k <= last)) {
				ok = err_set(e, ERR_FAILED, "row %u: kernels are not ascending numbers below %u", r, p->n_kernels);
				break;
			}
			last = k;
			price[k] += rows[r].dual;
		}
		if (ok && can_escape(p, &readers, &rows[r], &tmp))
			ok = err_set(e, ERR_FAILED, "row %u is no landmark: a plan can do without its kernels", r);
		*bound += rows[r].dual;
	}
	for (uint32_t k = 0; k < p->n_kernels && ok; k++)
		if (p->kernels[k].cost != BLP_NEVER && price[k] > (double)p->kernels[k].cost)
			ok = err_set(e, ERR_FAILED, "kernel %u is over-priced: its rows' duals sum to %.6f, its cost is %lld",
			    k, price[k], (long long)p->kernels[k].cost);
	arena_fini(&tmp);
	return ok;
}
