/* daemon/planner/siblings.h: what the store knows of kernels that compute the same with other extents: of
 * this model at another resolution, or of another model with such a block.  Of each kernel the one is heard
 * that is nearest by its extents, those of weights first: what it is off by puts right what is expected of
 * the kernel, and of its kin less, and its best schedule is tried first. */
#ifndef KORCH_PLANNER_SIBLINGS_H
#define KORCH_PLANNER_SIBLINGS_H

#include "tune.h"

/* Fills the structures to ask for, each once. */
void siblings_ask(struct tune *t, struct m_cost_ask *ask);
/* What came is of another program's making, perhaps: what does not read as a kernel is passed over. */
void siblings_take(struct tune *t, const struct m_sibling *s, uint32_t n);

#endif
