/* daemon/planner/tune.h: one job from its first message to its plan.
 *
 *   ended      how this very job ended before                     (result_cache.c)
 *   front      ONNX bytes -> graph, candidates, specs            (front.c, pure)
 *   costs      what is known of each spec: bound, time, failure  (costs.c, talks to korchd)
 *   order      which schedules of a kernel are compiled, and how many (order.c)
 *   share      how long each part may last                       (share.c)
 *   search     solve, measure what the solution picks, repeat    (search.c)
 *   incumbent  the choice where that ended before its proof      (incumbent.c)
 *   remeasure  what the choice rests on is timed again           (remeasure.c)
 *   perturb    its GPU kernels' instructions in better orders    (perturb.c)
 *   sure       how far from the best of all it may be            (sure.c)
 *   finish     build the chosen kernels, make and save the plan  (finish.c)
 *   plan race  whole plans against each other                    (plan_race.c) */
#ifndef KORCH_TUNE_H
#define KORCH_TUNE_H

#include "../../kernels/cost/predict.h"
#include "../../kernels/predict/predict.h"
#include "../../proto/pipe.h"
#include "../../schema/plan_file.h"
#include "../orchestrate/lazy.h"
#include "../plan/plan_make.h"
#include "front.h"
#include "spec_cost.h"

/* Schedules tried for a candidate before its cost counts as measured (D19). */
enum { TUNE_EFFORT = 4 };

/* What the search ends with: nothing unmeasured is expected to pay; nothing unmeasured can. */
enum tune_aim { AIM_EXPECT, AIM_PROVE };

struct held;
struct rival;
struct told;

struct tune {
	struct arena *arena, *plan_arena; /* the job's; of the plan that is being made */
	struct pipe *pipe;
	const struct os *os;
	struct m_plan_start start;
	int64_t began_ns, deadline_ns;
	int64_t measuring_from_ns;                            /* when all was ready for measuring */
	int64_t until_ns, remeasure_until_ns, plans_until_ns; /* share.c: until when each part may last */
	int64_t remeasure_left_ns;                            /* of the time for timing again */
	int64_t solve_ns, file_ns; /* what the last solution, the last plan file took; 0: none yet */
	double build_pace;         /* what builds take, of what was expected */
	bool is_final;             /* the choice stands: what comes now changes nothing that is known */
	bool is_cut;               /* the budget ended the search */
	struct plan_seal seal;     /* what the daemon says of the last build */
	bool is_racing;            /* a race is out */
	uint32_t n_perturbing;     /* kernels that are being perturbed */
	int64_t perturb_until_ns;  /* share.c */
	bool is_plain;             /* the choice is built without moves of instructions */
	const struct held *held;   /* what the choice is built as, whatever is known by now; NULL */
	uint32_t n_held;
	struct plan_code *codes; /* of the last build, per spec */
	enum err_code race_fail; /* of the last one */
	uint64_t n_workers;      /* that fit */
	int64_t alone_since_ns;  /* when the last of them went; meaningful without one */
	bool finish_asked;
	struct hw hw;
	struct target target;
	struct str precision; /* as measurements are kept: "f32", "f32-strict", "tf32:0.001" */
	struct hash model_digest, end_key, self; /* self: of this very program */
	struct m_end_have past;                  /* how this job ended before; result_cache.c */
	struct m_whole *wholes, timed[16]; /* plans timed whole: before, on such a device; by this job */
	uint32_t n_wholes, n_timed;
	bool is_repeat;       /* the choice is that one */
	struct rival *rivals; /* plans of other jobs; rivals.h */
	uint32_t n_rivals;
	bool has_raced;            /* they were timed beside the choice */
	const struct rival *taken; /* that one is this job's plan; NULL: the choice is */
	bool is_foreseen;          /* the predictor has a word of most of the first plan */
	bool has_foreseen;         /* ... of some kernel: it knows the device */
	bool is_sober;             /* unmeasured kernels stand at what is expected of them, no less */
	bool is_strict;            /* for a proof: what is measured partly is not measured */
	bool is_tight;             /* bounds are those of costs_tighten() */
	int64_t least_ns;          /* the cost of the choice before whole plans were compared */
	struct front front;
	struct program program;
	struct blp_state *solver;
	enum blp_solver solver_asked; /* --solver */
	struct arena choice_arena;    /* of `choice`, renewed with it */
	struct blp_result choice;
	uint32_t *measured_plan, n_measured_plan; /* kernels of the best plan with all specs measured */
	uint32_t *start_plan, n_start_plan;       /* what there was before this job measured anything */
	const struct predictor *predictor;        /* that came trained; NULL: none is of use here */
	struct held *start_held;                  /* of each of them */
	struct predict predict;                   /* learned from what is measured */
	struct told *told;                        /* what is known of kernels with other extents; expect.h */
	uint32_t n_told;
	struct sure *sure;      /* how sure the choice is without a proof (sure.h); NULL */
	int64_t bound_ns;       /* proven: of the last optimistic program */
	int64_t solve_until_ns; /* the solver ends then; 0: by counted limits alone */

