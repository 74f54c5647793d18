/* kernels/tir/form.h: a packed operand's form. */
#ifndef KORCH_TIR_FORM_H
#define KORCH_TIR_FORM_H

#include "expr.h"

/* How a constant operand lies where that is not how it comes: element (places) of the buffer as it is here is
 * element `at` of the operand, zero where that is outside of it.  Row-major in the places' extents; the
 * buffer's dimensions say the same until a pass makes them one. */
struct tir_form {
	int rank, from_rank;
	axis_id place[MAX_RANK];
	int64_t from_dim[MAX_RANK]; /* the operand's extents */
	ixv_id at;                  /* over the places */
};

#endif
