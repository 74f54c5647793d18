/* client/run_report.h: what korch-run says at the end. */
#ifndef KORCH_RUN_REPORT_H
#define KORCH_RUN_REPORT_H

#include "../kernels/base/opt.h"
#include "../kernels/run/exec.h"
#include "run_model.h"

struct run_times {
	int64_t *total_ns; /* n runs */
	int64_t *cpu_ns;   /* the same, by the process's CPU clock */
	int64_t **step_ns; /* per run, per step; NULL without --profile */
	uint32_t n;
	const struct plan_streams *streams; /* NULL: not on a GPU */
};
struct run_check {
	uint32_t n_sets, n_outputs;
	double max_rel; /* largest error over largest magnitude, of all outputs */
};
/* check may be NULL: nothing was checked; and model: a plan was given. */
void run_report(struct arena *a, const struct opts *o, const struct plan *p, const struct run_times *t,
    const struct run_check *check, const struct run_model *model);
/* On which streams the plan ran, and what it took on one and on several; as words, or as a member of an
 * object. */
void run_report_streams(struct strbuf *sb, const struct plan_streams *s, bool json);
/* A string as JSON, in quotes. */
void json_string(struct strbuf *sb, struct str s);

#endif
