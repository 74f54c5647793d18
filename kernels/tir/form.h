/* kernels/tir/form.h: a packed operand's form. */
#ifndef KORCH_TIR_FORM_H
#define KORCH_TIR_FORM_H

#include "expr.h"

/* A constant operand may be mapped along a dimension on its way in: row r is the sum of w[r][t] times its
 * element t.  A weight of Winograd's form is, along both sides of its window. */
enum form_map { MAP_none, MAP_wino2, MAP_wino4, FORM_MAPS };
enum { FORM_MAP_ROWS = 6, FORM_MAP_TAPS = 3 };
extern const struct form_map_info {
	const char *name;
	int rows, taps;
	double w[FORM_MAP_ROWS][FORM_MAP_TAPS];
} form_map_info[FORM_MAPS];

/* How a constant operand lies where that is not how it comes: element (places) of the buffer as it is here is
 * element `at` of the operand, zero where that is outside of it.  Row-major in the places' extents; the
 * buffer's dimensions say the same until a pass makes them one. */
struct tir_form {
	int rank, from_rank;
	axis_id place[MAX_RANK];
	int64_t from_dim[MAX_RANK]; /* the operand's extents */
	ixv_id at;                  /* over the places; of a mapped dimension the map's row */
	enum form_map map[MAX_RANK];
};

#endif
