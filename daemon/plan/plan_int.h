/* daemon/plan/plan_int.h: what the files of plan making share. */
#ifndef KORCH_PLAN_INT_H
#define KORCH_PLAN_INT_H

#include "plan_make.h"

/* One stretch of the constants region: an operand's bytes, dense or packed. */
struct stretch {
	const void *data;
	size_t n_data; /* dense bytes */
	const struct tensor *tensor;
	const struct pack *pack; /* NULL: dense */
	uint64_t hash;           /* of data */
	size_t offset, n_bytes;
};
struct stretches {
	struct stretch *s;
	uint32_t n, cap;
	size_t n_bytes;
};

/* A place inside another one. */
struct sub_buffer {
	uint32_t place, parent;
	size_t at; /* bytes into the parent's place */
};

struct making {
	struct arena *a;
	const struct plan_parts *in;
	const struct program *p;
	struct plan *plan;
	uint32_t *order; /* chosen candidates in order of execution */
	uint32_t n;
	const void **class_data; /* class -> bytes of a constant, else NULL */
	uint32_t *place_of;      /* class -> place of its value, UINT32_MAX */
	bool *is_made;           /* class: given, or made by a step so far */
	size_t *class_bytes;
	uint32_t cap_places, cap_copies, cap_kernels;
	uint32_t *kernel_of_spec;
	struct mem_block *blocks; /* of work places */
	uint32_t *block_place;
	uint32_t n_blocks, cap_blocks;
	bool *is_sub_buffer; /* class: in this plan it lies in its parent */
	struct sub_buffer *sub_buffers;
	uint32_t n_sub_buffers, cap_sub_buffers;
	struct stretches consts;
};

uint32_t making_add_place(struct making *m, struct place p);
/* A place for a class, its offset still to come. */
uint32_t making_add_class(struct making *m, uint32_t class, enum place_kind kind, uint32_t index);
/* Work memory for class c from step `first` on. */
uint32_t making_add_block(struct making *m, uint32_t class, uint32_t first);
/* Which classes lie in others; leaves views out of the order whose result is there before. */
void views_settle(struct making *m);
/* The place of a class that lies in another, made by `step`. */
uint32_t sub_buffer_place(struct making *m, uint32_t class, uint32_t step);
/* The place that a place lies in; itself where that is none. */
uint32_t parent_place(const struct making *m, uint32_t place);
/* Offsets of sub-buffers, once those of their parents are known. */
void sub_buffers_place(struct making *m);
/* A kernel's cost is a measurement; a view's always is. */
bool making_is_measured(const struct making *m, uint32_t spec);
/* The place of a constant operand: packed as the kernel asks, each content once. */
uint32_t consts_place(struct making *m, const struct tensor *t, const void *data, const struct pack *pack,
    uint32_t graph_tensor);
/* Lays the region out once all places are known. */
void consts_fill(struct making *m);
/* Which steps of a GPU's plan are over before which, on as many streams as it will run on; users of all
 * blocks are filled.  False: all run one behind the other. */
bool side_order(struct making *m, struct mem_order *out);
/* Offsets in work memory, results on operands' bytes where that is legal and saves something. */
void work_place(struct making *m);
/* Candidates, rows, sums, words. */
void evidence_make(struct making *m);

#endif
