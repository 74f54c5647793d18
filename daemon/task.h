/* daemon/task.h: what hangs on a farm task, and its end. */
#ifndef KORCH_TASK_H
#define KORCH_TASK_H

#include "daemon.h"

struct task_data {
	struct arena arena;
	enum task_kind kind;
	struct str spec;
	struct hash spec_hash;
	uint64_t effort, threads;
	struct str precision, heat;
	int64_t env;
	struct hash env_hash;
	struct m_kv *known;
	uint32_t n_known;
	struct m_other *named; /* schedules that are to be tried; none: the space's first */
	uint32_t n_named;
	struct str cause; /* why it failed last, where it is tried again */
	struct hash payload;
	struct str payload_path;
	/* schedules that a lease found below the bound: believed when another does too */
	struct str *doubted;
	uint32_t n_doubted, n_again; /* leases that ended in doubt */
	int64_t until_ns;            /* measure: nobody waits after that; 0: somebody does */
};
struct task_result { /* what the store made of an outcome, by the task's kind */
	const struct m_cost *cost;
	const struct m_build_have *build;
	const struct m_race_have *race;
	const struct m_perturb_have *perturb;
};
/* Of all that decides a task's result: whoever says what was done says by it which task it was. */
struct hash task_key(enum task_kind kind, const struct hash *what, const struct meas_key *k, uint64_t effort);
/* What is timed: plans by their contents, and where. */
struct hash time_key(struct arena *a, const struct m_time_ask *m, const struct meas_key *k);
/* What is perturbed: a kernel, and how long at most; the ask has one. */
struct hash perturb_key(struct arena *a, const struct m_perturb_ask *m, const struct meas_key *k);
/* An answer of which nothing came. */
struct m_perturb_have perturb_none(const struct hash *spec, uint64_t fail, struct str cause);
/* A task is over: tells its waiters, ends it.  r, outcome: what there is to tell, or NULL. */
void task_over(
    struct daemon *d, struct farm_task *t, const struct task_result *r, const struct m_outcome *outcome);
void task_data_free(void *data);

#endif
