/* kernels/base/heat.h: where a kernel's operands and results lie when it begins: a letter for each, operands
 * first, results behind them, in the spec's order.  The word is a part of what a time is known by.
 *
 *   h  hot: in the cache of the core, where what was just made lies
 *   n  near: a weight in the last cache, where all weights of the plan and what passes through it fit
 *   c  cold: an activation that went through several of the cores' caches since it was touched; a weight
 * from memory, as more lies between two uses of it than the last cache keeps
 *
 * "" is all cold. */
#ifndef KORCH_HEAT_H
#define KORCH_HEAT_H

#include "base.h"

enum heat { HEAT_COLD, HEAT_NEAR, HEAT_HOT };
enum { HEAT_MAX = 256 }; /* letters; of a kernel with more nothing is hot */

/* From outside: such a word, and not c alone, which is written "". */
bool heat_is_word(struct str word);
/* Of operand or result i; what the word does not name is cold. */
enum heat heat_at(struct str word, uint32_t i);
char heat_letter(enum heat h);

#endif
