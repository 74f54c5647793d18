/* kernels/predict/first.h: which of a kernel's schedules is tried first, which one next.
 *
 * What is expected to be fastest comes first.  What the predictor is off by is common to schedules of one
 * form (a library's calls, Winograd's, the loop program's), so where the first one turns out slow its like do
 * too: behind it stands what is expected to gain most over all that stand before, which is another form where
 * that is near. */
#ifndef KORCH_PREDICT_FIRST_H
#define KORCH_PREDICT_FIRST_H

#include "../base/base.h"

/* What a schedule is expected to gain where all below limit_ns is gain: its time is about ns, the logarithm
 * off by sigma. */
double predict_gain(double limit_ns, double ns, double sigma);
/* Are they of one form? */
bool predict_are_alike(struct str one, struct str other);
/* Fills order with the numbers of the n schedules as they are worth a try; of equals the first. */
void predict_first(const struct str *schedule, const double *ns, uint32_t n, uint32_t *order);

#endif
