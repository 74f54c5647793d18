/* kernels/run/certify_bound.c: is a choice executable, is a bound right?  Stands alone: it shares no
 * code with the solver, so that a fault there cannot hide here. */
#include "certify.h"

#include <string.h>

static bool
check_numbers(const struct choice_facts *f, struct err *e)
{
	for (uint32_t i = 0; i < f->n_candidates; i++) {
		const struct plan_candidate *c = &f->candidates[i];

		for (uint32_t j = 0; j < c->n_reads + c->n_makes; j++)
			if ((j < c->n_reads ? c->reads[j] : c->makes[j - c->n_reads]) >= f->n_tensors)
				return err_set(
				    e, ERR_FORMAT, "candidate %u names a tensor that is not there", i);
	}
	return true;
}

static bool *
given_tensors(struct arena *a, const struct choice_facts *f)
{
	bool *have = NEW_ARRAY(a, bool, f->n_tensors);

	for (uint32_t i = 0; i < f->n_given; i++)
		have[f->given[i]] = true;
	return have;
}

static bool
run_step(const struct choice_facts *f, bool *have, uint32_t step, uint32_t candidate, struct err *e)
{
	const struct plan_candidate *c;

	if (candidate >= f->n_candidates)
		return err_set(
		    e, ERR_WRONG, "step %u runs candidate %u of %u", step, candidate, f->n_candidates);
	c = &f->candidates[candidate];
	for (uint32_t j = 0; j < c->n_reads; j++)
		if (!have[c->reads[j]])
			return err_set(e, ERR_WRONG,
			    "step %u (candidate %u) reads tensor %u before it is made", step, candidate,
			    c->reads[j]);
	for (uint32_t j = 0; j < c->n_makes; j++)
		have[c->makes[j]] = true;
	return true;
}

bool
certify_order(const struct choice_facts *f, const uint32_t *order, uint32_t n, struct err *e)
{
	struct arena tmp = {0};
	bool *have = given_tensors(&tmp, f), ok = check_numbers(f, e);

	for (uint32_t i = 0; i < n && ok; i++)
		ok = run_step(f, have, i, order[i], e);
	for (uint32_t i = 0; i < f->n_wanted && ok; i++)
		if (!have[f->wanted[i]])
			ok = err_set(e, ERR_WRONG, "tensor %u is wanted and no step makes it", f->wanted[i]);
	arena_fini(&tmp);
	return ok;
}

/* Candidates that read a tensor, once per read; how many reads a candidate has. */
struct readers {
	uint32_t *first, *candidate;
};

static struct readers
find_readers(struct arena *a, const struct choice_facts *f)
{
	struct readers r = {NEW_ARRAY(a, uint32_t, (size_t)f->n_tensors + 2), NULL};
	size_t n = 0;

	for (uint32_t k = 0; k < f->n_candidates; k++)
		for (uint32_t j = 0; j < f->candidates[k].n_reads; j++, n++)
			r.first[f->candidates[k].reads[j] + 2]++;
	for (uint32_t t = 2; t <= f->n_tensors + 1; t++)
		r.first[t] += r.first[t - 1];
	r.candidate = NEW_ARRAY(a, uint32_t, n);
	for (uint32_t k = 0; k < f->n_candidates; k++)
		for (uint32_t j = 0; j < f->candidates[k].n_reads; j++)
			r.candidate[r.first[f->candidates[k].reads[j] + 1]++] = k;
	return r;
}

struct flood { /* what can be made */
	const struct choice_facts *f;
	const struct readers *readers;
	bool *have, *is_out;
	uint32_t *missing, *ready, n_ready;
};

static void
make_tensor(struct flood *x, uint32_t t)
{
	if (x->have[t])
		return;
	x->have[t] = true;
	for (uint32_t j = x->readers->first[t]; j < x->readers->first[t + 1]; j++)
		if (--x->missing[x->readers->candidate[j]] == 0)
			x->ready[x->n_ready++] = x->readers->candidate[j];
}

/* Can all that is wanted be made without the candidates of `row`? */
static bool
can_escape(const struct choice_facts *f, const struct readers *readers, const struct plan_row *row,
    struct arena *tmp)
{
	struct arena_mark mark = arena_mark(tmp);
	struct flood x = {f, readers, NEW_ARRAY(tmp, bool, f->n_tensors),
	    NEW_ARRAY(tmp, bool, f->n_candidates), NEW_ARRAY(tmp, uint32_t, f->n_candidates),
	    NEW_ARRAY(tmp, uint32_t, f->n_candidates), 0};
	bool all = true;

	for (uint32_t i = 0; i < row->n_candidates; i++)
		x.is_out[row->candidates[i]] = true;
	for (uint32_t k = 0; k < f->n_candidates; k++) {
		x.missing[k] = f->candidates[k].n_reads;
		if (x.missing[k] == 0)
			x.ready[x.n_ready++] = k;
	}
	for (uint32_t i = 0; i < f->n_given; i++)
		make_tensor(&x, f->given[i]);
	for (uint32_t i = 0; i < x.n_ready; i++)
		for (uint32_t o = 0; !x.is_out[x.ready[i]] && o < f->candidates[x.ready[i]].n_makes; o++)
			make_tensor(&x, f->candidates[x.ready[i]].makes[o]);
	for (uint32_t i = 0; i < f->n_wanted; i++)
		all &= x.have[f->wanted[i]];
	arena_reset(tmp, mark);
	return all;
}

static bool
check_row(const struct choice_facts *f, const struct plan_row *row, uint32_t r, double *price, struct err *e)
{
	if (!(row->dual >= 0))
		return err_set(e, ERR_WRONG, "row %u has the dual %g; duals are not negative", r, row->dual);
	for (uint32_t i = 0; i < row->n_candidates; i++) {
		uint32_t k = row->candidates[i];

		if (k >= f->n_candidates || (i && k <= row->candidates[i - 1]))
			return err_set(e, ERR_FORMAT,
			    "row %u: its candidates are not ascending numbers below %u", r, f->n_candidates);
		price[k] += row->dual;
	}
	return true;
}

bool
certify_bound(
    const struct choice_facts *f, const struct plan_row *rows, uint32_t n_rows, double *bound, struct err *e)
{
	struct arena tmp = {0};
	struct readers readers;
	double *price = NEW_ARRAY(&tmp, double, f->n_candidates);
	bool ok = check_numbers(f, e);

	*bound = 0;
	if (ok)
		readers = find_readers(&tmp, f);
	for (uint32_t r = 0; r < n_rows && ok; r++) {
		ok = check_row(f, &rows[r], r, price, e);
		if (ok && can_escape(f, &readers, &rows[r], &tmp))
			ok = err_set(
			    e, ERR_WRONG, "row %u is no landmark: a plan can do without its candidates", r);
		*bound += rows[r].dual;
	}
	for (uint32_t k = 0; k < f->n_candidates && ok; k++)
		if (price[k] > (double)f->candidates[k].cost_ns)
			ok = err_set(e, ERR_WRONG,
			    "candidate %u is over-priced: its rows' duals sum to %.6f ns, its cost is %lld",
			    k, price[k], (long long)f->candidates[k].cost_ns);
	arena_fini(&tmp);
	return ok;
}
