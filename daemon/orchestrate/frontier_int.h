/* daemon/orchestrate/frontier_int.h: what the files of the frontier programme share (frontier.c). */
#ifndef KORCH_FRONTIER_INT_H
#define KORCH_FRONTIER_INT_H

#include "blp_int.h"

enum { DEAD_BATCH = 64 };

struct option { /* picking kernel at a step */
	uint32_t kernel;
	uint32_t need, n_need;     /* slots that must be set: inputs before t */
	uint32_t give, n_give;     /* slots to set: outputs from t on */
	uint32_t meet, n_met;      /* slots to clear: pending outputs */
	uint32_t demand, n_demand; /* pairs (avail slot or NONE, pending slot): inputs after t */
};
enum fate { LIVES, MAY_HAVE_DIED, IS_DEAD };
struct layer {
	uint64_t *mask;
	uint64_t *rows_met; /* rows that the path has met; no part of a state's identity */
	int64_t *cost;
	fixed_cost *red;
	uint32_t *node, *kernel; /* node: of a state; a child's parent in the layer before */
	uint8_t *fate;           /* enum fate */
	uint8_t
	    *is_unordered; /* some kernel of the path reads what is not made before it in any order found */
	uint32_t n, cap;
};
struct node { /* the last kernel of a path */
	uint32_t parent, kernel;
	bool is_unordered;
};
struct frontier {
	struct arena arena;
	const struct frontier_in *in;
	const struct prog *g;
	struct adjacency makers;  /* used kernels by tensor */
	struct adjacency readers; /* likewise, those with the latest output first */
	uint32_t *last_out;       /* of a kernel */
	/* Of a tensor; NONE.  A slot is the tensor's only from start to end: before and after, the
	 * bit is another's. */
	uint32_t *avail_slot, *avail_start, *avail_end, *pending_slot, *pending_start;
	uint32_t words, row_words;
	struct adjacency ends;       /* step -> slots to clear after it */
	struct adjacency pending_at; /* step -> tensors whose pending slot begins there */
	struct adjacency option_of;  /* step -> numbers in option */
	struct option *option;
	uint32_t *slot;           /* what need, give, meet, demand index */
	struct adjacency rows_of; /* used kernel -> rows with a dual */
	uint32_t *row_slot;
	struct adjacency row_ends; /* step -> row slots to clear after it */
	struct layer now, next, kept;
	uint32_t max_layer;
	uint32_t *table, n_table, *order;
	struct node *node;
	uint32_t n_nodes, cap_nodes;
	uint32_t *found, stamp; /* marks of a tensor, good while they are the stamp */
	/* of the test for dead states: a bit a state, by slot, tensor and kernel */
	uint64_t *has, *lost, *broken, *touched; /* touched: tensors to look at, a bit each */
	uint32_t *lost_at, *broken_at;           /* stamps of lost and broken */
	uint32_t *witness, *open, n_open;
	bool is_complete;
	uint64_t n_states, n_made; /* kept; made, of which most are dropped again */
};

static inline bool
bit(const uint64_t *m, uint32_t slot)
{
	return m[slot >> 6] >> (slot & 63) & 1;
}

static inline void
set_bit(uint64_t *m, uint32_t slot)
{
	m[slot >> 6] |= (uint64_t)1 << (slot & 63);
}

static inline void
clear_bit(uint64_t *m, uint32_t slot)
{
	m[slot >> 6] &= ~((uint64_t)1 << (slot & 63));
}

/* Can tensor u be pending before or at step t? */
static inline bool
can_be_pending(const struct frontier *f, uint32_t u, uint32_t t)
{
	return f->pending_slot[u] != NONE && f->pending_start[u] <= t;
}

/* Intervals, slots and options, from f->in (frontier_setup.c). */
void frontier_setup(struct frontier *f);
/* The step goes on to t: what is open there. */
void frontier_open(struct frontier *f, uint32_t t);
/* Which of n <= DEAD_BATCH states can end in no plan (frontier_dead.c): a bit each.  mask: theirs after step
 * t, which frontier_open() was told. */
uint64_t frontier_dead(struct frontier *f, uint32_t t, const uint64_t *const *mask, uint32_t n);

#endif
