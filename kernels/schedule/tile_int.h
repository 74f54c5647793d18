/* kernels/schedule/tile_int.h: a product in tiles of registers, and what it reads. */
#ifndef KORCH_SCHEDULE_TILE_INT_H
#define KORCH_SCHEDULE_TILE_INT_H

#include "rule_int.h"

struct tiling {
	struct proposing *q;
	blk_id product, last;                  /* last: the block whose loops are tiled */
	int row, column;                       /* their dimensions in the products; row -1: there is one */
	int field;                             /* the dimension of rows before that one; -1: there is none */
	int last_row, last_column, last_field; /* in what the last block makes */
	ixv_id made_at;                        /* the product's place, over iterators of the last block */
	int64_t rows, columns;                 /* of a tile */
	int64_t behind; /* columns of the products that nobody reads, but that fill a vector */
	int64_t lanes;  /* of a vector of columns: the target's, or half */
	int64_t fields; /* such rows, one beside the other; 1: of one of them */
	buf_id rows_from, columns_from;
	ixv_id rows_at, columns_at; /* where the factors are read, over iterators of the product */
	int along;                  /* the dimension of the columns in their factor */
	int64_t panel;   /* their factor lies in panels of so many columns already; 0: it does not */
	int64_t alike;   /* columns that have the other factor in common; 0: all */
	int64_t group;   /* ... where these fill no whole vectors: tiles are of one group each; 0: they do */
	bool is_shifted; /* the last tile of columns begins earlier, to be full */
	bool is_apart;   /* none have: each column has a window of its own (depthwise) */
	const char *rows_loop; /* around a tile's rows, all columns of them inside; NULL: none */
};
enum { TILE_SPARE = 4 /* registers for a loaded column and a row's element */ };
/* The iterator that is dimension d of what a block makes; AXIS_NONE: it has one element, or none. */
axis_id tile_axis(const struct tir *p, blk_id b, int d);
/* ->lanes and ->group: as wide vectors as columns fill, the target's, or half of its widest; a group that
 * fills no whole ones of either has tiles of its own.  false: no vector is worth it.  tile_size.c */
bool tile_lanes(struct tiling *t, int64_t columns);
/* Fills in ->rows, ->columns and ->fields, of what ->last makes.  tile_size.c */
void tile_size(struct tiling *t);
/* Both factors of a sum of products; false: it is none. */
bool tile_factors(const struct tir *p, blk_id b, const struct ex **one, const struct ex **other);
/* The one dimension of the place that the axis is in, one by one; -1: none. */
int dim_along(const struct tir *p, ixv_id place, axis_id a);
/* A buffer's dimensions of several elements as steps name them, one of them last. */
const char *dims_but(const struct tir *p, buf_id buf, int last);
/* May the factor's columns come to lie along memory? */
bool tile_can_read(const struct tiling *t);
/* Does the loop over a window's elements go where the tile's rows go? */
bool tile_window_is_along(const struct tiling *t, const char *loop);
/* Moves a product to the loop, in tiles of `rows` rows, where it does not run more than `most` times as
 * often. */
bool tile_at(struct proposing *q, blk_id product, const char *loop, int64_t rows, double most);
/* Brings what a tile reads near. */
void tile_feed(struct tiling *t);
/* A factor that was made for the tile lies in panels of its columns, as a weight does. */
void tile_pack_made(struct tiling *t);
/* Do the columns lie along memory in their factor? */
bool tile_lies_along(const struct tiling *t);
/* Elements of a buffer. */
int64_t places_of(const struct tir *p, buf_id b);

#endif
