/* kernels/schedule/rule_int.h: what the rules share; the folder's own. */
#ifndef KORCH_SCHEDULE_RULE_INT_H
#define KORCH_SCHEDULE_RULE_INT_H

#include "step_int.h"

struct proposing {
	const struct schedule_target *target;
	struct tir p;         /* behind the steps so far */
	bool proves;          /* each step, not what all have made */
	struct strbuf *trace; /* these, a line each */
};
#define RULE(N, WHERE, WORDS) void rule_##N(struct proposing *q);
#include "rule.def"
#undef RULE

/* Is the step legal here?  Then it is made, and part of the trace. */
bool propose(struct proposing *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As it was before some steps: the program, and the trace's length. */
void take_back(struct proposing *q, const struct tir *p, size_t n_trace);

/* A map that reads across what it stores moves in square blocks; another stays as it is.  rule_turn.c */
void turn_map(struct proposing *q, blk_id blk);
/* Moves the block into the loop where it does not run more than `most` times as often there.  rule_rows.c */
bool move_into(struct proposing *q, blk_id b, const char *loop, double most);
/* Rows of few elements each share a loop over tiles of them: its name; that of the loop where they are no
 * such rows.  rule_rows.c */
const char *tile_of_rows(struct proposing *q, const char *loop, int64_t elements);
/* The one instance of the block; ST_NONE: none, or several. */
st_id only_instance(const struct tir *p, blk_id b);
/* The loops of a block alone, serial, each bound to one iterator as it is. */
struct nest {
	struct st loop[TIR_DEPTH]; /* outermost first */
	axis_id iter[TIR_DEPTH];
	uint32_t n;
	bool is_whole; /* there are no other loops around it */
};
bool find_nest_of(const struct tir *p, blk_id b, struct nest *out);
/* The number of a buffer's element. */
ix_id flat_place(const struct tir *p, buf_id b, ixv_id at);
/* Iterations of a loop; ST_NONE: 1; INT64_MAX where its bounds hang on others. */
int64_t loop_trips(const struct tir *p, st_id loop);
/* Do all instances below count over the loop in places of their results only? */
bool loop_counts_places(const struct tir *p, st_id loop);
/* Elements that the loops around an instance join for one point; MOST_WINDOW + 1: more than become text. */
enum { MOST_WINDOW = 16 };
int64_t window_size(const struct tir *p, st_id instance);
/* Is there an instance of the block?  One that was inlined has none. */
bool blk_stands(const struct tir *p, blk_id b);
/* Its first one; ST_NONE. */
st_id blk_instance(const struct tir *p, blk_id b);
/* The one block that reads the buffer; BLK_NONE: none, or several. */
blk_id blk_only_reader(const struct tir *p, buf_id buf);
/* Is it in tiles of registers, which the nest at another loop would not have? */
bool blk_is_tiled(const struct tir *p, blk_id b);
/* Does it stand somewhere, and join elements? */
bool blk_reduces(const struct tir *p, blk_id b);
/* Does it, each element of what it reads once?  A product of matrices, or windows that overlap, do not. */
bool blk_joins_rows(const struct tir *p, blk_id b);
/* Are there reductions, and all such, but for nests that are a GPU's blocks' already?  Then the rules for
 * rows have the rest of the program to themselves. */
bool joins_rows_only(const struct tir *p);
/* Are there lanes inside of the loop, or does it join what lanes hold (rfactor)?  rule_lanes.c */
bool loop_is_of_lanes(const struct tir *p, st_id loop);
/* The loop around a block that joins elements which goes along memory in most of what it touches; ST_NONE. */
st_id loop_along_memory(const struct tir *p, blk_id b);
/* Are all that the block reads a fixed number of elements apart, from one iteration of the loop to the next?
 */
bool loop_strides(const struct tir *p, blk_id b, st_id loop);
/* Would the elements that the block joins lie far apart in the loop, their neighbours in another iteration?
 */
bool strides_in(const struct tir *p, blk_id b, const char *loop);
/* Points of a block: the product of its iterators' extents. */
int64_t blk_points(const struct tir *p, blk_id b);

#endif
