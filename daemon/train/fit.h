/* daemon/train/fit.h: one function of a vector, fitted: trees by XGBoost's C library where Korch is built
 * with it, else a ridge line on the same numbers.  Equal rows in equal order give equal functions. */
#ifndef KORCH_TRAIN_FIT_H
#define KORCH_TRAIN_FIT_H

#include "../../kernels/predict/forest.h"

struct fit {
	const float *x; /* n rows of d numbers */
	const float *y;
	const float *weight; /* how much each row counts; NULL: all alike */
	uint32_t n, d;
	double
	    share; /* of y that is to lie below the function: 0.5 for the median, 0.05 for a low quantile */
	uint32_t n_trees, n_leaves;
	bool with_network; /* train_predictor(): of schedules a network learns too (net_fit.h) */
};
extern const struct fit fit_usual; /* its settings, without rows */
bool fit_forest(struct arena *a, const struct fit *f, struct forest *out, struct err *e) MUST_CHECK;
const char *fit_method(void); /* "trees" or "line" */
/* The line whatever the build is: a baseline. */
void fit_line(struct arena *a, const struct fit *f, struct forest *out);

#endif
