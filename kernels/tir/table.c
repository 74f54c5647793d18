/* kernels/tir/table.c: the tables by which expressions and tuples are met again. */
#include "tx_int.h"

void
tx_table_room(struct arena *a, struct tx_table *t, uint32_t n)
{
	enum { FIRST = 256 };
	struct tx_table old = *t;

	if (n * 2 < old.n)
		return;
	t->n = old.n ? old.n * 2 : FIRST;
	t->slot = NEW_ARRAY(a, struct tx_slot, t->n);
	for (uint32_t i = 0; i < old.n; i++) {
		uint32_t k = old.slot[i].hash & (t->n - 1);

		if (!old.slot[i].id)
			continue;
		while (t->slot[k].id)
			k = (k + 1) & (t->n - 1);
		t->slot[k] = old.slot[i];
	}
}
