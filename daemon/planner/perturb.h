/* daemon/planner/perturb.h: better orders of the machine instructions of the kernels that a plan rests on
 * (perturb.c). */
#ifndef KORCH_PLANNER_PERTURB_H
#define KORCH_PLANNER_PERTURB_H

#include "tune.h"

/* Has the machine code of the kernels that matter put into better orders, and chooses again by what came of
 * it.
 */
bool perturb(struct tune *t, struct err *e) MUST_CHECK;
/* One answer. */
void perturb_take(struct tune *t, const struct m_perturb_have *m);
/* A cost without moves of instructions: of the kernel as it was. */
int64_t perturb_plain_ns(const struct tune *t, uint32_t spec);
/* The moves of a spec's schedule do not fit its code: it counts as it was from here on. */
bool perturb_undo(struct tune *t, uint32_t spec);
/* That spec's instructions stay as they were compiled: said at the end, with the first one's cause. */
void perturb_unmoved(struct tune *t, uint32_t spec, struct str cause);
/* Does a kernel of the choice have moves? */
bool perturb_is_in(struct tune *t, const uint32_t *chosen, uint32_t n);

/* What is known of the moves that the plan's kernels have. */
void perturb_tell(const struct tune *t, struct plan *plan);

/* ---- costs.c, for perturb.c */
/* The spec of that hash. */
bool cost_find(const struct tune *t, const struct hash *h, uint32_t *out);
/* An answer about it. */
void cost_take(struct tune *t, uint32_t spec, const struct m_cost *m);

/* ---- search.c */
/* Solves again, costs having fallen since the search ended. */
bool search_renew(struct tune *t, struct err *e) MUST_CHECK;

#endif
