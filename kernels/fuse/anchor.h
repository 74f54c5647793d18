/* kernels/fuse/anchor.h: how a linear stage is computed by the micro-kernel
 *   t[rows][columns] += a[row][k] * b[k][column]
 * with K contiguous in a packed b.  Legality is a property of index expressions: nothing here
 * knows whether the stage was a matmul, a convolution or a depthwise one. */
#ifndef KORCH_ANCHOR_H
#define KORCH_ANCHOR_H

#include "tile.h"

enum { ANCHOR_AXES = 8, ANCHOR_EPILOGUES = 4, ANCHOR_GUARDS = 4, PACK_RANK = 8 };

/* A constant operand's form for the kernel: element d of the destination is element
 * base + sum coef[i] * d[i] of the operand, or zero where sum column[i] * d[i] >= n_columns. */
struct tile_pack {
	int rank;
	int64_t dim[PACK_RANK], coef[PACK_RANK], column[PACK_RANK];
	int64_t base, n_columns;
	int n_maps;
	struct pack_map map[PACK_MAPS]; /* of dimensions whose coef is 0 */
};

/* F(m x m, 3 x 3): m x m results of a convolution from p x p elements, p = m + 2, by p * p products a
 * channel instead of 9 * m * m:  at [ (g w g') * (bt d bt') ] at'.  The maps are small, and most of
 * their entries are zeros and ones.  Source: Lavin and Gray, arXiv 1509.09308. */
enum { WINO_M = 4, WINO_P = 6, WINO_TAPS = 3 };
struct winograd {
	int m, p;
	double g[WINO_P][WINO_TAPS], bt[WINO_P][WINO_P], at[WINO_M][WINO_P];
};

struct anchor_axis {
	axis_id id;
	int64_t extent;
	ix_id limit;    /* of a block's tail; IX_NONE: extent */
	int64_t stride; /* in the stage's result */
	int64_t a_step; /* K axes: in a's tensor */
};
/* A reader of the result that takes its value out of the tile: it is made for every element of
 * the tile as soon as that is ready. */
struct anchor_epilogue {
	uint32_t stage;
	ex_id body; /* over m, panel, lane, batch; the result's element is EX_SCRATCH number 0 */
	ix_id at;   /* where it goes in its own tensor */
};
/* The row factor is zero but where lo <= at < hi. */
struct anchor_guard {
	ix_id at; /* of a tile's first row and K = 0, over m and batch */
	int64_t lo, hi;
	int64_t by_row, by_field, by_k[ANCHOR_AXES]; /* what a step of each adds to it; never negative */
};
struct anchor {
	int lanes;     /* floats in a vector */
	int nv;        /* vectors in a row of the tile */
	int mr;        /* rows of the tallest tile */
	bool a_vector; /* a has the column axis too: vectors of a instead of one repeated element */
	bool prefetch;
	bool is_window;  /* a_vector, rows and K few: all of K is written out (anchor_window.c) */
	int field;       /* window: rows of the tile along the last batch axis, too */
	int64_t a_field; /* elements of a between those */
	struct anchor_guard guard[ANCHOR_GUARDS]; /* window */
	uint32_t n_guard;
	/* Window over a ring: a_at counts without rows of the ring; those are at (ring_at + ...) mod ring
	 * elements ring_pitch apart. */
	int64_t ring, ring_pitch;    /* rows; 0: no ring */
	struct anchor_guard ring_at; /* index of a tile's first row and K = 0, and what steps add to it */
	bool any_rows;               /* a step may make any number of the rows along its first axis */
	struct anchor_axis batch[ANCHOR_AXES], row[ANCHOR_AXES], k[ANCHOR_AXES];
	uint32_t n_batch, n_row, n_k;
	axis_id panel;    /* block of nv * lanes columns */
	axis_id lane;     /* column inside it */
	axis_id m;        /* all row axes as one */
	ix_id m_limit;    /* of a block's tail; IX_NONE: n_m */
	axis_id tile_row; /* row inside the register tile */
	int64_t n_columns, n_panels, n_k_total, n_m;
	uint32_t a_tensor, b_tensor;
	ix_id a_at;      /* of row m, k = 0, first column */
	int64_t a_row;   /* elements between rows where that is constant, else 0 */
	ix_id b_at;      /* first element of a panel */
	ix_id result_at; /* over m, panel, lane, batch */
	/* K in blocks, each for all rows before the next, so that a block of b stays in the first cache:
	 * the innermost k_inner axes and k_chunk turns of the one before them; k_chunk 0: all at once. */
	int64_t k_chunk;
	uint32_t k_inner;
	uint32_t sums; /* tensor of the sums between blocks: rows x columns of a panel */
	/* Winograd: rows are the last two axes, in tiles of wino->m each way.  A block of tiles has its
	 * factor in the positions' domain in v, [position][tile][K], and its sums, for
	 * `wide` panels of columns, in `sums`, [position][panel][tile][column]. */
	const struct winograd *wino; /* NULL: directly */
	int64_t tiles, wide;         /* of a block, at most */
	int64_t a_y, a_x;            /* elements of the panel between neighbours along the two rows */
	uint32_t v;
	int64_t v_pitch, sums_pitch; /* elements between positions */
	bool keeps_result;           /* somebody else reads the result, so it is stored too */
	struct anchor_epilogue epilogue[ANCHOR_EPILOGUES];
	uint32_t n_epilogue;
};

/* Before passes are formed: linear stages read their second factor from a packed tensor where
 * that can be had; a factor known only at run time gets a stage that packs it. */
void anchors_pack(struct tile_prog *p);
/* Passes are formed, not bound: drops the outer axes that register tiles need inside a step. */
void anchors_outer(struct tile_prog *p);
/* columns.c: may axis k of the stage be outer?  Blocks of columns leave all rows to a step. */
bool columns_outer(const struct tile_prog *p, const struct stage *s, uint32_t k);
/* Does an outer axis of the pass count blocks of columns? */
bool columns_step(const struct tile_prog *p, const struct tile_pass *t);
/* ERR_INFEASIBLE: blocks of columns were asked for, and no pass counts them. */
bool columns_hold(const struct tile_prog *p, struct err *e) MUST_CHECK;
/* Elements of the last outer axis that a step of this pass should take; 0: no linear stage here. */
int64_t anchor_block(const struct tile_prog *p, const struct tile_pass *t);
/* winograd.c: the form with tiles of m x m; NULL: there is none. */
const struct winograd *winograd_form(int64_t m);
/* ERR_INFEASIBLE: a stage's weights are packed for that form, and its step cannot have it. */
bool winograd_holds(const struct tile_prog *p, struct err *e) MUST_CHECK;
/* Of a convolution of the spec, by its graph: tiles of m x m in the loop program. */
bool winograd_suits(const struct spec *s, const struct target *t, int64_t m);
/* Did an earlier generator make tiles of it, of some size, for vectors of any width? */
bool winograd_suited(const struct spec *s);
/* A pass is bound: finds the micro-kernel for its linear stages; may put the stage of a panel
 * before one and take the readers behind it into its tile. */
void anchors_bind(struct tile_prog *p, uint32_t pass);

#endif
