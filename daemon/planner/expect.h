/* daemon/planner/expect.h: what unmeasured kernels are expected to take: by the predictor that comes with
 * Korch, where it has seen such a device and such kernels, put right by what this job has measured. */
#ifndef KORCH_PLANNER_EXPECT_H
#define KORCH_PLANNER_EXPECT_H

#include "tune.h"

/* Makes the predictor ready: the one that the job names, or that was trained for the class, or that came with
 * Korch. Of the last two one that cannot be used is said in the log's words and done without; of the first it
 * is an error. */
bool expect_open(struct tune *t, struct err *e) MUST_CHECK;
/* Room for what `n` specs are kin by; NULL without a predictor. */
uint16_t *expect_leaves(const struct tune *t, uint32_t n);
/* Fills what is known of a spec before it is measured; parts: of ->work_ns; leaves: room for all specs.
 * Touches nothing of another spec. */
void expect_spec(struct tune *t, uint32_t spec, const struct cost_parts *parts, uint16_t *leaves);
/* Kernels that are none of the job's: for n of them there is room; this one is like the job's `seat` but for
 * extents, and took so long; of those of its structure it is the nearest of that spec, so far apart
 * (siblings.c); there are no more. */
struct told {
	double x[PREDICT_FEATURES];
	double ratio, off; /* ln(measured / work); less what was expected */
	const uint16_t *leaves;
	uint32_t seat;
};
void expect_room(struct tune *t, uint32_t n);
const struct told *expect_sibling(
    struct tune *t, const struct spec *s, struct str heat, int64_t measured_ns, uint32_t seat);
void expect_near(struct tune *t, uint32_t spec, const struct told *x, double apart);
void expect_begin(struct tune *t);
/* From what is measured by now. */
void expect_learn(struct tune *t);
/* The same as if nothing had been learned before: what came when leaves no rounding behind. */
void expect_anew(struct tune *t);
/* `lean` standard deviations to the hopeful side; at least its bound. */
int64_t expect_ns(const struct tune *t, const struct spec_cost *c, double lean);
/* What a spec is expected to take, and between what and what with 90 %; of a measured one that time, and its
 * error. */
struct expect_range {
	double ns, low_ns, high_ns;
};
struct expect_range expect_range(const struct tune *t, const struct spec_cost *c);

#endif
