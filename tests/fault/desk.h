/* tests/fault/desk.h: the daemon of a real planner, played by the test: it answers from a table of costs that
 * it knows in advance, so that what the planner asks for, and what it does not, can be told.
 *
 * By a clock of its own (desk_by_clock) the planner is a process that was forked, not executed, and reads the
 * time that the desk says: measuring, building and timing take what the test sets, solving takes nothing, and
 * time passes while the planner waits. */
#ifndef KORCH_TEST_DESK_H
#define KORCH_TEST_DESK_H

#include "../../kernels/cost/cost.h"
#include "../../proto/pipe.h"
#include "../../schema/plan_file.h"

#include <stdatomic.h>

#define SECOND ((int64_t)1000000000)

/* What a kernel costs, as a multiple of its bound. */
typedef double (*cost_fn)(const struct hash *spec, int64_t bound_ns);

/* Which of its schedules a kernel is built by. */
typedef uint8_t (*desk_takes)(const struct m_kernel *k);

/* By its schedules: what each of a kernel's takes; 0: it fails. */
struct desk;
typedef int64_t (*desk_way)(struct desk *d, const struct spec *s, struct str heat, struct str schedule);

struct known {
	struct spec of;
	struct str *way;       /* schedules that were measured */
	struct m_tried *tried; /* what each of them took; 0: it failed */
	uint32_t n_ways;
	struct hash spec, structure;
	struct str text, heat; /* heat: when it was measured by its ways */
	struct m_cost cost;    /* what it would be measured at */
	bool is_measured, is_out;
};
struct desk {
	struct arena a;
	char dir[64];
	struct hw hw;
	struct m_env env;
	struct pipe pipe;
	cost_fn cost;
	double drift;                       /* what a race finds, as a multiple of the first measurement */
	uint64_t effort;                    /* of its jobs; 0: 1 */
	desk_way way;                       /* in place of `cost`, where times are of single schedules */
	uint32_t n_ways, n_again, n_failed; /* schedules measured; kernels asked for once more; failed */
	uint32_t n_named, n_named_ways;     /* kernels whose schedules the planner named; schedules of them */
	struct known *known;
	uint32_t n;
	struct m_job_end end; /* of the last job; its plan is past.korch */
	struct hash end_key;
	struct m_whole *wholes; /* what it tells of plans that were timed whole */
	uint32_t n_wholes;
	struct m_whole timed[16]; /* what the last job told of its own */
	uint32_t n_timed_whole;
	bool is_again;      /* the last job was answered with the plan of the one before */
	bool says_same;     /* nothing that it knows has changed, whatever has */
	struct desk_aside { /* ends of other jobs, and their plans */
		struct hash key;
		struct m_job_end end;
		char *plan;
	} aside[4];
	uint32_t n_aside;
	struct str fusion;           /* asked for; "": full */
	struct hash built[256];      /* what it has built: these builds it has */
	uint32_t n_built, n_unknown; /* n_unknown: builds asked of the store that it had not */
	uint32_t n_asks, n_measured, n_raced, n_races, n_times; /* asked for by the job */
	uint32_t n_timed;                                       /* plans side by side, the last time */
	double said_spent;                                      /* seconds spent before, as the job said */
	desk_takes takes;                                       /* NULL: the first, and it does not say so */
	int64_t (*truth)(const struct hash *spec, int64_t first_ns); /* of a kernel in a whole plan; NULL */
	bool is_sum;            /* a whole plan takes the sum of what its kernels cost */
	struct str fast_fusion; /* plans of that --fusion take a hundredth; "": none do */
	int64_t plan_spread_ns; /* that is said of whole plans' runs */
	double clock_ratio;     /* of the hour in which they run; 0: calibration's, and nobody says so */
	/* by its own clock */
	bool is_virtual;
	const char *model; /* of the small ones; NULL: candy_small */
	uint32_t n_told;   /* of those, the last time */
	bool has_siblings; /* it tells what it knows of kernels with other extents */
	double lie;        /* of every third of them, its time so many times; 0: none */
	bool first_fails;  /* of each kernel, what is tried first where that is not all */
	struct desk_clock {
		_Atomic int64_t now_ns, n_looks; /* how often the planner looked at it */
	} * clock;
	int64_t reading_ns, measure_ns, build_ns; /* a model; a kernel each */
	int64_t compile_ns;                       /* what workers say that compiling one took */
	bool never_measures, never_times;         /* the worker holds on to that for ever */
	uint32_t max_late;          /* dropped measurements that come all the same, while a plan is built */
	struct known **out, **late; /* asked for; dropped */
	uint32_t n_out, at_out, n_late;
	int64_t took_ns; /* the last job */
};
void desk_open(struct desk *d, cost_fn cost);
void desk_by_clock(struct desk *d);
void desk_close(struct desk *d);
/* Runs a job over the small Candy, or `model`, to its end; what it reached, and its plan. */
struct m_progress desk_job(struct desk *d, int64_t budget_ns, bool prove, struct plan *plan);
/* The last job ended under another key than the next one: its end and plan are kept for who asks. */
void desk_put_aside(struct desk *d);
struct known *desk_look_up(struct desk *d, struct str text);

#endif
