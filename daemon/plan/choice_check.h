/* daemon/plan/choice_check.h: a choice and its bound, checked against the binary program by the code that
 * checks certificates (kernels/run/certify.h).  No solver code. */
#ifndef KORCH_CHOICE_CHECK_H
#define KORCH_CHOICE_CHECK_H

#include "../orchestrate/blp.h"

/* Can the kernels run in this order and do they make all that is wanted?  No solver code. */
bool blp_check_order(const struct blp *p, const uint32_t *order, uint32_t n, struct err *e) MUST_CHECK;
/* *bound: what the duals prove: every row is one that no plan escapes (without its kernels
 * something wanted cannot be made), no dual is negative, no kernel is over-priced.  Errors name
 * the row or kernel.  No solver code. */
bool blp_check_bound(const struct blp *p, const struct blp_row *rows, uint32_t n_rows, double *bound,
    struct err *e) MUST_CHECK;

#endif
