/* kernels/vendor/function.c: which function of one variable is it?  Its values tell: models and
 * rewrites write the same activation in many ways. */
#include "library_int.h"

#include <math.h>

#define FUNCTION(KIND, PARAMS, EXPR)                                                                         \
	static double value_##KIND(double x, double a)                                                       \
	{                                                                                                    \
		(void)a;                                                                                     \
		return EXPR;                                                                                 \
	}
#include "library.def"

static const struct {
	enum step_kind kind;
	int n_params;
	double (*value)(double x, double a);
} functions[] = {
#define FUNCTION(KIND, PARAMS, EXPR) {STEP_##KIND, PARAMS, value_##KIND},
#include "library.def"
};

/* Beyond what float constants in a model's formula may be off by, nothing is forgiven. */
static const double close_enough = 2e-6;

static const double points[] = {-40, -20, -11.3, -7, -6.01, -5.99, -4.4, -3.01, -3, -2.99, -2.2, -1.6, -1.01,
    -1, -0.9, -0.51, -0.3, -0.1, -0.01, -1e-3, 0, 1e-3, 0.01, 0.1, 0.3, 0.51, 0.9, 1, 1.01, 1.6, 2.2, 2.99, 3,
    3.01, 4.4, 5.99, 6.01, 7, 11.3, 20, 40};

static bool
agrees(double want, double have)
{
	return fabs(want - have) <= close_enough * fmax(1, fabs(want));
}

/* By how much the values lie above f's. */
static double
scale_over(
    double (*f)(double x, double a), double a, double (*value)(const void *arg, double x), const void *arg)
{
	double s = value(arg, 4.4) / f(4.4, a);

	return isfinite(s) && s != 0 && fabs(s - 1) > close_enough ? s : 1;
}

bool
function_of(double (*value)(const void *arg, double x), const void *arg, struct call_step *out)
{
	for (size_t f = 0; f < COUNT_OF(functions); f++) {
		double a = functions[f].n_params ? -value(arg, -1) / value(arg, 1) : 0;
		double scale = scale_over(functions[f].value, a, value, arg);
		bool same = true;

		for (size_t i = 0; same && i < COUNT_OF(points); i++)
			same = agrees(functions[f].value(points[i], a), value(arg, points[i]) / scale);
		if (!same)
			continue;
		*out = (struct call_step){.kind = functions[f].kind, .a = a, .b = scale};
		return true;
	}
	return false;
}
