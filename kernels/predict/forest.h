/* kernels/predict/forest.h: a function of a vector of numbers: a line, and trees added up.  What training
 * makes, and all that predicting needs: no library. */
#ifndef KORCH_PREDICT_FOREST_H
#define KORCH_PREDICT_FOREST_H

#include "../base/base.h"

enum {
	FOREST_LEAF = UINT16_MAX, /* ->feature of a leaf */
	FOREST_MAX_NODES = 1 << 18,
	FOREST_MAX_TREES = 4096,
	FOREST_MAX_FEATURES = 1024,
	FOREST_MAX_DEPTH = 64,
};
/* A tree's nodes lie in pre-order: the child for x[feature] < value is the next one, the other is `right` of
 * it. */
struct forest_node {
	float value;
	uint16_t feature, right;
};
struct forest {
	uint32_t n_features, n_trees, n_nodes;
	float base;
	const float *weight;  /* the line's, n_features; NULL: none */
	const uint32_t *root; /* of each tree, in node[] */
	const struct forest_node *node;
};
double forest_value(const struct forest *f, const float *x);
/* Every walk ends at a leaf of its own tree, every number is finite. */
bool forest_check(const struct forest *f, struct err *e) MUST_CHECK;

#endif
