/* kernels/predict/sample.h: a kernel as numbers.  Made from a spec, a schedule, a target and what calibration
 * found on the device, by sample_make(); nothing of a name, of an order of nodes, or of a measurement is in
 * it.
 *
 *   spec[]    of the spec on the device (kernel.def: SPEC, DEVICE);
 *   way[]     of the schedule and its program (kernel.def: WAY);
 *   leaf[]    of each store with its loop nest, in pre-order (leaf.def): for models that read a sequence, the
 *             place in the array is the position;
 *   sample_flat()  all of it at a fixed length: for trees, lines, neighbours and clusters.
 *
 * What is learned is ln(time / work_ns): physics first.  All numbers are finite. */
#ifndef KORCH_PREDICT_SAMPLE_H
#define KORCH_PREDICT_SAMPLE_H

#include "../cost/cost.h"
#include "../target/target.h"

enum leaf_feature {
#define WORK(N, ...) LEAF_##N,
#define FORM(N, ...)
#include "leaf.def"
	LEAF_WORKS,
	LEAF_BEFORE_FORMS = LEAF_WORKS - 1,
#define WORK(N, ...)
#define FORM(N, ...) LEAF_##N,
#include "leaf.def"
	LEAF_FEATURES
};
enum spec_feature {
#define SPEC(N, ...) SPEC_##N,
#define DEVICE(N, ...) SPEC_device_##N,
#include "kernel.def"
	SPEC_FEATURES
};
enum way_feature {
#define WAY(N, ...) WAY_##N,
#include "kernel.def"
	WAY_FEATURES
};
enum {
	LEAF_FORMS = LEAF_FEATURES - LEAF_WORKS,
	/* works added up, forms of the heaviest leaf, greatest forms, share of the heaviest leaf's moves */
	SAMPLE_FLAT = SPEC_FEATURES + WAY_FEATURES + LEAF_WORKS + 2 * LEAF_FORMS + 1,
};
struct sample_leaf {
	float x[LEAF_FEATURES];
};
struct sample {
	double work_ns; /* cost_work_ns(): at least 1 */
	float spec[SPEC_FEATURES];
	float way[WAY_FEATURES];
	struct sample_leaf *leaf;
	uint32_t n_leaves; /* 0: a library's call that could not be generated */
};

/* The spec's part alone: nothing is lowered.  heat: where operands and results lie
 * (kernels/base/heat.h); parts: of what cost_work_ns() says with that. */
void sample_of_spec(const struct spec *s, const struct target *t, const struct hw *hw, struct str heat,
    const struct cost_parts *parts, int64_t bound_ns, float out[SPEC_FEATURES]);
/* ERR_INFEASIBLE where the schedule makes no program of the spec; ERR_FORMAT where it is no schedule. */
bool sample_make(struct arena *a, const struct spec *s, struct str schedule, const struct target *t,
    const struct hw *hw, struct str heat, struct sample *out, struct err *e) MUST_CHECK;
/* Before any schedule, for a kernel whose schedules are not yet listed: of a nest for each primitive. */
void sample_plain(struct arena *a, const struct spec *s, const struct target *t, const struct hw *hw,
    struct str heat, struct sample *out);
void sample_flat(const struct sample *s, float out[SAMPLE_FLAT]);
/* The name of a place in that vector, for tables: "spec.bound", "heaviest.stride". */
void sample_flat_name(uint32_t i, struct strbuf *sb);

#endif
