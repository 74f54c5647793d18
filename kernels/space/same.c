/* kernels/space/same.c: which schedules make the same kernel: those of one trace.  Who only compares
 * schedules prints no text. */
#include "sched.h"

#include "../schedule/schedule.h"

/* What rules make of a NEST program is said by their trace. */
static bool
outcome_of_trace(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct choices chosen;
	struct strbuf trace;
	struct tir nest, bound;
	struct err e;

	if (!space_choices(s, schedule, t, &chosen, &e))
		return false;
	schedule_lower(tmp, s, t->strict, &nest);
	sb_init(&trace, tmp);
	if (!space_by_rules(&nest, &chosen, t, &trace, &bound, &e))
		return false;
	*out = hash64(trace.p, trace.n, 4);
	return true;
}

bool
trace_outcome(
    struct arena *tmp, const struct spec *s, struct str schedule, const struct target *t, uint64_t *out)
{
	struct sched *sched = NEW(tmp, struct sched);
	enum library library;
	int64_t version;
	struct err e;

	if (!sched_read(schedule, sched, &e))
		return false;
	if (sched_library(sched, &library, &version)) {
		*out = hash64(schedule.p, schedule.n, 2);
		return true;
	}
	return outcome_of_trace(tmp, s, schedule, t, out);
}
