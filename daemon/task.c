/* daemon/task.c: what a task is known by; a task of the farm is over: all planners that wait for it are
 * told. */
#include "task.h"
#include "folder.h"

#include <stdlib.h>
#include <unistd.h>

void
task_data_free(void *data)
{
	struct task_data *t = data;

	if (!t)
		return;
	arena_fini(&t->arena);
	free(t);
}

struct hash
task_key(enum task_kind kind, const struct hash *what, const struct meas_key *k, uint64_t effort)
{
	struct arena tmp = {0};
	struct strbuf sb;
	struct hash h;

	sb_init(&sb, &tmp);
	sb_add(&sb, (struct str){(const char *)what->b, sizeof(what->b)});
	sb_add(&sb, (struct str){(const char *)k->env_hash.b, sizeof(k->env_hash.b)});
	sb_addf(&sb, "%d %llu %llu %llu %.*s", (int)kind, (unsigned long long)effort,
	    (unsigned long long)k->threads, (unsigned long long)k->epoch, STR_ARG(k->precision));
	if (k->heat.n)
		sb_addf(&sb, " heat %.*s", STR_ARG(k->heat));
	h = hash_bytes(sb.p, sb.n);
	arena_fini(&tmp);
	return h;
}

struct hash
time_key(struct arena *a, const struct m_time_ask *m, const struct meas_key *k)
{
	struct hash *plans = NEW_ARRAY(a, struct hash, MAX_OF(m->n_plans, 1u)), all;

	for (uint32_t i = 0; i < m->n_plans; i++)
		plans[i] = m->plans[i].plan;
	all = hash_bytes(plans, sizeof(*plans) * m->n_plans);
	return task_key(TASK_TIME, &all, k, 0);
}

struct m_perturb_have
perturb_none(const struct hash *spec, uint64_t fail, struct str cause)
{
	return (struct m_perturb_have){.perturbed = {.spec = *spec,
					   .base = STR(""),
					   .schedule = STR(""),
					   .precision = STR(""),
					   .worker = STR("")},
	    .cost = {.spec = *spec, .schedule = STR(""), .cause = STR("")},
	    .fail = fail,
	    .cause = cause};
}

struct hash
perturb_key(struct arena *a, const struct m_perturb_ask *m, const struct meas_key *k)
{
	struct strbuf sb;
	struct hash what;

	sb_init(&sb, a);
	sb_addf(&sb, "%llu %lld %zu ", (unsigned long long)m->seed, (long long)m->asked_ns,
	    m->kernels[0].schedule.n);
	sb_add(&sb, m->kernels[0].schedule);
	sb_add(&sb, m->kernels[0].spec);
	what = hash_bytes(sb.p, sb.n);
	return task_key(TASK_PERTURB, &what, k, 0);
}

void
task_over(struct daemon *d, struct farm_task *t, const struct task_result *r, const struct m_outcome *outcome)
{
	const struct task_data *data = t->data;
	struct msg m = {0};
	struct m_cost one;
	uint64_t fail = (uint64_t)err_wire(t->last_fail);
	struct str cause = outcome && outcome->cause.n ? outcome->cause : str_of(err_text(t->last_fail));

	switch (t->want.kind) {
	case TASK_MEASURE:
		one = r && r->cost
		    ? *r->cost
		    : (struct m_cost){
			  .spec = data->spec_hash, .schedule = STR(""), .fail = fail, .cause = cause};
		m.type = MSG_cost_have;
		m.cost_have.costs = &one;
		m.cost_have.n_costs = 1;
		break;
	case TASK_BUILD:
		m.type = MSG_build_have;
		m.build_have = r && r->build ? *r->build
					     : (struct m_build_have){.fail = fail,
						   .cause = cause,
						   .path = STR(""),
						   .log = outcome ? outcome->log : STR(""),
						   .worker = STR(""),
						   .description_path = STR("")};
		break;
	case TASK_TIME:
		m.type = MSG_time_have;
		m.time_have.cause = STR("");
		if (outcome && !outcome->fail) {
			m.time_have.timings = outcome->timings;
			m.time_have.n_timings = outcome->n_timings;
		} else {
			m.time_have.fail = fail;
			m.time_have.cause = cause;
		}
		break;
	case TASK_RACE:
		m.type = MSG_race_have;
		m.race_have = r && r->race ? *r->race : (struct m_race_have){.fail = fail, .cause = cause};
		break;
	case TASK_PERTURB:
		m.type = MSG_perturb_have;
		m.perturb_have = r && r->perturb ? *r->perturb : perturb_none(&data->spec_hash, fail, cause);
		break;
	case TASK_CANARY:
	case TASK_KINDS:
		bug("task kind %d has no waiters", (int)t->want.kind);
	}
	for (uint32_t i = 0; i < t->n_waiters; i++) {
		struct job *j = job_find(d, t->waiters[i]);

		if (j && m.type == MSG_build_have)
			planner_give_built(d, j, &m.build_have);
		else if (j)
			planner_send(j, &m);
	}
	task_data_free(farm_end(d->farm, t));
}
