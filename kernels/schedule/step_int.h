/* kernels/schedule/step_int.h: what the primitives share; the folder's own. */
#ifndef KORCH_SCHEDULE_STEP_INT_H
#define KORCH_SCHEDULE_STEP_INT_H

#include "../tir/pipeline.h"
#include "../tir/tensor.h"
#include "schedule.h"

typedef bool step_fn(const struct tir *p, const struct step *s, struct tir *out, struct err *e);
#define STEP(N, OPERANDS, HELP) step_fn step_##N;
#include "step.def"
#undef STEP

/* As step_apply, on a program without threads, but that nobody has proved what it makes. */
bool step_make(const struct tir *p, const struct step *s, struct tir *out, struct err *e);
/* As schedule_flat, with p's barriers and no others. */
void schedule_flat_unparted(const struct tir *p, struct tir *out);
/* Is a loop that is bound to an instruction, or to versions of a pipeline, still what that asks for? */
bool step_marks_hold(const struct tir *p, const struct step *s, struct err *e);
/* Is what steps have made of `was` proved, as it is and flat, which it gives without barriers?  proved.c */
bool nest_is_proved(const struct tir *was, const struct tir *p, struct tir *flat, struct err *e);
/* Sets "PRIMITIVE: RULE: what NAME", ERR_INFEASIBLE; false. */
bool refuse(struct err *e, const struct step *s, const char *rule, const char *what);
/* The k-th name as a loop or a block of the program; false: refused. */
bool find_loop(const struct tir *p, const struct step *s, uint32_t k, st_id *out, struct err *e);
bool find_blk(const struct tir *p, const struct step *s, uint32_t k, blk_id *out, struct err *e);
bool find_buf(const struct tir *p, const struct step *s, uint32_t k, buf_id *out, struct err *e);
/* Dimensions of a buffer in an order of their own, neighbours as one: its elements by a number for each. */
struct runs {
	buf_id buf;
	struct step_run run[MAX_RANK];
	int64_t extent[MAX_RANK];
	uint32_t n;
};
/* As the step names them; none: all of several elements, as they are.  runs.c */
bool find_runs(const struct tir *p, const struct step *s, buf_id buf, struct runs *r, struct err *e);
ixv_id runs_place(const struct tir *p, const struct runs *r, const ix_id *number);
void runs_numbers(const struct tir *p, const struct runs *r, ixv_id place, ix_id *number);
/* Bounds that hang on nothing. */
bool const_extent(const struct tir *p, const struct st *loop, int64_t *from, int64_t *extent);
/* Values of an iterator; of AXIS_NONE 1. */
int64_t extent_of(const struct tir *p, axis_id a);

/* Does the block stand as it was lowered, in a nest of its own from *root on?  winograd.c */
bool stands_alone(const struct tir *p, const struct step *s, blk_id b, st_id *root, struct err *e);

/* A copy of statements, every loop over an axis of its own: an axis never changes its range. */
struct copy {
	const struct tir *p;
	struct tir *out;
	ix_id *to; /* of all axes of p when the copy began: what they become; IX_NONE: themselves */
	uint32_t n_to;
	const char *suffix;     /* behind the names of copied loops; "" where the first copy goes */
	struct tir_guard guard; /* at every instance below, over p's axes; i == IX_NONE: none */
};
struct copy copy_begin(const struct tir *p, struct tir *out);
void copy_end(struct copy *c);
void copy_range(struct copy *c, st_id i, st_id end);

/* Has the program a loop that is bound to an axis of a GPU? */
bool is_for_threads(const struct tir *p);
/* A loop whose iterations are of threads of their own. */
bool is_of_threads(const struct st *s);
/* May iterations of the loop run at the same time as it is bound?  bind.c */
bool loop_is_free(const struct tir *p, st_id loop, enum tir_bind bind, const struct step *s, struct err *e);
bool binds_nest(enum tir_bind outer, enum tir_bind inner);
/* Does each iteration of the loop make points of its own, of the instance below?  disjoint.c */
bool loop_is_disjoint(const struct tir *p, st_id loop, st_id instance);
/* Does the axis stand in a binding of the instance to an iterator of this kind? */
bool binds_kind(const struct tir *p, const struct st *instance, axis_id a, enum iter_kind kind);
/* Do the loop's iterations hand rows on to each other (slide)?  Then their order is part of what they
 * compute. */
bool hands_on(const struct tir *p, st_id loop);
/* Calls fn for each read of the buffer in the block's values and places. */
void blk_reads(const struct tir *p, const struct tir_block *b, void (*fn)(void *self, const struct ex *read),
    void *self);
/* Places of the buffer that the block reads, n of them, over its iterators. */
ixv_id *blk_places_read(const struct tir *p, const struct tir_block *b, buf_id buf, uint32_t *n);
/* By what the place divides the axis, where that leaves nothing over; 0: by nothing.  rule_digits.c */
int64_t place_divisor(const struct tir *p, ixv_id place, axis_id a);
/* Does it read what is a thread's own, or a block's? */
bool blk_reads_local(const struct tir *p, const struct tir_block *b);
/* An index over the iterators of the instance's block: its interval while the loops between `loop` and the
 * instance run through. */
void instance_region(const struct tir *p, st_id loop, st_id instance, ix_id i, ix_id *lo, ix_id *hi);
bool blk_reads_buf(const struct tir *p, const struct tir_block *b, buf_id buf);
bool blk_stores_buf(const struct tir_block *b, buf_id buf);

/* products.c: does the block sum up f32 that may be rounded otherwise?  ERR_INFEASIBLE. */
bool is_free_sum(const struct tir *p, const struct step *s, blk_id b, struct err *e);
/* The ways in which what it joins is a product with a weight, 0 to 2; guards around the product, zero
 * elsewhere, stand around the factor. */
struct weighted {
	ex_id factor, weight;
};
uint32_t products_with_weight(const struct tir *p, blk_id b, struct weighted out[2]);

#endif
