/* kernels/cost/whole.c: ridge regression of a plan's time over the sum of its kernels, with the error of
 * models that were left out. */
#include "whole.h"

#include <math.h>
#include <string.h>

/* A row's worth of belief in the sum, per feature; how far plans are from it where nothing is known, and the
 * rows which that weighs. */
static const double ridge = 1, usual_sigma = 0.15, ninety = 1.645;
/* What was never seen makes no plan twice as fast or slow. */
static const double most_log = 0.7;
enum { PRIOR_ROWS = 4, N = WHOLE_FEATURES };

struct known { /* rows; what each counts, 0: nothing */
	const struct whole_row *rows;
	double weight[WHOLE_ROWS_MAX];
	uint32_t n;
};
struct normal { /* equations */
	double a[N][N], b[N];
};

static bool
is_usable(const struct whole_row *r)
{
	return r->plan.sum_ns >= 1 && r->measured_ns >= 1;
}

static void
features(const struct whole_plan *p, double x[N])
{
	double ns = fmax(p->sum_ns, 1);

	x[0] = 1;
	x[1] = fmin(1e4 * p->kernels / ns, 10); /* kernels in ten microseconds */
	for (int h = 0; h < 3; h++)
		x[2 + h] = log1p(p->bytes[h] / ns);
}

static double
left_of(const struct whole_row *r)
{
	return log(r->measured_ns / r->plan.sum_ns);
}

static double
line(const double w[N], const double x[N])
{
	double v = 0;

	for (int i = 0; i < N; i++)
		v += w[i] * x[i];
	return fmin(fmax(v, -most_log), most_log);
}

static uint32_t
rows_of_model(const struct whole_row *rows, uint32_t n, const struct hash *model)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++)
		k += is_usable(&rows[i]) && hash_eq(&rows[i].model, model);
	return k;
}

/* Plans of one model say much the same: nine of them count as three. */
static void
weigh(struct known *k)
{
	for (uint32_t i = 0; i < k->n; i++)
		k->weight[i] =
		    is_usable(&k->rows[i]) ? 1 / sqrt(rows_of_model(k->rows, k->n, &k->rows[i].model)) : 0;
}

static void
add_row(struct normal *m, const struct whole_row *r, double weight)
{
	double x[N];

	features(&r->plan, x);
	for (int i = 0; i < N; i++) {
		m->b[i] += weight * x[i] * left_of(r);
		for (int j = 0; j < N; j++)
			m->a[i][j] += weight * x[i] * x[j];
	}
}

/* Positive definite: Cholesky, in place. */
static void
solve(struct normal *m, double w[N])
{
	for (int i = 0; i < N; i++)
		for (int j = 0; j <= i; j++) {
			double v = m->a[i][j];

			for (int k = 0; k < j; k++)
				v -= m->a[i][k] * m->a[j][k];
			m->a[i][j] = i == j ? sqrt(v) : v / m->a[j][j];
		}
	for (int i = 0; i < N; i++) {
		w[i] = m->b[i];
		for (int k = 0; k < i; k++)
			w[i] -= m->a[i][k] * w[k];
		w[i] /= m->a[i][i];
	}
	for (int i = N - 1; i >= 0; i--) {
		for (int k = i + 1; k < N; k++)
			w[i] -= m->a[k][i] * w[k];
		w[i] /= m->a[i][i];
	}
}

/* but: the rows of that model are left out; NULL: none. */
static void
fit(const struct known *k, const struct hash *but, double w[N])
{
	struct normal m = {0};

	for (int i = 0; i < N; i++)
		m.a[i][i] = ridge;
	for (uint32_t i = 0; i < k->n; i++)
		if (k->weight[i] > 0 && !(but && hash_eq(&k->rows[i].model, but)))
			add_row(&m, &k->rows[i], k->weight[i]);
	solve(&m, w);
}

/* The mean square of a model's rows by what the others say. */
static double
square_of_model(const struct known *known, const struct hash *model)
{
	double w[N], x[N], square = 0;
	uint32_t n = 0;

	fit(known, model, w);
	for (uint32_t i = 0; i < known->n; i++) {
		if (known->weight[i] <= 0 || !hash_eq(&known->rows[i].model, model))
			continue;
		features(&known->rows[i].plan, x);
		square += pow(left_of(&known->rows[i]) - line(w, x), 2);
		n++;
	}
	return square / MAX_OF(n, 1u);
}

void
whole_learn(const struct whole_row *rows, uint32_t n, struct whole_fit *out)
{
	struct known k = {.rows = rows, .n = MIN_OF(n, (uint32_t)WHOLE_ROWS_MAX)};
	double square = PRIOR_ROWS * usual_sigma * usual_sigma;

	*out = (struct whole_fit){0};
	weigh(&k);
	fit(&k, NULL, out->w);
	for (uint32_t i = 0; i < k.n; i++) {
		if (k.weight[i] <= 0)
			continue;
		out->n++;
		if (rows_of_model(rows, i, &rows[i].model) > 0)
			continue; /* met already */
		square += square_of_model(&k, &rows[i].model);
		out->n_models++;
	}
	out->sigma = sqrt(square / (out->n_models + PRIOR_ROWS));
}

static int64_t
whole_ns(double ns)
{
	return (int64_t)fmin(fmax(ns, 1) + 0.5, 1e18);
}

struct whole_time
whole_expect(const struct whole_fit *f, const struct whole_plan *p, double unsure)
{
	double x[N], off, width = ninety * sqrt(f->sigma * f->sigma + unsure * unsure);

	features(p, x);
	off = f->n ? line(f->w, x) : 0;
	return (struct whole_time){whole_ns(p->sum_ns * exp(off)), whole_ns(p->sum_ns * exp(off - width)),
	    whole_ns(p->sum_ns * exp(off + width))};
}
