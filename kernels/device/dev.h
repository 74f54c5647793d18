/* kernels/device/dev.h: devices behind one table of functions (CPU, fake; GPUs join by gpu.h), and the
 * compiler call.  Nothing above this folder knows what kind of device it talks to. */
#ifndef KORCH_DEV_H
#define KORCH_DEV_H

#include "../base/class.h"
#include "../base/isa.h"
#include "../vendor/library.h"
#include "pool.h"

/* ---- what a device says about itself ------------------------------------------------- */
/* The numeric vector of a device (D24), for predicting one device's times from another's. */
#define DEV_FACTS(X)                                                                                         \
	X(cores)                                                                                             \
	X(threads_per_core)                                                                                  \
	X(max_mhz)                                                                                           \
	X(simd_bytes)                                                                                        \
	X(l1_bytes)                                                                                          \
	X(l2_bytes)                                                                                          \
	X(l3_bytes)                                                                                          \
	X(flops_peak)                                                                                        \
	X(l1_bytes_per_s)                                                                                    \
	X(l2_bytes_per_s)                                                                                    \
	X(l3_bytes_per_s)                                                                                    \
	X(dram_bytes_per_s)                                                                                  \
	X(call_ns)                                                                                           \
	X(barrier_ns)                                                                                        \
	X(memory_bytes)
enum dev_fact {
#define X(N) DEV_FACT_##N,
	DEV_FACTS(X)
#undef X
	    DEV_FACT_COUNT
};

enum { DEV_CLASS_MAX = CLASS_MAX, DEV_COMPAT_MAX = 256, DEV_ENV_MAX = 2048 };
struct dev_info {
	char device_class[DEV_CLASS_MAX]; /* "cpu:AMD-EPYC-9B14-avx512": what --device names */
	char run_compat[DEV_COMPAT_MAX];  /* words that a plan made here asks for */
	char features[DEV_COMPAT_MAX];    /* words that the device offers; run_compat is among them */
	char environment[DEV_ENV_MAX];    /* lines "key=value", sorted by key: the measuring environment */
	double fact[DEV_FACT_COUNT];      /* zero where calibration has not spoken */
};
/* The class of a device of that environment, for people; "": none is known. */
void dev_class_of(struct str run_compat, struct str environment, char out[DEV_CLASS_MAX]);
/* Is every word of `need` (a plan's run_compat) offered?  ERR_DEVICE naming the missing ones. */
bool dev_compatible(struct str need, const struct dev_info *have, struct err *e) MUST_CHECK;

/* ---- kernels ------------------------------------------------------------------------- */
/* What generated code, devices and plans agree on: buffers begin at multiples of DEV_ALIGN, and a kernel has
 * at most so many passes. */
enum { DEV_ALIGN = 64, DEV_MAX_PASSES = 16 };
/* One loaded kernel: generate.h's ABI.  `pass` holds what the device needs to start a pass: a
 * function pointer on a CPU; nothing where the kernel is a call of a library. */
struct dev_library;
struct dev_kernel {
	void *pass[DEV_MAX_PASSES];
	int64_t range[DEV_MAX_PASSES];
	uint32_t n_passes; /* 0 where all results are empty: nothing runs */
	uint32_t n_bufs;   /* operands and results */
	size_t shared_bytes, local_bytes;
	struct dev_library *library; /* the device's own, of a library's kernel */
};
struct dev_launch {
	const struct dev_kernel *kernel;
	void *const *buf; /* operands, then results */
	void *kept;       /* of a library's kernel: dev_prepare() makes it, dev_release() ends it */
};
struct dev_module; /* loaded code */
struct dev_copy {  /* bytes to be moved, in any direction */
	void *to;
	const void *from;
	size_t n_bytes;
};

