/* kernels/cost/predict.c: ridge regression on a few counts, of what is left of ln(measured / bound). */
#include "predict.h"

#include <math.h>
#include <string.h>

const double predict_usual = 0.4, predict_usual_sigma = 0.4;
/* A row's worth of belief in what was expected, per feature. */
static const double ridge = 1;
/* How many rows that prior weighs. */
enum { PRIOR_ROWS = 16 };

void
predict_features(const struct spec *s, const struct cost_parts *parts, double x[PREDICT_FEATURES])
{
	double made[CLASS_OPAQUE + 1] = {0},
				   ns = MAX_OF(MAX_OF(parts->flop_ns, parts->byte_ns) + parts->call_ns, 1.0);
	uint32_t n[CLASS_OPAQUE + 1] = {0};

	for (uint32_t i = 0; i < s->g.n_nodes; i++) {
		const struct node *node = &s->g.nodes[i];
		enum prim_class class = prim_info[node->prim].class;

		made[class] += (double)shape_count(&graph_tensor(&s->g, node->out[0])->shape);
		n[class] += !node_is_view(&s->g, node);
	}
	x[0] = 1;
	x[1] = log(ns) - 12;
	x[2] = log((parts->byte_ns + 1) / (parts->flop_ns + 1));
	x[3] = log(s->g.n_nodes + 1.0);
	x[4] = n[CLASS_LINEAR] > 0;
	x[5] = n[CLASS_REDUCE] > 0;
	x[6] = n[CLASS_LAYOUT] > 0;
	x[7] = n[CLASS_OPAQUE] > 0;
	/* elements a nanosecond, by what is done to them */
	x[8] = log1p(made[CLASS_MAP] / ns);
	x[9] = log1p(made[CLASS_REDUCE] / ns);
	x[10] = log1p(made[CLASS_BCAST] / ns);
	x[11] = log1p(made[CLASS_LAYOUT] / ns);
}

/* Solves the positive definite a w = b in place (Cholesky); w in b. */
static void
solve_normal(double a[PREDICT_FEATURES][PREDICT_FEATURES], double b[PREDICT_FEATURES])
{
	enum { N = PREDICT_FEATURES };

	for (int i = 0; i < N; i++) {
		for (int j = 0; j <= i; j++) {
			double v = a[i][j];

			for (int k = 0; k < j; k++)
				v -= a[i][k] * a[j][k];
			a[i][j] = i == j ? sqrt(v) : v / a[j][j];
		}
	}
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < i; k++)
			b[i] -= a[i][k] * b[k];
		b[i] /= a[i][i];
	}
	for (int i = N - 1; i >= 0; i--) {
		for (int k = i + 1; k < N; k++)
			b[i] -= a[k][i] * b[k];
		b[i] /= a[i][i];
	}
}

static double
value(const struct predict *p, const double x[PREDICT_FEATURES])
{
	double v = 0;

	for (int i = 0; i < PREDICT_FEATURES; i++)
		v += p->w[i] * x[i];
	return v;
}

void
predict_fit(const struct predict_row *rows, uint32_t n, double before_sigma, struct predict *out)
{
	double a[PREDICT_FEATURES][PREDICT_FEATURES] = {{0}}, b[PREDICT_FEATURES] = {0};
	double square = PRIOR_ROWS * before_sigma * before_sigma;

	*out = (struct predict){.n = n};
	for (int i = 0; i < PREDICT_FEATURES; i++)
		a[i][i] = ridge;
	for (uint32_t r = 0; r < n; r++) {
		const double *x = rows[r].x;

		for (int i = 0; i < PREDICT_FEATURES; i++) {
			b[i] += x[i] * rows[r].left;
			for (int j = 0; j <= i; j++)
				a[i][j] += x[i] * x[j];
		}
	}
	solve_normal(a, b);
	memcpy(out->w, b, sizeof(out->w));
	for (uint32_t r = 0; r < n; r++) {
		double left = rows[r].left - value(out, rows[r].x);

		square += left * left;
	}
	out->sigma = sqrt(square / (n + PRIOR_ROWS));
}

double
predict_ratio(const struct predict *p, const double x[PREDICT_FEATURES], double before, double lean)
{
	static const double most = 4; /* far from what was seen the line means nothing */
	double v = before + value(p, x) - lean * p->sigma;

	return exp(fmin(fmax(v, -most), most));
}
