/* kernels/tir/tiles.h: tiles by which threads share out a buffer: its indices have the digits of the thread's
 * number, so that each element is of one thread. */
#ifndef KORCH_TILES_H
#define KORCH_TILES_H

#include "tir.h"

/* (i div size) mod extent, of index i in dimension dim, is a digit of the number behind `first`, modulo
 * extent; the number is the sum of all digits, each times its weight. */
struct tir_digit {
	uint32_t dim;
	int64_t size, extent, weight;
	ix_id first;
};
struct tir_tiles {
	struct tir_digit digit[MAX_RANK]; /* by dimension, of one the largest size first */
	uint32_t n;
};
/* Does the place tell the thread so?  lane: the axis of its number, from 0 on. */
bool tir_tiles_at(struct tx *x, ixv_id place, axis_id lane, struct tir_tiles *out);
/* Is an element at two places with these of one thread? */
bool tir_tiles_equal(const struct tir_tiles *a, const struct tir_tiles *b);
/* The place among the elements that its thread has: tiles of one thread are side by side. */
ixv_id tir_tiles_own(struct tx *x, const struct tir_tiles *t, ixv_id place);
/* A buffer's extents become those of what each thread has of it. */
void tir_tiles_shrink(const struct tir_tiles *t, int64_t *dim);

#endif
