/* kernels/codegen/row.h: elements of a buffer that a loop goes through one by one.  row.c */
#ifndef KORCH_CODEGEN_ROW_H
#define KORCH_CODEGEN_ROW_H

#include "codegen_int.h"

struct row {
	buf_id buf;
	ixv_id at;     /* over `lane` */
	axis_id lane;  /* the first loop's over the row */
	int64_t count; /* elements: 0 .. count - 1 */
	int dim;       /* of the place: base + lane */
	ix_id base;
};
/* The one loop between `loop` and statement i that the place hangs on; ST_NONE: none, or several, or a test
 * stands between, so that not all of the row is there.  (Of a test of what is joined to it, it is: behind
 * row_is_inside().) */
st_id row_loop(const struct tir *p, st_id loop, st_id i, ixv_id at);
/* Sets dim and base by the rest: the dimension that counts the row's elements. */
bool row_find_dim(const struct tir *p, struct row *r);
/* Are the row's elements there, whatever is asked in the loop?  They are read before it and stored behind. */
bool row_is_inside(const struct tir *p, st_id loop, buf_id buf, ixv_id at);
/* Is the access, in statement i below `loop`, one of the row's, by a loop over all of it or a part? */
bool row_has(const struct tir *p, const struct row *r, st_id loop, st_id i, ixv_id at);
/* Is the place always in another row: so many rows, or planes, further on? */
bool row_is_apart(const struct tir *p, const struct row *r, ixv_id place);
/* Does the access touch another buffer, or another row? */
bool row_leaves(const struct tir *p, const struct row *r, const struct access *a);
/* Which of the row's elements the place is: an index of an array. */
ixv_id row_lane(const struct tir *p, const struct row *r, ixv_id at);

#endif
