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

/* ---- port.c: what a plan would take on a device of another class */
/* In place of a job: the model is the plan. */
bool port_run(struct tune *t, struct err *e) MUST_CHECK;

/* finish.c: ends a job of which only its progress was wanted. */
bool finish_without_plan(struct tune *t, struct err *e) MUST_CHECK;

#endif
