/* kernels/schedule/product_int.h: products on a GPU: what is the same by threads (rule_product.c) and by a
 * warp's instructions (product_mma.c). */
#ifndef KORCH_SCHEDULE_PRODUCT_INT_H
#define KORCH_SCHEDULE_PRODUCT_INT_H

#include "rule_int.h"

/* Rows and columns of a block, and of one of its threads or warps. */
struct tile_shape {
	int64_t rows, columns, own_rows, own_columns;
};
struct product {
	struct proposing *q;
	const char *name; /* of the block */
	blk_id last;      /* makes results from the sums */
	enum intrin mma;  /* INTRIN_COUNT: threads multiply */
	struct tile_shape t;
	int64_t step;  /* elements of the sum at once */
	int64_t parts; /* of the sum */
	int64_t rows, columns, elements, both;
	int64_t longest; /* iterations of the loop that counts most elements, */
	const char *longest_loop;
	bool is_grouped;    /* columns are of groups */
	const char *blocks; /* the loop over tiles */
};
/* The block's name and a suffix; the block of that name. */
const char *product_part(const struct product *w, const char *suffix);
blk_id product_blk(const struct product *w, const char *suffix);
const struct tir_buf *product_sums(const struct product *w);
bool product_is_loop(const struct product *w, const char *name);
/* Two loops as one, or the one that there is. */
const char *product_fuse(const struct product *w, const char *a, const char *b);
/* A loop in tiles: over these, NULL where there is one, and inside, NULL where each has one element. */
struct loop_tiles {
	const char *outer, *inner;
};
struct loop_tiles product_split(const struct product *w, const char *loop, int64_t size);
/* The loops that there are, in this order. */
bool product_reorder(const struct product *w, const char *const *loops, uint32_t n);
enum { PRODUCT_WORD = 4 }; /* columns of a word of shared memory */
/* product_copy.c: the factor's tile of a step, made where it is wanted, is shared; dims: in which order. */
bool product_copy(const struct product *w, const char *suffix, const char *step, const char *dims);
/* product_shape.c: sets t and parts, of some shapes.  false: none suits. */
bool product_shape(struct product *w, const struct tile_shape *list, size_t n);
/* Of a block. */
int64_t product_threads(const struct product *w);

/* product_mma.c: may the matrices be multiplied so, and in which tiles?  Sets t, parts, step. */
bool mma_choose(struct product *w);
/* The copy's elements are rounded where the instruction asks for it; */
bool mma_round(const struct product *w, const char *copy);
/* to warps and their lanes, as they lie, or of a copy whose columns are rows. */
bool mma_copy(const struct product *w, const char *loop);
bool mma_copy_turned(const struct product *w, const char *element, const char *column);
/* A tile's rows and columns to warps; with the elements' loop they are instructions, else results. */
bool mma_deal(const struct product *w, const char *element, const char *row, const char *column);

#endif
