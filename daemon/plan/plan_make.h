/* daemon/plan/plan_make.h: from candidates to the binary program, and from its solution
 * to the plan: order, places, packed weights, certificate.  All pure. */
#ifndef KORCH_PLAN_MAKE_H
#define KORCH_PLAN_MAKE_H

#include "../../kernels/artefact/artefact.h"
#include "../../kernels/run/plan.h"
#include "../identify/identify.h"
#include "../orchestrate/blp.h"

/* The binary program of a graph's candidates.  Kernel k is candidate k.  Its tensors are the
 * graph's classes of aliases: tensors joined by views hold the same bytes, so whoever makes one
 * makes all (D2). */
struct program {
	struct blp blp;
	struct blp_kernel *kernels; /* blp.kernels, for program_set_costs */
	uint32_t n_kernels;
	uint32_t *spec_of;   /* kernel -> number in cand_set.specs */
	uint32_t *class_of;  /* graph tensor -> blp tensor */
	uint32_t *tensor_of; /* blp tensor -> its first tensor in the graph */
	uint32_t *parent_of; /* blp tensor -> the one whose bytes hold it where a view says so; UINT32_MAX */
	size_t *at;          /* blp tensor -> its first byte in there */
	uint32_t first_view; /* number of the first spec that is a view */
};
/* Costs are 1 until they are set.  Constants (ROLE_CONST, ROLE_WEIGHT) and inputs are given. */
void program_make(struct arena *a, const struct graph *g, const struct cand_set *c, struct program *out);
/* Gives candidates that planning buffers makes needless specs of their own, the last ones of the set, and the
 * program the places of what they read and make.  Before any array by spec is made. */
void views_find(struct arena *a, const struct graph *g, struct cand_set *c, struct program *p);
/* spec_cost: one per spec, in ns; BLP_NEVER for a spec that cannot be used.  Below 1 counts as 1; a view
 * costs that, whatever is said of it. */
void program_set_costs(struct program *p, const int64_t *spec_cost);

/* What is known of a spec that was chosen. */
struct plan_code {
	bool is_ready;               /* the rest is filled */
	struct str schedule, symbol; /* symbol: of its functions in the module */
	struct descriptor desc;      /* of its machine code: descriptor_check has passed for the spec */
	struct str text;             /* its part of the source; for dumps */
};
struct plan_parts {
	const struct graph *graph;
	const struct cand_set *cands;
	const struct program *program; /* with the costs of `choice` */
	const struct blp_result *choice;
	const struct plan_code
	    *codes;              /* per spec; those of chosen candidates that are no views must be ready */
	const int64_t *bound_ns; /* per spec: the lower bound from hardware facts */
	const bool *is_measured; /* per spec: the cost is a measurement */
	const char *const *origin_names; /* ONNX node names by node.origin; entries may be NULL */
	uint32_t n_origins;
	struct bytes module; /* the shared object that holds all symbols */
	struct str source;
};
/* The caller fills the words of *plan beforehand (run_compat, environment, model_name,
 * model_digest, version, n_threads, n_operators, tolerance, fusion, limits, measured_ns = 0);
 * all the rest is set here: counts, kernels, places, steps, copies, inputs, outputs, constants,
 * work_bytes, candidates, rows, certificate, latency_ns, bound_ns, proved.
 * The plan points into graph, cands and parts and into `a`. */
bool plan_make(struct arena *a, const struct plan_parts *in, struct plan *plan, struct err *e) MUST_CHECK;

/* ---- the steps of plan_make, each testable alone ------------------------------------------ */
/* Reorders chosen kernels so that little memory is live at a time; keeps them executable.
 * tensor_bytes: per blp tensor; given and wanted ones do not count. */
void order_make(
    struct arena *a, const struct blp *p, const size_t *tensor_bytes, uint32_t *chosen, uint32_t n_chosen);

/* One block of work memory, live from step `first` to step `last`, both included. */
struct mem_block {
	uint32_t first, last;
	size_t n_bytes;
	size_t offset;   /* out; a multiple of PLAN_ALIGN */
	uint64_t *users; /* bits of steps; asked for with a mem_order alone */
};
/* Steps that need not run one behind the other: of each step, a row of bits, those that are over before it
 * begins. */
struct mem_order {
	const uint64_t *before;
	size_t words; /* of a row */
};
/* Offsets such that no two blocks overlap while both are live; returns the bytes needed.  order: NULL: the
 * steps run as they are numbered. */
size_t mem_place(struct arena *tmp, struct mem_block *blocks, uint32_t n, const struct mem_order *order);

#endif
