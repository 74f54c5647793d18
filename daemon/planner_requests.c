/* daemon/planner_requests.c: what planners ask for.  Costs come from the store; what is missing becomes a
 * task of the farm, one for a key however many jobs ask; its end is told to all that wait. */
#include "planner_requests.h"
#include "folder.h"
#include "lease.h"
#include "task.h"

#include "../schema/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No planner waits longer, whatever it says. */
static const int64_t LONGEST_NS = 86400 * SECOND_NS;

/* ---- the op that all of them share -------------------------------------------------- */
struct planner_op *
planner_op_new(struct daemon *d, struct job *j, const struct msg *ask, uint64_t threads, struct str precision,
    bool (*run)(struct db *db, struct store_op *op), void (*done)(struct store_op *op))
{
	struct planner_op *x = heap_alloc(sizeof(*x));

	x->op.run = run;
	x->op.done = done;
	x->op.owner = d;
	x->job = j->rec.id;
	x->n_drops = j->n_drops;
	x->model = j->model;
	msg_dup(&x->op.arena, ask, &x->ask);
	x->key = job_meas_key(j, threads, (struct str){str_dup(&x->op.arena, precision), precision.n});
	j->n_ops++;
	return x;
}

/* The job, if it still plans; the op's count goes down. */
static struct job *
planner_op_job(struct store_op *op)
{
	struct daemon *d = op->owner;
	struct job *j = job_find(d, ((struct planner_op *)(void *)op)->job);

	if (!j)
		return NULL;
	j->n_ops--;
	if (!j->planner || job_state_is_over(j->state))
		return NULL;
	if (!op->ok) {
		daemon_log(d, store_failed, KVI("job", j->rec.id), KVZ("why", op->err.msg));
		job_move(d, j, JOB_failed, op->err.code, op->err.msg);
		return NULL;
	}
	return j;
}

struct job *
planner_op_asker(struct store_op *op)
{
	struct job *j = planner_op_job(op);

	return j && j->n_drops == ((struct planner_op *)(void *)op)->n_drops ? j : NULL;
}

void
planner_op_free(struct store_op *op)
{
	arena_fini(&op->arena);
	free(op);
}

/* A job's kernels differ in nothing of their key but heat. */
static struct meas_key
key_of_heat(const struct planner_op *x, struct str heat)
{
	struct meas_key k = x->key;

	k.heat = heat;
	return k;
}

/* ---- costs -------------------------------------------------------------------------- */
/* Of all structures together; a message has an end. */
static bool
run_siblings(struct db *db, struct planner_op *x, struct err *e)
{
	enum { OF_EACH = 32, MOST = 4096, MOST_BYTES = 16 << 20 };
	const struct m_cost_ask *m = &x->ask.cost_ask;
	struct arena *a = &x->op.arena;
	size_t bytes = 0;

	x->siblings = NEW_ARRAY(a, struct m_sibling, MOST + OF_EACH);
	for (uint32_t i = 0; i < m->n_structures && x->n_siblings < MOST && bytes < MOST_BYTES; i++) {
		struct m_sibling *have;
		uint32_t n;

		if (!meas_siblings(db, a, &m->structures[i].hash, &x->key, OF_EACH, &have, &n, e))
			return false;
		memcpy(x->siblings + x->n_siblings, have, n * sizeof(have[0]));
		x->n_siblings += n;
		for (uint32_t k = 0; k < n; k++)
			bytes += have[k].spec.n + have[k].schedule.n;
	}
	return true;
}

static bool
run_costs(struct db *db, struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	const struct m_cost_ask *m = &x->ask.cost_ask;

	x->costs = NEW_ARRAY(&op->arena, struct m_cost, MAX_OF(m->n_specs, 1u));
	for (uint32_t i = 0; i < m->n_specs; i++) {
		struct meas_key k = key_of_heat(x, m->specs[i].heat);

		k.any_heat = m->specs[i].any_heat;
		if (!meas_find(db, &op->arena, m->specs[i].text, &k, &x->model, &x->costs[i], &op->err))
			return false;
	}
	return run_siblings(db, x, &op->err);
}

