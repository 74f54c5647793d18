/* daemon/train/sure.h: how far down kernels that were not measured must stand, so that the least sum of a
 * whole program is too low in 95 jobs of 100.  A kernel's own low quantile does not say that: the kernels of
 * a model are off together, and the best of many plans is the luckiest.  So jobs are simulated: programs are
 * made up, their kernels are rows of a model that was left out, what was predicted of them and what they
 * took; they are searched as the planner searches; how far down would have been far enough? Pure; equal rows,
 * equal answer. */
#ifndef KORCH_TRAIN_SURE_H
#define KORCH_TRAIN_SURE_H

#include "../../kernels/cost/predict.h"
#include "../../kernels/predict/predict.h"
#include "../orchestrate/blp.h"

/* One kernel as a job knows it before it is measured, and what it takes. */
struct sure_spec {
	double bound_ns;
	double before, truth; /* ln(time / bound): as predicted, as it is */
	double line[PREDICT_FEATURES];
	uint32_t group; /* for interval_low() */
	bool is_far;    /* nothing is predicted of it */
	bool is_linear;
};
struct sure_job {
	struct blp blp; /* costs are not used */
	struct blp_kernel *kernels;
	uint32_t *spec_of, n_specs;
	struct sure_spec *spec;
	uint32_t *single, n_single; /* kernels that make a plan of one an operator */
	double noise;      /* of a measurement: ln(measured / time) has that deviation, and says so */
	uint32_t patience; /* specs measured before the budget ends; UINT32_MAX: it does not */
};
/* A program of a few blocks, some of them repeated, whose kernels are those: rows of one model.  n > 0. */
void sure_job_make(
    struct arena *a, struct rng *r, const struct sure_spec *rows, uint32_t n, struct sure_job *out);

struct sure_end {
	double plan_ns;    /* the plan's cost as recorded */
	double allowed_ns; /* what the bound may be at most for the claim to hold of true times */
	uint32_t n_measured;
	const struct sure_job *job;
	double *expected_ns, *measured_ns; /* of each spec; measured: 0: it was not */
};
/* Searches the job as a planner does.  False: no plan (none of this program's). */
bool sure_job_run(struct arena *a, struct rng *r, const struct sure_job *job, struct sure_end *out,
    struct err *e) MUST_CHECK;
/* The bound that is claimed with that factor. */
bool sure_bound(const struct sure_end *x, const struct interval *v, double factor, double *bound_ns,
    struct err *e) MUST_CHECK;
/* The same for a claim's words: does it hold, and how far from the best does it say that the plan may be? */
struct sure_claim {
	bool holds;
	double within; /* 0.03: 3 % */
};
bool sure_claim(const struct sure_end *x, const struct interval *v, double factor, struct sure_claim *out,
    struct err *e) MUST_CHECK;
/* The least factor whose bound is allowed; at most 4. */
bool sure_needed(
    const struct sure_end *x, const struct interval *v, double *factor, struct err *e) MUST_CHECK;

/* Rows of models, each predicted by what learned from the others'. */
struct sure_model {
	struct sure_spec *rows;
	uint32_t n;
};
/* A factor for predict_sure_level of the jobs of another model; 0: rows of too few models to say. */
bool sure_fit(const struct sure_model *models, uint32_t n, const struct interval *v, float *out,
    struct err *e) MUST_CHECK;

#endif
