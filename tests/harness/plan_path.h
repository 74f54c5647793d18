/* tests/harness/plan_path.h: a graph's way to a plan without workers: candidates, random costs, the
 * binary program, the plan; and a plan's way to outputs without machine code: each step is
 * interpreted on the plan's own memory. */
#ifndef KORCH_PLAN_PATH_H
#define KORCH_PLAN_PATH_H

#include "../../daemon/plan/plan_make.h"

struct plan_path {
	struct cand_set cands;
	struct program program;
	struct blp_result choice;
	struct plan plan;
};
/* Costs: random in [1, 1000] per spec, less than proportional to its nodes, so that fusing pays. */
bool plan_path_make(
    struct arena *a, const struct graph *g, uint64_t seed, struct plan_path *out, struct err *e) MUST_CHECK;
/* outputs[i] receives the i-th output's bytes. */
bool plan_path_run(struct arena *a, const struct plan *p, const void *const *inputs, void **outputs,
    struct err *e) MUST_CHECK;

#endif
