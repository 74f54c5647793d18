/* kernels/emit/linear_int.h: the inside of a linear anchor, shared by linear*.c. */
#ifndef KORCH_LINEAR_INT_H
#define KORCH_LINEAR_INT_H

#include "emit.h"

enum { MICRO_MAX_LOOPS = 4, MICRO_MAX_ROWS = 14, MICRO_MAX_VECTORS = 4 };

/* The micro-kernel: t[rows][nv*lanes] = sum over K of a[row][k] * b[k][column].
 * K is a nest of loops, outermost first; b is packed, so it just runs on; a steps by
 * `step` elements a turn.  Where a's rows lie `row_step` apart the pointers are derived from
 * the first, else each row has its own (row_step 0). */
struct micro {
	const char *symbol;                /* function names: SYMBOL_hROWS */
	int lanes, nv;                     /* floats a vector, vectors a row */
	int n_loops;
	int64_t trip[MICRO_MAX_LOOPS];     /* of each K loop */
	int64_t step[MICRO_MAX_LOOPS];     /* in elements of a */
	int64_t row_step;                  /* 0: pointers of its own for each row */
	bool resumes;                      /* K comes in blocks: t is added to unless `first` */
	bool prefetch;                     /* rows of the tile below are fetched ahead */
};
/* static inline void SYMBOL_hH(const float *a | const float *const *a, const float *b, float *t
 * [, int64_t k0, int64_t k1, int64_t first][, int64_t ahead]) */
void micro_emit(struct strbuf *sb, const struct micro *m, int rows);

#endif
