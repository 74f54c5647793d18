/* daemon/train/sure.c: see sure.h. */
#include "sure.h"

#include <math.h>
#include <stdlib.h>

/* Jobs of each model; a model with fewer rows says nothing. */
enum { JOBS = 60, FEWEST_ROWS = 50, STEPS = 7 };
static const double most = 4, least = 0.5;

bool
sure_needed(const struct sure_end *x, const struct interval *v, double *factor, struct err *e)
{
	double low = 0, high = most, ns;

	if (!sure_bound(x, v, 0, &ns, e))
		return false;
	for (int i = 0; ns > x->allowed_ns && i < STEPS; i++) {
		double middle = (low + high) / 2, at;

		if (!sure_bound(x, v, middle, &at, e))
			return false;
		*(at > x->allowed_ns ? &low : &high) = middle;
	}
	*factor = ns > x->allowed_ns ? high : 0;
	return true;
}

static int
by_size(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static bool
needed_of_job(
    const struct sure_model *m, uint64_t seed, const struct interval *v, double *factor, struct err *e)
{
	struct arena tmp = {0};
	struct rng r = {seed};
	struct sure_job job;
	struct sure_end end;
	bool ok;

	sure_job_make(&tmp, &r, m->rows, m->n, &job);
	ok = sure_job_run(&tmp, &r, &job, &end, e) && sure_needed(&end, v, factor, e);
	arena_fini(&tmp);
	return ok;
}

/* Fewer models say nothing of another one. */
enum { FEWEST_MODELS = 4 };
struct needs { /* of JOBS jobs of each of n models */
	double *of;
	uint32_t n;
};

static bool
simulate(struct arena *a, const struct sure_model *models, uint32_t n, const struct interval *v,
    struct needs *out, struct err *e)
{
	*out = (struct needs){.of = NEW_ARRAY(a, double, ck_mul(MAX_OF(n, 1u), JOBS))};
	for (uint32_t i = 0; i < n; i++) {
		if (models[i].n < FEWEST_ROWS)
			continue;
		for (uint32_t k = 0; k < JOBS; k++)
			if (!needed_of_job(
				&models[i], 1 + (uint64_t)i * JOBS + k, v, &out->of[out->n * JOBS + k], e))
				return err_in(e, "a simulated job");
		out->n++;
	}
	return true;
}

/* Share of another model's jobs for which a factor is enough: the mean over the models, less two standard
 * errors, as they are few. */
static double
covered(const struct needs *x, double factor)
{
	double sum = 0, square = 0, mean;

	for (uint32_t i = 0; i < x->n; i++) {
		double in = 0;

		for (uint32_t k = 0; k < JOBS; k++)
			in += x->of[i * JOBS + k] <= factor;
		in /= JOBS;
		sum += in;
		square += in * in;
	}
	mean = sum / x->n;
	return mean - 2 * sqrt(fmax(square / x->n - mean * mean, 0) / (x->n - 1));
}

bool
sure_fit(const struct sure_model *models, uint32_t n, const struct interval *v, float *out, struct err *e)
{
	struct arena tmp = {0};
	struct needs x;
	bool ok = simulate(&tmp, models, n, v, &x, e);
	uint32_t n_all = ok ? x.n * JOBS : 0, i = 0;
	double *sorted = ok ? arena_dup(&tmp, x.of, sizeof(double) * MAX_OF(n_all, 1u)) : NULL;

	*out = 0;
	if (ok && x.n >= FEWEST_MODELS) {
		qsort(sorted, n_all, sizeof(sorted[0]), by_size);
		while (i + 1 < n_all && covered(&x, sorted[i]) < predict_sure_level)
			i++;
		/* middles that were low enough were so by chance; and 0 says that nobody knows */
		*out = (float)fmax(sorted[i], least);
	}
	arena_fini(&tmp);
	return ok;
}