/* A device.  All functions may be called from several threads; run() takes turns.  */
struct dev {
	void *self;
	const char *name; /* "cpu" */
	uint32_t n_threads;
	bool reads_host; /* kernels may read the host's own memory */
	bool (*describe)(void *self, struct dev_info *out, struct err *e);
	/* Code comes from bytes, never from a path (D31).  Errors: ERR_FORMAT, ERR_LAUNCH. */
	bool (*load)(void *self, struct bytes code, struct dev_module **out, struct err *e);
	void (*unload)(void *self, struct dev_module *m);
	/* Fills k->pass from SYMBOL_p0...; n_passes, ranges and scratch are the caller's. */
	bool (*find)(
	    void *self, struct dev_module *m, const char *symbol, struct dev_kernel *k, struct err *e);
	/* Has the module an entry for it?  Then find() makes a library's kernel too, as it was when it was
	 * chosen; NULL: never. */
	bool (*holds)(void *self, struct dev_module *m, const char *symbol);
	/* Kernels of libraries; NULL: none here.  bind fills k->library, passes, scratch from the spec's text
	 * and a schedule that names a library.  ERR_HOST: it is not there.  prepare fills l->kept from
	 * constant operands. */
	bool (*bind)(void *self, struct str spec, struct str schedule, struct dev_kernel *k, struct err *e);
	void (*unbind)(void *self, struct dev_kernel *k);
	bool (*prepare)(void *self, struct dev_launch *l, struct err *e);
	void (*release)(void *self, struct dev_launch *l);
	/* Does a launch of a library's kernel read this operand where it lies?  false: all that it needs of
	 * it was kept by prepare.  NULL: it does. */
	bool (*reads)(void *self, const struct dev_kernel *k, uint32_t operand);
	/* What all launches together keep; NULL: nothing. */
	size_t (*kept_bytes)(void *self);
	/* Device memory, DEV_ALIGNed; NULL where there is none left. */
	void *(*mem_new)(void *self, size_t n_bytes);
	void (*mem_free)(void *self, void *p, size_t n_bytes);
	void (*put)(void *self, void *to, const void *from, size_t n_bytes);
	void (*get)(void *self, void *to, const void *from, size_t n_bytes);
	/* Scratch for kernels up to these sizes, so that run() never allocates. */
	bool (*reserve)(void *self, size_t shared_bytes, size_t local_bytes, struct err *e);
	/* What the launch reads of its operands that have n_bytes, where they lie or as prepare kept them, is
	 * out of all caches.  n_bytes: per operand; 0: it stays where it is.  NULL: this device cannot do
	 * that. */
	void (*evict)(void *self, const struct dev_launch *l, const size_t *n_bytes);
	/* Runs the launches in order, a barrier between all passes; does not allocate.  ns (may be NULL)
	 * receives n + 1 time stamps: before the first and after each. */
	void (*run)(void *self, const struct dev_launch *l, uint32_t n, int64_t *ns);
	/* Other programs want its cores: fewer threads for a while.  NULL: never. */
	bool (*is_short)(void *self);
	/* All its threads are wanted, and awake: the next run finds them as one that follows another.  NULL:
	 * it has none. */
	void (*gather)(void *self);
	/* False with the first fault of run, put or get since the last call.  *is_lost: nothing works
	 * in this process any more.  NULL: a fault ends the process. */
	bool (*fault)(void *self, bool *is_lost, struct err *e);
	void (*close)(void *self);
};
/* A kernel, of the module or of the library that its schedule names.  Then k says what scratch to reserve. */
struct kernel_name {
	struct str symbol, spec, schedule;
};
bool dev_find(const struct dev *d, struct dev_module *m, const struct kernel_name *n, struct dev_kernel *k,
    struct err *e) MUST_CHECK;
void dev_lose(const struct dev *d, struct dev_kernel *k);
/* Has the library that the schedule names such a kernel here?  ERR_INFEASIBLE, ERR_HOST with why not. */
bool dev_binds(const struct dev *d, const struct kernel_name *n, struct err *e) MUST_CHECK;
/* Once for each launch whose constant operands are in l->buf, before it runs; nothing to do where the code is
 * generated.  Those operands stay where they are, and as they are, until the release: launches that read the
 * same bytes share what is kept of them. */
bool dev_prepare(const struct dev *d, struct dev_launch *l, struct err *e) MUST_CHECK;
void dev_release(const struct dev *d, struct dev_launch *l);
/* Version of a library whose kernels this CPU's device has and is to offer (KORCH_LIBRARIES); 0: none. */
int64_t dev_cpu_library(enum library l);
/* n_threads >= 1; pin: thread i stays on the i-th allowed core. */
bool dev_cpu_open(uint32_t n_threads, bool pin, struct dev *out, struct err *e) MUST_CHECK;
/* Freed blocks stay, so many bytes at most: new pages cost several passes.  Before others use it. */
void dev_cpu_keep(const struct dev *d, size_t most);
/* What a CPU offers, without opening it. */
bool dev_cpu_describe(struct dev_info *out, struct err *e) MUST_CHECK;
/* The instruction set of generated code: the CPU's widest within KORCH_ISA.  ERR_HOST where it is older than
 * any, ERR_USAGE where KORCH_ISA names none of its. */
