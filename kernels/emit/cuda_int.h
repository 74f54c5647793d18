/* kernels/emit/cuda_int.h: a linear stage's tile on a GPU, between cuda_tile.c and cuda_multiply.c. */
#ifndef KORCH_CUDA_INT_H
#define KORCH_CUDA_INT_H

#include "gen_int.h"

enum { TILE_THREADS = 256, TILE_SHARED_MOST = 36 << 10 };

struct tile_axes {
	axis_id id[STAGE_AXES];
	int64_t extent[STAGE_AXES];
	uint32_t n;
	int64_t count;
};
struct tile_factor {
	ex_id ex;
	struct tile_axes axes; /* of the result that this factor alone has */
	bool k_fast;           /* memory runs along the sum */
};
struct tile {
	const struct stage *s;
	struct tile_factor f[2]; /* rows (m) and columns (n) of the tile */
	struct tile_axes batch, red;
	enum precision precision;
	int unit;                /* rows and columns of the tile for each one of a thread */
	int64_t per[2], edge[2], n_tiles[2], bk;
	int k_step;              /* of one multiplication of the tensor cores */
	int stages, pad;
};

/* cuda_multiply.c: FMA or tensor cores. */
/* Accumulators, zero. */
void cuda_clear(struct gen *g, const struct tile *t);
/* part_a[buffer] times part_b[buffer], added to the accumulators. */
void cuda_multiply(struct gen *g, const struct tile *t);
/* Loops over a thread's points: m, n and `value` are declared inside. */
void cuda_open_points(struct gen *g, const struct tile *t);
void cuda_close_points(struct gen *g, const struct tile *t);

#endif
