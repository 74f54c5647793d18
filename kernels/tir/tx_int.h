/* kernels/tir/tx_int.h: the pool of expressions, for the folder alone. */
#ifndef KORCH_TX_INT_H
#define KORCH_TX_INT_H

#include "expr.h"

struct tx {
	struct arena *arena;
	bool strict; /* the sign of a zero matters */
	struct ix *ix;
	uint32_t n_ix, cap_ix;
	uint32_t *ix_slot, ix_slots;
	struct ixv *ixv;
	uint32_t n_ixv, cap_ixv;
	uint32_t *ixv_slot, ixv_slots;
	struct ex *ex;
	uint32_t n_ex, cap_ex;
	uint32_t *ex_slot, ex_slots;
	struct axis *axis;
	uint32_t n_axis, cap_axis;
};

#endif
