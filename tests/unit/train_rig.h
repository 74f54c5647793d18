/* tests/unit/train_rig.h: rows to train with whose times follow from their numbers. */
#ifndef KORCH_TEST_TRAIN_RIG_H
#define KORCH_TEST_TRAIN_RIG_H

#include "../../daemon/train/train.h"

enum { RIG_MODELS = 4, RIG_ROWS = 143 /* so many differ */ };

extern const struct hw rig_host;
/* The i-th kernel, two maps over some extents, of model i % RIG_MODELS.  extra: added to ln(time / bound). */
void rig_row(struct arena *a, uint32_t i, double extra, struct train_row *out);
void rig_train(struct arena *a, const struct train_set *set, struct predictor *out);

#endif
