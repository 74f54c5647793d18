/* kernels/cost/predict.h: how far a job's kernels are from what was expected of them, learned from those that
 * it has measured: what a trained predictor (kernels/predict) cannot know of a device and a model.  A guide
 * for the search, never a bound (D15, D17). */
#ifndef KORCH_PREDICT_H
#define KORCH_PREDICT_H

#include "cost.h"

enum { PREDICT_FEATURES = 12 };

struct predict_row {
	double x[PREDICT_FEATURES];
	double left; /* ln(measured / bound), less what was expected of it before */
};
struct predict {
	double w[PREDICT_FEATURES];
	double sigma; /* what is left then, as a standard deviation */
	uint32_t n;   /* rows it stands on */
};

/* What is known of a spec before anything is compiled; parts: of its bound. */
void predict_features(const struct spec *s, const struct cost_parts *parts, double x[PREDICT_FEATURES]);
/* ln(measured / bound) where nothing else is known: kernels are found at about one and a half times their
 * bound, half of them within a factor of 1.3 of that (sigma: as a standard deviation). */
extern const double predict_usual, predict_usual_sigma;
/* Ridge regression of what is left; with few rows the result is near zero, and sigma is what it was before.
 * Equal rows give an equal result. */
void predict_fit(const struct predict_row *rows, uint32_t n, double before_sigma, struct predict *out);
/* Expected measured / bound, `lean` standard deviations to the hopeful side.  before: ln(measured
 * / bound) as it was expected before anything was measured. */
double predict_ratio(const struct predict *p, const double x[PREDICT_FEATURES], double before, double lean);

#endif