	struct spec_cost *cost;        /* per spec */
	struct key *by_hash;           /* specs sorted by hash; costs.c */
	uint32_t n_waiting, n_turns;   /* measurements that are out; how often some were asked for */
	uint32_t n_trouble, n_unmoved; /* machines' failures; kernels whose instructions stay as compiled */
	struct str trouble, unmoved;   /* what the first of them said; node and cause of the first */
	uint64_t effort;
	int64_t best_measured; /* cost of the best plan known with all specs measured */
	struct m_progress progress;
	int64_t said_ns; /* when progress was last sent */
	struct dump dump;
};

/* Does the whole job and sends `done`.  Errors are for the `failed` message.  dump: where --dump writes;
 * NULL: in the job's folder.  real: clock and files, which the pipe's tape records. */
bool tune_run(struct arena *a, struct pipe *p, const struct m_plan_start *start, const char *dump,
    const struct os *real, struct err *e) MUST_CHECK;

/* ---- share.c */
/* Sets the moments until which each part of the job may last, by what is known now. */
void share_time(struct tune *t);
/* What compiling one that was measured takes once more, and building those into one object, about. */
int64_t share_compile_ns(const struct tune *t, uint32_t spec);
int64_t share_build_ns(const struct tune *t, const uint32_t *kernels, uint32_t n);
/* A build took so long: the next ones are expected to as well. */
void share_note_build(struct tune *t, int64_t expected_ns, int64_t took_ns);
/* What saving a last plan and timing some takes, at the least; sum_ns: one run of each. */
int64_t share_times_ns(const struct tune *t, int64_t sum_ns);
/* How long the last solutions may take. */
int64_t share_incumbent_until_ns(const struct tune *t);
/* The budget leaves no time for measuring anything; the words that say so. */
bool share_is_too_small(const struct tune *t);
struct str share_small_words(struct tune *t);
/* Nothing is measured: how many kernels of the choice a search would time first, and how long that would
 * take. */
void share_note_open(struct tune *t);
/* It left some, and nothing came of it. */
struct str share_nothing_words(struct tune *t);

/* ---- costs.c */
/* Bounds for all specs, then what the cache knows of them. */
bool costs_open(struct tune *t, struct err *e) MUST_CHECK;
/* Asks for measurements of specs that are LAZY_OPEN; they become LAZY_WAITING.  The first ones before
 * the later ones; all of a higher rank before those of a lower one. */
enum ask_rank { RANK_SEARCH, RANK_INCUMBENT };
bool costs_measure(
    struct tune *t, enum ask_rank rank, const uint32_t *specs, uint32_t n, struct err *e) MUST_CHECK;
/* What is out and not answered is no longer wanted: the farm is free for what comes next. */
bool costs_drop(struct tune *t, struct err *e) MUST_CHECK;
/* Bounds of what is not measured by what the schedules of its space make of it: less than a second for a
 * thousand kernels, which a proof is worth. */
void costs_tighten(struct tune *t);
/* For a proof, with such bounds: from now on what was measured by fewer schedules than the job's effort is
 * open. */
void costs_be_strict(struct tune *t);
/* Takes answers for up to wait_ms (0: only what is there); returns after the first ones. */
bool costs_take(struct tune *t, int wait_ms, struct err *e) MUST_CHECK;
/* A measurement ended with that: counts it where the machine is to blame. */
void costs_trouble(struct tune *t, enum err_code fail, struct str cause);
/* Takes messages until one of `type` comes, in arena memory.  After until_ns (0: never) what was asked for is
 * taken back: true, and m->type is MSG_dropped. */
bool costs_await(
    struct tune *t, enum msg_type type, int64_t until_ns, struct msg *m, struct err *e) MUST_CHECK;
/* The cost that the program sees while searching: measured, else bound; BLP_NEVER. */
int64_t cost_optimistic(const struct spec_cost *c);
/* Measured, else what is expected on the hopeful side; BLP_NEVER. */
int64_t cost_expected(const struct tune *t, const struct spec_cost *c);
/* There is a time of it, of whatever effort. */
bool cost_is_known(const struct spec_cost *c);
/* Once the choice is final: kernels timed with less effort than this job asks for stand in the program at
 * that time, not at their bound.  Costs only rise, so that bound and duals still hold. */
