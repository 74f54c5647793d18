/* daemon/identify/identify.h: the candidate kernels of a graph. */
#ifndef KORCH_IDENTIFY_H
#define KORCH_IDENTIFY_H

#include "../../kernels/ir/ir.h"

struct identify_limits {          /* D3; parameters, printed with the counts */
	uint32_t max_nodes;       /* groups (README.md): no views, no broadcasts that live in their
	                           * readers; a chain of maps counts once; default 12 */
	uint32_t max_anchors;     /* 1, but for pairs */
	uint32_t max_pairs;       /* sets with two anchors (pair.def): 256 */
	uint32_t max_reductions;  /* 4; windows and depthwise convolutions count */
	uint32_t max_in, max_out; /* 6, 3 */
	uint32_t max_candidates;  /* 20,000: a member with more than four even shares of sets above it
	                           * gets smaller sets only; said in n_dropped */
};
extern const struct identify_limits identify_limits_default;

struct cand {
	struct bitset members; /* of graph nodes, views included */
	tensor_id *in, *out;   /* memory read (no constants) and made: roots, never views */
	uint32_t n_in, n_out;
	uint32_t spec;            /* number in cand_set.specs: equal computations share one */
	struct spec_binding bind; /* operands and results in the spec's order; an operand may be a
	                           * view of a root or a constant */
};
struct cand_set {
	struct cand *cands; /* ordered, deterministic */
	uint32_t n_cands;
	struct spec *specs; /* distinct ones, in order of first use */
	uint32_t n_specs;
	uint32_t n_views; /* the last ones of specs: also among the others, but cost nothing where
	                   * they stand (daemon/plan/view.c) */
	uint32_t n_infeasible, n_dropped; /* that one kernel cannot hold; sets over max_candidates,
	                                   * max_pairs */
	struct str *infeasible_rules;     /* "rule: count" lines */
	uint32_t n_infeasible_rules;
};
static inline bool
cand_is_view(const struct cand_set *c, uint32_t spec)
{
	return spec >= c->n_specs - c->n_views;
}
/* mode: full (all), operator (one candidate per ONNX operator: nodes of one origin, split
 * where that is not one kernel), none (one per primitive).  Every node is in some candidate
 * alone, so that a plan always exists. */
enum identify_mode { IDENTIFY_FULL, IDENTIFY_OPERATOR, IDENTIFY_NONE };
/* Errors: ERR_INFEASIBLE names a primitive that alone is no kernel; ERR_LIMIT: graph too large. */
bool identify_run(struct arena *a, const struct graph *g, enum identify_mode mode,
    const struct identify_limits *lim, struct cand_set *out, struct err *e) MUST_CHECK;

/* The text form of dumps and golden files (cand_text.c).  Reading makes specs and bindings anew over the
 * graph; errors name the line.  No views: those are found when the program is made. */
void cand_set_print(struct strbuf *sb, const struct graph *g, const struct cand_set *s);
bool cand_set_read(
    struct arena *a, struct str text, const struct graph *g, struct cand_set *out, struct err *e) MUST_CHECK;
/* Its specs, each behind a line "# spec N HASH". */
void cand_specs_print(struct strbuf *sb, const struct cand_set *s);

/* Why no candidate holds some primitives together: for questions after identification.  What the questions
 * make is in `found`, which is another arena than `a`; both outlive the asker. */
struct identify_asker;
struct identify_asker *identify_asker_new(struct arena *a, struct arena *found, const struct graph *g,
    enum identify_mode mode, const struct identify_limits *lim, uint32_t n_dropped);
/* nodes: of the graph; views and broadcasts that live in their readers do not count.  "rule: why" for the
 * smallest convex set that holds them all: a limit, or what kernels/schedule says; "" where a candidate of
 * it is possible.  Text in the asker's arena. */
struct str identify_why(struct identify_asker *q, const struct bitset *nodes);

#endif
