/* client/plan_why.h: the pieces of an explanation, as words or as JSON. */
#ifndef KORCH_PLAN_WHY_H
#define KORCH_PLAN_WHY_H

#include "../kernels/run/plan.h"

struct why {
	struct strbuf sb; /* what was said so far */
	const struct plan *p;
	bool json;
	double proven_ns;   /* no plan is cheaper: the sum of the duals */
	struct hash *specs; /* of the plan's kernels */
	bool *told;         /* of aparts: each pair of steps is said once */
};
enum { WHY_DIGITS = 12 };

void why_init(struct why *w, struct arena *a, const struct plan *p, bool json);
/* Libraries whose kernels the plan calls, and in how many steps; "" where all code is generated. */
struct str plan_libraries(struct arena *a, const struct plan *p);
/* Where a kernel's operands and results lay when it was timed (kernels/base/heat.h); "-": all cold. */
struct str why_heat(const struct plan *p, uint32_t kernel);
/* What was expected of a kernel that was never measured, in a plan that was predicted; NULL. */
const struct plan_expected *why_expected(const struct plan *p, uint32_t kernel);
void why_kernel_hex(const struct plan_kernel *k, char hex[65]);
/* A step: kernel, cost, the cheapest plan without it. */
void why_step(struct why *w, uint32_t step);
/* Why two neighbours share no kernel: fields of an open JSON object, or lines. */
void why_apart(struct why *w, const struct plan_apart *x);

/* A schedule for people: long lists of moves of instructions are shortened. */
enum { SCHEDULE_SHOWN = 512 };
const char *schedule_shown(char out[SCHEDULE_SHOWN], struct str schedule);

#endif
