/* daemon/rewrite/rewrite_int.h: what the files of daemon/rewrite share.
 *
 * A round copies the graph node by node through rw_op(), which tries the rules on the primitive
 * about to be built.  A rule that applies builds something else (through rw_op() again) and
 * returns its tensor; what nobody reads any more is dropped when the round's graph is sorted. */
#ifndef KORCH_REWRITE_INT_H
#define KORCH_REWRITE_INT_H

#include "rewrite.h"

/* A primitive about to be built. */
struct expr {
	enum prim prim;
	uint32_t n_in;
	const tensor_id *in;
	const struct attrs *at;
	struct tensor result; /* type and shape */
};
struct rw_slot;
struct rule;
struct rw {
	struct arena *a;   /* of the result: data of new constants */
	struct arena *tmp; /* of this round */
	struct graph *g;   /* being built */
	const struct rewrite_opts *o;
	struct rewrite_stats *stats;
	const struct rule *rules; /* rule.def's, or the one of o->pattern */
	uint32_t n_rules;
	uint32_t *maker; /* per tensor of g: its first node, or NO_NODE */
	uint32_t *uses;  /* per tensor of g: readers it had before this round; 0 for new ones */
	uint32_t cap_maker, cap_uses, n_known;
	struct rw_slot *slots; /* hash table of nodes and constants already built */
	uint32_t n_slots, n_filled;
	uint32_t origin, depth, n_applied;
};
typedef bool rule_fn(struct rw *r, const struct expr *x, tensor_id *out);
/* Another primitive that makes what a node makes; `in` is built. */
struct other {
	enum prim prim;
	uint32_t n_in;
	tensor_id *in;
	struct attrs at;
};
typedef bool alt_fn(struct rw *r, const struct node *n, struct other *out);

/* ---- patterns (pattern.c; the notation: rule.def) ---- */
struct prims { /* a set */
	uint64_t w[2];
};
static inline bool
prims_has(const struct prims *s, enum prim p)
{
	return s->w[p >> 6] >> (p & 63) & 1;
}
struct term {
	enum { TERM_NAME, TERM_NUMBER, TERM_OP } kind;
	char name; /* of a NAME, of an OP that has one, or 0 */
	bool f32, either, all, under;
	uint32_t readers, slot; /* 0: any number; none */
	double number;
	struct str word; /* the primitives as written */
	struct prims prims;
	enum prim prim; /* one of them */
	int twin;       /* on the right: the term on the left with the same word, or -1 */
	uint32_t n_in;
	int in[3];
};
enum { MAX_TERMS = 18 };
struct pattern {
	struct term term[MAX_TERMS]; /* as written; 0 and `right` are the roots */
	int n, right;
	bool either; /* in some term */
	const struct pattern *next;
};
/* ERR_FORMAT says what is wrong, and where. */
bool pattern_read(struct arena *a, const char *text, const struct pattern **out, struct err *e) MUST_CHECK;

/* What the left side has found, and what the guard adds. */
struct match {
	struct rw *r;
	const struct pattern *p;
	const struct expr *x; /* the root */
	bool swapped;         /* the operands of "~" */
	uint32_t n_all;
	const tensor_id *all;      /* what ".." stands for */
	tensor_id t[26];           /* by name; e is made by the guard */
	enum prim prim[MAX_TERMS]; /* by term */
	const struct attrs *at[MAX_TERMS];
	struct attrs slot[2]; /* "@", "@2": made by the guard */
};
typedef bool guard_fn(struct match *m);
/* Tries the pattern and those behind it. */
bool pattern_apply(
    struct rw *r, const struct pattern *p, guard_fn *guard, const struct expr *x, tensor_id *out);

/* ---- the table (table.c) ---- */
struct rule {
	const char *name, *text;
	enum numeric kind;
	bool is_gain;
	alt_fn *offer;       /* one of three: an alternative, */
	rule_fn *apply;      /* C, */
	const char *pattern; /* or a pattern and its guard */
	guard_fn *guard;
	const struct pattern *first; /* as read */
	struct prims roots;          /* what the rule is tried on */
};
/* Into r; ERR_FORMAT names the rule. */
bool rules_read(struct arena *a, struct rw *r, struct err *e) MUST_CHECK;

/* ---- building (rewrite.c) ----
 * C leaves open in which order the arguments of a call are computed: build at most one of them in
 * place, so that every compiler gives the same graph. */
tensor_id rw_op(struct rw *r, enum prim p, const tensor_id *in, uint32_t n_in, const struct attrs *at);
tensor_id rw_op1(struct rw *r, enum prim p, tensor_id x, const struct attrs *at);
/* Two operands and attributes; two operands. */
tensor_id rw_op2_at(struct rw *r, enum prim p, tensor_id x, tensor_id y, const struct attrs *at);
tensor_id rw_op2(struct rw *r, enum prim p, tensor_id x, tensor_id y);
tensor_id rw_reshape(struct rw *r, tensor_id x, const struct shape *to);
tensor_id rw_transpose(struct rw *r, tensor_id x, int rank, const int64_t *perm);
tensor_id rw_bcast(struct rw *r, tensor_id x, const struct shape *to);
tensor_id rw_slice(
    struct rw *r, tensor_id x, const struct shape *to, const int64_t *start, const int64_t *step);
/* A constant; `data` lives in r->a. */
tensor_id rw_const(
    struct rw *r, enum tensor_role role, enum dtype t, const struct shape *s, const void *data);