bool dev_cpu_isa(enum isa *out, struct err *e) MUST_CHECK;
/* Of that level's data, by a folder as of Linux' /sys/devices/system/cpu/cpu0/cache: what one core reaches;
 * 0: it does not say. */
double dev_cpu_cache_bytes(const char *folder, int level);
bool dev_cpu_is_held(enum isa *to); /* does KORCH_ISA hold libraries, too, to a set? */

/* ---- the fake device ------------------------------------------------------------------ */
/* Times from a hash of (spec, schedule, seed), faults where it falls under their rates: on all hosts. */
struct fake_rates { /* per million */
	uint32_t compile, wrong, crash, hang, launch;
};
struct fake_time {
	enum err_code status; /* ERR_NONE, ERR_COMPILE, ERR_WRONG, ERR_CRASH, ERR_TIMEOUT, ERR_LAUNCH */
	int64_t ns, spread_ns;
};
/* "seed=7,wrong=1000,crash=50" (or blanks between); the empty text is seed 0 without faults. */
bool fake_read(struct str text, uint64_t *seed, struct fake_rates *r, struct err *e) MUST_CHECK;
/* bound_ns: the answer is never below it (D16), and at most 64 times it. */
struct fake_time fake_measure(
    struct str spec, struct str schedule, int64_t bound_ns, uint64_t seed, const struct fake_rates *r);
/* Loads, finds and runs nothing real; run() returns at once and leaves results as they are. */
void dev_fake_open(uint32_t n_threads, struct dev *out);

/* ---- the compiler -------------------------------------------------------------------- */
enum { COMPILE_MAX_BYTES = 256 << 20, COMPILE_MAX_FILES = 512 };
struct compile_opts {
	const char *const *flags;   /* ends with NULL; the generator's (generate_c_flags) */
	int64_t cpu_ns;             /* of the compiler's own time, in whole seconds; 0: 120 s */
	int64_t wall_ns;            /* by the clock: a starved host is no fault of the text; 0: 15 min */
	size_t max_bytes;           /* of the result; 0: COMPILE_MAX_BYTES */
	const _Atomic bool *cancel; /* true: give it up, ERR_CANCELLED; NULL: never */
};
/* C text -> the bytes of a shared object.  Equal text and flags give equal bytes.  Errors:
 * ERR_HOST where there is no compiler (KORCH_CC names one), ERR_COMPILE with what it said
 * first, ERR_TIMEOUT, ERR_LIMIT.  Blocks; starts a process group that is gone on return. */
bool compile_c(struct arena *a, struct str text, const struct compile_opts *o, struct bytes *out,
    struct err *e) MUST_CHECK;
/* One object of 1 to COMPILE_MAX_FILES files, compiled side by side on the cores of this host; the limits are
 * each one's. */
bool compile_files(struct arena *a, const struct str *texts, uint32_t n, const struct compile_opts *o,
    struct bytes *out, struct err *e) MUST_CHECK;
/* Each text as a relocatable object, one of `out`, side by side likewise; whoever links them takes of each
 * what it wants. */
bool compile_objects(struct arena *a, const struct str *texts, uint32_t n, const struct compile_opts *o,
    struct bytes *out, struct err *e) MUST_CHECK;
/* Of such objects a shared one that holds what is named and what that calls.  A function that several of them
 * have is the first one's. */
struct link_name {
	const char *name, *of; /* in what is made; in an object */
};
bool link_objects(struct arena *a, const struct bytes *objects, uint32_t n, const struct link_name *names,
    uint32_t n_names, const struct compile_opts *o, struct bytes *out, struct err *e) MUST_CHECK;
/* "gcc (Debian 12.2.0-14) 12.2.0": the first line of --version of the compiler in use. */
bool compiler_version(struct arena *a, struct str *out, struct err *e) MUST_CHECK;

#endif
