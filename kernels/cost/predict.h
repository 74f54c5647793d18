/* kernels/cost/predict.h: how far above its bound a kernel will be measured, learned from those that
 * were.  A guide for the search, never a bound (D15, D17). */
#ifndef KORCH_PREDICT_H
#define KORCH_PREDICT_H

#include "cost.h"

enum { PREDICT_FEATURES = 12 };

struct predict_row {
	double x[PREDICT_FEATURES];
	double log_ratio; /* ln(measured / bound) */
};
struct predict {
	double w[PREDICT_FEATURES];
	double sigma; /* what is left of log_ratio, as a standard deviation */
	uint32_t n;   /* rows it stands on */
};

/* What is known of a spec before anything is compiled; parts: of its bound. */
void predict_features(const struct spec *s, const struct cost_parts *parts, double x[PREDICT_FEATURES]);
/* Ridge regression of log_ratio; with few rows the result is near the mean of what kernels are
 * usually found at.  Equal rows give an equal result. */
void predict_fit(const struct predict_row *rows, uint32_t n, struct predict *out);
/* Expected measured / bound, at least 1, `lean` standard deviations to the hopeful side. */
double predict_ratio(const struct predict *p, const double x[PREDICT_FEATURES], double lean);

#endif
