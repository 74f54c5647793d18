/* kernels/fuse/anchor_int.h: shared by anchor*.c. */
#ifndef KORCH_ANCHOR_INT_H
#define KORCH_ANCHOR_INT_H

#include "anchor.h"

/* Vectors in a row of the register tile, and rows in it, that suit the target. */
int anchor_rows(const struct tile_prog *p, int nv, bool a_vector);
int anchor_vectors(const struct tile_prog *p, int64_t n_columns, bool a_vector, int64_t rows);
/* A new f32 tensor that no place has yet. */
uint32_t anchor_tensor(struct tile_prog *p, int64_t count, uint32_t stage);

/* A linear stage while its anchor is found. */
struct binding {
	struct tile_prog *p;
	struct stage *s;
	struct anchor *n;
	ix_id *to; /* scratch for substitutions: one entry an axis */
	uint32_t n_to;
};
/* A substitution that changes nothing, over all axes made so far, in b->to. */
void binding_clear(struct binding *b);
struct tx_subst binding_subst(const struct binding *b);
/* The substitution from the stage's axes to m, panel and lane. */
void binding_flatten(struct binding *b, axis_id column);
/* online.c: is the expression another one in each turn of the sweep? */
bool online_turns(const struct tile_prog *p, ex_id e);
/* anchor_fold.c: readers of the result behind step `step` of the pass that can take their value
 * from the tile leave the row of steps; what other readers there are decides whether the result
 * is stored too. */
void binding_fold(struct binding *b, uint32_t pass, uint32_t step, axis_id column);

/* anchor_window.c: takes a window's tile where that can be had: the row factor is then the read
 * behind its guards. */
bool binding_window(struct binding *b, axis_id column);
/* Rows are flattened: the guards' indices over what the tile's loops count. */
void binding_guards(struct binding *b, axis_id column);

/* Local scratch for n floats of a tensor. */
void take_local(struct tile_prog *p, uint32_t tensor, int64_t n);
/* anchor_outer.c: K in blocks, where one panel of b for all of K would not stay in the first cache. */
void binding_k_blocks(struct binding *b);

/* columns.c: rows of a linear stage, a batch axis apart. */
int64_t linear_rows(const struct tile_prog *p, const struct stage *s);
/* Splits the column axis where a step is to make one block of it, false: it is not; `all`: every stage as it
 * was. */
bool columns_split(struct tile_prog *p, struct stage *s, const struct stage *all, uint32_t n_all);

/* winograd.c.  Can the stage have that form?  Sets slide and slides.  Its column is set, its factors are in
 * order. */
bool winograd_finds(struct tile_prog *p, struct stage *s);
bool winograd_slides(const struct stage *s, axis_id k);
/* The packed factor goes through the weights' map along dimensions first and first + 1. */
void winograd_maps(const struct winograd *w, struct tile_pack *pack, int first);
bool winograd_bind_b(struct binding *b);
/* The panel's body, zero from u == end on. */
ex_id winograd_crop(struct tx *x, ex_id body, axis_id u, ix_id end);
/* The panel is bound: what the walker needs; false where the rows are no tiles. */
bool winograd_bind(struct binding *b);
/* Elements of the pass's last outer axis for a step; for the direct form it would be `block`. */
int64_t winograd_block(const struct stage *s, const struct tile_pass *t, int64_t block);

/* Where stage s has too few columns for a register tile: *wide makes a tensor with more of them,
 * and s becomes the map that adds it up. */
bool anchor_widen(struct tile_prog *p, struct stage *s, struct stage *wide);

#endif
