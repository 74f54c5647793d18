/* tests/harness/agree.h: does a generated kernel's result agree with the interpreter's?  Sums may
 * be in another order; what amplifies a last bit (a sine, a floor) is allowed for. */
#ifndef KORCH_TEST_AGREE_H
#define KORCH_TEST_AGREE_H

#include "../../kernels/ir/ir.h"

/* Output `i` of the graph; `by` times what float32 may differ by.  *d: how far it is away. */
bool agrees(const struct graph *g, uint32_t i, const void *have, const void *want, double by, double *d);

#endif