/* ---- looking (rewrite.c) ---- */
/* Has this round built that transpose of x already? */
bool rw_has_transpose(const struct rw *r, tensor_id x, int rank, const int64_t *perm);
static inline const struct tensor *
rw_tensor(const struct rw *r, tensor_id t)
{
	return graph_tensor(r->g, t);
}
static inline const struct shape *
rw_shape(const struct rw *r, tensor_id t)
{
	return &rw_tensor(r, t)->shape;
}
/* The node behind a tensor when it is of primitive p, else NULL. */
const struct node *rw_made_by(const struct rw *r, tensor_id t, enum prim p);
const struct node *rw_maker(const struct rw *r, tensor_id t);
/* Exactly one node (or output) read it before this round. */
bool rw_single(const struct rw *r, tensor_id t);
bool rw_is_const(const struct rw *r, tensor_id t);
/* What t is a broadcast of, or t. */
tensor_id rw_under(const struct rw *r, tensor_id t);
/* A constant, or a broadcast of one; *c is the constant itself. */
bool rw_const_under(const struct rw *r, tensor_id t, tensor_id *c);
/* The value, where the tensor is a constant (or a broadcast of one) of equal f32 elements. */
bool rw_uniform(const struct rw *r, tensor_id t, double *value);
static inline bool
shape_has_data(const struct rw *r, tensor_id t)
{
	return rw_is_const(r, t) && rw_tensor(r, t)->data;
}

/* ---- what guards ask (match.c) ---- */
tensor_id named(const struct match *m, char name);
const struct shape *shape_of(const struct match *m, char name);
static inline const struct shape *
result_shape(const struct match *m)
{
	return &m->x->result.shape;
}
/* Lists of the outermost primitive, and of the one that the pattern names next. */
static inline const int64_t *
outer(const struct match *m, enum attr_key key)
{
	return at_ints(m->at[0], key);
}
static inline const int64_t *
inner(const struct match *m, enum attr_key key)
{
	return at_ints(m->at[1], key);
}
/* x has the result's; each number of the outer list is v. */
bool same_shape(const struct match *m);
bool all_are(const struct match *m, enum attr_key key, int64_t v);
/* e is t, which may be NO_TENSOR: false; e is c + d or c * d. */
static inline bool
make(struct match *m, tensor_id t)
{
	m->t['e' - 'a'] = t;
	return t.i != UINT32_MAX;
}
bool folds(struct match *m, enum prim p);
/* The rest is each for a rule or two: rules_*.c. */
guard_fn moves_nothing, slices_nothing, moves_only_ones, transpose_of_transpose, slice_of_slice, pad_of_pad,
    slice_of_part, slice_inside_pad, gathers_in_even_steps, counts_by_digits, repeats_apart,
    merge_goes_behind, slice_of_bcast, conv_can_pad, window_can_pad, all_strip, parts_strip, batches_strip,
    attrs_before, gather_before, groups_move_whole, moves_whole_groups, swapping_pays, works_in_low_rank,
    reduces_whole_groups, all_are_repeated, all_fit_a_smaller_shape, powers_of_two, invertible,
    scales_are_small, is_mean, left_is_smaller, narrows_rows, moves_within_rows, has_many_taps;
/* e is the weight w, its columns times the constant of that name. */
bool columns_times(struct match *m, char name);

/* ---- constants (fold.c) ---- */
/* The role of a constant of `count` elements made from constants. */
enum tensor_role fold_role(int64_t count, bool from_weight);
/* c + d or c * d (p: PRIM_add, PRIM_mul), both float constants of one rank, broadcast to their
 * common shape.  NO_TENSOR where that is too large or not possible. */
tensor_id fold_map2(struct rw *r, enum prim p, tensor_id c, tensor_id d);

/* Can the reshape of broadcast b to `want` be a broadcast of a reshape to *low?  In each group all
 * dimensions longer than 1 are repeated, or none is. */
bool bcast_can_reshape(const struct rw *r, const struct node *b, const struct shape *want, struct shape *low);

/* ---- shape algebra (shapes.c) ---- */
/* How a reshape groups dimensions: group k covers from.dim[a[k] .. a[k+1]) and
 * to.dim[b[k] .. b[k+1]), both of the same number of elements, as finely as possible. */
struct groups {
	int n;
	int a[MAX_RANK * 2 + 2], b[MAX_RANK * 2 + 2];
};
bool groups_make(const struct shape *from, const struct shape *to, struct groups *out);
void perm_inverse(int rank, const int64_t *perm, int64_t *out);
struct shape shape_permuted(const struct shape *s, const int64_t *perm);
/* A list attribute of one number a dimension, in the order of `perm`. */
void list_permuted(int rank, const int64_t *list, const int64_t *perm, int64_t *out);
/* The attributes of a slice; step NULL: ones. */
void at_slice(struct attrs *at, const struct shape *to, const int64_t *start, const int64_t *step);
/* Does the permutation keep the order of dimensions longer than 1? */
bool perm_is_view(const struct shape *s, const int64_t *perm);

#define RULE(NAME, KIND, TEXT) rule_fn rule_##NAME;
#define ALT(NAME, KIND, TEXT) alt_fn alt_##NAME;
#define PATTERN(NAME, KIND, TEXT, TREES, GUARD)
#include "rule.def"
#undef RULE

#endif
