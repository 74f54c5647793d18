/* daemon/planner/spec_cost.h: what a job knows of a kernel. */
#ifndef KORCH_PLANNER_SPEC_COST_H
#define KORCH_PLANNER_SPEC_COST_H

#include "../../kernels/cost/predict.h"
#include "../../kernels/predict/kin.h"
#include "../orchestrate/lazy.h"

struct order;
struct m_tried;

/* What is known of one spec (D15).  measured_ns: 0 until there is a time of any effort. */
struct spec_cost {
	struct str heat; /* of operands and results where the plan runs it (daemon/identify/heat.c) */
	int64_t bound_ns, measured_ns, spread_ns;
	int64_t work_ns; /* cost_work_ns(): what is expected is learned beside it */
	double error_ns; /* of measured_ns as a median */
	double features[PREDICT_FEATURES];
	double before;     /* ln(time / work) that was expected before this job measured anything */
	double less, more; /* 90 % of such kernels lie between these, ln(time / expected); equal: not known */
	const uint16_t *leaves; /* where the predictor's trees end with it; NULL: they have no word of it */
	uint32_t group;         /* of their intervals */
	struct kin kin;         /* measured ones among its kin */
	struct kin kin_before;  /* of those, what this job did not measure: siblings.c */
	struct str sibling; /* the best schedule of the nearest kernel with other extents; .p is NULL: none */
	const struct m_tried *tried; /* its schedules that were measured */
	uint32_t n_tried;
	double sigma; /* of what is expected then, as its logarithm; 0: the job's */
	double told;  /* what it is off by itself, as its kin know it */
	bool is_told;
	int64_t first_ns; /* what the schedule was picked by; measured_ns is of its repeats, if any */
	uint64_t repeats; /* sessions in which it was timed again */
	uint64_t samples, effort;
	int64_t compile_ns;     /* of that schedule, among others; 0: not known */
	struct str schedule;    /* of the measured time */
	struct bytes perturbed; /* where that has moves of instructions: what is known of them, packed */
	enum err_code fail;     /* ERR_NONE, or why no kernel of it works */
	struct str cause;
	enum lazy_state state;
	bool was_cached;
	bool is_foreseen;          /* the trained predictor has a word of it */
	bool is_partly;            /* measured, but not by all schedules of the job's effort */
	uint32_t n_wanted;         /* schedules of `order` that were asked for */
	const struct order *order; /* order.c; NULL: not made yet */
};

#endif
