/* kernels/predict/interval.h: how far off a prediction may be: split conformal quantiles of what predictions
 * of models that training had not seen were off, in groups. */
#ifndef KORCH_PREDICT_INTERVAL_H
#define KORCH_PREDICT_INTERVAL_H

#include "../base/base.h"

/* Groups: size of the bound, whether there is a linear primitive, and whether more than one thread runs it:
 * how a kernel falls into threads is harder to foresee. */
enum {
	INTERVAL_SIZES = 4,
	INTERVAL_OF_ALIKE = 2 * INTERVAL_SIZES, /* of one thread; as many of several behind them */
	INTERVAL_GROUPS = 2 * INTERVAL_OF_ALIKE
};
/* Of the wanted share of kernels, so many lie below. */
enum { INTERVAL_LEVELS = 9 };
extern const double interval_level[INTERVAL_LEVELS]; /* 0.01 .. 0.99 */
enum { LEVEL_05 = 2, LEVEL_50 = 4, LEVEL_95 = 6 };   /* places of 5, 50 and 95 % */

struct interval {
	float off[INTERVAL_GROUPS][INTERVAL_LEVELS]; /* ln(time / predicted) at that level */
};
struct residual {
	double off; /* ln(time / predicted) */
	uint32_t group, model;
};
uint32_t interval_group(double bound_ns, bool is_linear, bool is_parallel);
/* A group with too few residuals for a level has those of all groups, widened.  Kernels of one model are off
 * alike, and the next model is none of these: ends move out until each model's residuals lie between those of
 * the other models as often as they should. */
void interval_fit(const struct residual *r, uint32_t n, struct interval *out);
/* ln(time / predicted) below which that share of kernels is; 0 < level < 1, between levels in proportion. */
double interval_at(const struct interval *v, uint32_t group, double level);
/* ln of the low end over the middle: `factor` times as far below it as a twentieth of the kernels are; at
 * most 0. */
double interval_low(const struct interval *v, uint32_t group, double factor);

#endif
