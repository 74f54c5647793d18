/* worker/measure_int.h: what parent and measuring child share: their messages as structs, and the child's own
 * parts (timing, calibration).  For this folder alone. */
#ifndef KORCH_MEASURE_INT_H
#define KORCH_MEASURE_INT_H

#include "measure.h"

#include "../kernels/jail/jail.h"
#include "../proto/pipe.h"

#include <sys/types.h>

/* ---- messages 130 to 148 of proto/msg.def, and struct forms of them (measure_wire.c) -------------------
 * Frames of proto/pipe.h over one socket.  The parent trusts no word of the child: generated code may have
 * written all over it. */
enum { MEASURE_MAX_BYTES = 1 << 30 }; /* of a request; an answer has at most PIPE_MAX_BYTES */
void measure_pipe_parent(struct pipe *p, int fd);
void measure_pipe_child(struct pipe *p, int fd);

struct m_child_welcome measure_welcome(void); /* what must be equal on both ends */
bool measure_is_same_build(const struct m_child_welcome *its);

/* `out` points into `a` and into *c. */
void calibration_pack(struct arena *a, const struct calibration *c, struct m_calibration *out);
/* ERR_PROTO: numbers that are none of a device. */
bool calibration_unpack(const struct m_calibration *m, struct calibration *out, struct err *e) MUST_CHECK;
/* Its bounds and references alone. */
void calibration_pack_bounds(struct arena *a, const struct calibration *c, struct m_calibration *out);
bool calibration_unpack_bounds(
    const struct m_calibration *m, struct calibration *out, struct err *e) MUST_CHECK;

/* `is_settled`: one flag per kernel in the batch, items in order; those are left out. */
void batch_pack(
    struct arena *a, const struct measure_batch *b, const bool *is_settled, struct m_batch_ask *out);
struct child_batch {
	struct measure_batch batch;
	struct calibration calibration; /* bounds and references alone */
	bool **skip;                    /* [item][kernel] */
};
/* Everything in `a`, or where *m points to.  ERR_PROTO, or what spec_read says. */
bool batch_unpack(
    struct arena *a, const struct m_batch_ask *m, struct child_batch *out, struct err *e) MUST_CHECK;

/* ---- its start (measure_spawn.c) ----------------------------------------------------------- */
struct measure_start {
	const char *program, *device, *scratch; /* scratch: a folder that it may write, or NULL */
	const char *const *reads;               /* files that it may read, NULL at the end; or NULL */
	uint32_t n_threads;
};
enum jail measure_jail(const char *device);
/* In a process group of its own; *fd is the parent's end of its stream. */
bool measure_spawn(const struct measure_start *s, pid_t *pid, int *fd, struct err *e) MUST_CHECK;

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
/* What lies at x comes from memory the next time; false: this device cannot do that. */
bool refs_evict(const struct refs *r, void *x, size_t n_bytes);

/* How fast more and more bytes are read over and over, the least first; the last are more than a cache has.
 */
enum { REACH_SIZES = 10 };
struct cache_reach {
	uint32_t n; /* two at least */
	size_t bytes[REACH_SIZES];
	double rate[REACH_SIZES]; /* bytes a second */
};
/* What this process gets of a last cache that is said to have so many bytes: others on the socket have the
 * rest of it.  As is said, where rates do not tell. */
double cache_reach(const struct cache_reach *r, double claimed);

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

/* Opens the plans and times them in turn; said: one each, what they point to in `a`.  refs: NULL: none. */
void plans_time(const struct dev *dev, const struct refs *refs, bool is_fake, bool is_gpu, struct arena *a,
    const struct m_plans_ask *ask, struct m_plan_timed said[MEASURE_MAX_PLANS]);

/* ---- the clock of a race of whole plans (plan_clock.c) --------------------------------------- */
enum { CLOCK_SAMPLES = 4000 };
struct plan_clock {
	const struct refs *refs; /* NULL: nobody knows it */
	struct calibration calibration;
	int64_t *sample[REF_COUNT]; /* CLOCK_SAMPLES */
	uint32_t n;                 /* of each */
	int64_t due_ns;             /* when their next turn is, at the earliest */
};
void clock_open(
    struct arena *a, const struct refs *refs, const struct calibration *frozen, struct plan_clock *c);
void clock_turn(struct plan_clock *c); /* of some samples; nothing where it is not due */
/* Each reference's frozen time over its time since; 0: not known.  Sorts the samples. */
void clock_ratios(struct plan_clock *c, double ratio[REF_COUNT]);
/* Of a plan whose kernels take ns[r] beside reference r, ns[REF_COUNT] beside none, each at its own clock:
 * their sum over what they take together at the clock of those ratios; 0: not known. */
double clock_of_sum(const double ns[REF_COUNT + 1], const double ratio[REF_COUNT]);
/* The same of its steps.  0: a spec of it cannot be read. */
double clock_of_plan(const struct plan_clock *c, const struct plan *p, const double ratio[REF_COUNT]);

/* Kernels of one spec against each other.  rows[i].row.fail != 0: left out.  The device has room for their
 * scratch. */
struct race {
	struct arena *arena; /* of what rows point to */
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
bool race_run(const struct race *r, void (*before)(void *arg, uint32_t i), void *arg, struct m_measured *rows,
    struct err *e) MUST_CHECK;

/* Beside which reference a kernel is timed that takes so long; REF_COUNT: none, and its time is of the hour's
 * clock. */
enum measure_ref race_reference(
    const struct spec *s, struct str heat, const struct calibration *c, int64_t ns);

/* Kernels of several specs side by side: every one takes its turns until it has enough, and none leaves
 * early.  args: one for each race.  What does not fit into memory at a time runs in heats, in order. */
bool races_run(const struct race *r, uint32_t n, void (*before)(void *arg, uint32_t i), void **args,
    struct m_measured **rows, struct err *e) MUST_CHECK;

/* Of all its threads and those of all that it started, together; 0 where the system does not say. */
int64_t stolen_ns(long pid);

/* Right before a sample on several threads: all are there, and awake, as they are between the kernels of a
 * plan. After it, was it one of all of them?  n_void: samples that were not; from MOST_VOID on they count, as
 * the machine is busy for good, and threads come and go as they do in a plan. */
enum { MOST_VOID = 20 };
void gather_threads(const struct dev *d, uint32_t n_void);
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
/* Of n that took turns, medians and their intervals: is it known which is the fastest, and that the others
 * are slower or, to two thousandths, as fast? */
bool pair_is_told(const struct pair_stats *p, uint32_t n);

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
