/* daemon/planner/away.h: plans that are predicted (--predict). */
#ifndef KORCH_AWAY_H
#define KORCH_AWAY_H

#include "tune.h"

/* Nobody is here to build for the device: the plan gets no machine code. */
bool away_has_no_builder(const struct tune *t);
/* In place of a search: measures the samples that were asked for, then chooses by what is expected. */
bool away_search(struct tune *t, struct err *e) MUST_CHECK;
/* What the choice is expected to take, into the progress, and that it was predicted. */
void away_note(struct tune *t);
/* The same, kernel by kernel, into the plan. */
void away_tell(const struct tune *t, struct plan *plan);

#endif
