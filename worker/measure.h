/* worker/measure.h: the measuring child seen from its parent.  korch-measure is a program of its
 * own, exec'd once and kept: it loads generated code, checks it and times it.  What crashes,
 * hangs or lies there costs one kernel: the parent sees the end of the stream, knows which
 * kernel was at work, starts another child and goes on with the rest.
 *
 * All functions block (call them from a pool thread); a child has one owner at a time. */
#ifndef KORCH_MEASURE_H
#define KORCH_MEASURE_H

#include "../kernels/base/heat.h"
#include "../kernels/cost/cost.h"
#include "../kernels/generate/generate.h"
#include "../kernels/run/exec.h"
#include "../proto/msg.h"

#include <stdatomic.h>
#include <sys/types.h>

#define MEASURE_MEMORY ((size_t)8 << 30)
enum { MEASURE_METHOD = 5 }; /* rises when numbers of before and after cannot be compared */

struct measure_opts {
	const char *program; /* NULL: korch-measure beside the running program */
	const char *device;  /* "cpu", "fake", "cuda:0", "nvrtc" (compiles for GPUs) */
	const char *fake;    /* fake_read()'s or gpu_fake_open()'s text; NULL: none */
	uint32_t n_threads;
	size_t memory_bytes;       /* address space beyond what it starts with; 0: MEASURE_MEMORY, or three
	                            * quarters of what the host has where that is less */
	int64_t kernel_ns;         /* longest silence while a kernel is at work; 0: 20 s */
	const atomic_bool *cancel; /* polled about ten times a second; may be NULL */
	/* Called around every stretch of a batch that times kernels on the CPU, not while they are made ready
	 * or checked; may be NULL.  False for a stretch that is to begin: the batch ends with that error. */
	bool (*hold)(void *self, bool take, struct err *e);
	void *hold_self;
};
struct measure_child;
/* Starts the child and shakes hands.  ERR_HOST where it cannot start. */
bool measure_open(const struct measure_opts *o, struct measure_child **out, struct err *e) MUST_CHECK;
/* Ends the child; NULL is allowed. */
void measure_close(struct measure_child *c);

/* Is the child there and its device in order, and may it serve again?  *n_starts: processes that it has been
 * so far: another number than before means that something broke meanwhile.  *n_bytes: it holds so many of the
 * host's memory. */
bool measure_is_well(struct measure_child *c, uint32_t *n_starts, uint64_t *n_bytes) MUST_CHECK;

/* Of the process that runs now; 0: none. */
pid_t measure_pid(const struct measure_child *c);

/* ---- calibration --------------------------------------------------------------------- */
/* Class references: short kernels of known kind, timed beside every measurement. */
enum measure_ref { REF_COMPUTE, REF_STREAM, REF_COUNT };
struct calibration {
	struct hw hw;              /* the largest seen, and the margin of D16 */
	struct dev_info info;      /* facts filled; environment: with compiler, flags, epoch, method */
	struct target target;      /* what the generator may assume here */
	int64_t ref_ns[REF_COUNT]; /* frozen with the environment */
};
/* Takes some seconds, or, quick, a part of one, for what measures nothing.  The first result for an
 * environment is kept by the caller and handed to later batches. */
bool measure_calibrate(
    struct measure_child *c, bool is_quick, struct calibration *out, struct err *e) MUST_CHECK;
/* The same of a GPU, by the reference kernels in `module`; proves it on the way. */
bool measure_calibrate_gpu(
    struct measure_child *c, struct bytes module, struct calibration *out, struct err *e) MUST_CHECK;
/* CUDA C -> a cubin, in a child of device "nvrtc": a compile that never ends costs that child. */
bool measure_compile(struct measure_child *c, struct arena *a, struct str text, int sm, bool strict,
    struct bytes *out, struct err *e) MUST_CHECK;
/* Versions of the GPU's libraries whose kernels may compete, by enum library; 0: not there.  In a child of
 * device "nvrtc": it opens them, and they are large. */
bool measure_libraries(struct measure_child *c, int64_t *versions, struct err *e) MUST_CHECK;
/* A library's kernel of a spec as a module's entry keeps it (kernels/vendor/vendor.h); a CPU's has no entry:
 * *out is empty.  ERR_INFEASIBLE, ERR_HOST: the library that the schedule names has none for it, or is not
 * here. */
