/* kernels/predict/program_int.h: what both ways to read a program share; the folder's own. */
#ifndef KORCH_PREDICT_PROGRAM_INT_H
#define KORCH_PREDICT_PROGRAM_INT_H

#include "program.h"

#include "../tir/expr.h"

/* Adds what one evaluation of the expression does: its operations, borders, and divisions in indices.  `map`
 * is told of each map, if it is not NULL. */
void program_count(const struct tx *x, ex_id e, double op[OP_COUNT],
    void (*map)(void *self, ex_id e, enum prim p), void *self);

#endif
