/* kernels/run/gpu_plan.h: a whole plan on a GPU, captured as one graph. */
#ifndef KORCH_GPU_PLAN_H
#define KORCH_GPU_PLAN_H

#include "../device/gpu.h"
#include "exec.h"

/* All that can fail or allocate is done by opening; the plan has run once then, on zeros. */
/* n_streams: at most so many (0: STREAMS_DEFAULT).  Where the steps can use more than one, the plan is
 * captured both ways and both are timed; the faster one runs. */
struct gpu_plan;
bool gpu_plan_open(const struct dev *d, const struct plan *p, uint32_t n_streams, struct gpu_plan **out,
    struct err *e) MUST_CHECK;
const struct plan_streams *gpu_plan_streams(const struct gpu_plan *p);
/* Pointers as plan_exec_run takes them, each the host's or this GPU's (a multiple of 16 then; what other
 * streams write there is finished), else ERR_USAGE.  Back when all is done.  ns: by the GPU's clock, without
 * the copies from and to the host. */
bool gpu_plan_run(
    struct gpu_plan *p, const void *const *in, void *const *out, int64_t *ns, struct err *e) MUST_CHECK;
/* The steps again on what the last run was given. */
bool gpu_plan_time(struct gpu_plan *p, int64_t *ns, struct err *e) MUST_CHECK;
/* Step by step, on the host's last inputs: slower than the graph. */
bool gpu_plan_profile(struct gpu_plan *p, int64_t *step_ns, struct err *e) MUST_CHECK;
void gpu_plan_close(struct gpu_plan *p); /* NULL is allowed */

#endif
