/* daemon/train/own.c: what is trained for a device class and what serves it are asked the same: kernels of
 * the class that neither has seen.  For the new one each of the class's models is left out in turn; of the
 * other it is what was measured since it was made. */
#include "own.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_FOLDS = 4, FEWEST = 20 };
/* As predictions go: below it there is no word, whoever trained it. */
static const double too_small_ns = 1000;

struct asked {
	const struct train_set *set;
	bool *is_asked;    /* of each row */
	double *off;       /* |expected / measured - 1| of such a row */
	uint32_t *fold_of; /* of each model */
};

static bool
same_class(const struct train_set *set, const struct train_row *a, const struct train_row *b)
{
	return str_eq(set->envs[a->env].device_class, set->envs[b->env].device_class);
}

/* The rows of a spec are i .. end - 1. */
static uint32_t
end_of_spec(const struct train_set *set, uint32_t i)
{
	uint32_t end = i;

	while (end < set->n_rows && hash_eq(&set->rows[end].spec, &set->rows[i].spec))
		end++;
	return end;
}

static bool
is_new(const struct train_set *set, uint32_t row, uint32_t from, uint32_t end, int64_t since_ns)
{
	const struct train_row *r = &set->rows[row];

	if (!r->is_own || !r->is_best || r->is_older || r->wall_ns <= since_ns ||
	    r->sample.work_ns < too_small_ns)
		return false;
	for (uint32_t i = from; i < end; i++)
		if (!set->rows[i].is_own && same_class(set, r, &set->rows[i]))
			return false; /* what came with Korch was learned from it */
	return true;
}

static uint32_t
find_asked(struct asked *q, int64_t since_ns)
{
	uint32_t n = 0, n_models = 0, end;

	for (uint32_t m = 0; m < q->set->n_models; m++)
		q->fold_of[m] = UINT32_MAX;
	for (uint32_t i = 0; i < q->set->n_rows; i = end) {
		end = end_of_spec(q->set, i);
		for (uint32_t k = i; k < end; k++) {
			uint32_t m = q->set->rows[k].model;

			q->is_asked[k] = is_new(q->set, k, i, end, since_ns);
			n += q->is_asked[k];
			if (q->is_asked[k] && q->fold_of[m] == UINT32_MAX)
				q->fold_of[m] = n_models++ % MOST_FOLDS;
		}
	}
	return n;
}

/* All that is known on that class of the specs of a fold's models. */
static void
leave_out(const struct asked *q, uint32_t fold, bool *is_out)
{
	const struct train_set *set = q->set;
	uint32_t end;

	for (uint32_t i = 0; i < set->n_rows; i = end) {
		const struct train_row *of = NULL;

		end = end_of_spec(set, i);
		for (uint32_t k = i; k < end; k++)
			if (set->rows[k].is_own && q->fold_of[set->rows[k].model] == fold)
				of = &set->rows[k];
		for (uint32_t k = i; k < end; k++)
			is_out[k] = of && same_class(set, of, &set->rows[k]);
	}
}

static double
error_of(const struct train_row *r, double log_ratio)
{
	return fabs(exp(log_ratio - r->log_ratio) - 1);
}

static bool
ask_fold(const struct asked *q, uint32_t fold, const struct fit *how, struct err *e)
{
	struct arena tmp = {0};
	bool *is_out = NEW_ARRAY(&tmp, bool, MAX_OF(q->set->n_rows, 1u)), has_any = false;
	struct train_part part = {HEAD_KERNEL, is_out};
	struct forest f;
	bool ok;

	leave_out(q, fold, is_out);
	for (uint32_t i = 0; i < q->set->n_rows; i++)
		has_any |= q->is_asked[i] && q->fold_of[q->set->rows[i].model] == fold;
	ok = !has_any || train_fit(&tmp, q->set, &part, *how, &f, e);
	for (uint32_t i = 0; ok && has_any && i < q->set->n_rows; i++) {
		const struct train_row *r = &q->set->rows[i];

		if (q->is_asked[i] && q->fold_of[r->model] == fold)
			q->off[i] = error_of(r, fmax(forest_value(&f, r->flat[HEAD_KERNEL]), 0));
	}
	arena_fini(&tmp);
	return ok;
}

/* Where it has no word, a job stands on the usual ratio. */
static void
ask_beside(const struct asked *q, const struct predictor *p)
{
	for (uint32_t i = 0; i < q->set->n_rows; i++) {
		const struct train_row *r = &q->set->rows[i];
		struct prediction x;

		if (!q->is_asked[i])
			continue;
		predict_kernel(p, &r->plain, &x);
		q->off[i] = error_of(r, x.is_far ? predict_usual : x.log_ratio);
	}
}

static int
by_value(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static double
median_of(struct arena *a, const struct asked *q)
{
	double *v = NEW_ARRAY(a, double, MAX_OF(q->set->n_rows, 1u));
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->set->n_rows; i++)
		if (q->is_asked[i])
			v[n++] = q->off[i];
	qsort(v, n, sizeof(v[0]), by_value);
	return n ? v[n / 2] : 0;
}

bool
own_check(const struct train_set *set, const struct fit *how, const struct predictor *beside,
    int64_t since_ns, struct own_check *out, struct err *e)
{
	struct arena tmp = {0};
	struct asked q = {.set = set,
	    .is_asked = NEW_ARRAY(&tmp, bool, MAX_OF(set->n_rows, 1u)),
	    .off = NEW_ARRAY(&tmp, double, MAX_OF(set->n_rows, 1u)),
	    .fold_of = NEW_ARRAY(&tmp, uint32_t, MAX_OF(set->n_models, 1u))};
	bool ok = true;

	*out = (struct own_check){.compared = find_asked(&q, since_ns)};
	if (out->compared >= FEWEST) {
		ask_beside(&q, beside);
		out->beside = median_of(&tmp, &q);
		for (uint32_t fold = 0; ok && fold < MOST_FOLDS; fold++)
			ok = ask_fold(&q, fold, how, e);
		out->error = ok ? median_of(&tmp, &q) : 0;
	}
	arena_fini(&tmp);
	return ok;
}

bool
train_rows_add_shipped(struct arena *a, struct train_set *set, struct err *e)
{
	for (const struct train_shipped *x = train_shipped; x->name; x++) {
		struct bytes file = {x->first, (size_t)(x->last - x->first)};

		if (x->is_taught ? !train_rows_teach(a, set, x->name, file, e)
				 : !train_rows_add(a, set, x->name, file, e))
			return false;
	}
	return true;
}