static void
done_costs(struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct job *j = planner_op_job(op);
	struct msg m = {.type = MSG_cost_have};

	if (j) {
		m.cost_have.costs = x->costs;
		m.cost_have.n_costs = x->ask.cost_ask.n_specs;
		m.cost_have.is_answer = true;
		m.cost_have.siblings = x->siblings;
		m.cost_have.n_siblings = x->n_siblings;
		planner_send(j, &m);
	}
	planner_op_free(op);
}

void
ask_costs(struct daemon *d, struct job *j, const struct m_cost_ask *ask)
{
	struct msg m = {.type = MSG_cost_ask};

	m.cost_ask = *ask;
	store_post(
	    d->store, &planner_op_new(d, j, &m, ask->threads, ask->precision, run_costs, done_costs)->op);
}

/* ---- measuring ---------------------------------------------------------------------- */
static bool
is_answered(const struct m_cost *c, uint64_t effort)
{
	return (c->fail || c->median_ns > 0) && c->effort >= effort;
}

static bool
run_measure(struct db *db, struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	const struct m_measure_ask *m = &x->ask.measure_ask;
	uint32_t n = MAX_OF(m->n_specs, 1u);

	x->costs = NEW_ARRAY(&op->arena, struct m_cost, n);
	x->known = NEW_ARRAY(&op->arena, struct m_kv *, n);
	x->n_known = NEW_ARRAY(&op->arena, uint32_t, n);
	for (uint32_t i = 0; i < m->n_specs; i++) {
		struct meas_key k = key_of_heat(x, m->specs[i].heat);
		struct hash h;

		if (!spec_put(db, m->specs[i].text, &x->model, &h, &op->err) ||
		    !bound_put(db, &h, &k, &m->specs[i].bound, &op->err) ||
		    !meas_best(db, &op->arena, &h, &k, &x->costs[i], &op->err))
			return false;
		if (!is_answered(&x->costs[i], m->specs[i].effort) &&
		    !meas_known(db, &op->arena, &h, &k, &x->known[i], &x->n_known[i], &op->err))
			return false;
	}
	return true;
}

static struct task_data *
measure_data(const struct planner_op *x, uint32_t i)
{
	struct task_data *t = heap_alloc(sizeof(*t));
	const struct m_spec_ask *ask = &x->ask.measure_ask.specs[i];

	t->kind = TASK_MEASURE;
	t->spec = (struct str){str_dup(&t->arena, ask->text), ask->text.n};
	t->spec_hash = x->costs[i].spec;
	t->effort = ask->effort;
	t->threads = x->key.threads;
	t->precision = (struct str){str_dup(&t->arena, x->key.precision), x->key.precision.n};
	t->heat = (struct str){str_dup(&t->arena, ask->heat), ask->heat.n};
	t->env = x->key.env;
	t->env_hash = x->key.env_hash;
	t->n_known = x->n_known[i];
	t->known = NEW_ARRAY(&t->arena, struct m_kv, MAX_OF(t->n_known, 1u));
	for (uint32_t k = 0; k < t->n_known; k++) {
		t->known[k] = x->known[i][k];
		rec_dup(&t->arena, "kv", &t->known[k]);
	}
	t->n_named = ask->n_named;
	t->named = NEW_ARRAY(&t->arena, struct m_other, MAX_OF(t->n_named, 1u));
	for (uint32_t k = 0; k < t->n_named; k++) {
		t->named[k] = ask->named[k];
		rec_dup(&t->arena, "other", &t->named[k]);
	}
	return t;
}

/* A task waits for the most patient of its askers. */
static void
wait_until(struct task_data *t, int64_t until_ns, bool is_new)
{
	if (is_new)
		t->until_ns = until_ns;
	else if (t && t->until_ns)
		t->until_ns = until_ns ? MAX_OF(t->until_ns, until_ns) : 0;
}

