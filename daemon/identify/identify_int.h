/* daemon/identify/identify_int.h: what the files of daemon/identify share. */
#ifndef KORCH_IDENTIFY_INT_H
#define KORCH_IDENTIFY_INT_H

#include "identify.h"

/* Primitives that are never apart in a candidate: one node, or a chain of maps that reads
 * nothing but what its first node reads.  Nodes ascending. */
struct group {
	uint32_t *nodes;
	uint32_t n_nodes;
	tensor_id *in, *out; /* roots: read (no constants) and made for readers outside or as outputs */
	uint32_t n_in, n_out;
	uint32_t n_anchors, n_reductions;
	bool alone; /* opaque, or a step that is cut out: never with others */
};

/* What becomes one group: nothing; chains of maps and what else is never better apart; the same, but only
 * primitives of one ONNX operator. */
enum groups_merge { MERGE_NONE, MERGE_ALL, MERGE_WITHIN };
/* The graph with views and broadcasts taken out.  A tensor's *root* is the tensor whose memory
 * it sees: itself, or what its view reads. */
struct groups {
	struct arena *a;
	const struct graph *g;
	struct graph_index ix;
	uint32_t *root;                  /* per tensor */
	bool *is_view;                   /* per node: an alias of its operand's memory */
	bool *is_inlined;                /* per node: a broadcast that lives in its readers */
	bool *is_output;                 /* per root: seen by an output */
	bool *is_cut;                    /* per node: one of many steps that a tensor is cut into (cut.c) */
	uint32_t *group_of;              /* per node; NO_NODE for views and inlined broadcasts */
	uint32_t *reader_first, *reader; /* per root: groups that read it, through views and inlined ones */
	uint32_t *maker_first, *maker;   /* per root: groups that make it */
	struct group *groups;            /* in topological order over all alternatives */
	uint32_t n_groups;
	enum groups_merge merge;
};
/* Per node, in the groups' arena: cut.c. */
bool *groups_find_cuts(const struct groups *u);
void fusion_groups_make(struct arena *a, const struct graph *g, enum groups_merge merge, struct groups *out);
/* The root behind a tensor, through inlined broadcasts; a constant's root is a constant. */
tensor_id groups_source(const struct groups *u, tensor_id t);
bool tensor_is_const(const struct graph *g, tensor_id t);

/* One set of groups that could be a kernel, ascending. */
struct group_set {
	uint32_t *groups, n;
};
struct enum_result {
	struct group_set *sets;
	uint32_t n_sets, cap_sets, n_dropped;
};
/* Connected, convex within the chosen producers, within the limits; every set once; in the order
 * of the lowest group.  `cluster` (per group, may be NULL): members share one number; NO_NODE: in no set. */
void enum_sets(struct arena *a, const struct groups *u, const struct identify_limits *lim,
    const uint32_t *cluster, struct enum_result *out);

/* Sets with two anchors of pair.def: their hull, and that with up to PAIR_BEFORE groups before and
 * PAIR_BEHIND behind, one after the other; at most lim->max_pairs. */
void enum_pairs(
    struct arena *a, const struct groups *u, const struct identify_limits *lim, struct enum_result *out);

/* The precedence of one block of groups, kept for questions about hulls. */
struct enum_order;
struct enum_order *enum_order_make(struct arena *a, const struct groups *u);
/* The set and all that lies between its members; false where they are in different blocks. */
bool enum_hull(
    struct arena *a, const struct enum_order *o, const struct group_set *set, struct group_set *hull);

/* Candidates as they are found: no duplicates, specs shared. */
struct cand_table;
struct cand_table *cand_table_new(struct arena *a, struct arena *tmp, const struct groups *u,
    const struct identify_limits *lim, struct cand_set *out);
enum collected { COLLECT_NEW, COLLECT_KNOWN, COLLECT_INFEASIBLE, COLLECT_LIMIT };
/* The kernel of `nodes` (no views, no inlined broadcasts: those it needs are added, unless
 * `bare`) exporting these roots. */
enum collected cand_table_add(struct cand_table *c, const uint32_t *nodes, uint32_t n_nodes,
    const tensor_id *exports, uint32_t n_exports, bool bare);
/* "rule: why" of the last COLLECT_INFEASIBLE or COLLECT_LIMIT; NULL after others. */
const char *cand_table_refusal(const struct cand_table *c);
void cand_table_finish(struct cand_table *c);

struct enumerator {
	struct arena *tmp;
	const struct graph *g;
	const struct identify_limits *lim;
	struct cand_table *c;
};
/* A set with all that others need, and with its last results only: the better of both answers.
 * n_results (may be NULL): how many the smaller form has. */
enum collected identify_add_set(
    const struct enumerator *f, const struct groups *u, const struct group_set *set, uint32_t *n_results);

#endif
