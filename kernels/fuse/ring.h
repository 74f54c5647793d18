/* kernels/fuse/ring.h: rings of rows, shared by ring.c and ring_bind.c. */
#ifndef KORCH_RING_H
#define KORCH_RING_H

#include "tile.h"

/* What is known where a read stands: lo <= at < hi of each guard around it. */
enum { RING_GUARDS = 8 };
struct ring_guard {
	ix_id at;
	int64_t lo, hi;
};
struct ring_guards {
	struct ring_guard of[RING_GUARDS];
	uint32_t n;
};
struct guarded_read {
	uint32_t tensor;
	ix_id at;
	bool is_index; /* inside an index that is read */
	struct ring_guards guards;
};
void ring_guard_add(struct ring_guards *g, const struct ex *guard);
/* floor(at / stride), modulo extent where that is not 0, for values that pass the guards. */
ix_id ring_place(
    struct tx *x, struct arena *a, ix_id at, int64_t stride, int64_t extent, const struct ring_guards *g);

/* ring_bind.c: a pass with rings is being bound. */
/* Elements of the last outer axis that a step takes. */
int64_t ring_block(const struct tile_prog *p, const struct tile_pass *tp);
/* The block is chosen: heights of the rings, axes for their rows. */
void rings_shape(struct tile_prog *p, struct tile_pass *tp);
/* Rows of the stage's tensor that a step keeps. */
int64_t ring_rows(const struct tile_prog *p, const struct stage *s);
/* The stage's reads of rings become reads of what is kept; so do other reads of a step's scratch that
 * stand behind guards. */
void ring_reads(struct tile_prog *p, struct stage *s);
/* Where the stage's own rows go: row's index in what a step keeps. */
ix_id ring_row(struct tile_prog *p, const struct stage *s, ix_id row);
/* The stage's row axis, bound; *loop: what of it is a loop of the stage, AXIS_NONE: nothing. */
ix_id ring_axis(struct tile_prog *p, const struct stage *s, bool counts, axis_id *loop);

#endif
