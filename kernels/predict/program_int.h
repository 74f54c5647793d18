/* kernels/predict/program_int.h: what both ways to read a program share; the folder's own. */
#ifndef KORCH_PREDICT_PROGRAM_INT_H
#define KORCH_PREDICT_PROGRAM_INT_H

#include "program.h"

#include "../tir/expr.h"

/* Adds what one evaluation of the expression does: its operations, borders, and divisions in indices. */
void program_count(const struct tx *x, ex_id e, double op[OP_COUNT]);

/* Adds the exponentials and divisions that each evaluation needs, whichever arms it chooses; `moves` says of
 * a read whether it is of another element in each turn, and of what a let has named whether that is another.
 */
void program_dear(const struct tx *x, ex_id e, bool (*moves)(void *self, const struct ex *from), void *self,
    struct program_leaf *l);
/* Is some of what it is computed from another in each turn? */
bool program_moves(const struct tx *x, ex_id e, bool (*moves)(void *self, const struct ex *from), void *self);

#endif
