/* kernels/sass/legal.h: which instructions of a finished kernel may change places, and which control bits may
 * change, so that the kernel still computes the same.  What NVIDIA has not written down is refused: a
 * distance in issue cycles is legal where ptxas itself was seen to use it (latency.def), or where the kernel
 * already had it. */
#ifndef KORCH_SASS_LEGAL_H
#define KORCH_SASS_LEGAL_H

#include "sass.h"

enum sass_rule { /* legal.def; SASS_LEGAL: none is broken */
	SASS_LEGAL,
#define RULE(N, NAME, TEXT) SASS_RULE_##NAME = N,
#include "legal.def"
#undef RULE
	SASS_RULES
};
const char *sass_rule_name(enum sass_rule r); /* "L2" */
const char *sass_rule_text(enum sass_rule r); /* its sentence */

/* A kernel while it is edited: which instruction stands at which place, its stall count and yield bit.  Never
 * in an illegal state: what would be is refused and changes nothing.  Reuse flags follow by themselves: an
 * instruction has its own while the same instruction stands behind it as in the base. */
struct sass_sched;
struct sass_sched *sass_sched_make(struct arena *a, const struct sass_kernel *base);
/* As it stands now.  Instructions move within their blocks: blocks, loops and branch targets are the base's.
 */
const struct sass_kernel *sass_sched_now(const struct sass_sched *s);
/* The base's instruction that stands at a place. */
uint32_t sass_sched_who(const struct sass_sched *s, uint32_t at);
/* Rules that are not asked, bit i for rule i: for tests that show what each rule is for. */
void sass_sched_without(struct sass_sched *s, uint32_t rules);

/* Places are indices of instructions; `from`, `to`, `at` outside of the kernel: SASS_RULE_block. */
enum sass_rule sass_exchange(struct sass_sched *s, uint32_t at); /* at and at + 1 */
/* From place to place, by exchanges of neighbours each of which is legal but for distances, which are judged
 * at the end.  repair: distances that became too small are mended by higher stall counts, where that can be.
 */
enum sass_rule sass_move(struct sass_sched *s, uint32_t from, uint32_t to, bool repair);
enum sass_rule sass_set_stall(struct sass_sched *s, uint32_t at, uint32_t stall);
enum sass_rule sass_set_yield(struct sass_sched *s, uint32_t at, bool yields);

/* Takes back what was done since the mark. */
uint32_t sass_sched_mark(const struct sass_sched *s);
void sass_sched_undo(struct sass_sched *s, uint32_t mark);
/* Keeps all that was done; marks from before are void. */
void sass_sched_keep(struct sass_sched *s);

#endif
