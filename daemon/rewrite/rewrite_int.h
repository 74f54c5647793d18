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
struct rw {
	struct arena *a;   /* of the result: data of new constants */
	struct arena *tmp; /* of this round */
	struct graph *g;   /* being built */
	const struct rewrite_opts *o;
	struct rewrite_stats *stats;
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
/* A constant, or a broadcast of one; *c is the constant itself. */
bool rw_const_under(const struct rw *r, tensor_id t, tensor_id *c);
/* The value, where the tensor is a constant (or a broadcast of one) of equal f32 elements. */
bool rw_uniform(const struct rw *r, tensor_id t, double *value);
static inline bool
shape_has_data(const struct rw *r, tensor_id t)
{
	return rw_is_const(r, t) && rw_tensor(r, t)->data;
}

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
/* Does the permutation keep the order of dimensions longer than 1? */
bool perm_is_view(const struct shape *s, const int64_t *perm);

#define RULE(NAME, KIND, TEXT) rule_fn rule_##NAME;
#define ALT(NAME, KIND, TEXT) alt_fn alt_##NAME;
#include "rule.def"
#undef RULE

#endif
