/* kernels/emit/cuda_int.h: a linear stage's tile on a GPU, between cuda_tile.c, cuda_multiply.c,
 * cuda_steps.c and cuda_epilogue.c. */
#ifndef KORCH_CUDA_INT_H
#define KORCH_CUDA_INT_H

#include "gen_int.h"

enum {
	TILE_THREADS = 256,
	TILE_SHARED_MOST = 36 << 10,
	TILE_FOLD_MOST = 16 << 10,
	TILE_HAND_MOST = 21 << 10,
	TILE_PAIR_MOST = 46 << 10,
	TILE_NEXT_ROOM = 9 << 10
};

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
	bool inner;            /* its axes are the stage's own loops: a block has all of them */
	bool sweeps;           /* inner, and more than one tile: the block takes one after another */
};
/* A step of a pass whose tiles have inner axes.  Levels: what its result has one element for. */
enum tile_level { LEVEL_TILE = 0, LEVEL_ROW = 1, LEVEL_COLUMN = 2, LEVEL_POINT = 3 };
struct tile_step {
	const struct stage *s;
	enum tile_level level;
	bool joins;     /* a reduction over points; else made from what has its level or a lower one */
	bool is_read;   /* by a step of the pass */
	uint32_t phase; /* points of a phase are made before its joins, and its lower levels behind them */
	ex_id body;     /* over the linear stage's axes */
	ix_id out;
};
struct tile {
	const struct stage *s;
	struct tile_factor f[2]; /* rows (m) and columns (n) of the tile */
	struct tile_axes batch, red;
	enum precision precision;
	const struct tile_layout *layout;
	int64_t per[2], edge[2], n_tiles[2], bk;
	int k_step; /* of one multiplication of the tensor cores */
	int stages, pad;
	bool is_async;          /* cp.async fills the buffers: of the factors that are plain reads */
	struct tile_step *step; /* inner axes: the pass's steps in order */
	uint32_t n_steps, n_phases;
	/* A second linear stage that takes a row of the first one's results for each of its own: one block
	 * makes both.  The first tile leaves the factor in shared memory: hand[column][row]. */
	struct tile *next, *before;
	/* Both are made again in each turn of the program's sweep.  Steps of `next` that are no part of it
	 * have the phases from sweep_phases on, and follow when it is over. */
	bool turns;
	uint32_t sweep_phases;
	bool is_handed; /* this is the second one */
	ex_id hand;     /* the first one's: the factor's element over its axes */
	uint32_t hand_phase;
	struct cuda_no_tile no; /* there is no tile, where one was asked for */
};

/* Who holds which element.  A thread's values are numbered (i, j, c): row i of its rows' units, column j,
 * and c of `points` there.  Row `at[0]` + (h % 2) * step[0][0] + (h / 2) * step[0][1] where h, below
 * slots[0], is `slot[0]`; columns likewise. */
struct tile_layout {
	const char *lines[4]; /* declare what `at` names */
	int unit[2], most[2]; /* rows, columns for one of a thread's, and how many it may have */
	int warp[2];          /* for one of a warp's; 0: no warps in rows and columns */
	int points, slots[2], step[2][2];
	const char *at[2], *slot[2];
	/* To join over rows [0] or columns [1]: lanes to exchange with, who has the warp's value then, and
	 * how many such warps there are. */
	int mask[2][5]; /* ends with 0 */
	const char *leader[2];
	int groups[2];
	const char *group[2];
};

/* cuda_multiply.c: FMA or tensor cores. */
const struct tile_layout *cuda_layout(enum precision p, int sm);
/* Elements of the sum that one multiplication takes. */
int cuda_k_step(enum precision p, int sm);
/* Names for a thread's place; accumulators; all zero. */
void cuda_place(struct gen *g, const struct tile *t);
void cuda_clear(struct gen *g, const struct tile *t);
/* part_a[buffer] times part_b[buffer], added to the accumulators. */
void cuda_multiply(struct gen *g, const struct tile *t);
/* Instructions of a turn, about: that a warp issues to multiply a part by a part. */
double cuda_multiply_slots(const struct tile *t, int sm);
/* Loops over a thread's points: m, n and `value` are declared inside. */
void cuda_open_points(struct gen *g, const struct tile *t);
void cuda_close_points(struct gen *g, const struct tile *t);
/* Which of two letters stands for side i: "mn", "ab" or "ij". */
static inline char
letter(const char *two, int i)
{
	return two[i];
}
/* for (int i = 0; i < n; i++), unrolled. */
void cuda_loop(struct gen *g, char i, int64_t n);

/* cuda_load.c: the sum, its parts staged in shared memory. */
/* Can cp.async copy the factor: elements of an array, or zero? */
bool cuda_is_plain(const struct gen *g, ex_id e);
void cuda_sum(struct gen *g, const struct tile *t);
/* The same for the copies of a turn. */
double cuda_copy_slots(const struct tile *t);

/* cuda_steps.c: what the pass's steps [from, to) are to the tile's points; false: they do not fit it, and
 * t->no says which one. */
bool cuda_steps(const struct gen *g, const struct tile_pass *tp, struct tile *t, uint32_t from, uint32_t to);
/* Is `factor` of the linear stage `second` made of points of the tile, its sum running along their columns?
 * Then that is what the tile hands on. */
/* Of both tiles of a sweep: do they find what the turn before has left, and the second one the first one's
 * rows? Those are kept then. */
bool cuda_carries(const struct gen *g, struct tile *first);
bool cuda_hands_on(const struct gen *g, struct tile *t, const struct stage *second, ex_id factor);

/* cuda_epilogue.c: steps on the points of finished tiles. */
void cuda_bind_digits(struct gen *g, const struct tile_axes *x, const char *flat);
void cuda_unbind(struct gen *g, const struct tile_axes *x);
/* All steps at each point, one after the other: no axis is inner. */
void cuda_points(struct gen *g, const struct tile_pass *tp, const struct tile *t);
/* Inner axes: arrays and accumulators, before the tiles; the first phase on one tile; joins and what is
 * behind them, when all tiles are done. */
void cuda_steps_shared(struct gen *g, const struct tile *t);
size_t cuda_steps_bytes(const struct gen *g, const struct tile *t); /* of shared memory */
/* The phases [from, to). */
void cuda_steps_begin(struct gen *g, const struct tile *t, uint32_t from, uint32_t to);
void cuda_steps_tile(struct gen *g, const struct tile *t);
void cuda_steps_end(struct gen *g, const struct tile *t, uint32_t from, uint32_t to);
/* What turns hand on, as the first one finds it. */
void cuda_steps_carry(struct gen *g, const struct tile *t);

#endif
