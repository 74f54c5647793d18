/* client/plan_explain.h: why a plan holds these kernels and no others; its picture. */
#ifndef KORCH_PLAN_EXPLAIN_H
#define KORCH_PLAN_EXPLAIN_H

#include "../kernels/run/plan.h"

/* Each step: its kernel, the runner-up and the margin, and why it is not one kernel with its neighbours.
 * what: an ONNX node (then: what became of it, and of each of its neighbours), or the first digits of a
 * kernel's hash, or NULL: all steps.  ERR_USAGE where it is neither. */
bool plan_explain(
    struct arena *a, const struct plan *p, const char *what, bool json, struct err *e) MUST_CHECK;
/* Graphviz: a cluster a kernel with the ONNX nodes in it, an arrow a tensor.  steps: only the first so
 * many; 0: all. */
struct str plan_dot(struct arena *a, const struct plan *p, uint32_t steps);

/* What was found of a plan before its certificate is looked at. */
struct plan_words {
	const char *digest, *seal; /* trusted, unknown (its signer is), none */
	const char *signer;        /* SHA256:...; "" */
	const char *trusted_by;    /* the file with its key; "" */
};
/* Recomputes from the file alone, without solver code, that the steps can run in this order and
 * make all outputs, that costs add up, and what the duals prove (D18); says so on stdout.
 * ERR_WRONG names what does not hold. */
bool plan_verify(struct arena *a, const struct plan *p, const struct plan_words *w, bool json, bool resolve,
    struct err *e) MUST_CHECK;

/* Runs the search again over the plan's candidates; *cost: of what it finds.  ERR_WRONG where the
 * plan claims to be optimal and the search finds a cheaper one or cannot prove it. */
bool plan_resolve(struct arena *a, const struct plan *p, int64_t *cost, struct err *e) MUST_CHECK;

#endif
