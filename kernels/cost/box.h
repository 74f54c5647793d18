/* kernels/cost/box.h: elements of a tensor as boxes: so many along each dimension, `step` apart.  What a
 * spec's results need of a tensor is kept as some boxes that do not meet: their elements are needed for
 * certain, others may be. */
#ifndef KORCH_COST_BOX_H
#define KORCH_COST_BOX_H

#include "../ir/ir.h"

enum { MAX_BOXES = 8 };
struct box {
	int64_t at[MAX_RANK], step[MAX_RANK], n[MAX_RANK]; /* step > 0; an extent of 0: empty */
};
struct boxes {
	struct box v[MAX_BOXES];
	int n, rank;
};
struct box box_all(const struct shape *s);
double box_count(const struct box *b, int rank);
/* Grows the set by what does not meet it; of two that may meet the larger stays. */
void boxes_add(struct boxes *s, const struct box *b);
double boxes_count(const struct boxes *s);

/* Elements of operand i that the elements `out` of the node's result need for certain; false: nothing is
 * known, or nothing is needed. */
bool box_operand(
    const struct graph *g, const struct node *n, uint32_t i, const struct box *out, struct box *to);

/* One dimension of a window: k taps `dilation` apart, moved by `stride` over result positions from -lo on; of
 * an operand with `have` elements, `ldil` apart. */
struct window {
	int64_t have, out, k, stride, dilation, lo, ldil;
};
/* Dimension d of a convolution (spatial ones) or window primitive. */
struct window window_of(const struct graph *g, const struct node *n, int d);
/* Taps that fall on an element at result positions at, at + step ...; *touched: different elements, at least.
 */
double window_taps(const struct window *w, int64_t at, int64_t step, int64_t n, double *touched);

#endif
