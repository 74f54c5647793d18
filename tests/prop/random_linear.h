/* tests/prop/random_linear.h: specs with linear anchors: matmul and convolution of every kind
 * (batched, strided, dilated, transposed, grouped, depthwise, cropped) with random producers and
 * consumers, shapes with tails and ones, run-time and constant factors. */
#ifndef KORCH_RANDOM_LINEAR_H
#define KORCH_RANDOM_LINEAR_H

#include "../harness/kernel.h"

/* A spec with one linear primitive, or two; false where the dice gave an impossible one. */
bool random_linear(struct arena *a, struct rng *r, struct spec *out) MUST_CHECK;
/* The first of them is a 3x3 convolution that may have Winograd's form. */
bool random_winograd(struct arena *a, struct rng *r, struct spec *out) MUST_CHECK;
/* It has columns enough for blocks of them, and perhaps a depthwise window behind it. */
bool random_columns(struct arena *a, struct rng *r, struct spec *out) MUST_CHECK;

#endif
