/* kernels/run/plan.h: a plan in memory: what runs, on which bytes, in which order, and the
 * evidence that it is the right choice.  The file form is schema/plan_file.c. */
#ifndef KORCH_PLAN_H
#define KORCH_PLAN_H

#include "../device/dev.h"
#include "../ir/ir.h"

enum { PLAN_ALIGN = DEV_ALIGN, PLAN_MAX_PASSES = DEV_MAX_PASSES };

struct plan_kernel {                       /* one distinct (spec, schedule) */
	struct str spec, schedule, symbol; /* text forms; symbol in the module */
	uint32_t n_operands, n_results, n_passes;
	int64_t range[PLAN_MAX_PASSES];
	size_t shared_bytes, local_bytes;
	int64_t cost_ns; /* recorded, or the bound when is_measured is false */
	int64_t bound_ns;
	int64_t spread_ns; /* p90 - p10 of the measurement */
	double error_ns;   /* standard error of cost_ns, which is a median; plans before format 5: 0 */
	bool is_measured;
	int64_t flops, bytes;
	struct overlap *overlaps; /* results that may be an operand's very bytes; all others are apart */
	uint32_t n_overlaps;
};
/* The schedule of a kernel that does nothing, as its places lie so that its spec holds (certify.c). */
#define PLAN_VIEW "view"
enum { PLAN_VIEW_NS = 1 }; /* what one counts as: the least that a candidate costs (D2); nothing was timed */
static inline bool
plan_kernel_is_view(const struct plan_kernel *k)
{
	return str_is(k->schedule, PLAN_VIEW);
}
enum place_kind { PLACE_WORK, PLACE_CONST, PLACE_INPUT, PLACE_OUTPUT };
struct place { /* where a tensor lives */
	enum place_kind kind;
	uint32_t index; /* input or output number */
	size_t offset;  /* into work memory or the constants */
	size_t n_bytes;
	enum dtype type;
	struct shape shape;
	uint32_t tensor; /* number in the plan's graph */
};
struct plan_step { /* runs kernel; places: operands then results */
	uint32_t kernel;
	uint32_t *places;
	uint32_t n_places;
	uint32_t candidate; /* number in candidates */
	struct str nodes;   /* names of the ONNX nodes covered, comma separated */
};
struct plan_copy {         /* output that is an input or a constant */
	uint32_t from, to; /* places */
};
struct plan_io {
	struct str name;
	enum dtype type;
	struct shape shape;
};
struct plan_candidate {          /* D18 */
	uint32_t *reads, *makes; /* tensors of the plan's graph */
	uint32_t n_reads, n_makes;
	int64_t cost_ns;
	bool is_measured, is_chosen;
	double reduced_cost;
};
struct plan_row { /* a landmark: at least one of these candidates is chosen */
	uint32_t *candidates;
	uint32_t n_candidates;
	double dual;
};
/* ---- what explain knows beyond the candidates (daemon/plan/account.c) ---- */
enum { PLAN_MAX_ACCOUNT = 16384, PLAN_MAX_WORDS = 512 };
#define PLAN_NONE UINT32_MAX /* no such item */
struct plan_rival {          /* a kernel that was not chosen, where an exchange or a reason names it */
	struct hash spec;
	struct str nodes, cause; /* ONNX nodes; failed: why; PLAN_MAX_WORDS bytes each */
	uint32_t candidate;      /* PLAN_NONE: it failed, and is none */
	bool is_measured;
	int64_t cost_ns, spread_ns;    /* measured */
	double error_ns;               /* as a kernel's */
	int64_t bound_ns, expected_ns; /* what it takes at least; what was expected of it */
};
static inline bool
plan_rival_is_view(const struct plan_rival *r)
{
	return r->is_measured && r->cost_ns == PLAN_VIEW_NS && r->bound_ns == PLAN_VIEW_NS;
}
/* The cheapest plan found of measured kernels under a condition: these rivals in place of these steps.
 * Steps without rivals: there is none; nothing at all: it was not looked for. */
struct plan_exchange {
	uint32_t *steps, *rivals;
	uint32_t n_steps, n_rivals;
};
struct plan_apart { /* two neighbours, nodes or steps, that do not share a kernel */
	bool of_steps;
	uint32_t a, b;               /* a's results are read by b */
	uint32_t measured, exchange; /* rival that holds both, and the cheapest plan with it; PLAN_NONE */
	uint32_t open, failed;       /* rivals: never measured; no kernel of it works; PLAN_NONE */
	struct str rule;             /* no candidate holds both: "rule: why" */
};
enum plan_fate { FATE_KERNEL, FATE_VIEW, FATE_FOLDED, FATE_REWRITTEN, FATE_COUNT };
struct plan_node { /* of the ONNX model */
	struct str name, op;
	enum plan_fate fate;
	uint32_t *reads, *steps; /* nodes whose results it reads; where it is computed */
	uint32_t n_reads, n_steps;
};
struct plan_perturbed { /* a kernel whose schedule has moves of its machine instructions */
	uint32_t kernel;
	double ratio, low, high;      /* its time over that without them: pairs, and a 95 % interval */
	double expected;              /* the same by the static model; 0: not known */
	int64_t pairs, compared;      /* that were timed; elements of results, equal bit for bit */
	int64_t tried, failed, moves; /* orders that ran on the device; of them, wrong ones */
};
struct plan_heat { /* a kernel that was timed with operands or results in a cache */
	uint32_t kernel;
	struct str word; /* kernels/base/heat.h */
};
struct plan_expected { /* a kernel that was never measured, of a plan that was predicted */
	uint32_t kernel;
	int64_t ns, low_ns, high_ns; /* expected; between these with 90 % */
};
/* What the best plan over all candidates takes at least, by what is predicted of those that were not
 * measured. A confidence beside the proof, and none where there is a proof. */
