/* kernels/run/exec.h: plans that run: checked, opened on a device, and on the device that they ask for. */
#ifndef KORCH_EXEC_H
#define KORCH_EXEC_H

#include "../device/dev.h"
#include "../device/streams.h"
#include "plan.h"

/* ---- plans that run ------------------------------------------------------------------ */
/* Every index, offset and size of a plan is in range and kernels, steps and places agree.
 * ERR_FORMAT naming what is wrong.  plan_exec_open relies on it; plan_load has called it. */
bool plan_check(const struct plan *p, struct err *e) MUST_CHECK;

/* A plan ready to run: code loaded, work memory and constants in place.  Borrows the device
 * and the plan.  Runs of one plan_exec take turns; different ones may run at once. */
struct plan_exec;
bool plan_exec_open(
    const struct dev *d, const struct plan *p, struct plan_exec **out, struct err *e) MUST_CHECK;
/* The same by the plan's only user: constants that only libraries read, in forms of their own, are given back
 * to the system, and what the plan says of them is gone. */
bool plan_exec_take(
    const struct dev *d, const struct plan *p, struct plan_exec **out, struct err *e) MUST_CHECK;
/* What libraries keep of the constants, and how much of them is not read any more then, in whole pages; zeros
 * where no kernel is a CPU's library's.  ERR_HOST: such a library is not here. */
struct plan_memory {
	size_t packed_bytes, unread_bytes;
};
bool plan_memory(const struct plan *p, struct plan_memory *out, struct err *e) MUST_CHECK;
void plan_exec_close(struct plan_exec *x);
/* inputs[i], outputs[i]: dense row-major, of the plan's types and shapes, aligned for their
 * type, in the device's memory; an output overlaps nothing.  step_ns (may be NULL) receives each step's time:
 * on a CPU's one thread, if it took a millisecond the last time, the thread's own.  Inputs are only read.
 * Where the plan has a tolerance, numbers too small to be normal are zeros while it runs on a CPU. */
void plan_exec_run(struct plan_exec *x, const void *const *inputs, void *const *outputs, int64_t *step_ns);
/* The same run as the launches that it consists of, for a device that captures them; copies of
 * inputs to outputs are not among them.  Valid until the next run. */
const struct dev_launch *plan_exec_launches(
    struct plan_exec *x, const void *const *inputs, void *const *outputs, uint32_t *n);
/* Those copies, n_copies of the plan. */
void plan_exec_copies(
    const struct plan_exec *x, const void *const *inputs, void *const *outputs, struct dev_copy *list);

/* ---- a plan on the device that it asks for ------------------------------------------------- */
enum { RUNNER_MAX_THREADS = POOL_MAX_THREADS, RUNNER_MAX_GPUS = 1024 }; /* that may be asked for */
struct gpu;
struct runner_opts {
	uint32_t n_threads; /* of a CPU; 0: as many as cores that this process may use */
	bool pin;
	bool takes;            /* the runner is the plan's only user (plan_exec_take) */
	uint32_t n_streams;    /* of a GPU, at most; 0: STREAMS_DEFAULT */
	const struct gpu *gpu; /* NULL: the libraries of this host */
	uint32_t gpu_number;   /* 1 + the GPU's, as the driver counts; 0: the first that fits */
};
/* How a plan runs on a GPU's streams.  Found after solving: no part of the plan's bound (D20). */
struct plan_streams {
	uint32_t n_asked, n_used; /* n_used: 1 where that was no slower */
	uint32_t n_side, n_waits; /* what the steps could use of n_asked; events between streams */
	int64_t one_ns,
	    side_ns; /* medians of runs that took turns when it was opened; 0: nothing to compare */
};
struct runner;
bool plan_wants_gpu(const struct plan *p);
/* A GPU's plan (run compatibility "cuda ...") opens the driver and takes the first GPU that fits.
 * ERR_HOST: no driver, or the plan has no code; ERR_USAGE: no GPU of that number; ERR_DEVICE: none fits. */
bool runner_open(
    const struct plan *p, const struct runner_opts *o, struct runner **out, struct err *e) MUST_CHECK;
/* The host's pointers; for a plan on a GPU also that GPU's (gpu_plan_run).  run_ns: by the device's clock;
 * step_ns (may be NULL): of each step, on a GPU from a run of its own. */
bool runner_run(struct runner *r, const void *const *inputs, void *const *outputs, int64_t *run_ns,
    int64_t *step_ns, struct err *e) MUST_CHECK;
const struct dev *runner_dev(const struct runner *r);
/* NULL: not on a GPU. */
const struct plan_streams *runner_streams(const struct runner *r);
void runner_close(struct runner *r); /* NULL is allowed */

/* ---- which steps may run side by side (kernels/device/streams.h) ---------------------------- */
/* What the steps touch of work memory and outputs; what is only read in any plan (inputs, constants) is left
 * out. */
void streams_uses(struct arena *a, const struct plan *p, struct step_uses *out);
/* Uses, dependencies and the assignment, of a plan that was checked. */
void streams_of_plan(struct arena *a, const struct plan *p, uint32_t n_streams, struct streams *out);

#endif
