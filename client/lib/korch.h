/* korch.h: runs plans made by korch-submit.
 *
 *	korch_plan *plan;
 *	struct korch_error e;
 *
 *	if (korch_plan_open("model.korch", NULL, &plan, &e) != KORCH_OK)
 *		return complain(e.text);
 *	... korch_plan_input(plan, 0, &t, &e): t.n_bytes to be filled ...
 *	if (korch_plan_run(plan, inputs, n_inputs, outputs, n_outputs, &e) != KORCH_OK)
 *		return complain(e.text);
 *	korch_plan_close(plan);
 *
 * A plan holds machine code: opening one is running a program.  So a plan is
 * opened only where it is signed by a key that this user trusts (struct korch_options).
 *
 * Threads: every function may be called from any thread, also for the same plan.  Runs of one
 * open plan take turns; different ones (of the same file, too) run side by side, each with
 * threads and work memory of its own.  A plan must not be closed while somebody uses it.
 *
 * Errors: functions that can fail return KORCH_OK or another korch_status, and then fill *e where it
 * is given (NULL is allowed).  On failure nothing is changed but *e. */
#ifndef KORCH_H
#define KORCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KORCH_API __attribute__((visibility("default")))
#else
#define KORCH_API
#endif

enum { KORCH_MAX_RANK = 8 };

/* What went wrong.  Numbers are never reused. */
typedef enum korch_status {
	KORCH_OK = 0,
	KORCH_FAILED = 1,     /* anything else; the text says it */
	KORCH_USAGE = 2,      /* a wrong call: a buffer's size, a number out of range */
	KORCH_HOST = 9,       /* this host is not set up for it */
	KORCH_IO = 21,        /* the file cannot be read */
	KORCH_FORMAT = 23,    /* no plan, or a damaged one */
	KORCH_NEWER = 24,     /* made by a newer Korch */
	KORCH_DEVICE = 25,    /* made for another kind of device */
	KORCH_LIMIT = 26,     /* over a limit */
	KORCH_LAUNCH = 31,    /* its code does not load */
	KORCH_MEMORY = 34,    /* not so much memory */
	KORCH_UNTRUSTED = 44, /* signed by nobody whom this user trusts */
} korch_status;

struct korch_error {
	korch_status status;
	char text[512]; /* what is wrong where, and what to do; ends with a NUL */
};

/* Element types, by ONNX's numbers. */
typedef enum korch_type {
	KORCH_F32 = 1,
	KORCH_U8 = 2,
	KORCH_I8 = 3,
	KORCH_U16 = 4,
	KORCH_I16 = 5,
	KORCH_I32 = 6,
	KORCH_I64 = 7,
	KORCH_BOOL = 9, /* a byte, 0 or 1 */
	KORCH_F16 = 10,
	KORCH_F64 = 11,
	KORCH_U32 = 12,
	KORCH_U64 = 13,
	KORCH_BF16 = 16,
} korch_type;

/* An input or an output: dense, row-major. */
struct korch_tensor {
	const char *name; /* lives as long as the plan is open */
	korch_type type;
	int rank;
	int64_t dim[KORCH_MAX_RANK];
	size_t n_bytes;
};

/* Memory of the caller, aligned for its element type, of exactly the tensor's size.  Outputs overlap
 * neither inputs nor each other.  For a plan on a GPU each of them may lie in the host's memory or in that
 * GPU's, as its pointer says (unified addressing); in the GPU's it begins at a multiple of 16, and what was
 * queued to write it must have finished, since the plan runs on streams of its own. */
struct korch_input {
	const void *data;
	size_t n_bytes;
};
struct korch_output {
	void *data;
	size_t n_bytes;
};

/* Fields are added at the end, and 0 is always the default: set what you name, and all else to 0. */
struct korch_options {
	unsigned n_threads; /* of a CPU; 0: as many as cores that this process may use */
	int pin;            /* not 0: thread i stays on the i-th core that this process may use */
	unsigned n_streams; /* of a GPU, at most 8: the plan runs on so many where that is faster than on one;
	                       0: up to 4 */
	unsigned gpu; /* 1 + the GPU's number, as its driver counts from 0; 0: the first that fits the plan */
	/* A plan runs that is signed by this user's own korchd or by one whose key he was given or has met
	 * (korch-run
	 * --help).  trust: the file of one public key more, or "any": whoever signed, or nobody; NULL: none.
	 */
	const char *trust;
};

typedef struct korch_plan korch_plan;

/* Reads the file, loads its code, takes all memory that running needs.  o: NULL for defaults. */
KORCH_API korch_status korch_plan_open(
    const char *path, const struct korch_options *o, korch_plan **out, struct korch_error *e);
/* The same, told how large the caller's struct korch_options is; the macro below calls it.  The function
 * korch_plan_open itself, which programs call that were compiled before the struct grew, reads n_threads and
 * pin alone. KORCH_USAGE where a field is set that this library does not know. */
KORCH_API korch_status korch_plan_open_sized(size_t options_size, const char *path,
    const struct korch_options *o, korch_plan **out, struct korch_error *e);
#define korch_plan_open(...) korch_plan_open_sized(sizeof(struct korch_options), __VA_ARGS__)
/* NULL is allowed. */
KORCH_API void korch_plan_close(korch_plan *plan);

/* 1: the plan runs on a GPU, and its inputs and outputs may lie there; 0: on a CPU. */
KORCH_API int korch_plan_on_gpu(const korch_plan *plan);
KORCH_API size_t korch_plan_n_inputs(const korch_plan *plan);
KORCH_API size_t korch_plan_n_outputs(const korch_plan *plan);
/* The i-th input or output, counted from 0.  KORCH_USAGE where there are not so many. */
KORCH_API korch_status korch_plan_input(
    const korch_plan *plan, size_t i, struct korch_tensor *out, struct korch_error *e);
KORCH_API korch_status korch_plan_output(
    const korch_plan *plan, size_t i, struct korch_tensor *out, struct korch_error *e);

/* Runs the plan: all inputs and all outputs, in the plan's order; back when the outputs are there.  Allocates
 * nothing up to 32 of each. */
KORCH_API korch_status korch_plan_run(korch_plan *plan, const struct korch_input *inputs, size_t n_inputs,
    const struct korch_output *outputs, size_t n_outputs, struct korch_error *e);

/* "0.1.0": of the library in use. */
KORCH_API const char *korch_version(void);
/* "f32"; NULL for a number that is no type. */
KORCH_API const char *korch_type_name(korch_type type);

#ifdef __cplusplus
}
#endif

#endif
