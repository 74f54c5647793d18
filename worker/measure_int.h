/* worker/measure_int.h: what parent and measuring child share: frames, requests, replies, and
 * the child's own parts (timing, calibration).  For this folder alone. */
#ifndef KORCH_MEASURE_INT_H
#define KORCH_MEASURE_INT_H

#include "measure.h"

#include "../kernels/jail/jail.h"

#include <sys/types.h>

/* ---- frames: a head, then n_bytes of body.  Both ends are of one build (the hello checks it),
 * so numbers are in the machine's own form. */
enum frame_kind {
	ASK_HELLO = 1,
	ASK_CALIBRATE,
	ASK_BATCH,
	ASK_PLANS,
	ASK_COMPILE,
	ASK_GO,
	ASK_LIBRARIES,
	ASK_RESOLVE,
	ASK_AWAKE,
	SAY_HELLO = 16,
	SAY_CALIBRATION,
	SAY_AT,
	SAY_ROW,
	SAY_TIMING,
	SAY_END,
	SAY_ERROR,
	SAY_CUBIN,
	SAY_HOLD,
	SAY_LIBRARIES,
	SAY_AWAKE
};
enum { FRAME_MAGIC = 0x4b4d5331, FRAME_MAX = 1 << 30, AT_REFERENCE = UINT32_MAX };
struct frame_head {
	uint32_t magic, kind;
	uint64_t n_bytes;
};
/* Blocking; false at the end of the stream or on an error (errno). */
bool frame_write(int fd, enum frame_kind kind, const void *body, size_t n_bytes);
/* body in `a`. */
bool frame_read(int fd, struct arena *a, enum frame_kind *kind, struct bytes *body);

/* A body is a row of numbers and byte strings.  The reader is sticky: after the first thing
 * missing it yields zeros. */
void put_num(struct strbuf *sb, uint64_t v);
void put_blob(struct strbuf *sb, const void *p, size_t n);
struct body {
	const uint8_t *p, *end;
	bool bad;
};
uint64_t get_num(struct body *b);
struct bytes get_blob(struct body *b);
/* Copies a blob of exactly n bytes. */
void get_raw(struct body *b, void *out, size_t n);

struct say_hello { /* what must be equal on both ends */
	uint64_t sizes;
	char version[64];
};
struct say_hello hello_mine(void);
struct say_at {                /* what the child is about to do */
	uint32_t item, kernel; /* AT_REFERENCE: the interpreter is at work */
};
struct say_awake {
	uint64_t resident_bytes; /* of the host's memory */
	uint32_t is_well;        /* 0: its device is not */
};
struct say_hold { /* the child wants the host to itself, and waits for ASK_GO; or needs it no more */
	uint32_t take;
};
struct say_row {
	uint32_t item, kernel;
	struct measure_row row;
};
struct say_timing {
	uint32_t plan;
	struct measure_timing timing;
};

/* ---- its start (measure_spawn.c) ----------------------------------------------------------- */
struct measure_start {
	const char *program, *device, *scratch; /* scratch: a folder that it may write, or NULL */
	const char *const *reads;               /* files that it may read, NULL at the end; or NULL */
	uint32_t n_threads;
};
enum jail measure_jail(const char *device);
/* In a process group of its own; *fd is the parent's end of its stream. */
bool measure_spawn(const struct measure_start *s, pid_t *pid, int *fd, struct err *e) MUST_CHECK;

/* ---- requests -------------------------------------------------------------------------- */
struct ask_hello { /* behind it, for the CPU: the module of the class references */
	char device[64], fake[256];
	uint32_t n_threads;
	uint64_t memory_bytes;
};
/* `skip`: one flag per kernel in the batch, items in order; those are left out. */
void batch_pack(struct strbuf *sb, const struct measure_batch *b, const bool *skip);
struct child_batch {
	struct measure_batch batch;
	struct calibration calibration;
	bool **skip; /* [item][kernel] */
};
/* Everything in `a`.  ERR_PROTO, or what spec_read says. */
bool batch_unpack(struct arena *a, struct bytes body, struct child_batch *out, struct err *e) MUST_CHECK;

/* ---- the child's parts ------------------------------------------------------------------- */
/* Bytes of address space, and how many of them are in memory (space.c). */
size_t space_in_use(size_t *resident);
/* The jail has set the other limits; this one counts from what a program with its libraries has taken. */
void space_limit(uint64_t more_bytes);
/* Short kernels of known kind, run like any other, but on one thread: their frozen times are of one. */
enum probe { PROBE_FMA, PROBE_READ, PROBE_COPY, PROBE_NOTHING, PROBE_EXP, PROBE_DIV, PROBE_COUNT };
struct refs {
	const struct dev *dev; /* `own` where the kernels' device has several threads */
	struct dev own;
	struct dev_module *module;
	struct dev_kernel kernel[REF_COUNT], probe[PROBE_COUNT];
	void *buf[REF_COUNT][3];
	size_t n_bytes[REF_COUNT];
	int64_t rounds[2]; /* of the compute reference */
	enum isa isa;
};
/* By the parent, since the child starts no compiler: ERR_HOST where there is none. */
bool refs_compile(struct arena *a, struct bytes *code, struct err *e) MUST_CHECK;
bool refs_open(const struct dev *d, struct bytes code, struct refs *r, struct err *e) MUST_CHECK;
void refs_close(struct refs *r);
/* One call of a class reference, in ns. */
int64_t refs_time(const struct refs *r, enum measure_ref which);
/* One call of a probe on one thread, in ns: `rounds` times over n_vectors at x.  PROBE_FMA does
 * 12 multiply-adds of a vector a round; PROBE_EXP and PROBE_DIV write half of the vectors, one result for
 * each element of the other half. */
