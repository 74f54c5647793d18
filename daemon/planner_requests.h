/* daemon/planner_requests.h: an op of the store on behalf of a planner, for planner_requests.c and perturb.c.
 */
#ifndef KORCH_PLANNER_REQUESTS_H
#define KORCH_PLANNER_REQUESTS_H

#include "task.h"

struct planner_op {
	struct store_op op;
	uint64_t job;
	uint32_t n_drops; /* of the job, when it asked */
	struct meas_key key;
	struct hash model;
	struct msg ask;       /* own copy */
	struct m_cost *costs; /* one per spec */
	struct m_sibling *siblings;
	uint32_t n_siblings;
	struct m_kv **known;
	uint32_t *n_known;
	struct hash task_key, payload;
	struct str payload_path;
	struct m_build_have build;
	struct m_timing *timings;
	uint32_t n_timings;
	struct part *parts; /* perturb.c: one per kernel */
	bool found;
};
struct planner_op *planner_op_new(struct daemon *d, struct job *j, const struct msg *ask, uint64_t threads,
    struct str precision, bool (*run)(struct db *db, struct store_op *op), void (*done)(struct store_op *op));
/* At its end: the job, if it still plans and has dropped nothing since; nothing of before a drop is done or
 * answered after it. */
struct job *planner_op_asker(struct store_op *op);
void planner_op_free(struct store_op *op);
/* Of a task whose request is a blob. */
struct task_data *planner_payload(const struct planner_op *x, enum task_kind kind);

#endif
