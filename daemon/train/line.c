/* daemon/train/line.c: ridge regression, on numbers brought to equal spread. */
#include "fit.h"

#include <math.h>
#include <string.h>

static const double ridge = 3; /* rows' worth of belief in zero, per number */

const struct fit fit_usual = {.share = 0.5, .n_trees = 640, .n_leaves = 48};

static double
weight_of(const struct fit *f, uint32_t row)
{
	return f->weight ? (double)f->weight[row] : 1;
}

static void
spread(const struct fit *f, double *mean, double *scale)
{
	for (uint32_t k = 0; k < f->d; k++) {
		double sum = 0, square = 0, n = 0;

		for (uint32_t i = 0; i < f->n; i++) {
			double v = (double)f->x[(size_t)i * f->d + k], w = weight_of(f, i);

			sum += w * v;
			square += w * v * v;
			n += w;
		}
		mean[k] = sum / n;
		scale[k] = sqrt(fmax(square / n - mean[k] * mean[k], 0));
	}
}

/* a w = b for positive definite a (lower half, d x d), in place; w in b. */
static void
solve(double *a, double *b, uint32_t d)
{
	for (uint32_t i = 0; i < d; i++)
		for (uint32_t j = 0; j <= i; j++) {
			double v = a[i * d + j];

			for (uint32_t k = 0; k < j; k++)
				v -= a[i * d + k] * a[j * d + k];
			a[i * d + j] = i == j ? sqrt(v) : v / a[j * d + j];
		}
	for (uint32_t i = 0; i < d; i++) {
		for (uint32_t k = 0; k < i; k++)
			b[i] -= a[i * d + k] * b[k];
		b[i] /= a[i * d + i];
	}
	for (uint32_t i = d; i-- > 0;) {
		for (uint32_t k = i + 1; k < d; k++)
			b[i] -= a[k * d + i] * b[k];
		b[i] /= a[i * d + i];
	}
}

static void
normal_equations(
    const struct fit *f, const double *mean, const double *scale, double y_mean, double *a, double *b)
{
	struct arena tmp = {0};
	double *z = NEW_ARRAY(&tmp, double, f->d);

	for (uint32_t k = 0; k < f->d; k++)
		a[k * f->d + k] = ridge;
	for (uint32_t i = 0; i < f->n; i++) {
		double w = weight_of(f, i);

		for (uint32_t k = 0; k < f->d; k++)
			z[k] =
			    scale[k] > 1e-6 ? ((double)f->x[(size_t)i * f->d + k] - mean[k]) / scale[k] : 0;
		for (uint32_t k = 0; k < f->d; k++) {
			b[k] += w * z[k] * ((double)f->y[i] - y_mean);
			for (uint32_t j = 0; j <= k; j++)
				a[k * f->d + j] += w * z[k] * z[j];
		}
	}
	arena_fini(&tmp);
}

void
fit_line(struct arena *a, const struct fit *f, struct forest *out)
{
	struct arena tmp = {0};
	double *mean = NEW_ARRAY(&tmp, double, f->d), *scale = NEW_ARRAY(&tmp, double, f->d),
	       *m = NEW_ARRAY(&tmp, double, (size_t)f->d * f->d), *b = NEW_ARRAY(&tmp, double, f->d),
	       y_mean = 0, n = 0;
	float *w = NEW_ARRAY(a, float, f->d);
	double base;

	for (uint32_t i = 0; i < f->n; i++) {
		y_mean += weight_of(f, i) * (double)f->y[i];
		n += weight_of(f, i);
	}
	y_mean /= fmax(n, 1e-9);
	if (f->n) {
		spread(f, mean, scale);
		normal_equations(f, mean, scale, y_mean, m, b);
		solve(m, b, f->d);
	}
	base = y_mean;
	for (uint32_t k = 0; k < f->d; k++) {
		double v = scale[k] > 1e-6 ? b[k] / scale[k] : 0;

		w[k] = (float)v;
		base -= v * mean[k];
	}
	*out = (struct forest){.n_features = f->d, .base = (float)base, .weight = w};
	arena_fini(&tmp);
}

#ifndef KORCH_XGBOOST
const char *
fit_method(void)
{
	return "line";
}

bool
fit_forest(struct arena *a, const struct fit *f, struct forest *out, struct err *e)
{
	(void)e;
	fit_line(a, f, out);
	return true;
}
#endif
