/* worker/measure_plans.c: whole plans, from outside: a child of their own times them, which may read their
 * files and serves nothing else. */
#include "measure_child.h"

bool
measure_plans(struct measure_child *c, struct arena *a, const struct calibration *frozen,
    const char *const *paths, uint32_t n_paths, int64_t budget_ns, uint64_t seed, struct m_plan_timed *out,
    struct err *e)
{
	struct msg q = {.type = MSG_plans_ask, .plans_ask = {.budget_ns = budget_ns, .seed = seed}}, said;
	struct m_path list[MEASURE_MAX_PLANS] = {{.floor_ns = 0}};
	const char *reads[MEASURE_MAX_PLANS + 1] = {0};

	if (n_paths > MEASURE_MAX_PLANS)
		return err_set(e, ERR_LIMIT, "%u plans at once; %d are possible", n_paths, MEASURE_MAX_PLANS);
	for (uint32_t i = 0; i < n_paths; i++) {
		list[i].path = str_of(paths[i]);
		reads[i] = paths[i];
	}
	q.plans_ask.plans = list;
	q.plans_ask.n_plans = n_paths;
	if (frozen)
		calibration_pack_bounds(a, frozen, &q.plans_ask.calibration);
	measure_reap(c);
	if (!measure_start(c, reads, e) ||
	    !measure_ask(c, a, &q, MSG_plans_have, false, budget_ns + measure_reference_ns, &said, e))
		return false;
	for (uint32_t i = 0; i < n_paths && said.plans_have.n_plans == n_paths; i++)
		out[i] = said.plans_have.plans[i];
	return said.plans_have.n_plans == n_paths ||
	    err_set(
		e, ERR_PROTO, "the measuring child timed %u plans of %u", said.plans_have.n_plans, n_paths);
}
