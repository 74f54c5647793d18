/* kernels/schedule/lower_int.h: from a spec's nodes to blocks; the folder's own. */
#ifndef KORCH_SCHEDULE_LOWER_INT_H
#define KORCH_SCHEDULE_LOWER_INT_H

#include "schedule.h"

struct lowering {
	struct tir *p;
	struct tx *tx;
	const struct graph *g;
	bool strict;
	uint32_t *maker; /* of each tensor: node number, NO_NODE */
	bool *kept;      /* of each tensor: in a buffer */
	buf_id *buf;     /* of each tensor; BUF_NONE */
};
const struct shape *shape_at(const struct lowering *l, tensor_id t);
enum dtype type_at(const struct lowering *l, tensor_id t);

/* lower_value.c: element idx[rank] of a tensor, as an expression over what is kept. */
ex_id value_at(struct lowering *l, tensor_id t, const ix_id *idx);
/* Of what a node that is not kept by itself makes: a map, broadcast, layout or gather. */
ex_id node_value(struct lowering *l, const struct node *n, const ix_id *idx);
/* An index out of a tensor of indices: negative ones count from the end, all are clamped. */
ix_id index_value(struct lowering *l, ex_id v, int64_t extent);
/* What one step of a reduction joins, for result index idx and reduction index red: one a dimension of a
 * window or a reduction; spatial dimensions, then channel, of a convolution; one of a matmul. */
ex_id term_value(
    struct lowering *l, const struct node *n, const ix_id *idx, const ix_id *red, enum dtype acc);
/* Steps of the reduction along each of its indices; returns how many indices. */
int red_extents(const struct lowering *l, const struct node *n, int64_t *out);
enum comb comb_of(const struct node *n);
/* lower_guard.c: the block's value, its indices as they are where the guards around them hold. */
ex_id guarded_value(const struct tir *p, const struct tir_block *b, ex_id e);

#endif