void costs_show_known(struct tune *t);
/* What korchd holds a worker's numbers against. */
struct m_bound cost_bound(const struct tune *t, uint32_t spec);
/* Measured, or BLP_NEVER. */
int64_t cost_measured(const struct tune *t, uint32_t s);
/* One number per kernel, by what each spec costs. */
int64_t *kernel_costs(struct tune *t, struct arena *a, int64_t (*cost)(const struct tune *, uint32_t spec));
/* Names spec `s` by the ONNX nodes of its first candidate, for messages. */
const char *spec_description(struct tune *t, uint32_t s);
/* Tells the daemon how far the job is: at once with `now`, else a few times a second. */
bool progress_say(struct tune *t, const char *phase, bool now, struct err *e) MUST_CHECK;

/* Costs that lean towards kernels of few operators: `lean` of the cost more for each one above the first. */
int64_t *leaning_costs(
    struct tune *t, struct arena *a, int64_t (*cost)(const struct tune *, uint32_t spec), double lean);

/* ---- search.c */
bool tune_may_measure(const struct tune *t); /* else what the cache knows is all there is */
bool tune_search(struct tune *t, struct err *e) MUST_CHECK;
/* No measurement is waited for any more: asked to end, or out of time. */
bool search_is_over(const struct tune *t);
/* Solves the optimistic program: the proven bound. */
bool search_bound(struct tune *t, struct err *e) MUST_CHECK;
/* ONNX nodes that a kernel's arithmetic comes from. */
uint32_t kernel_operators(const struct tune *t, uint32_t kernel);

/* ---- incumbent.c */
/* The best plan from what is known now, where the search ended before its proof. */
bool search_incumbent(struct tune *t, struct err *e) MUST_CHECK;
/* The same once the optimistic program is solved. */
bool choose_incumbent(struct tune *t, struct err *e) MUST_CHECK;
/* The plan alone: of measured kernels, or, where there is none, with others at a careful guess. */
bool incumbent_plan(struct tune *t, struct blp_result *out, struct err *e) MUST_CHECK;
/* What a kernel counts in such a plan. */
int64_t incumbent_cost(const struct tune *t, uint32_t kernel);
/* The best plan of measured kernels, by the last solution: ->measured_plan, ->best_measured. */
void note_measured_plan(struct tune *t);
/* For a solver's limits: is ->solve_until_ns over? */
bool solve_is_over(void *self);
/* Until then; never less than a hundredth, so that a program that is begun gets somewhere. */
double solve_seconds_left(void *self);
/* Gives the solver the time that is left for the end. */
void allow_incumbent(struct tune *t);

/* ---- remeasure.c */
enum { REMEASURE_ROUNDS = 3 };
/* One session of what the plan rests on.  *changed: costs may be others now; false: there is nothing
 * (more) to time again. */
bool remeasure(struct tune *t, bool *changed, struct err *e) MUST_CHECK;

/* ---- explain.c */
/* Adds to a plan just made what korch-plan explain will be asked. */
void explain_plan(struct tune *t, struct plan *plan);

/* ---- plan_race.c */
/* Times the choice whole, beside others that are nearly as good, and lets the fastest be the choice, unless
 * that is a proved one.  The timings go to t->progress. */
bool plan_race(struct tune *t, struct err *e) MUST_CHECK;
/* The same for the plan that this job ended with before, where there is news of other jobs; nothing is built.
 */
bool plan_race_again(struct tune *t, struct err *e) MUST_CHECK;

/* ---- stages.c: what --dump writes behind the front */
bool stages_program(const struct tune *t, struct err *e) MUST_CHECK; /* costs and program, as they are now */
bool stages_choice(const struct tune *t, struct err *e) MUST_CHECK;
bool stages_kernels(struct tune *t, const struct plan_code *codes, struct err *e) MUST_CHECK;
bool stages_plan(const struct tune *t, const struct plan *plan, struct err *e) MUST_CHECK;

/* ---- finish.c */
struct build_when {
	int64_t until_ns; /* nobody waits for it any longer; 0: somebody does */
	bool only_known;  /* where the store has it; there is no time for making it */
};
/* Builds the choice and saves its plan, to be timed.  False: no such plan, and why; ERR_DEADLINE: not in
 * time. */
bool finish_trial(struct tune *t, const char *path, struct build_when when, struct err *e) MUST_CHECK;
/* The schedule that a kernel of the plan is built with: of its measurement, by prediction, or of its nearest
 * kin; "": what looks best. */
struct str finish_schedule(struct tune *t, uint32_t spec);
bool finish_run(struct tune *t, struct err *e) MUST_CHECK;
/* Ends the job with the plan that it ended with before, or with another job's that is faster by now. */
bool finish_again(struct tune *t, struct err *e) MUST_CHECK;

#endif
