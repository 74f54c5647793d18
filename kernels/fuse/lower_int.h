/* kernels/fuse/lower_int.h: from the spec's nodes to expressions and stages; the folder's own. */
#ifndef KORCH_LOWER_INT_H
#define KORCH_LOWER_INT_H

#include "tile.h"

struct lower {
	struct tile_prog *p;
	const struct graph *g;
	struct tx *tx;
	uint32_t *maker; /* of each spec tensor: node number, NO_NODE */
	bool *kept;      /* spec tensor has a stage of its own */
	int64_t unroll;  /* longest reduction that becomes part of an expression */
};

/* keep.c: which tensors get a stage. */
void keep_decide(struct lower *l);
/* Elements that one result element of a reduction or linear node joins. */
int64_t node_depth(const struct graph *g, const struct node *n);
/* Small enough, and better as part of an expression than as a loop? */
bool node_unrolls(const struct lower *l, const struct node *n);

/* lower.c: the element of tensor t at idx[rank]. */
ex_id lower_value(struct lower *l, tensor_id t, const ix_id *idx);
/* The element of the tensor that the node makes, from its operands. */
ex_id lower_node(struct lower *l, const struct node *n, const ix_id *idx);
ix_id lower_flat(struct lower *l, const struct shape *s, const ix_id *idx);
/* What one step of a reduction joins: the operand's element for result index idx and reduction
 * index red (one a dimension; for conv: spatial dimensions, then channel; for matmul: one). */
ex_id lower_term(struct lower *l, const struct node *n, const ix_id *idx, const ix_id *red);
/* The two factors of a linear node's term. */
void lower_factors(
    struct lower *l, const struct node *n, const ix_id *idx, const ix_id *red, ex_id *a, ex_id *b);
/* An index taken from a tensor of indices: negative ones count from the end, all are clamped. */
ix_id lower_index_value(struct lower *l, ex_id v, int64_t extent);
/* The value that changes nothing. */
ex_id lower_identity(struct lower *l, enum prim p, enum dtype t);
enum dtype lower_acc_type(const struct lower *l, enum dtype t);

/* stage.c: stages of all kept tensors, in topological order. */
bool stages_make(struct lower *l, struct err *e);
/* A copy of it is the last stage, and makes its tensors. */
void stage_append(struct tile_prog *p, const struct stage *s);

/* axes.c: the same stage over other axes. */
/* Calls fn with a pointer to each expression of the stage. */
void stage_each_ex(struct stage *s, void (*fn)(void *self, ex_id *e), void *self);
/* Replaces axes in all the stage's expressions. */
void stage_subst(struct tx *x, struct stage *s, const struct tx_subst *sub);
/* axis[k] becomes axis[k] (extent / f) and axis[k+1] (f). */
void stage_split_axis(struct tx *x, struct stage *s, uint32_t k, int64_t f);
/* axis[k] and axis[k+1] become one where no index minds; false: nothing changed. */
bool stage_merge_axes(struct tx *x, struct stage *s, uint32_t k);
/* Splits axes until no division by constants is left that a split can remove. */
void stage_split_divisions(struct tx *x, struct stage *s);
/* As above for one more index expression over the stage's axes; true if it split something. */
bool stage_split_for(struct tx *x, struct stage *s, ix_id i);
/* The stage's reads of tensors that stages make. */
struct stage_read {
	uint32_t tensor;
	ix_id at;
};
uint32_t stage_reads(const struct tile_prog *p, struct stage *s, struct arena *a, struct stage_read **out);
/* Index along axis k of the maker of tensor t, for a read at flat index `at`. */
ix_id decode_axis(const struct tile_prog *p, const struct stage *maker, uint32_t k, ix_id at);
double stage_work(const struct stage *s); /* elements read, about */

/* online.c: a softmax between two linear stages goes through blocks of its rows (knob `online`). */
void online_form(struct tile_prog *p);
/* Passes are formed and bound.  ERR_INFEASIBLE: the sweep's stages do not follow each other in one pass. */
bool online_holds(const struct tile_prog *p, struct err *e) MUST_CHECK;

/* split.c: long reductions of few results become partial sums and a combination. */
void split_reductions(struct lower *l);
/* pass.c: stages go into passes. */
bool passes_form(struct tile_prog *p, struct err *e);
/* bind.c: outer axes, scratch and the final index expressions. */
bool passes_bind(struct tile_prog *p, struct err *e);
#endif
