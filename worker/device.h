/* worker/device.h: what a worker can do with its device, behind one table of functions.  All of
 * them block; they are called on the work thread alone. */
#ifndef KORCH_WORKER_DEVICE_H
#define KORCH_WORKER_DEVICE_H

#include "../kernels/base/hostlock.h"
#include "../kernels/cost/cost.h"
#include "../kernels/generate/generate.h"
#include "../proto/msg.h"

#include <stdatomic.h>

struct device_conf {
	bool is_fake;         /* cuda-fake */
	struct str args;      /* behind "class:" */
	const char *compiler; /* "" or a path */
	const char *data;     /* where calibrations are kept; "" or NULL: the XDG cache folder */
	size_t memory_bytes;  /* of a CPU's measuring child; 0: as usual */
	bool is_quick;        /* a CPU that was not measured before is looked at for a moment only */
	bool quiet;
	const atomic_bool *cancel;
	struct lock_conf lock; /* of what is timed */
};
/* A module that is built: one shared object. */
struct built {
	struct bytes object;
	struct str log;
	struct bytes took;        /* of each kernel the schedule that it was made by, as `outcome` has it */
	struct bytes description; /* the packed record `artefact` (schema/artefact.h) */
};
struct device {
	void *self;
	const char *class;
	bool is_quick;               /* what it knows of its host is of a quick look */
	uint32_t batch;              /* tasks that it likes to have at a time */
	struct m_env env;            /* lives as long as the device */
	const struct dev_info *info; /* a GPU's, with what its calibration saw; NULL: of another device */
	double tensor_flops;         /* of a GPU's tensor cores at float16, likewise; 0: not seen */
	struct target target;
	/* Fills one outcome per task: rows, or fail and cause.  Machine faults only as `fail`. */
	void (*measure)(
	    void *self, struct arena *a, const struct m_task *tasks, uint32_t n, struct m_outcome *out);
	/* The same for tasks that each name one schedule, checked of before: all of them in turn, so that
	 * they meet the same moments.  NULL: measure() is as good as it gets here. */
	void (*race)(void *self, struct arena *a, const struct m_task *tasks, uint32_t n, int64_t budget_ns,
	    struct m_outcome *out);
	/* Better orders of the machine instructions of the task's spec with its schedule: fills ->perturbed,
	 * and rows of the kernel as it was and of what was tried.  NULL: there are no machine instructions
	 * here. */
	bool (*perturb)(void *self, struct arena *a, const struct m_task *task,
	    const struct m_perturb_ask *ask, struct m_outcome *out, struct err *e);
	bool (*build)(
	    void *self, struct arena *a, const struct m_build_ask *ask, struct built *out, struct err *e);
	/* budget_ns: about; 0: as long as it takes to tell them apart */
	bool (*time_plans)(void *self, struct arena *a, const char *const *paths, uint32_t n,
	    uint32_t threads, int64_t budget_ns, struct m_timing *out, struct err *e);
	/* A known kernel with a known time: is the machine in order? */
	bool (*canary)(void *self, struct err *e);
	void (*close)(void *self);
};
/* "cpu", "fake:seed=1,crash=1000", "cuda:0", "cuda-fake:gpu=v100".  ERR_HOST where this host is not set up
 * for it. */
bool device_open(
    struct arena *a, struct str name, struct device_conf *conf, struct device *out, struct err *e) MUST_CHECK;
bool device_fake_open(
    struct arena *a, const struct device_conf *conf, struct device *out, struct err *e) MUST_CHECK;
bool device_cuda_open(
    struct arena *a, const struct device_conf *conf, struct device *out, struct err *e) MUST_CHECK;
bool device_cpu_open(
    struct arena *a, const struct device_conf *conf, struct device *out, struct err *e) MUST_CHECK;

/* What was calibrated, as korchd is told: sizes of caches and vectors are the target's. */
struct m_hw device_hw_told(const struct hw *h, const struct target *t, int64_t n_cores);

/* One name a device: "cuda:all" and "cuda:0,cuda:1" become several, all others stay one. */
bool device_names(struct arena *a, struct str name, struct str **out, uint32_t *n, struct err *e) MUST_CHECK;

/* Schedules to try for a task: the one it names, or the space's best guesses without those that are known. */
void task_schedules(struct arena *a, const struct m_task *t, const struct spec *s,
    const struct target *target, struct str **out, uint32_t *n);
/* The target a task asks for by the words its measurements are kept under: "f32", "f32-strict", "tf32:0.001".
 * *tolerance: what its kernels may be off by, 0: as usual.  ERR_INFEASIBLE: not on this device. */
bool task_target(const struct device *d, struct str precision, struct target *out, double *tolerance,
    struct err *e) MUST_CHECK;

#endif
