/* kernels/predict/kmeans.h: which few of many kernels to measure, so that the rest lies near one of them. */
#ifndef KORCH_KMEANS_H
#define KORCH_KMEANS_H

#include "../base/base.h"

/* Picks k of n points of `width` numbers each (k <= n): of k clusters (Lloyd's method from seeded k-means++
 * centres), from the largest to the smallest, each one's nearest point that is not taken yet.  The same
 * points and seed give the same picks, in the same order.  Returns the mean distance of a point to its
 * centre. */
double kmeans_pick(
    const float *points, uint32_t n, uint32_t width, uint32_t k, uint64_t seed, uint32_t *picks);

#endif
