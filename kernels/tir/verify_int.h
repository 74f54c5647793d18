/* kernels/tir/verify_int.h: the parts of tir_verify.  Each returns false with the rule that is broken. */
#ifndef KORCH_TIR_VERIFY_INT_H
#define KORCH_TIR_VERIFY_INT_H

#include "tensor.h"

/* "RULE: statement 7 (store): what". */
bool broken(struct err *e, const char *rule, const struct tir *p, st_id i, const char *what);

/* verify_order.c: what is read was stored before; results are covered; reductions begin at their identity. */
bool verify_order(const struct tir *p, struct err *e);
/* verify_sync.c: barriers where threads meet, and none in divergent flow. */
bool verify_sync(const struct tir *p, struct err *e);

/* What statement i says to those in its body or, of an index, to those behind it; what its own guards say. */
void facts_add_statement(struct tir_facts *f, const struct tir *p, st_id i);

/* Calls fn for each buffer that a statement touches, in order: what it reads, then what it stores. */
struct touch {
	buf_id buf;
	ixv_id at;
	bool stores;
};
typedef void touch_fn(void *self, const struct touch *t);
void tir_touches(const struct tir *p, st_id i, touch_fn *fn, void *self);

#endif
