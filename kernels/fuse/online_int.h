/* kernels/fuse/online_int.h: a softmax between two linear stages, as found; online*.c. */
#ifndef KORCH_ONLINE_INT_H
#define KORCH_ONLINE_INT_H

#include "lower_int.h"
#include "lower_int.h"

struct online {
	struct tile_prog *p;
	uint32_t second, max, first; /* stages */
	uint32_t sum;                /* UINT32_MAX: nobody asked for it */
	bool divides;                /* by the sum, before the second product */
	bool in_b;                   /* the second's factor with the rows is b */
	axis_id key;                 /* of the second: its sum's axis */
	ex_id x, e;                  /* over the second's axes */
	ix_id row;                   /* flat index of a row in the maximum's result, over the second's axes */
	int64_t keys, block;
	bool *in;       /* of each stage: its work is done in the sweep */
	bool *late;     /* of each stage: it stood before the second, and waits for the sum */
	uint32_t depth; /* of maps that are being put into each other */
};

/* The stage that makes the tensor; NULL: none. */
const struct stage *online_maker(const struct tile_prog *p, uint32_t tensor);
/* The expression with the stage's axes replaced, the first of them by at[0] and so on. */
ex_id online_over(struct tile_prog *p, const struct stage *s, ex_id e, const ix_id *at);
/* The expression with maps in place of what it reads of them along `key`. */
ex_id online_expand(struct online *o, ex_id e, axis_id key);
/* online_build.c: the stages found go, those of the sweep come. */
void online_build(struct online *o);

#endif
