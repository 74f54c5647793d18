/* kernels/predict/kin.h: a prediction put right by what a few measured kernels of the same model are off by.
 * Two kernels are kin by the share of a forest's trees that take both to the same leaf: those are alike in
 * what decides their time, whatever their numbers. */
#ifndef KORCH_PREDICT_KIN_H
#define KORCH_PREDICT_KIN_H

#include "forest.h"

struct kin {
	double left, weight; /* sums over kin: what they are off by, times weight; weight */
};
/* leaf: f->n_trees of them. */
void forest_leaves(const struct forest *f, const float *x, uint16_t *leaf);
/* 1: in the same leaf of every tree; a kernel that is in four fifths of them counts a thirtieth. */
double kin_weight(const uint16_t *a, const uint16_t *b, uint32_t n_trees);
/* What is expected of a kernel with such kin, to be added to ln(time / bound); 0 without any. */
double kin_shift(const struct kin *k);

#endif
