/* daemon/orchestrate/blp_int.h: what the solver's files share.  Inside the solver costs and duals
 * are fixed-point (units of 2^-20 ns), so that every sum is exact and every run the same. */
#ifndef KORCH_BLP_INT_H
#define KORCH_BLP_INT_H

#include "blp.h"

static inline bool
blp_is_stopped(const struct blp_limits *l)
{
	return l->stop && l->stop(l->self);
}

typedef int64_t fixed_cost;
enum { FIXED_BITS = 20 };
#define FIXED_ONE ((fixed_cost)1 << FIXED_BITS)
#define FIXED_NEVER (INT64_MAX / 4)

/* Lists of numbers, one after the other: list i is item[first[i] .. first[i + 1]). */
struct adjacency {
	uint32_t *first, *item;
};

/* The cleaned program: only tensors that some plan needs and can make, only kernels that can
 * run and make one of those, kernels with equal reads and makes joined to one.  Tensors keep
 * their order.  What it holds does not depend on costs, but for `cost` and `best`. */
struct prog {
	uint32_t n_tensors, n_kernels, n_source; /* n_source: kernels of the struct blp */
	struct adjacency in, out;                /* of a kernel, ascending */
	struct adjacency makers, readers;        /* of a tensor */
	struct adjacency duplicates;             /* kernel -> kernels of the struct blp that it stands for */
	uint32_t *kernel_of;                     /* blp kernel -> kernel, NONE if it was dropped */
	uint32_t *tensor_of;                     /* tensor -> blp tensor */
	bool *is_wanted;
	struct adjacency node_in;      /* hints: a node's operands (tensors before it) */
	uint32_t *node_tensor;         /* hints, ascending by tensor; in numbers of their own: see */
	uint32_t n_nodes, n_landmarks; /* landmark.c */
	struct adjacency row;          /* given rows that hold, as kernels */
	uint32_t n_rows;
	int64_t *cost;  /* BLP_NEVER: not to be used */
	uint32_t *best; /* the cheapest duplicate */
};
#define NONE UINT32_MAX

struct adjacency adjacency_make(struct arena *a, uint32_t n, const uint32_t *count);
struct adjacency adjacency_invert(struct arena *a, uint32_t n_from, uint32_t n_to, struct adjacency l);
bool prog_make(struct arena *a, const struct blp *p, struct prog *out, struct err *e) MUST_CHECK;
/* cost: per kernel of the struct blp. */
void prog_set_costs(struct prog *g, const int64_t *cost);
/* Orders `set` so that it can run; false, with the tensors that it makes in `made` (bytes,
 * n_tensors, may be NULL), where it cannot run or does not make all that is wanted.  Kernels that
 * cannot run come last; *n_run counts those that can. */
bool prog_schedule(
    struct arena *tmp, const struct prog *g, uint32_t *set, uint32_t n, uint32_t *n_run, uint8_t *made);
int64_t prog_cost_of(const struct prog *g, const uint32_t *set, uint32_t n);

/* ---- the covering program (landmark.c, separate.c, ascend.c, cover.c) ---- */
struct landmarks; /* ancestors of each tensor, and the rows made so far */
struct landmarks *landmarks_new(const struct prog *g);
void landmarks_free(struct landmarks *m);
uint32_t landmarks_count(const struct landmarks *m);
/* Kernels of a row, ascending. */
const uint32_t *landmarks_row(const struct landmarks *m, uint32_t row, uint32_t *n);
/* Adds the rows of the nodes and the given ones; then those violated by x (per kernel).  Returns how many. */
uint32_t landmarks_add_coverage(struct landmarks *m);
uint32_t landmarks_separate(struct landmarks *m, const double *x, bool deep, uint64_t seed);
/* Adds rows that raise a bound whose reduced costs (per kernel; changed) these are, whatever the
 * solution (ascend.c).  Returns how many. */
uint32_t landmarks_ascend(struct landmarks *m, double *reduced, uint32_t max_rows);
/* Kernels that compute each node, by node; a kernel computes about members[k] nodes. */
const struct adjacency *landmarks_nodes(const struct landmarks *m, const uint32_t **members);

