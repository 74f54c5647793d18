/* kernels/schedule/rule_int.h: what the rules share; the folder's own. */
#ifndef KORCH_SCHEDULE_RULE_INT_H
#define KORCH_SCHEDULE_RULE_INT_H

#include "step_int.h"

struct proposing {
	const struct schedule_target *target;
	struct tir p;         /* behind the steps so far */
	struct strbuf *trace; /* these, a line each */
};
#define RULE(N, WORDS) void rule_##N(struct proposing *q);
#include "rule.def"
#undef RULE

/* Is the step legal here?  Then it is made, and part of the trace. */
bool propose(struct proposing *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Iterations of a loop; INT64_MAX where its bounds hang on others. */
int64_t loop_trips(const struct tir *p, st_id loop);
/* Do all instances below count over the loop in places of their results only? */
bool loop_counts_places(const struct tir *p, st_id loop);
/* Is there an instance of the block?  One that was inlined has none. */
bool blk_stands(const struct tir *p, blk_id b);
/* Points of a block: the product of its iterators' extents. */
int64_t blk_points(const struct tir *p, blk_id b);

#endif
