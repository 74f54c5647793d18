/* worker/measure_plans.c: whole plans, from outside: a child of their own times them, which may read their
 * files and serves nothing else. */
#include "measure_child.h"

#include <string.h>

bool
measure_plans(struct measure_child *c, const char *const *paths, uint32_t n_paths, int64_t budget_ns,
    uint64_t seed, struct measure_timing *out, struct err *e)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct say_timing said[MEASURE_MAX_PLANS] = {{0}};
	const char *reads[MEASURE_MAX_PLANS + 1] = {0};
	bool ok;

	if (n_paths > MEASURE_MAX_PLANS)
		return err_set(e, ERR_LIMIT, "%u plans at once; %d are possible", n_paths, MEASURE_MAX_PLANS);
	sb_init(&sb, &tmp);
	put_num(&sb, (uint64_t)budget_ns);
	put_num(&sb, seed);
	put_num(&sb, n_paths);
	for (uint32_t i = 0; i < n_paths; i++) {
		put_blob(&sb, paths[i], strlen(paths[i]) + 1);
		reads[i] = paths[i];
	}
	measure_reap(c);
	ok = measure_start(c, reads, e) &&
	    measure_ask_one(c, ASK_PLANS, sb.p, sb.n, SAY_TIMING, said, sizeof(said),
		budget_ns + measure_reference_ns, e);
	for (uint32_t i = 0; ok && i < n_paths; i++) {
		out[i] = said[i].timing;
		out[i].cause[sizeof(out[i].cause) - 1] = 0;
	}
	arena_fini(&tmp);
	return ok;
}
