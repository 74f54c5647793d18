/* daemon/planner/rivals.h: plans of other jobs that this one may write.  A job with fewer freedoms (kernels
 * of one operator, no rewrites, nothing measured) over the same files on the same device ended with a plan
 * that this job allows too: whatever the sums say, that one may be the faster as a whole, and then it is
 * seen. */
#ifndef KORCH_PLANNER_RIVALS_H
#define KORCH_PLANNER_RIVALS_H

#include "tune.h"

struct rival {
	const char *how; /* it was made */
	struct str path; /* its file, to be read by planner and workers */
	struct hash file;
	int64_t cost_ns, floor_ns; /* sum of its kernels; no run of it takes less */
	uint64_t content;          /* rival_kernel() of all its kernels, added up */
};
enum { RIVALS_MAX = 9 };

/* Fills in ->rivals.  only_news: those alone that the plan of before was not timed beside, and that may beat
 * it by what they took when they were timed. */
bool rivals_find(struct tune *t, bool only_news, struct err *e) MUST_CHECK;
/* The plan that this job ended with before, likewise; !*is_here: it is lost. */
bool rivals_own(struct tune *t, struct rival *out, bool *is_here, struct err *e) MUST_CHECK;
/* What a kernel adds to the content of a plan; views add nothing. */
uint64_t rival_kernel(struct str spec, struct str schedule);
/* Plans of jobs with other options that the plan of this one was timed beside, by now: at most 16. */
struct m_digest *rivals_raced(const struct tune *t, uint32_t *n);

#endif