struct cover; /* Clp's side: columns, rows, basis */
struct cover *cover_new(const struct prog *g);
void cover_free(struct cover *c);
struct cover_result {
	fixed_cost pi;
	fixed_cost *dual;    /* per row of the landmarks */
	fixed_cost *reduced; /* per kernel, >= 0; FIXED_NEVER for those not to be used */
	uint64_t n_simplex;
	uint32_t n_columns, n_rows;
};
/* Solves with the program's present costs, to the end of separation or max_rounds.  The result
 * is right wherever it stops. */
void cover_solve(struct arena *a, struct cover *c, const struct blp_limits *limits, struct cover_result *out);
/* Kernels of a row of the last result. */
const uint32_t *cover_row(const struct cover *c, uint32_t row, uint32_t *n);

/* ---- the frontier programme (frontier.c) -------------------------------------------------- */
struct frontier_in {
	const struct prog *g;
	const bool *use;             /* kernels to consider */
	const struct adjacency *out; /* g->out, or with outputs taken away */
	fixed_cost pi;
	const fixed_cost *reduced;
	const struct adjacency *rows; /* rows with a dual, as kernels */
	const fixed_cost *dual;
	uint32_t n_rows;
	int64_t below;  /* only plans cheaper than this are of interest */
	uint32_t width; /* states kept per tensor; 0: no limit */
	uint64_t max_states;
	const struct blp_limits *limits; /* for its stop */
};
struct frontier_out {
	uint32_t *set; /* the best plan found */
	uint32_t n_set;
	bool found;       /* set can be scheduled and is cheaper than in->below */
	bool is_complete; /* no state was dropped but by proof: nothing schedulable is below
	                   * min(relaxed, cost of set) */
	uint32_t *stuck;  /* the cheapest final set when it cannot be scheduled */
	uint32_t n_stuck;
	int64_t relaxed; /* cost of the cheapest final state, BLP_NEVER if there is none */
	uint64_t n_states, n_made;
};
void frontier_run(struct arena *a, const struct frontier_in *in, struct frontier_out *out);
/* The same over the kernels in use alone, tensors in an order made for them (narrow.c). */
void frontier_run_narrow(struct arena *a, const struct frontier_in *in, struct frontier_out *out);

/* ---- plans (greedy.c) ----------------------------------------------------------------------- */
/* A valid plan, each tensor by the maker that is cheapest when sharing is not seen; false when
 * something wanted cannot be made with the kernels that may be used: *missing names it. */
bool greedy_plan(struct arena *a, const struct prog *g, uint32_t **set, uint32_t *n, uint32_t *missing);
/* Takes away kernels that a plan can do without, dearest first. */
void greedy_trim(struct arena *tmp, const struct prog *g, uint32_t *set, uint32_t *n);

/* ---- the choice by lp_solve (direct.c) --------------------------------------------------------- */
struct direct_out {
	uint32_t *set, n_set; /* kernels, in no order */
	int64_t cost;
	bool proved; /* false: it was stopped, or kept waiting for itself in circles; the rest is not set */
};
/* ERR_LIMIT: too large; ERR_FAILED: lp_solve found none. */
/* rows: kernels of which every plan has one, n_rows lists; they are given to lp_solve beside the program's
 * own, whose linear relaxation is far below the optimum. */
bool direct_run(struct arena *a, const struct blp *p, const struct adjacency *rows, uint32_t n_rows,
    const struct blp_limits *lim, struct direct_out *out, struct err *e) MUST_CHECK;

/* ---- the search that closes the gap (search.c) ----------------------------------------------- */
struct search {
	struct arena *a;
	const struct prog *g;
	struct cover *cover;
	struct cover_result lp;
	struct adjacency rows; /* of lp, those with a dual */
	fixed_cost *dual;
	uint32_t n_rows;
	const struct blp_limits *limits; /* no zeros */
	uint32_t *set, n_set;            /* the best plan; there always is one */
	int64_t cost, bound;
	uint64_t n_states, n_made;
	uint32_t n_branches;
};
void search_run(struct search *s);
/* Fills rows and dual from lp. */
void search_rows(struct search *s);
/* The beams alone. */
void search_plan(struct search *s);
/* lp_solve in place of the search.  Stopped, it leaves the best plan known and the bound of the duals.
 * ERR_WRONG: its optimum is not what plans and duals allow. */
bool search_direct(struct search *s, struct err *e) MUST_CHECK;

#endif