static void
done_measure(struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = planner_op_asker(op);
	const struct m_measure_ask *m = &x->ask.measure_ask;
	struct msg have = {.type = MSG_cost_have};

	if (!j) {
		planner_op_free(op);
		return;
	}
	have.cost_have.costs = NEW_ARRAY(&op->arena, struct m_cost, MAX_OF(m->n_specs, 1u));
	for (uint32_t i = 0; i < m->n_specs; i++) {
		struct farm_want want = {.kind = TASK_MEASURE,
		    .env = x->key.env,
		    .priority = m->specs[i].priority,
		    .expect_ns =
			SECOND_NS + (int64_t)MIN_OF(m->specs[i].effort, (uint64_t)1000) * SECOND_NS / 10};
		struct meas_key k = key_of_heat(x, m->specs[i].heat);
		struct farm_task *t;
		bool is_new;

		if (is_answered(&x->costs[i], m->specs[i].effort)) {
			have.cost_have.costs[have.cost_have.n_costs] = x->costs[i];
			have.cost_have.costs[have.cost_have.n_costs++].is_cached = true;
			continue;
		}
		want.key = task_key(TASK_MEASURE, &x->costs[i].spec, &k, m->specs[i].effort);
		t = farm_add(d->farm, &want, j->rec.id, NULL, daemon_now(d), &is_new);
		if (is_new)
			t->data = measure_data(x, i);
		wait_until(
		    t->data, m->left_ns > 0 ? daemon_now(d) + MIN_OF(m->left_ns, LONGEST_NS) : 0, is_new);
	}
	if (have.cost_have.n_costs)
		planner_send(j, &have);
	leases_push(d);
	planner_op_free(op);
}

void
ask_measure(struct daemon *d, struct job *j, const struct m_measure_ask *ask)
{
	struct msg m = {.type = MSG_measure_ask};

	m.measure_ask = *ask;
	store_post(
	    d->store, &planner_op_new(d, j, &m, ask->threads, ask->precision, run_measure, done_measure)->op);
}

static bool
waits_for(const struct farm_task *t, uint64_t job)
{
	for (uint32_t i = 0; i < t->n_waiters; i++)
		if (t->waiters[i] == job)
			return true;
	return false;
}

/* Nothing of before is done or answered behind the word, which tells what had kept it from being done. */
static void
drop_all(struct daemon *d, struct job *j, bool wants_word)
{
	struct arena tmp = {0};
	struct msg m = {.type = MSG_dropped};

	m.dropped.cause = STR("");
	for (struct farm_task *t = farm_first(d->farm); t; t = farm_after(d->farm, t)) {
		const struct task_data *data = t->data;

		if (t->last_fail == ERR_NONE || !waits_for(t, j->rec.id) || m.dropped.n_failed++)
			continue;
		m.dropped.fail = (uint64_t)err_wire(t->last_fail);
		m.dropped.cause = data && data->cause.n
		    ? (struct str){str_dup(&tmp, data->cause), data->cause.n}
		    : str_of(err_text(t->last_fail));
	}
	j->n_drops++;
	farm_drop(d->farm, j->rec.id, NULL, task_data_free);
	if (wants_word)
		planner_send(j, &m);
	arena_fini(&tmp);
}

void
ask_drop(struct daemon *d, struct job *j, const struct m_measure_drop *ask)
{
	struct arena tmp = {0};
	struct hash *drop = NULL;
	uint32_t n = 0, cap = 0;

	if (ask->all) {
		drop_all(d, j, ask->wants_word);
		return;
	}
	/* the planner names specs; the farm knows keys: look through what this job waits for */
	for (uint32_t i = 0; i < ask->n_specs; i++) {
		struct farm_task *t = farm_first(d->farm);

		for (; t; t = farm_after(d->farm, t)) {
			const struct task_data *data = t->data;

			if (data && data->kind == TASK_MEASURE &&
			    hash_eq(&data->spec_hash, &ask->specs[i].hash)) {
				GROW(&tmp, drop, n, cap);
				drop[n++] = t->want.key;
			}
		}
	}
	for (uint32_t i = 0; i < n; i++)
		farm_drop(d->farm, j->rec.id, &drop[i], task_data_free);
	arena_fini(&tmp);
}

