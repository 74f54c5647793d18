/* daemon/orchestrate/landmark_int.h: what landmark.c (rows and what they are grown from) and separate.c
 * (which rows a solution violates) share. */
#ifndef KORCH_LANDMARK_INT_H
#define KORCH_LANDMARK_INT_H

#include "blp_int.h"

struct landmarks {
	struct arena arena;
	const struct prog *g;
	uint32_t words_v, words_t;
	uint64_t *above;            /* tensor -> bits of v with the tensor in T(v) */
	uint64_t *below;            /* v -> T(v) */
	bool *is_landmark;          /* v: T(v) holds a wanted tensor */
	struct adjacency computing; /* v -> kernels in ext(T(v)) */
	uint32_t *members;          /* kernel -> number of v it computes */
	struct adjacency nodes_of;  /* kernel -> v */
	uint32_t n_rows, cap_rows, n_items, cap_items;
	uint32_t *row_first, *row_item;
	uint64_t *row_hash;
	uint32_t *table, n_table; /* rows by hash; n_table is a power of two */
	struct separation *sep;
};

/* Scratch of one search for T. */
struct separation {
	double *x, *delta, weight;
	uint64_t *T;
	uint32_t *ext, n_ext, *touched, n_touched, *added, n_added;
	uint32_t *stamp, now; /* kernels seen */
	uint8_t *in_ext, *is_touched;
	struct adjacency active_of, active_makers; /* v -> kernels with x > 0; tensor -> likewise */
	struct rng rng;
	bool is_random;
	double noise;       /* a random search also takes steps up, less than this */
	double best_weight; /* the least weight met, after n_best tensors were added */
	uint32_t n_best;
};

static inline uint64_t *
row_of(uint64_t *m, uint32_t words, uint32_t i)
{
	return m + (size_t)words * i;
}

static inline bool
has(const uint64_t *w, uint32_t i)
{
	return w[i >> 6] >> (i & 63) & 1;
}

static inline void
put(uint64_t *w, uint32_t i)
{
	w[i >> 6] |= (uint64_t)1 << (i & 63);
}

static inline bool
reads_any(const struct prog *g, uint32_t k, const uint64_t *T)
{
	for (uint32_t j = g->in.first[k]; j < g->in.first[k + 1]; j++)
		if (has(T, g->in.item[j]))
			return true;
	return false;
}

/* Adds a row over `kernels`, which it sorts; false when it is there already. */
bool landmarks_add_row(struct landmarks *m, uint32_t *kernels, uint32_t n);

#endif