struct plan_sure {
	double confidence;             /* share of jobs in which that holds: 0.95 */
	int64_t least_ns;              /* above bound_ns, at most latency_ns */
	uint32_t n_predicted, n_bound; /* different kernels never measured: at the low end of what is
	                                  predicted; at their bounds, as nothing is */
};
struct plan_sure_cost { /* a candidate that stands at another cost there: unmeasured, higher; measured, less
	                   its error */
	uint32_t candidate;
	int64_t cost_ns;
};
struct plan {
	struct str run_compat;  /* "x86_64 avx2 fma elf-1": refused elsewhere */
	struct str environment; /* where it was measured: warned about */
	struct str model_name, model_digest, version;
	struct str values; /* inputs of the model that are constants of this plan: "sr=16000, mode=1" */
	uint32_t n_threads;
	uint64_t n_operators, n_primitives, n_candidates_total, n_distinct;
	int64_t latency_ns, bound_ns, measured_ns;
	double
	    clock_ratio; /* times it, measured_ns is of calibration's clock, as latency_ns is; 0: not known */
	int64_t runner_ns,
	    runner_measured_ns; /* of the plan that came second by its whole time; 0: none was timed */
	struct str runner;      /* how that one was made */
	int64_t expected_ns;    /* what it was expected to take as a whole; 0: not in older plans */
	int64_t expected_low_ns, expected_high_ns; /* between which nine of ten plans lie */
	uint64_t expected_of;      /* timed plans that this was learned from; 0: it is what its kernels are
	                              expected to take */
	struct str winner;         /* how this one was made, where its sum is not the least */
	int64_t least_measured_ns; /* then: the whole time of the plan of least sum */
	double tolerance;
	bool proved;
	struct str fusion; /* full, operator, none */
	struct str graph;  /* text form of the primitive graph with alternatives */
	struct str limits; /* what "proved" is relative to */
	struct plan_kernel *kernels;
	uint32_t n_kernels;
	struct place *places;
	uint32_t n_places;
	struct plan_step *steps;
	uint32_t n_steps;
	struct plan_copy *copies;
	uint32_t n_copies;
	struct plan_io *inputs, *outputs;
	uint32_t n_inputs, n_outputs;
	struct bytes module;    /* machine code, a shared object */
	struct str source;      /* the C text of the module */
	struct bytes constants; /* packed weights, PLAN_ALIGNed places */
	size_t work_bytes;
	struct plan_candidate *candidates;
	uint32_t n_candidates;
	struct plan_row *rows;
	uint32_t n_rows;
	struct str certificate;  /* words: "bound checked by duals" ... */
	struct str stop;         /* why the search ended */
	struct str what_if;      /* conditions on the plan: "without 1a2b3c4d5e6f"; mostly "" */
	int64_t what_if_base_ns; /* latency_ns of the plan without them */
	struct plan_rival *rivals;
	/* first one per step: what is cheapest without the step's candidate */
	struct plan_exchange *exchanges;
	struct plan_apart *aparts;
	struct plan_perturbed *perturbed; /* in no order */
	uint32_t n_perturbed;
	struct plan_heat *heats; /* by kernel; the others were timed all cold */
	uint32_t n_heats;
	struct plan_expected *expected; /* by kernel */
	uint32_t n_expected;
	struct plan_sure *sures;           /* one or none */
	struct plan_sure_cost *sure_costs; /* by candidate */
	struct plan_row *sure_rows;        /* landmarks with the duals of those costs */
	uint32_t n_sures, n_sure_costs, n_sure_rows;
	struct plan_node *nodes;
	uint32_t n_rivals, n_exchanges, n_aparts, n_nodes;
};

/* Made where nothing could be compiled for its device: no runner opens it. */
static inline bool
plan_lacks_code(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_kernels && p->module.n == 0; i++)
		if (!plan_kernel_is_view(&p->kernels[i]))
			return true;
	return false;
}

/* Where a kernel's operands and results lay when it was timed (kernels/base/heat.h); "": all cold. */
struct str plan_heat(const struct plan *p, uint32_t kernel);

#endif
