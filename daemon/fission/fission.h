/* daemon/fission/fission.h: operators become primitives. */
#ifndef KORCH_FISSION_H
#define KORCH_FISSION_H

#include "../model/model.h"

struct fission_stats {
	uint32_t n_operators;  /* ONNX nodes after inlining */
	uint32_t n_folded;     /* of them: computed at load */
	uint32_t n_primitives; /* nodes of the result */
};
/* The model as a graph of primitives, folded, sorted, verified.  Inputs and outputs keep order
 * and names; an output that is an input or a constant stays one (the plan copies it).
 * node.origin is the model's node number.  Convolutions, pools and resizes come out
 * channels-last between transposes; rewriting removes those.
 * Errors (ERR_MODEL): "file: node 'x' (Op): cause; supported is ...". */
bool fission_run(struct arena *a, const struct model *m, struct graph *out, struct fission_stats *stats,
    struct err *e) MUST_CHECK;
/* fission_run() that goes on behind what fails: each node that is at the root of a failure. */
struct fission_fault {
	const struct model_node *node; /* NULL: the model as a whole */
	const char *why;
};
struct fission_faults {
	struct fission_fault *list;
	uint32_t n, cap;
};
/* out: what could be made; outputs that could not are missing. */
void fission_check(struct arena *a, const struct model *m, struct graph *out, struct fission_faults *faults);
/* "Conv 1 11 22 ..." one operator a line, from op.def. */
void fission_list_ops(struct strbuf *sb);

#endif
