/* kernels/ir/spec_int.h: a candidate on its way to canonical form (spec.c, colour.c). */
#ifndef KORCH_SPEC_INT_H
#define KORCH_SPEC_INT_H

#include "ir_int.h"

struct colour {
	uint64_t form, full; /* without and with extents */
};

/* A tensor of the candidate. */
struct part {
	tensor_id t;
	const struct tensor *x;
	uint32_t maker;     /* local node, NO_NODE for a leaf */
	uint32_t n_exports; /* how often it is an output: 0 or 1 */
	struct colour c;
};

struct member {
	const struct node *n;
	uint32_t *in, *out; /* parts */
	struct colour c;
};

struct canon {
	struct arena *a, tmp;
	const struct graph *g;
	struct part *parts;
	uint32_t n_parts;
	struct member *nodes; /* in topological order */
	uint32_t n_nodes;
	uint32_t *exports, n_exports; /* parts */
	uint32_t leaves;
	/* the best text so far */
	bool found;
	struct graph best;
	struct str text;
	struct spec_binding bind;
};

int colour_cmp(struct colour a, struct colour b);
/* The colour of one made special among its equals. */
struct colour colour_special(struct colour c);
/* Colours from types, attributes and constants, before any neighbour is looked at. */
void colours_start(struct canon *c);
/* Refines until no round splits a colour; the number of distinct colours. */
uint32_t colours_refine(struct canon *c);
/* The least colour that several tensors share; false when there is none. */
bool colours_tied(struct canon *c, struct colour *out);
/* A constant that travels by value. */
bool const_by_value(const struct tensor *x);
/* Bits of an element as its text has them: one NaN, no payloads. */
uint64_t const_bits(const struct tensor *x, int64_t i);

#endif
