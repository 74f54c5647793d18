/* tests/harness/agree.h: does a generated kernel's result agree with the interpreter's?  The worker's own
 * judgement (kernels/interp/error_check.h) with a narrower tolerance. */
#ifndef KORCH_TEST_AGREE_H
#define KORCH_TEST_AGREE_H

#include "../../kernels/ir/ir.h"

/* Output `i` of the graph on inputs `in`; want: what the interpreter says of all outputs; `by`: times what
 * float32 may differ by.  *d: how far the worst of what is wrong is away. */
bool agrees(const struct graph *g, const void *const *in, void *const *want, uint32_t i, const void *have,
    double by, double *d);

#endif
