/* kernels/tir/tx_int.h: the pool of expressions, for the folder alone. */
#ifndef KORCH_TX_INT_H
#define KORCH_TX_INT_H

#include "expr.h"

/* What has been met, by hash, with its number from 1 on; 0: free.  Half of the slots at most are taken. */
struct tx_table {
	struct tx_slot {
		uint32_t id, hash;
	} * slot;
	uint32_t n; /* a power of two */
};
/* Room for one more than n entries. */
void tx_table_room(struct arena *a, struct tx_table *t, uint32_t n);

/* Numbers that have been met, each with another; for few of them no more memory than this.  It ends with
 * met_end(). */
enum { MET_FEW = 16 };
struct met {
	struct met_entry {
		uint32_t key, value; /* of the key one more; 0: free */
	} * entry, few[MET_FEW];
	uint32_t n, used; /* n: a power of two; 0: none is met yet */
};
void met_begin(struct met *m);
void met_end(struct met *m);
/* The value that stands by the key, which is noted; 0 at first.  Valid until the next key is noted. */
uint32_t *met_at(struct met *m, uint32_t key);

static inline bool
has_ix(const struct ex *n)
{
	return n->kind == EX_GUARD || n->kind == EX_INDEX || n->kind == EX_SCRATCH;
}

/* The number of a node in normal form; it is copied. */
ix_id ix_intern(struct tx *x, const struct ix *n);
/* base + the sum of coef * atom, where an atom may be a sum itself. */
ix_id ix_sum(struct tx *x, int64_t base, const struct ix_term *t, uint32_t n);

/* Constants that are met by themselves. */
enum { TX_SMALL = 256 };

struct tx {
	struct arena *arena;
	bool strict; /* the sign of a zero matters */
	struct ix *ix;
	uint32_t n_ix, cap_ix;
	struct tx_table ix_met;
	ix_id small[TX_SMALL]; /* of the constants 0, 1, ..: one more; 0: not met yet */
	struct ixv *ixv;
	uint32_t n_ixv, cap_ixv;
	struct tx_table ixv_met;
	struct ex *ex;
	uint32_t n_ex, cap_ex;
	struct tx_table ex_met;
	struct axis *axis;
	uint32_t n_axis, cap_axis;
};

#endif
