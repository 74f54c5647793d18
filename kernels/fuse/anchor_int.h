/* kernels/fuse/anchor_int.h: shared by anchor*.c. */
#ifndef KORCH_ANCHOR_INT_H
#define KORCH_ANCHOR_INT_H

#include "anchor.h"

/* Vectors in a row of the register tile, and rows in it, that suit the target. */
int anchor_rows(const struct tile_prog *p, int nv, bool a_vector);
int anchor_vectors(const struct tile_prog *p, int64_t n_columns);
/* A new f32 tensor that no place has yet. */
uint32_t anchor_tensor(struct tile_prog *p, int64_t count, uint32_t stage);

/* Where stage s has too few columns for a register tile: *wide makes a tensor with more of them,
 * and s becomes the map that adds it up. */
bool anchor_widen(struct tile_prog *p, struct stage *s, struct stage *wide);

#endif
