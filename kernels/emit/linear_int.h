/* kernels/emit/linear_int.h: the inside of a linear anchor, shared by linear*.c. */
#ifndef KORCH_LINEAR_INT_H
#define KORCH_LINEAR_INT_H

#include "../fuse/anchor.h"
#include "gen_int.h"

enum { MICRO_MAX_LOOPS = ANCHOR_AXES, MICRO_MAX_ROWS = 14, MICRO_MAX_VECTORS = 4 };

/* The micro-kernel: t[rows][nv*lanes] = sum over K of a[row][k] * b[k][column].
 * K is a nest of loops, outermost first; b is packed, so it just runs on; a steps by
 * `step` elements a turn.  Where a's rows lie `row_step` apart the pointers are derived from
 * the first, else each row has its own (row_step 0). */
struct micro {
	int lanes, nv; /* floats a vector, vectors a row */
	int n_loops;
	int64_t trip[MICRO_MAX_LOOPS]; /* of each K loop */
	int64_t step[MICRO_MAX_LOOPS]; /* in elements of a */
	int64_t row_step;              /* 0: pointers of its own for each row */
	bool a_vector;                 /* a has columns too: vectors of a, not one element repeated */
	bool unroll;                   /* the innermost K loop is written out */
	bool adds;                     /* t holds the sums so far */
	int64_t b_ahead;               /* elements that b is fetched ahead into the second cache; 0: not */
	bool prefetch;                 /* rows of the tile below are fetched ahead; needs row_step */
};
/* (const float *a | const float *const *row, const float *b, float *t[, k_i64 ahead]) { ... }: a function's
 * text behind its name; ahead: floats of each row below to fetch */
void micro_emit(struct strbuf *sb, const struct micro *m, int rows);

/* A stage while its loops are printed. */
struct tiling {
	struct gen *g;
	const struct stage *s;
	const struct anchor *n;
	struct micro m;
	int64_t nr;
	const char *a_more, *b_more; /* added to where the factors begin */
	bool inside;                 /* no epilogue's guard need be asked */
	const char *tile;            /* its sums */
	const char *row;             /* number of the tile's row that an epilogue is at */
};

/* linear.c */
/* Which heights of the tile occur: bit h - 1. */
uint32_t tile_heights(struct gen *g, const struct anchor *n);
/* Numbers of rows and tiles; loops over tiles of rows (m0, h) and over panels of columns; how far a
 * batch axis goes; for each row of the tile what is made of it. */
void put_counts(struct tiling *t);
void open_rows(struct tiling *t);
void open_panels(struct tiling *t);
const char *batch_end(struct gen *g, const struct anchor_axis *b);
void put_epilogue(struct tiling *t);
/* The same of one row: m and t->row are its numbers in the text. */
void put_row(struct tiling *t);
/* linear_shared.c: a function's text, from its parameters on, goes to g between begin and end; end puts it
 * where g was and gives it a name, with a word for readers; calls ask for it by what it does for the stage.
 */
struct shared_text {
	struct strbuf sb;
	uint32_t n_temp;
	int depth;
};
enum shared_what { SHARED_WINO_IN = -1, SHARED_WINO_OUT = -2 };
#define SHARED_TILE(FIELD, ROWS, EDGE) (((FIELD)*64 + (ROWS)) * 2 + (EDGE))
struct shared_text shared_begin(struct gen *g);
void shared_end(struct gen *g, const struct shared_text *was, uint32_t stage, int what, const char *word);
const char *shared_name(const struct gen *g, uint32_t stage, int what);
/* linear_window.c: tiles and loops of anchors that are windows. */
void window_tiles(struct gen *g, uint32_t stage);
void window_loops(struct tiling *t);
/* linear_wino.c: maps and loops of anchors in Winograd's form; heights of their register tiles. */
void wino_transforms(struct gen *g, uint32_t stage);
uint32_t wino_heights(struct gen *g, const struct anchor *n);
void wino_loops(struct tiling *t);
/* The register tiles of all anchors of the program: static functions, before the passes. */
void linear_tiles(struct gen *g);
/* A linear stage with an anchor, at its place in a step. */
void linear_stage(struct gen *g, const struct stage *s);

#endif