/* ---- builds and whole plans --------------------------------------------------------- */
struct task_data *
planner_payload(const struct planner_op *x, enum task_kind kind)
{
	struct task_data *t = heap_alloc(sizeof(*t));

	t->kind = kind;
	t->spec = STR("");
	t->threads = x->key.threads;
	t->precision = (struct str){str_dup(&t->arena, x->key.precision), x->key.precision.n};
	t->env = x->key.env;
	t->env_hash = x->key.env_hash;
	t->payload = x->payload;
	t->payload_path = (struct str){str_dup(&t->arena, x->payload_path), x->payload_path.n};
	t->spec_hash = x->task_key;
	return t;
}

static bool
run_build(struct db *db, struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct m_build_ask *m = &x->ask.build_ask;
	bool only_known = m->only_known;
	struct bytes b;

	m->only_known = false; /* what is asked for is the same */
	if (!msg_pack(&op->arena, &x->ask, PIPE_MAX_BYTES, &b, &op->err))
		return false;
	m->only_known = only_known;
	x->payload = hash_bytes(b.p, b.n);
	x->task_key = task_key(TASK_BUILD, &x->payload, &x->key, 0);
	if (!build_find(db, &op->arena, &x->task_key, &x->key, &x->build, &x->found, &op->err) || x->found ||
	    only_known)
		return op->err.code == ERR_NONE;
	if (!blob_put(db, b, "request", &x->payload, &op->err))
		return false;
	x->payload_path = str_of(blob_path(&op->arena, db, &x->payload));
	return true;
}

static void
done_build(struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = planner_op_asker(op);

	if (j && (x->found || x->ask.build_ask.only_known))
		planner_give_built(d, j, &x->build);
	else if (j) {
		struct farm_want want = {.key = x->task_key,
		    .kind = TASK_BUILD,
		    .env = x->key.env,
		    .priority = INT64_MAX,
		    .expect_ns = 60 * SECOND_NS};
		bool is_new;
		struct farm_task *t = farm_add(d->farm, &want, j->rec.id, NULL, daemon_now(d), &is_new);

		if (is_new)
			t->data = planner_payload(x, TASK_BUILD);
		leases_push(d);
	}
	planner_op_free(op);
}

void
ask_build(struct daemon *d, struct job *j, const struct m_build_ask *ask)
{
	struct msg m = {.type = MSG_build_ask};

	if (ask->target.n) { /* nobody is there */
		generate_ask(d, j, ask);
		return;
	}
	m.build_ask = *ask;
	store_post(
	    d->store, &planner_op_new(d, j, &m, ask->threads, ask->precision, run_build, done_build)->op);
}

/* Workers of this host read the plans where they lie; for others they become blobs. */
static bool
run_time(struct db *db, struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct m_time_ask *m = &x->ask.time_ask;
	struct bytes b;

	x->task_key = time_key(&op->arena, m, &x->key);
	if (!plan_time_find(db, &op->arena, &x->task_key, &x->timings, &x->n_timings, &op->err))
		return false;
	x->found = x->n_timings > 0 && x->n_timings == m->n_plans;
	if (m->only_known)
		return true;
	for (uint32_t i = 0; i < m->n_plans && !x->found; i++) {
		char *path = str_dup(&op->arena, m->plans[i].path), *copy;
		uint64_t bytes;

		if (!file_digest(path, &m->plans[i].digest, &bytes, &op->err))
			return false;
		if (blob_size(db, &m->plans[i].digest, &bytes))
			continue;
		copy = arena_printf(&op->arena, "%s.blob", path);
		(void)unlink(copy);
		if (link(path, copy) != 0)
			return err_set(&op->err, ERR_IO, "%s: cannot link", copy);
		if (!blob_take(db, copy, "trial", &m->plans[i].digest, &bytes, &op->err))
			return false;
	}
	if (x->found)
		return true;
	if (!msg_pack(&op->arena, &x->ask, PIPE_MAX_BYTES, &b, &op->err) ||
	    !blob_put(db, b, "request", &x->payload, &op->err))
		return false;
	x->payload_path = str_of(blob_path(&op->arena, db, &x->payload));
	return true;
}