bool measure_resolve(struct measure_child *c, struct arena *a, struct str spec, struct str schedule,
    struct bytes *out, struct err *e) MUST_CHECK;
/* The measuring environment's text as calibration writes it, without measuring anything:
 * device, compiler, flags, generator epoch and method.  ERR_HOST where there is no compiler. */
bool measure_environment(const struct target *t, struct dev_info *out, struct err *e) MUST_CHECK;

/* ---- kernels ------------------------------------------------------------------------- */
struct measure_kernel {
	struct str schedule, symbol;
	const struct kernel_code *code; /* its text is not used */
	int64_t bound_ns;               /* no run of it is shorter; 0: not known */
};
struct measure_item { /* one spec, checked once, its schedules raced against each other, the most promising
	                 first */
	const struct spec *spec;
	struct str heat; /* where operands and results lie (kernels/base/heat.h); "": all cold */
	const struct measure_kernel *kernels;
	uint32_t n_kernels;
	int64_t known_ns; /* best time known of before; schedules far above it stop early; 0: none */
	double tolerance; /* of this spec's kernels; 0: the batch's */
};
struct measure_batch {
	struct bytes module; /* holds all symbols */
	const struct measure_item *items;
	uint32_t n_items;
	const struct calibration *calibration; /* frozen references and bounds */
	int64_t budget_ns;                     /* timing of one item, about; 0: 1 s */
	double tolerance; /* largest error over largest magnitude, float32; 0: 1e-4 (D12) */
	bool check_only;  /* rows without times */
	bool alone;       /* references are made one by one; measure_batch_run sees to that */
	bool together;    /* checked of before: all items race side by side (not on a GPU) */
	bool in_pairs;    /* a GPU: each item's first kernel is the base of the others (gpu_pair.c) */
	uint64_t seed;
};
enum measure_stop {
	STOP_NONE,
	STOP_CONVERGED,
	STOP_BUDGET,
	STOP_RACE,
	STOP_THROTTLED,
	STOP_DISTURBED,
	STOP_COUNT
};
const char *measure_stop_name(enum measure_stop s); /* "converged" */
/* rows: one per kernel, items in order, in `a` with all they point to: of `row` what the child can know (no
 * schedule, no sizes), checked, and timed unless check_only.  Faults of kernels are rows; false only where no
 * child can be kept alive or the caller cancelled. */
bool measure_batch_run(struct measure_child *c, struct arena *a, const struct measure_batch *b,
    struct m_measured **rows, struct err *e) MUST_CHECK;
/* The row is that failure; what it points to is in `a`. */
void measure_fail(struct arena *a, struct m_row *row, enum err_code code, const char *why);

/* ---- whole plans --------------------------------------------------------------------- */
enum { MEASURE_MAX_PLANS = 16 };
/* Times plan files (paths) side by side, their runs interleaved in turn, on seeded inputs.  frozen: of the
 * CPU, for the clock of the race; NULL: nobody asks for it.  out: one each; what they point to is in `a`. */
bool measure_plans(struct measure_child *c, struct arena *a, const struct calibration *frozen,
    const char *const *paths, uint32_t n_paths, int64_t budget_ns, uint64_t seed, struct m_plan_timed *out,
    struct err *e) MUST_CHECK;

/* ---- checking alone (inside the child, and in tests) ----------------------------------- */
struct check_opts {
	double tolerance; /* as in measure_batch */
	uint64_t seed;
	uint64_t max_full; /* scalar operations up to which every element is compared; 0: default */
	double dense_ns;   /* what a reference in full is taken to cost; 0: by its operations */
};
struct check; /* a spec with its inputs and reference values, made once for all its kernels */
bool check_open(
    const struct spec *s, const struct check_opts *o, struct check **out, struct err *e) MUST_CHECK;
void check_close(struct check *c);
/* Runs a loaded kernel on all input sets.  ERR_WRONG names output, place, value wanted and got;
 * a write outside its buffers is ERR_WRONG too.  *error: largest error found. */
bool check_kernel(struct check *c, const struct dev *d, const struct dev_kernel *k,
    const struct kernel_code *code, double *error, struct err *e) MUST_CHECK;

#endif
