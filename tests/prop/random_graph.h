/* tests/prop/random_graph.h: seeded random primitive graphs and operand values, shared by the
 * property tests of rewriting, identification, specs, fusion and generated code.
 * The same seed gives the same graph on every machine. */
#ifndef KORCH_RANDOM_GRAPH_H
#define KORCH_RANDOM_GRAPH_H

#include "../../kernels/ir/ir.h"

enum random_kind {       /* what nodes may be of; the mask's bits */
	RG_MAP = 1 << 0, /* float maps that stay finite on finite operands */
	RG_BCAST = 1 << 1,
	RG_REDUCE = 1 << 2, /* sum, rmax, rmin */
	RG_LAYOUT = 1 << 3, /* reshape, transpose, slice, pad, concat */
	RG_MATMUL = 1 << 4,
	RG_CONV = 1 << 5,
	RG_WINDOW = 1 << 6,  /* wsum, wmax */
	RG_SELECT = 1 << 7,  /* comparisons, select, casts to and from i32 and bool */
	RG_GATHER = 1 << 8,  /* by a constant table of indices */
	RG_PROD = 1 << 9,    /* prod, exp of a sum: values may grow */
	RG_OPAQUE = 1 << 10, /* cumsum */
	RG_ALL = (1 << 11) - 1,
	RG_BRANCHES = 1 << 11, /* sums of convolutions of one tensor, and of that tensor */
};
struct random_opts {
	uint32_t n_nodes;     /* about so many; helpers (broadcasts of operands) come on top */
	uint32_t kinds;       /* mask of enum random_kind */
	int64_t max_extent;   /* of one dimension; 0: 9 */
	int64_t max_elements; /* of one tensor; 0: 4,096 */
	bool chain;           /* prefer the newest tensor as operand: long, fusable chains */
	uint32_t max_outputs; /* 0: as many as there are sinks */
};
/* A verified graph (not yet sorted) with at least one input, one node and one output. */
void random_graph(struct graph *g, struct arena *a, struct rng *r, const struct random_opts *o);
/* Values for a tensor: floats normal with some exact zeros, integers in [-4, 4], bools. */
void *random_values(struct arena *a, struct rng *r, enum dtype t, const struct shape *s);
/* One block of values for each input of the graph. */
const void **random_inputs(struct arena *a, struct rng *r, const struct graph *g);
/* Largest difference of two float arrays over the largest magnitude of `want` (at least
 * `floor`); differing NaN or infinity counts as infinite.  Other types: 0 or infinity. */
double values_distance(enum dtype t, const struct shape *s, const void *have, const void *want, double floor);

#endif
