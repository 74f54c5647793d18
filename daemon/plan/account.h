/* daemon/plan/account.h: what korch-plan explain will be asked, answered while all is known. */
#ifndef KORCH_ACCOUNT_H
#define KORCH_ACCOUNT_H

#include "plan_make.h"

struct account_cost {                   /* per spec */
	int64_t measured_ns, spread_ns; /* 0: no time of it */
	double error_ns;                /* of measured_ns as a median */
	int64_t bound_ns, expected_ns;
	bool has_failed;
	struct str cause;
};
struct account_node { /* of the ONNX model */
	const char *name, *op;
	uint32_t *reads, n_reads; /* nodes whose results it reads */
	enum plan_fate lost;      /* what became of it if the graph computes nothing of it */
};
struct account_in {
	const struct graph *graph;
	const struct cand_set *cands;
	const struct program *program;
	const struct blp_result *choice;
	enum identify_mode mode;
	const struct identify_limits *limits;
	const struct account_cost *cost;
	const struct account_node *nodes; /* numbered as node.origin is */
	uint32_t n_nodes;
};
/* Fills rivals, exchanges, aparts and nodes of a plan that plan_make() made of the same parts, and the
 * spreads and errors of its kernels.  At most PLAN_MAX_ACCOUNT of each and 1 MiB of words; what does not fit
 * is left out.  Equal arguments give equal results; the work is counted. */
void account_make(struct arena *a, const struct account_in *in, struct plan *plan);

#endif
