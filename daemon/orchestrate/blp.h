/* daemon/orchestrate/blp.h: the binary linear program: costs as an array in, the chosen
 * kernels out.  README.md tells the method: a covering program over lazily separated
 * landmark rows gives the bound, a programme over the tensors' frontier the plan. */
#ifndef KORCH_BLP_H
#define KORCH_BLP_H

#include "../../kernels/base/base.h"

struct blp_kernel {
	const uint32_t *in, *out;
	uint32_t n_in, n_out;
	int64_t cost; /* ns, >= 1, at most BLP_MAX_COST; BLP_NEVER: must not be chosen */
};
#define BLP_MAX_COST ((int64_t)1 << 40)
#define BLP_NEVER INT64_MAX
/* One way to compute a tensor, of the graph that the kernels were cut from.  Only a hint from
 * which T to grow landmark rows: a wrong one costs speed, never an answer. */
struct blp_node {
	uint32_t tensor;
	const uint32_t *in;
	uint32_t n_in;
};
/* Every plan has one of these kernels; the dual is its price in a bound. */
struct blp_row {
	uint32_t *kernels;
	uint32_t n;
	double dual;
};
/* Tensors 0..n_tensors-1 are numbered topologically: a kernel that makes t from inputs all
 * smaller than t exists for every t a plan may need; alternatives only add makers. */
struct blp {
	uint32_t n_tensors, n_kernels;
	const struct blp_kernel *kernels;
	const uint32_t *given, *wanted; /* model inputs and constants; model outputs */
	uint32_t n_given, n_wanted;
	const struct blp_node *nodes; /* may be NULL */
	uint32_t n_nodes;
	/* Of a search before, or of a certificate: the covering program starts with them, whatever their
	 * duals.  May be NULL; one that some plan does without is left out. */
	const struct blp_row *rows;
	uint32_t n_rows;
};
/* Who looks for the plan and proves it: the frontier programme under the covering program's duals, or
 * lp_solve by the binary program as it stands (small programs, as a check of the other: ERR_LIMIT where it is
 * too large, ERR_WRONG where the two contradict each other).  The duals are Clp's in either case: lazy
 * profiling and certificates rest on them. */
enum blp_solver { BLP_CLP, BLP_LP_SOLVE };
/* "clp", "lp_solve"; "" is BLP_CLP.  ERR_USAGE. */
bool blp_solver_read(struct str name, enum blp_solver *out, struct err *e) MUST_CHECK;
struct blp_limits {               /* counted work, never seconds (D21); zero means the default */
	uint32_t beam_width;      /* states kept per tensor by the widest beam; 6,400 */
	uint64_t max_states;      /* of all programmes together; 8 million */
	uint32_t max_rounds;      /* of row separation; 80.  1: coverage rows only */
	uint64_t max_work;        /* of lp_solve: steps of its simplex times rows and columns; 4e9 */
	enum blp_solver solver;   /* of blp_solve() and blp_solve_again() */
	bool (*stop)(void *self); /* asked now and then, true ends the work; may be NULL */
	/* Beside stop: when it will say so, as nobody asks while a linear program is solved, and one of sixty
	 * thousand rows takes seconds.  May be NULL. */
	double (*seconds_left)(void *self);
	void *self;
};
struct blp_result {
	uint32_t *chosen; /* kernel numbers in an executable order */
	uint32_t n_chosen;
	int64_t cost;
	int64_t bound; /* proven lower bound; == cost when proved */
	bool proved;
	double *reduced;        /* per kernel: any plan that uses k costs >= pi + reduced[k] */
	enum blp_solver solver; /* who chose */
	double pi;              /* sum of the safe duals: exact, they are multiples of 2^-20 */
	struct blp_row *rows;   /* those with a dual */
	uint32_t n_rows;
	uint64_t n_states, n_made,
	    n_simplex; /* states that count against the limit; made, most of them dropped at once */
	uint32_t n_columns, n_rows_made, n_branches; /* of the covering program; of the search */
};

/* start: a known valid choice (may be NULL).  ERR_MODEL when some output cannot be made.
 * Equal arguments give equal results.  Results live in `a`. */
bool blp_solve(struct arena *a, const struct blp *p, const uint32_t *start, uint32_t n_start,
    const struct blp_limits *lim, struct blp_result *out, struct err *e) MUST_CHECK;

/* The same over those kernels alone that do not cost BLP_NEVER, in a program of their own: dearer than
 * blp_plan_again(), and better where they are few.  `out` has no reduced costs and no rows. */
bool blp_solve_some(struct arena *a, const struct blp *p, const int64_t *cost, const uint32_t *start,
    uint32_t n_start, const struct blp_limits *lim, struct blp_result *out, struct err *e) MUST_CHECK;

/* For a program that is solved again and again with changed costs: rows, columns, basis and
 * the last plan are kept.  The state copies what it needs of `p`, costs aside.  One owner at a time. */
struct blp_state;
struct blp_state *blp_state_new(const struct blp *p, const struct blp_limits *lim);
void blp_state_free(struct blp_state *s);
/* cost: one number per kernel, in place of blp_kernel.cost. */
bool blp_solve_again(struct arena *a, struct blp_state *s, const int64_t *cost, const uint32_t *start,
    uint32_t n_start, struct blp_result *out, struct err *e) MUST_CHECK;

/* A plan for costs that are nowhere below those of the last blp_solve_again(), such as with kernels
 * forbidden: its duals hold for them too, so that no linear program is solved.  Beams alone look
 * for the plan. */
bool blp_plan_again(struct arena *a, struct blp_state *s, const int64_t *cost, const uint32_t *start,
    uint32_t n_start, struct blp_result *out, struct err *e) MUST_CHECK;
/* Other limits from the next solution on. */
void blp_state_limit(struct blp_state *s, const struct blp_limits *lim);

/* The cross-check (D22): lp_solve on the support form with loop cuts, for small programs.
 * *proved is false when lp_solve gave up. */
bool blp_solve_direct(
    struct arena *a, const struct blp *p, int64_t *cost, bool *proved, struct err *e) MUST_CHECK;

/* Text form "korch-blp 2" (README.md).  Errors name the line. */
bool blp_read(struct arena *a, struct str text, struct blp *out, struct err *e) MUST_CHECK;
void blp_print(struct strbuf *sb, const struct blp *p);
/* With kernels that must not be chosen, so that numbers stay what they are. */
void blp_print_whole(struct strbuf *sb, const struct blp *p);
/* A choice as text, "kernels N of M", "plan K...", "duals prove P", "cost C bound B proved|gap G"
 * (choice_text.c). Reading fills in chosen, n_chosen, cost, bound, pi and proved; errors name the line. */
void choice_print(struct strbuf *sb, const struct blp *p, const struct blp_result *r);
bool choice_read(
    struct arena *a, struct str text, const struct blp *p, struct blp_result *out, struct err *e) MUST_CHECK;

#endif
