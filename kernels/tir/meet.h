/* kernels/tir/meet.h: whose an element of a buffer is that a kernel's statement touches, and in which part of
 * the buffer: whether two threads of a block can meet in it. */
#ifndef KORCH_TIR_MEET_H
#define KORCH_TIR_MEET_H

#include "tiles.h"
#include "verify_int.h"

/* Whose the elements are that are touched: of any threads; of what a block does outside of them; each of the
 * thread whose number its index in dimension `dim`, in pieces of `size`, has behind `rest`, modulo how many
 * there are; each of the thread whose number's digits its indices have, in tiles (struct tir_tiles). */
enum owner_kind { NOBODY, OF_ANY, OF_BLOCK, OF_THREAD, OF_TILES };
struct owner {
	enum owner_kind kind;
	enum tir_bind by; /* whose number: a warp's, or a lane's */
	uint32_t dim;
	int64_t size;
	ix_id rest;
	struct tir_tiles tiles;
};
/* Which part of a buffer: its first index is from lo to hi, and by * number + less than by; IX_NONE: any. */
struct part {
	int64_t lo, hi;
	ix_id number;
	int64_t by;
};
struct met {
	struct owner owner;
	struct part part;
};

/* Where a statement stands. */
struct meet_place {
	const struct tir *p;
	st_id root, now; /* the kernel, and the statement in it */
	axis_id thread[TIR_DEPTH];
	uint32_t n_threads; /* loops of threads around */
	st_id lane;         /* the innermost */
	ix_id *to;          /* of all axes: iterators, while a block's place is looked for */
};
/* By whom the buffer is touched there, and where. */
void meet_note(const struct meet_place *c, const struct touch *t, struct met *out);
/* Has no thread touched before what another touches now?  Nor is anything met that nobody touched. */
bool are_apart(const struct tir *p, const struct met *before, const struct met *now);
/* Both, in `before`: what they have in common. */
void meet_again(struct met *before, const struct met *now);

#endif
