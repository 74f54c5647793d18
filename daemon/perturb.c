/* daemon/perturb.c: planners ask for better orders of kernels' machine instructions.  Each kernel is a task
 * of its own, known by spec, schedule and the time that the job gives; what a search of as much time has
 * found, or has not, stands in the store, and is not looked for again. */
#include "planner_requests.h"
#include "lease.h"

#include "../schema/perturbed.h"

enum { SETUP_S = 60 }; /* compiling, checking, and its place in the queue of a device */

struct part { /* of one kernel */
	struct m_perturb_have have;
	struct hash key, payload;
	struct str path;
	bool is_known;
};

static bool
is_searched(const struct m_perturbed *p, const struct m_perturb_ask *m)
{
	return p->asked_ns > 0 && p->asked_ns >= m->asked_ns;
}

/* The task's request has that kernel alone, and no bounds: a worker is judged by it. */
static bool
put_request(struct db *db, struct planner_op *x, uint32_t i, struct part *part, struct err *e)
{
	struct msg one = {.type = MSG_perturb_ask};
	struct bytes b;

	one.perturb_ask = x->ask.perturb_ask;
	one.perturb_ask.kernels += i;
	one.perturb_ask.n_kernels = 1;
	one.perturb_ask.n_bounds = 0;
	part->key = perturb_key(&x->op.arena, &one.perturb_ask, &x->key);
	if (!msg_pack(&x->op.arena, &one, PIPE_MAX_BYTES, &b, e) ||
	    !blob_put(db, b, "request", &part->payload, e))
		return false;
	part->path = str_of(blob_path(&x->op.arena, db, &part->payload));
	return true;
}

static bool
find_one(struct db *db, struct planner_op *x, uint32_t i, struct part *part, struct err *e)
{
	const struct m_perturb_ask *m = &x->ask.perturb_ask;
	const struct m_kernel *k = &m->kernels[i];
	struct arena *a = &x->op.arena;
	struct hash spec;

	if (!spec_put(db, k->spec, &x->model, &spec, e) ||
	    (i < m->n_bounds && !bound_put(db, &spec, &x->key, &m->bounds[i], e)))
		return false;
	part->have = perturb_none(&spec, 0, STR(""));
	if (!perturbed_find(db, a, &spec, &x->key, k->schedule, &part->have.perturbed, e) ||
	    !meas_best(db, a, &spec, &x->key, &part->have.cost, e))
		return false;
	part->is_known = part->have.is_cached = is_searched(&part->have.perturbed, m);
	return part->is_known || put_request(db, x, i, part, e);
}

static bool
run_perturb(struct db *db, struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;

	x->parts = NEW_ARRAY(&op->arena, struct part, MAX_OF(x->ask.perturb_ask.n_kernels, 1u));
	for (uint32_t i = 0; i < x->ask.perturb_ask.n_kernels; i++)
		if (!find_one(db, x, i, &x->parts[i], &op->err))
			return false;
	return true;
}

static void
add_task(struct daemon *d, struct job *j, struct planner_op *x, uint32_t i)
{
	const struct part *part = &x->parts[i];
	struct farm_want want = {.key = part->key,
	    .kind = TASK_PERTURB,
	    .env = x->key.env,
	    .priority = INT64_MAX - 2 - (int64_t)i,
	    .expect_ns = SETUP_S * SECOND_NS +
		MIN_OF(MAX_OF(x->ask.perturb_ask.each_ns, (int64_t)0), 600 * SECOND_NS)};
	bool is_new;
	struct farm_task *t = farm_add(d->farm, &want, j->rec.id, NULL, daemon_now(d), &is_new);

	if (!is_new)
		return;
	x->payload = part->payload;
	x->payload_path = part->path;
	x->task_key = part->have.perturbed.spec;
	t->data = planner_payload(x, TASK_PERTURB);
}

static void
done_perturb(struct store_op *op)
{
	struct planner_op *x = (struct planner_op *)(void *)op;
	struct daemon *d = op->owner;
	struct job *j = planner_op_asker(op);

	for (uint32_t i = 0; j && i < x->ask.perturb_ask.n_kernels; i++) {
		struct msg m = {.type = MSG_perturb_have};

		m.perturb_have = x->parts[i].have;
		if (x->parts[i].is_known)
			planner_send(j, &m);
		else
			add_task(d, j, x, i);
	}
	leases_push(d);
	planner_op_free(op);
}

void
ask_perturb(struct daemon *d, struct job *j, const struct m_perturb_ask *ask)
{
	struct msg m = {.type = MSG_perturb_ask};

	m.perturb_ask = *ask;
	store_post(
	    d->store, &planner_op_new(d, j, &m, ask->threads, ask->precision, run_perturb, done_perturb)->op);
}