int64_t refs_probe(const struct refs *r, enum probe which, void *x, int64_t n_vectors, int64_t rounds);

bool calibrate(const struct dev *d, const struct refs *r, bool is_quick, struct calibration *out,
    struct err *e) MUST_CHECK;

/* Values for a spec's operands: seeded, the same in check and timing. */
enum input_set {
	SET_NORMAL,
	SET_ZEROS,
	SET_LARGE,
	SET_NEGATIVE,
	SET_POSITIVE,
	SET_EQUAL, /* all elements the same */
	SET_RAMP,
	SET_SPECIAL, /* infinite ones, NaN, denormals and zeros of both signs among others */
	SET_COUNT
};
void fill_operands(const struct spec *s, enum input_set set, uint64_t seed, void *const *operands);
/* Seeded values for an input of a plan. */
void fill_plan_input(const struct plan_io *io, void *to, uint64_t seed);
/* Zeroed, PLAN_ALIGNed, one per operand. */
void **make_operands(struct arena *a, const struct spec *s);

/* The body of ASK_PLANS: opens the plans and times them in turn.  False where the body makes no sense. */
bool plans_time(const struct dev *dev, bool is_fake, bool is_gpu, struct arena *a, struct bytes body,
    struct say_timing said[MEASURE_MAX_PLANS]) MUST_CHECK;

/* Kernels of one spec against each other.  rows[i].fail != ERR_NONE: left out.  The device has
 * room for their scratch. */
struct race {
	const struct dev *dev;
	const struct refs *refs;
	const struct spec *spec;
	struct str heat; /* as in struct measure_item */
	const struct dev_kernel *kernels;
	const struct measure_kernel *of;
	uint32_t n;
	const struct calibration *calibration;
	int64_t budget_ns, known_ns;
	uint64_t seed;
	size_t memory_bytes;                /* that there are; 0: plenty */
	void (*hold)(void *arg, bool take); /* around what is timed: the host to itself; `arg` as below */
};
/* before(arg, i) is called before kernel i runs for the first time. */
bool race_run(const struct race *r, void (*before)(void *arg, uint32_t i), void *arg,
    struct measure_row *rows, struct err *e) MUST_CHECK;

/* Kernels of several specs side by side: every one takes its turns until it has enough, and none leaves
 * early.  args: one for each race.  What does not fit into memory at a time runs in heats, in order. */
bool races_run(const struct race *r, uint32_t n, void (*before)(void *arg, uint32_t i), void **args,
    struct measure_row **rows, struct err *e) MUST_CHECK;

/* Of all its threads and those of all that it started, together; 0 where the system does not say. */
int64_t starved_ns(long pid);

/* Before a sample on several threads: waits for those that are away for a moment.  After it, was it one of
 * all of them?  *n_void: samples that were not; from MOST_VOID on they count, as the machine is busy for
 * good. */
enum { MOST_VOID = 20 };
void await_threads(const struct dev *d);
bool had_all_threads(const struct dev *d, uint32_t *n_void);

/* ---- two kernels in pairs (pair.c) ----------------------------------------------------------- */
struct pair_stats {
	double ratio, low,
	    high; /* median of the pairs' ratios; an interval that holds the true one with 95 % */
	uint32_t n;
};
/* Of a session of pairs: b's time over a's, in each.  Sorts them.  False where they are too few for an
 * interval. */
bool pair_judge(double *ratio, uint32_t n, struct pair_stats *out);
/* A time is a gain where the interval lies below 1. */
bool pair_is_gain(const struct pair_stats *p);

/* Results of two kernels on random and on adversarial inputs, equal bit for bit (equal.c). */
struct equal_ask {
	const struct dev *dev;
	const struct spec *spec;
	const struct dev_kernel *base, *other;
	const struct kernel_code *code;
	uint64_t seed, enough; /* elements: then it ends, each set having been there once */
	int64_t
	    limit_ns; /* about; then it ends with what has been compared, some sets of each kind at least */
	void (*before)(void *arg, bool is_other); /* it runs */
	void *arg;
	bool (*poison)(const struct dev *d, int byte, struct err *e); /* fills scratch */
};
/* compared: elements.  is_base: the fault was the base's. */
bool equal_run(const struct equal_ask *q, uint64_t *compared, bool *is_base, struct err *e) MUST_CHECK;

/* The median of v, which is sorted on the way. */
int64_t median_ns(int64_t *v, uint32_t n);
int64_t now_ns(void);
int64_t thread_ns(void);

#endif
