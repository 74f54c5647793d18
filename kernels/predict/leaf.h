/* kernels/predict/leaf.h: a leaf as numbers (leaf.def). */
#ifndef KORCH_PREDICT_LEAF_H
#define KORCH_PREDICT_LEAF_H

#include "program.h"
#include "sample.h"

void leaf_features(const struct program_leaf *l, const struct target *t, struct sample_leaf *out);
/* How much work it is, beside others: to find the heaviest. */
double leaf_weight(const struct sample_leaf *l);

#endif