static void
done_time(struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = planner_op_asker(op);

	if (j && (x->found || x->ask.time_ask.only_known)) {
		struct msg m = {.type = MSG_time_have};

		m.time_have = (struct m_time_have){
		    .timings = x->timings, .n_timings = x->found ? x->n_timings : 0, .cause = STR("")};
		planner_send(j, &m);
	} else if (j) {
		struct farm_want want = {.key = x->task_key,
		    .kind = TASK_TIME,
		    .env = x->key.env,
		    .priority = INT64_MAX - 1,
		    .expect_ns = 30 * SECOND_NS};
		struct farm_task *t;
		bool is_new;

		t = farm_add(d->farm, &want, j->rec.id, NULL, daemon_now(d), &is_new);
		if (is_new)
			t->data = planner_payload(x, TASK_TIME);
		leases_push(d);
	}
	planner_op_free(op);
}

void
ask_time(struct daemon *d, struct job *j, const struct m_time_ask *ask)
{
	struct msg m = {.type = MSG_time_ask};

	m.time_ask = *ask;
	store_post(d->store, &planner_op_new(d, j, &m, ask->threads, STR(""), run_time, done_time)->op);
}

/* ---- races --------------------------------------------------------------------------- */
/* A session that was held already is not held again: its rows are in the store. */
static bool
run_race(struct db *db, struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct m_race_ask *m = &x->ask.race_ask;
	const struct m_bound *bounds = m->bounds;
	uint32_t n_rows, n_bounds = m->n_bounds;
	struct bytes b;

	m->n_bounds = 0; /* what is asked for is the same with other bounds */
	if (!msg_pack(&op->arena, &x->ask, PIPE_MAX_BYTES, &b, &op->err))
		return false;
	x->payload = hash_bytes(b.p, b.n);
	x->task_key = task_key(TASK_RACE, &x->payload, &x->key, 0);
	if (!repeat_session(db, &x->task_key, &n_rows, &op->err))
		return false;
	x->found = n_rows > 0;
	x->costs = NEW_ARRAY(&op->arena, struct m_cost, MAX_OF(m->n_kernels, 1u));
	for (uint32_t i = 0; i < m->n_kernels; i++) {
		struct meas_key k = key_of_heat(x, m->kernels[i].heat);
		struct hash h;

		if (!spec_put(db, m->kernels[i].spec, &x->model, &h, &op->err) ||
		    (i < n_bounds && !bound_put(db, &h, &k, &bounds[i], &op->err)) ||
		    !meas_best(db, &op->arena, &h, &k, &x->costs[i], &op->err))
			return false;
	}
	if (x->found)
		return true;
	if (!blob_put(db, b, "request", &x->payload, &op->err))
		return false;
	x->payload_path = str_of(blob_path(&op->arena, db, &x->payload));
	return true;
}

static void
done_race(struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = planner_op_asker(op);
	const struct m_race_ask *ask = &x->ask.race_ask;

	if (j && x->found) {
		struct msg m = {.type = MSG_race_have};

		m.race_have =
		    (struct m_race_have){.costs = x->costs, .n_costs = ask->n_kernels, .cause = STR("")};
		planner_send(j, &m);
	} else if (j) {
		struct farm_want want = {.key = x->task_key,
		    .kind = TASK_RACE,
		    .env = x->key.env,
		    .priority = INT64_MAX - 1,
		    .expect_ns =
			30 * SECOND_NS + MIN_OF(MAX_OF(ask->budget_ns, (int64_t)0), 600 * SECOND_NS)};
		bool is_new;
		struct farm_task *t = farm_add(d->farm, &want, j->rec.id, NULL, daemon_now(d), &is_new);

		if (is_new)
			t->data = planner_payload(x, TASK_RACE);
		leases_push(d);
	}
	planner_op_free(op);
}

void
ask_race(struct daemon *d, struct job *j, const struct m_race_ask *ask)
{
	struct msg m = {.type = MSG_race_ask};

	m.race_ask = *ask;
	store_post(
	    d->store, &planner_op_new(d, j, &m, ask->threads, ask->precision, run_race, done_race)->op);
}
